"""How `cache/data/record-1.zdict` was made: what records have in common, for the compressor.

    python -m tests.bench.dictionary FILE

Records name the dictionary that they were packed with by the number of their form: a file that has
been given out is never made anew, a better one gets the next number. Its samples are the calls of
every protocol on the bundled problems, with what simulated models say replaced by sentences out of
those problems, so that it fits the prompts and the notation, and no speaker in particular.
"""

import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import zstandard

from oversight import run
from oversight.cache import ReadOnlyStore, records
from oversight.protocols import Agent, Bundled, LogprobJudge, StatedJudge
from oversight.protocols.catalogue import PROTOCOLS

SIZE = 8192
"""Bytes. Twice as many save no more, and no longer fit the nearest cache."""
SAMPLES = 5000

USAGES = (
    '{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":'
    '{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,'
    '"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}',
    '{"input_tokens":%d,"output_tokens":%d,"cache_creation_input_tokens":%d,'
    '"cache_read_input_tokens":0,"service_tier":"standard"}',
)
SERVED = ("gpt-4o-2024-08-06", "gpt-4o-mini-2024-07-18", "claude-3-5-sonnet-20241022", "")

_TURN = re.compile(r'(<turn speaker="[^"]*">\\n)(.*?)(\\n</turn>)')


def main(file: Path) -> None:
    chance = random.Random(1)
    with TemporaryDirectory() as folder:
        samples = list(_samples(Path(folder), chance))
    trained = zstandard.train_dictionary(
        SIZE, samples, k=256, d=8, f=20, split_point=1.0, accel=4, level=3
    )
    file.write_bytes(trained.as_bytes())


def _samples(folder: Path, chance: random.Random) -> Iterator[bytes]:
    """The JSON of calls and replies."""
    problems = [*Bundled("arithmetic", limit=30).load(), *Bundled("passages").load()]
    agent = {"agent": Agent("sim/strong", tools=("calculator",))}
    protocols = [
        kind(judge, **(agent if "agent" in kind.__dataclass_fields__ else {}))
        for kind in PROTOCOLS.values()
        for judge in (StatedJudge("sim/judge"), LogprobJudge("sim/judge"))
    ]
    run(protocols, problems, store=folder / "store", folder=folder / "run")
    sentences = [
        sentence
        for problem in problems
        for text in (problem.question.passage, *(each.work for each in problem.question.answers))
        for sentence in re.split(r"(?<=[.?!])\s+|\n", text)
        if len(sentence) > 20
    ]

    def speech() -> str:
        return " ".join(chance.sample(sentences, chance.randint(3, 9)))

    def other(turn: re.Match[str]) -> str:
        return turn[1] + orjson.dumps(speech())[1:-1].decode() + turn[3]

    found = [record for _, record in records(ReadOnlyStore(folder / "store").items())]
    for record in chance.sample(found, min(SAMPLES, len(found))):
        plain = record.plain()
        reply = orjson.loads(plain.reply_part)
        if len(reply["text"]) > 60:
            reply["text"] = speech()
        counted = (chance.randrange(3000), chance.randrange(300), chance.randrange(3000))
        reply["usage"]["raw"] = chance.choice(USAGES) % counted
        reply["served_model"] = chance.choice(SERVED)
        yield _TURN.sub(other, plain.call_part.decode()).encode()
        yield orjson.dumps(reply)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
