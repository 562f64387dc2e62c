r"""DC-Debates (2026): the 24 recursive debates of the main study (JSON trees), what each
participant believed after sections 1 and 4 (`…-beta-long.csv`), and which debate is which
(`debate-to-name-and-sourcetype-mapping.csv`).

    git clone https://github.com/scalable-oversight/dc-debates
    python examples/studies/dcdebates2026.py dc-debates/debates/quant_study_main \
      dc-debates/quant_study_main studies/dcdebates2026
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from draft import Attribution, Draft, run

from oversight.engine.errors import UsageError
from oversight.protocols.question import LABELS, randomness

ABOUT = Attribution(
    "dcdebates2026",
    "DC-Debates (2026)",
    "https://github.com/scalable-oversight/dc-debates",
    "not stated: ask the authors before you hand it on",
    "DC-Debates: Difficulty-Calibrated Debate Transcripts as Stimuli for Scalable Oversight "
    "Research with Human Participants.",
)
_MARKUP = re.compile(r"</?a\b[^>]*>")


def read_dcdebates(files: Sequence[Path], draft: Draft) -> None:
    """Read debates and beliefs; a folder stands for all that is in it. UsageError where one of the
    three kinds of files is missing."""
    every = [f for one in files for f in (sorted(one.rglob("*")) if one.is_dir() else [one])]
    trees = {file.name: file for file in every if file.suffix == ".json" and "main" in str(file)}
    trees = trees or {file.name: file for file in every if file.suffix == ".json"}
    names = [file for file in every if file.name.endswith("sourcetype-mapping.csv")]
    beliefs = [file for file in every if file.name.endswith("beta-long.csv")]
    if not trees or not names or not beliefs:
        raise UsageError(
            "needed: the debates (*.json), debate-to-name-and-sourcetype-mapping.csv, and "
            "quant-1-official-study-beta-long.csv"
        )
    held: dict[str, bool] = {}
    for row in draft.table(names[0]):
        if row["json"] not in trees:
            draft.left_out["a debate without its file"] += 1
            continue
        root = orjson.loads(draft.read(trees[row["json"]]))["root"]
        held[row["index"]] = _debate(draft, row["index"], row["sourcetype"], root)
    judged: dict[tuple[str, str], list[Any]] = {}
    for row in draft.table(beliefs[0]):
        if row["transcript"] not in held:
            draft.left_out["a belief about a debate that is not there"] += 1
            continue
        p = float(row["p"])
        probs = [1 - p, p] if held[row["transcript"]] else [p, 1 - p]
        its = judged.setdefault((row["transcript"], row["participant_id"]), [])
        its.append({"round": int(row["section"]), "probs": probs})
    for (debate, judge), its in judged.items():
        its.sort(key=lambda belief: belief["round"])
        draft.judged({"conversation": f"debate {debate}", "judge": judge, "beliefs": its})


def _debate(draft: Draft, number: str, kind: str, root: Mapping[str, Any]) -> bool:
    """Add a debate; whether its answers were laid down with the wrong one first."""
    claims = {child["debater"]: child for child in root["children"]}
    if set(claims) != {"honest", "dishonest"}:
        raise UsageError(f"debate {number}: its first claims are of {', '.join(sorted(claims))}")
    swapped = randomness(0, number, "labels").random() < 0.5
    answers = [(_plain(claims["honest"]), 1.0), (_plain(claims["dishonest"]), -1.0)]
    problem, order = draft.problem(_plain(root), answers[:: -1 if swapped else 1], number)
    label = {"honest": LABELS[swapped], "dishonest": LABELS[not swapped]}
    turns = [
        {
            "round": min(node["level"], 4),
            "speaker": f"Debater {label[node['debater']]}",
            "side": label[node["debater"]],
            "text": f"[{node['id']}] {_plain(node)}",
        }
        for node in _by_level(root["children"])
    ]
    draft.held(
        {
            "id": f"debate {number}",
            "problem": problem,
            "setting": f"recursive debate, {kind}",
            "order": order,
            "turns": turns,
        }
    )
    return swapped


def _by_level(nodes: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """A tree of claims, level by level."""
    while nodes:
        yield from nodes
        nodes = [child for node in nodes for child in node["children"]]


def _plain(node: Mapping[str, Any]) -> str:
    return _MARKUP.sub("", node["text"]).strip()


if __name__ == "__main__":
    run(ABOUT, read_dcdebates)
