"""Scores of a study: its judgements as lines for the inference core, trajectories, raters."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....protocols.datasets.study import (
    ConversationRow,
    JudgementRow,
    StudyData,
    answer_digest,
    read_study,
)
from ....protocols.errors import DatasetError
from ....protocols.question import LABELS, Problem
from ...analysis.findings.finding import Column, Finding, Part, figure, number, word
from ...analysis.judged import JudgementSource
from ...analysis.raters import (
    Beside,
    Both,
    Probs,
    Told,
    agreement_part,
    beside,
    beside_part,
    raters_part,
    told,
)
from ...analysis.scoring.agreement import Agreement, krippendorff_alpha
from ...analysis.scoring.estimate import Estimate
from ...analysis.scoring.judgements import Judgement, Judgements
from ...errors import UsageError
from .draft import INFO


def is_study(path: Path) -> bool:
    return (path / INFO).is_file()


def opened_study(folder: Path) -> StudyData:
    """The study in a folder. UsageError, with file and line, for one that is wrong."""
    if not is_study(folder):
        raise UsageError(
            f"{folder}: no study, which has a {INFO}; scripts in examples/studies make one"
        )
    try:
        return read_study(folder)
    except DatasetError as exc:
        raise UsageError(str(exc)) from exc


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement with its conversation, and its beliefs in the order of the problem's answers."""

    row: JudgementRow
    held: ConversationRow
    problem: Problem
    beliefs: tuple[tuple[int, Probs], ...]

    @property
    def verdict(self) -> Probs:
        return self.beliefs[-1][1]

    def after(self, rounds: int) -> Probs:
        """The belief after so many rounds; the first one where none was stated by then."""
        return [p for n, p in self.beliefs if n <= rounds or n == self.beliefs[0][0]][-1]


def judged_in(data: StudyData, mode: str = "") -> list[Judged]:
    """The judgements that the study's own figures count; of a mode, all on its conversations."""
    found = []
    for row in data.judgements:
        held = data.conversations[row.conversation]
        if not held.included or not (row.mode == mode if mode else row.included):
            continue
        problem = data.problems[held.problem]
        at = [held.order.index(answer_digest(a.text)) for a in problem.question.answers]
        beliefs = tuple((b.round, tuple(b.probs[n] for n in at)) for b in row.beliefs)
        found.append(Judged(row, held, problem, beliefs))
    return found


def as_lines(judged: Sequence[Judged], rounds: int | None = None) -> Iterator[Judgement]:
    """Judgements as `oversight measure judgements FILE` reads them. A world that the design did not
    fill was not run. rounds: what was believed after so many; at the end unless given."""
    for n, each in enumerate(judged, 1):
        problem, argued = each.problem, each.held.argued
        answers = problem.question.answers
        side = None if argued is None else each.held.order[LABELS.index(argued)]
        verdict = each.verdict if rounds is None else each.after(rounds)
        worlds = tuple(
            verdict if side in (None, answer_digest(answer.text)) else () for answer in answers
        )
        at, belief = each.beliefs[0]
        first = belief if at == 0 else None
        people = [name for seat, name in sorted(each.held.speakers.items()) if seat != "Judge"]
        keys = {
            "judge": each.row.judge,
            "setting": each.held.setting,
            "mode": each.row.mode,
            "draw": each.held.id,
            "labels": json.dumps([answer.label for answer in answers]),
            **({"speaker": " & ".join(people)} if people else {}),
            **({"group": problem.group} if problem.group else {}),
        }
        whole = argued is None
        yield Judgement(problem.id, problem.values, worlds, keys, first, whole, line=n)


def study_judged(folder: Path, conditions: Sequence[str] = ()) -> list[Judged]:
    """The judgements of a study. conditions: `mode=stepped` asks for judgements that the study's
    own figures leave out. UsageError if there are none."""
    modes = (each.partition("=")[2] for each in conditions if each.startswith("mode="))
    mode = next(modes, "")
    judged = judged_in(opened_study(folder), mode)
    if not judged:
        raise UsageError(f"{folder}: no judgement{f' of mode {mode}' if mode else ''}")
    return judged


