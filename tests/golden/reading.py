"""What tests of stored runs read off reports and run folders."""

import json
from dataclasses import asdict
from pathlib import Path

from oversight.engine.runs.loaded_sweep import open_run
from oversight.engine.runs.manifest import MANIFEST_FILE, RunCode
from oversight.engine.sweeps.code import row_codes
from oversight.protocols import Agent, BestOf, Debate, Jury, LogprobJudge, NaiveJudge, StatedJudge
from oversight.protocols.protocol import Protocol


def figures(report: str) -> list[list[object]]:
    """Of each row of a JSON report: its names, how many problems and failed cells, and its ASD."""
    return [
        [
            *(row[key] for key in ("protocol", "agent", "judge", "n", "failed", "failures")),
            round(row["asd"].get("value", row["asd"].get("mean")), 9) if row["asd"] else None,
        ]
        for row in json.loads(report)["rows"]
    ]


RENAMED = {
    "market making epsilon": "market making price of market epsilon",
    " steps adversarial opponent": " steps weakest step adversarial opponent",
}
"""How rows were named by earlier programs, and how they are named now."""


def renamed(rows: list[list[object]]) -> list[list[object]]:
    """Figures of an earlier program with the rows named as they are now."""
    text = json.dumps(rows)
    for then, now in RENAMED.items():
        text = text.replace(then, now)
    return json.loads(text)  # type: ignore[no-any-return]


def addresses(value: object) -> list[str]:
    """Every address of a call in what `show --json` prints, in order."""
    if isinstance(value, list):
        return [found for part in value for found in addresses(part)]
    if not isinstance(value, dict):
        return []
    own = [value["call"]] if isinstance(value.get("call"), str) else []
    return own + [found for part in value.values() for found in addresses(part)]


def in_python() -> list[Protocol]:
    """What the run that was made from Python was made of."""
    stated, logprob = StatedJudge("sim/judge"), LogprobJudge("sim/weak")
    drafting = BestOf(n=2, agent=Agent("sim/medium"), judge=stated)
    return [
        NaiveJudge(stated),
        Debate(judge=Jury((stated, logprob), pool="logodds"), agent=drafting),
        Debate(judge=logprob, agent=Agent("sim/medium", tools=("calculator",)), rounds=1),
    ]


def of_this_code(run: Path) -> None:
    """Make the run one of the code as it is now, in place of the code that made it."""
    manifest = json.loads((run / MANIFEST_FILE).read_text())
    sweep = open_run(run).sweep
    code = RunCode.of(row_codes(sweep.rows))
    manifest |= {"format": 2, "identity": sweep.identity, "code": asdict(code)}
    (run / MANIFEST_FILE).write_text(json.dumps(manifest))


def halve(run: Path) -> bytes:
    """Forget every second outcome that came of replies alone; what all of them were.

    What failed at its provider stays: it has no reply that could be had again without asking.
    """
    whole = (run / "outcomes.jsonl").read_bytes()
    kept = [
        line
        for place, line in enumerate(whole.splitlines(keepends=True))
        if place % 2 == 0 or b'"kind":"TooLong"' in line
    ]
    (run / "outcomes.jsonl").write_bytes(b"".join(kept))
    # What is recorded is not forgotten by deleting its line.
    (run / "record.db").unlink(missing_ok=True)
    return whole


def ordered(outcomes: bytes) -> list[bytes]:
    return sorted(outcomes.splitlines())
