r"""Parrish et al. (2022), Single-Turn Debate Does Not Help Humans Answer Hard Reading
Comprehension Questions, arXiv:2204.05212: `all_arguments.jsonl`, and the table of judgements
`full_final_results.csv` where it is at hand.

    git clone https://github.com/nyu-mll/single_turn_debate
    python examples/studies/parrish2022.py \
      single_turn_debate/argument_writing_data/all_arguments.jsonl studies/parrish2022
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from draft import Attribution, Draft, run

from oversight.protocols.question import LABELS

ABOUT = Attribution(
    "parrish2022",
    "arXiv:2204.05212",
    "https://github.com/nyu-mll/single_turn_debate",
    "CC BY 4.0",
    "Parrish, Trivedi, Perez, Chen, Nangia, Phang and Bowman (2022), Single-Turn Debate Does Not "
    "Help Humans Answer Hard Reading Comprehension Questions; passages from QuALITY.",
)
MODES = {"p": "passage", "ps": "snippets", "psa": "arguments"}
"""What a judge had 90 seconds to read beside the question."""

_Key = tuple[str, str]
"""Passage and question, by the ids of the data: four questions were asked twice."""


def read_parrish(files: Sequence[Path], draft: Draft) -> None:
    """Read arguments and judgements. UsageError where a file is neither."""
    draft.changed = "each choice of an answer counts as probability 1; none was asked for"
    arguments: dict[_Key, dict[str, dict[str, Any]]] = {}
    tables = []
    for file in files:
        if file.suffix == ".csv":
            tables.append(file)
            continue
        for line in draft.read(file).splitlines():
            row = orjson.loads(line)
            for said in row["output_data"]:
                key = str(said["passage_id"]), str(said["question_id"])
                sides = arguments.setdefault(key, {})
                if said["argue_for"] in sides:
                    draft.left_out["a second argument for the same answer"] += 1
                    continue
                sides[said["argue_for"]] = said | {"writer": row["worker_id"]}
    known: dict[_Key, tuple[str, list[str]]] = {}
    for key, sides in arguments.items():
        if len(sides) != 2:
            draft.left_out["a question with one argument"] += 1
            continue
        answers = sorted(sides, key=lambda answer: int(sides[answer]["argue_for_id"]))
        values = [(a, 1.0 if sides[a]["argue_for_correct"] else -1.0) for a in answers]
        problem, order = draft.problem(sides[answers[0]]["question_text"], values, key[0])
        known[key] = problem, answers
        for mode in MODES:
            _held(draft, key, problem, order, answers, sides, mode)
    for file in tables:
        _judged(draft, file, known)
    used = {each.conversation for each in draft.judgements}
    for id in [id for id in draft.conversations if not id.endswith(" psa") and id not in used]:
        del draft.conversations[id]


def _held(
    draft: Draft,
    key: _Key,
    problem: str,
    order: list[str],
    answers: Sequence[str],
    sides: dict[str, dict[str, Any]],
    mode: str,
) -> None:
    turns, speakers = [], {}
    for label, answer in zip(LABELS, answers, strict=False):
        said = sides[answer]
        snippets = [each for each in said["selected_snippets"] if each and each.strip()]
        parts = [f"<quote>{each}</quote>" for each in snippets] * (mode != "p")
        parts += [said["argument"].strip()] * (mode == "psa")
        if parts:
            speakers[f"Debater {label}"] = said["writer"]
            turns.append(
                {
                    "round": 1,
                    "speaker": f"Debater {label}",
                    "side": label,
                    "text": "\n".join(parts),
                    "quotes": [{"text": each} for each in snippets],
                }
            )
    draft.held(
        {
            "id": f"{' '.join(key)} {mode}",
            "problem": problem,
            "setting": MODES[mode],
            "order": order,
            "turns": turns,
            "speakers": speakers,
        }
    )


def _judged(draft: Draft, file: Path, known: dict[tuple[str, str], tuple[str, list[str]]]) -> None:
    seen = set()
    needed = ("passage_id", "question_id", "mode", "chosen_answer_text", "anonid")
    for row in draft.table(file, needed):
        key = row["passage_id"], row["question_id"]
        if row["question_id"].startswith("ct_"):
            draft.left_out["a catch trial"] += 1
        elif key not in known or row["chosen_answer_text"] not in known[key][1]:
            draft.left_out["a judgement of a question without arguments"] += 1
        elif (again := (*key, row["mode"], row["anonid"])) in seen:
            draft.left_out["a second judgement by the same person"] += 1
        else:
            seen.add(again)
            _, answers = known[key]
            chosen = [float(answer == row["chosen_answer_text"]) for answer in answers]
            draft.judged(
                {
                    "conversation": f"{' '.join(key)} {row['mode']}",
                    "judge": row["anonid"],
                    "mode": "timed",
                    "beliefs": [{"round": 1, "probs": chosen}],
                }
            )


if __name__ == "__main__":
    run(ABOUT, read_parrish)