@dataclass(frozen=True, slots=True)
class Step:
    """What the judges of a setting believed after so many rounds, carried forward."""

    setting: str
    rounds: int
    n: int
    open: int
    """Judges who went on after it."""
    score: Estimate
    """Brier score of the truth."""
    right: float
    """Share with the truth likeliest; a tie counts half."""
    to_right: int
    """Judgements that were wrong at first and right by now."""
    to_wrong: int


def trajectory(judged: Sequence[Judged]) -> Iterator[Step]:
    """Round by round, setting by setting."""
    settings: dict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        settings[each.held.setting].append(each)
    for setting, its in settings.items():
        first = _told(its, 0).right
        for k in range(max(each.beliefs[-1][0] for each in its) + 1):
            now = _told(its, k)
            yield Step(
                setting,
                k,
                len(its),
                sum(each.beliefs[-1][0] > k for each in its),
                now.how_good(),
                float(now.right.mean()),
                int(((first == 0) & (now.right == 1)).sum()),
                int(((first == 1) & (now.right == 0)).sum()),
            )


def _told(judged: Sequence[Judged], rounds: int | None = None) -> Told:
    found = told(Judgements.of(as_lines(judged, rounds)))
    assert found, "every judgement of a study has a verdict"
    return found


def besides(one: Sequence[Judged], other: Sequence[Judged], names: tuple[str, str]) -> list[Beside]:
    """The two on the conversations that both judged; none without any."""
    ours = {each.held.id: each for each in one}
    theirs: dict[str, list[Probs]] = defaultdict(list)
    for each in other:
        if each.held.id in ours:
            theirs[each.held.id].append(each.verdict)
    pairs = [Both(ours[id].problem, ours[id].verdict, its) for id, its in theirs.items()]
    return [beside(*names, pairs)] if pairs else []


def alphas(judged: Sequence[Judged]) -> dict[str, Agreement | None]:
    """Krippendorff's alpha of the probability of the first answer shown, over conversations with
    two judges or more."""
    found = {}
    for name, one_sided in (("every answer argued", False), ("one answer argued", True)):
        units: dict[str, list[Sequence[float]]] = defaultdict(list)
        texts: dict[str, str] = {}
        for each in judged:
            if (each.held.argued is not None) == one_sided:
                units[each.held.id].append((each.row.beliefs[-1].probs[0],))
                texts[each.held.id] = each.problem.group or each.problem.id
        found[name] = krippendorff_alpha(list(units.values()), [texts[id] for id in units])
    return found


def trajectory_part(judged: Sequence[Judged]) -> Part:
    columns: list[Column] = [
        word("setting", "setting"),
        number("rounds", "rounds"),
        number("n", "n"),
        number("open", "open"),
        figure("Brier of truth", "score"),
        number("right", "right", ".4f"),
        number("wrong → right", "to_right", key="to_right"),
        number("right → wrong", "to_wrong", key="to_wrong"),
    ]
    notes = ("rounds: rounds heard; the last belief of a judge who stopped is carried forward.",)
    return Part("trajectory", "beliefs round by round", columns, list(trajectory(judged)), notes)


def study_agreement(folder: Path) -> Finding:
    """How well the judges of a study agree, and how good each is."""
    data = opened_study(folder)
    live = judged_in(data)
    modes = sorted({row.mode for row in data.judgements} - {each.row.mode for each in live})
    others = {mode: judged_in(data, mode) for mode in modes}
    afterwards = [each for its in others.values() for each in its]
    pairs = {"others": afterwards, **(others if len(others) > 1 else {})}
    parts = (
        raters_part(Judgements.of(as_lines(live)), "Judges"),
        beside_part(
            "Judges of one conversation, beside each other",
            [line for mode in pairs for line in besides(live, pairs[mode], ("included", mode))],
        ),
        agreement_part(
            "Krippendorff's alpha of the probability of the first answer shown",
            alphas([*live, *afterwards]),
        ),
    )
    return Finding(parts, {"study": folder.name})


class Studies(JudgementSource):
    """What the core is given: the judgements of experiments made elsewhere."""

    def holds(self, path: Path) -> bool:
        return is_study(path)

    def judgements(self, path: Path) -> Iterator[Judgement]:
        return as_lines(study_judged(path))


STUDIES = Studies()
