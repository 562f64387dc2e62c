"""Khan et al. (2024), Debating with More Persuasive LLMs Leads to More Truthful
Answers, arXiv:2402.06782: the table of human judgements with transcripts, as CSV or in its ZIP,
`data/llm_debate_dataset.zip` of https://github.com/ucl-dark/llm_debate (Git LFS).

    python examples/studies/khan2024.py llm_debate_dataset.zip studies/khan2024
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from draft import Attribution, Draft, run

from oversight.engine.errors import UsageError
from oversight.protocols.question import LABELS

ABOUT = Attribution(
    "khan2024",
    "arXiv:2402.06782",
    "https://github.com/ucl-dark/llm_debate",
    "MIT",
    "Khan, Hughes, Valentine, Ruis, Sachan, Radhakrishnan, Grefenstette, Bowman, Rocktäschel and "
    "Perez (2024), Debating with More Persuasive LLMs Leads to More Truthful Answers; questions "
    "from QuALITY.",
)
NEEDED = (
    *("debate_id", "judge_id", "experiment_name", "story_title", "question", "debate_method"),
    *("consultant_type", "interactive_judge", "swap", "turns_used", "confidence_correct"),
    "transcript",
)
MAIN = re.compile(r"\D*(8|9|10)\D*")
"""Names of the experiments behind the paper's figures: the test, its naive baseline, low Elo."""
SEATS = (("correct", "Debater"), ("incorrect", "Debater"), ("cross_examiner", "Cross-examiner"))
FLAGS = dict.fromkeys(("true", "t", "1", "1.0"), True) | dict.fromkeys(
    ("", "false", "f", "0", "0.0"), False
)


def read_khan(files: Sequence[Path], draft: Draft) -> None:
    """Read every judgement. UsageError for a table without the columns of the data set."""
    for file in files:
        rows = list(draft.table(file, NEEDED))
        # A table has shares or percentages: a 1 among percentages is 1 %.
        percent = any(float(row["confidence_correct"] or 0) > 1 for row in rows)
        for line, row in enumerate(rows, 2):
            try:
                _row(row, draft, 100 if percent else 1)
            except (ValueError, KeyError, TypeError) as exc:
                raise UsageError(f"{file}:{line}: {exc}") from exc


def _flag(row: dict[str, str], name: str) -> bool:
    """The value of a column of true and false. ValueError for another one."""
    word = row[name].strip().lower()
    if word not in FLAGS:
        raise ValueError(f"{name}: {row[name]!r} is neither true nor false")
    return FLAGS[word]


def _row(row: dict[str, str], draft: Draft, scale: int) -> None:
    if not row["confidence_correct"].strip():
        draft.left_out["a judgement without a confidence"] += 1
        return
    held = orjson.loads(row["transcript"])
    right, wrong = held["answers"]["correct"], held["answers"]["incorrect"]
    # Position A has the correct answer unless they were swapped.
    swapped = _flag(row, "swap")
    answers = [(right, 1.0), (wrong, -1.0)][:: -1 if swapped else 1]
    problem, order = draft.problem(row["question"], answers, row["story_title"])
    label = {"correct": LABELS[swapped], "incorrect": LABELS[not swapped]}
    method, told = row["debate_method"], row["consultant_type"].strip().lower()
    argued = label.get(told) if method == "consultancy" else None
    if method == "consultancy" and argued is None:
        raise ValueError(f"consultant_type: {told!r} is neither correct nor incorrect")
    rounds = [] if method == "baseline" else held.get("rounds") or []
    turns = [turn for n, each in enumerate(rounds, 1) for turn in _turns(n, each, label)]
    judged = max((turn["round"] for turn in turns if turn["side"]), default=0)
    interactive = " interactive" if _flag(row, "interactive_judge") else ""
    main = bool(MAIN.fullmatch(row["experiment_name"]))
    draft.held(
        {
            "id": row["debate_id"],
            "problem": problem,
            "setting": f"{method}{interactive}",
            "order": order,
            "argued": argued,
            "turns": turns,
            "speakers": {},
            "included": main,
            "why": "" if main else f"experiment {row['experiment_name']}",
        }
    )
    p = float(row["confidence_correct"]) / scale
    draft.judged(
        {
            "conversation": row["debate_id"],
            "judge": f"judge {row['judge_id']}",
            "beliefs": [{"round": judged, "probs": [1 - p, p] if swapped else [p, 1 - p]}],
            "included": main,
            "why": "" if main else f"experiment {row['experiment_name']}",
        }
    )


def _turns(number: int, said: dict[str, Any], label: dict[str, str]) -> list[dict[str, Any]]:
    """A round: the speeches in the order of their labels, and what was asked of them."""
    turns = []
    for key, title in SEATS:
        text = said.get(key)
        text = text.get("text") if isinstance(text, dict) else text
        if text and text.strip():
            side = label.get(key)
            seat = f"{title} {side}" if side else title
            turns.append({"round": number, "speaker": seat, "side": side, "text": text.strip()})
    turns.sort(key=lambda turn: turn["side"] or "Z")
    if (remark := said.get("judge")) and remark.strip():
        turns.append({"round": number, "speaker": "Judge", "side": None, "text": remark.strip()})
    return turns


if __name__ == "__main__":
    run(ABOUT, read_khan)
