"""Sweep files: questions of a warehouse, and whatever settings a bench wants."""

from pathlib import Path

import orjson

from tests.bench.clients import asked

MODELS = {"plain": f"compatible/bench/{asked.MODEL}", "sdk": f"openai/{asked.MODEL}"}
"""The model of each transport, as a sweep names it."""


def write_sweep(folder: Path, questions: range, **settings: object) -> Path:
    """A sweep file on these questions, each of which has two worlds. settings: the rest of it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "problems.jsonl").open("wb") as file:
        for n in questions:
            told = zip("AB", asked.answers(n), (1, -1), strict=True)
            shown = [dict(zip(("label", "text", "value"), each, strict=True)) for each in told]
            line = {"id": f"q{n}", "question": asked.question(n), "answers": shown}
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
    sweep = {"name": "bench", "problems": {"file": {"path": "problems.jsonl"}}, **settings}
    path = folder / "bench.yaml"
    path.write_bytes(orjson.dumps(sweep))  # JSON is YAML
    return path
