"""An experiment of your own, as lines of JSON.

    python examples/studies/records.py FILE... studies/mine

A line is a conversation: {"id", "question", "answers": [{"text", "value"}, …], "setting",
"argued"?, "group"?, "turns"?: [{"round", "speaker", "side"?, "text"}, …], "speakers"?, "judge",
"kind"?, "mode"?, "beliefs": [[p, …], …] or "probs": [p, …]}. `argued` and `side` are labels in the
order of the line's answers: A, B, C …; each belief is that after one more round, from none. Ids
that a recruiting platform gave people are replaced.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from draft import Attribution, Draft, run

from oversight.engine.errors import UsageError

ABOUT = Attribution("records", "", "", "", "")


def read_records(files: Sequence[Path], draft: Draft) -> None:
    """Read records. UsageError with file and line for one that is wrong."""
    for file in files:
        for line, row in enumerate(draft.read(file).splitlines(), 1):
            try:
                if row.strip():
                    _record(orjson.loads(row), draft)
            except (KeyError, ValueError, TypeError, AttributeError) as exc:
                said = f"it has no {exc}" if isinstance(exc, KeyError) else str(exc)
                raise UsageError(f"{file}:{line}: {said}") from exc


def _record(row: dict[str, Any], draft: Draft) -> None:
    answers = [(each["text"], float(each["value"])) for each in row["answers"]]
    problem, order = draft.problem(row["question"], answers, row.get("group", ""))
    turns = row.get("turns", [])
    rounds = max((turn["round"] for turn in turns if turn.get("side")), default=1)
    draft.held(
        {
            "id": row["id"],
            "problem": problem,
            "setting": row["setting"],
            "order": order,
            "argued": row.get("argued"),
            "turns": turns,
            "speakers": row.get("speakers", {}),
        }
    )
    if "judge" not in row:
        draft.left_out["a conversation that nobody judged"] += 1
        return
    beliefs = [{"round": n, "probs": probs} for n, probs in enumerate(row.get("beliefs", []))]
    if "probs" in row:
        beliefs += [{"round": max(rounds, len(beliefs)), "probs": row["probs"]}]
    draft.judged(
        {
            "conversation": row["id"],
            "judge": row["judge"],
            "kind": row.get("kind", "person"),
            "mode": row.get("mode", "live"),
            "beliefs": beliefs,
        }
    )


if __name__ == "__main__":
    run(ABOUT, read_records)
