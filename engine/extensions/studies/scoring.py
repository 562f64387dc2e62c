"""Scores of a study: its judgements as lines for the inference core, trajectories, raters."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import orjson

from ....protocols.datasets.study import (
    ConversationRow,
    JudgementRow,
    StudyData,
    answer_digest,
    read_study,
)
from ....protocols.errors import DatasetError
from ....protocols.question import LABELS, Problem
from ....protocols.scores import TIE, accuracy, brier
from ...analysis.findings.finding import (
    Column,
    Finding,
    Part,
    change,
    figure,
    number,
    program,
    word,
)
from ...analysis.reports.scored import where
from ...analysis.scoring.agreement import Agreement, krippendorff_alpha, shrunk
from ...analysis.scoring.calibration import Calibration, calibration
from ...analysis.scoring.estimate import Estimate
from ...analysis.scoring.inference import mean_of
from ...analysis.scoring.judgements import Judgement, Judgements
from ...errors import UsageError
from ...system.files import read_bounded
from .draft import INFO

MAX_INFO = 2**22

Probs = tuple[float, ...]


def is_study(path: Path) -> bool:
    return (path / INFO).is_file()


def about_study(folder: Path) -> dict[str, Any]:
    """What a study says of itself. UsageError if it does not."""
    if not is_study(folder):
        raise UsageError(
            f"{folder}: no study, which has a {INFO}; oversight dataset import makes one"
        )
    try:
        about: dict[str, Any] = orjson.loads(read_bounded(folder / INFO, MAX_INFO))
        if lacking := {"name", "files", "paper", "licence"} - about.keys():
            raise ValueError(f"it lacks {min(lacking)!r}")
        return about
    except (orjson.JSONDecodeError, AttributeError, ValueError) as exc:
        raise UsageError(
            f"{folder / INFO}: it cannot be read: {exc}; import the study again"
        ) from exc


def opened_study(folder: Path) -> StudyData:
    """The study in a folder. UsageError, with file and line, for one that is wrong."""
    about_study(folder)
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


def as_lines(judged: Sequence[Judged]) -> Iterator[Judgement]:
    """Judgements as `oversight measure judgements FILE` reads them. A world that the design did not
    fill was not run."""
    for n, each in enumerate(judged, 1):
        answers = each.problem.question.answers
        argued = each.held.argued
        side = None if argued is None else each.held.order[LABELS.index(argued)]
        worlds = tuple(
            each.verdict if side in (None, answer_digest(answer.text)) else () for answer in answers
        )
        first = each.beliefs[0]
        people = [name for seat, name in sorted(each.held.speakers.items()) if seat != "Judge"]
        keys = {
            "judge": each.row.judge,
            "setting": each.held.setting,
            "mode": each.row.mode,
            "draw": each.held.id,
            "labels": json.dumps([answer.label for answer in answers]),
            **({"speaker": " & ".join(people)} if people else {}),
            **({"group": each.problem.group} if each.problem.group else {}),
        }
        yield Judgement(
            each.problem.id,
            each.problem.values,
            worlds,
            keys,
            first[1] if first[0] == 0 else None,
            argued is None,
            line=n,
        )


def mode_in(conditions: Sequence[str]) -> str:
    """The mode that conditions ask for; empty if none does."""
    return next((each.partition("=")[2] for each in conditions if each.startswith("mode=")), "")


def study_judgements(folder: Path, conditions: Sequence[str] = ()) -> Iterator[Judgement]:
    """The judgements of a study. conditions: `mode=stepped` asks for judgements that the study's
    own figures leave out. UsageError if there are none."""
    mode = mode_in(conditions)
    judged = judged_in(opened_study(folder), mode)
    if not judged:
        raise UsageError(f"{folder}: no judgement{f' of mode {mode}' if mode else ''}")
    return as_lines(judged)


def study_parts(found: Finding, folder: Path, conditions: Sequence[str]) -> Finding:
    """The scores of a study's lines, with beliefs round by round and its judges."""
    lines = where(Judgements.of(study_judgements(folder, conditions)), conditions)
    held, judges = (lines.names[kind] for kind in ("draw", "judge"))
    both = zip(lines.codes["draw"].tolist(), lines.codes["judge"].tolist(), strict=True)
    kept = {held[draw] + judges[judge] for draw, judge in both}
    mode = mode_in(conditions)
    judged = [
        each
        for each in judged_in(opened_study(folder), mode)
        if each.held.id + each.row.judge in kept
    ]
    parts = (*found.parts, trajectory_part(judged), raters_part(judged))
    return Finding(parts, found.about, found.lead)


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
    for setting, its in _by_setting(judged):
        rounds = max(each.beliefs[-1][0] for each in its)
        keys = {"problem": np.array([each.problem.group or each.problem.id for each in its])}
        first = np.array([_right(each, each.beliefs[0][1]) for each in its])
        for k in range(rounds + 1):
            probs = [each.after(k) for each in its]
            scores = [brier(p, each.problem.best) for p, each in zip(probs, its, strict=True)]
            right = np.array([_right(each, p) for p, each in zip(probs, its, strict=True)])
            yield Step(
                setting,
                k,
                len(its),
                sum(each.beliefs[-1][0] > k for each in its),
                mean_of(scores, keys, (-2.0, 0.0)).estimate(),
                float(right.mean()),
                int(((first == 0) & (right == 1)).sum()),
                int(((first == 1) & (right == 0)).sum()),
            )


def _by_setting(judged: Sequence[Judged]) -> list[tuple[str, list[Judged]]]:
    found: dict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        found[each.held.setting].append(each)
    return list(found.items())


def _right(each: Judged, probs: Probs) -> float:
    return accuracy(probs, each.problem.best)


@dataclass(frozen=True, slots=True)
class Rater:
    """One judge of a study."""

    judge: str
    n: int
    right: float
    score: float
    """Mean Brier score of the truth."""
    shrunk: float
    """`score`, shrunk towards the mean of all raters by its share of noise (empirical Bayes)."""
    calibration: Calibration


def raters(judged: Sequence[Judged]) -> list[Rater]:
    """Every judge, the best by the shrunk score first."""
    by_judge: dict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        by_judge[each.row.judge].append(each)
    scores = {
        judge: np.array([brier(each.verdict, each.problem.best) for each in its])
        for judge, its in by_judge.items()
    }
    every = np.concatenate(list(scores.values()))
    within = float(
        sum(((s - s.mean()) ** 2).sum() for s in scores.values()) / max(len(every) - len(scores), 1)
    )
    means = np.array([s.mean() for s in scores.values()])
    chance = np.array([within / len(s) for s in scores.values()])
    drawn = shrunk(means, chance, float(every.mean()))
    found = []
    for (judge, its), mean, score in zip(by_judge.items(), means, drawn, strict=True):
        right = np.array([_right(each, each.verdict) for each in its])
        largest = np.array([max(each.verdict) for each in its])
        found.append(
            Rater(
                judge,
                len(its),
                float(right.mean()),
                float(mean),
                float(score),
                calibration(largest, right),
            )
        )
    return sorted(found, key=lambda rater: (-rater.shrunk, -rater.n))


@dataclass(frozen=True, slots=True)
class Beside:
    """Judges of two modes on the same conversations."""

    first: str
    second: str
    conversations: int
    judgements: int
    """Number of judgements of the second mode."""
    apart: float
    """Mean distance of P(truth), from the mean of the second mode's judges."""
    same: float
    """Share of conversations on which both find the same answer likeliest; a tie is none."""
    correlation: float | None
    first_score: float
    second_score: float


def beside(one: Sequence[Judged], other: Sequence[Judged], names: tuple[str, str]) -> Beside | None:
    """The two on the conversations that both judged; None without any."""
    ours = {each.held.id: each for each in one}
    theirs: dict[str, list[Judged]] = defaultdict(list)
    for each in other:
        if each.held.id in ours:
            theirs[each.held.id].append(each)
    if not theirs:
        return None
    best = {id: ours[id].problem.best for id in theirs}
    mine = np.array([ours[id].verdict[best[id]] for id in theirs])
    means = np.array([fmean(j.verdict[best[id]] for j in its) for id, its in theirs.items()])
    spread = len(mine) > 1 and mine.std() > 0 and means.std() > 0
    return Beside(
        *names,
        len(theirs),
        sum(map(len, theirs.values())),
        float(np.abs(mine - means).mean()),
        float(((mine > 0.5 + TIE) == (means > 0.5 + TIE)).mean()),
        float(np.corrcoef(mine, means)[0, 1]) if spread else None,
        fmean(brier(ours[id].verdict, best[id]) for id in theirs),
        fmean(fmean(brier(j.verdict, best[id]) for j in its) for id, its in theirs.items()),
    )


@dataclass(frozen=True, slots=True)
class Alpha:
    """Krippendorff's alpha over some conversations."""

    of: str
    found: Agreement


def alphas(judged: Sequence[Judged]) -> Iterator[Alpha]:
    """Krippendorff's alpha of the probability of the first answer shown, over conversations with
    two judges or more."""
    for name, one_sided in (("every answer argued", False), ("one answer argued", True)):
        units: dict[str, list[Sequence[float]]] = defaultdict(list)
        texts: dict[str, str] = {}
        for each in judged:
            if (each.held.argued is not None) == one_sided:
                units[each.held.id].append((each.row.beliefs[-1].probs[0],))
                texts[each.held.id] = each.problem.group or each.problem.id
        if found := krippendorff_alpha(list(units.values()), [texts[id] for id in units]):
            yield Alpha(name, found)


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
    notes = ("rounds heard; a belief is carried forward once its judge stopped.",)
    return Part("trajectory", "beliefs round by round", columns, list(trajectory(judged)), notes)


def raters_part(judged: Sequence[Judged]) -> Part:
    columns: list[Column] = [
        word("judge", "judge"),
        number("n", "n"),
        number("right", "right", ".3f"),
        change("Brier", "score", 4),
        change("shrunk", "shrunk", 4),
        number("calibration error", "calibration.error", ".4f"),
        number("debiased", "calibration.debiased_error", ".4f"),
        change("overconfident", "calibration.overconfidence", 4),
    ]
    notes = ("shrunk: drawn to the mean of all by as much as it is chance; ranked by it.",)
    return Part("judges", "judges of the study", columns, raters(judged), notes)


def study_agreement(folder: Path) -> Finding:
    """How well the judges of a study agree, and how good each is."""
    data = opened_study(folder)
    live = judged_in(data)
    modes = sorted({row.mode for row in data.judgements} - {each.row.mode for each in live})
    others = {mode: judged_in(data, mode) for mode in modes}
    afterwards = [each for its in others.values() for each in its]
    pairs = [("included", "others", live, afterwards)]
    pairs += [("included", mode, live, its) for mode, its in others.items()] * (len(others) > 1)
    found = [line for a, b, one, two in pairs if (line := beside(one, two, (a, b)))]
    columns: list[Column] = [
        word("judges", "first", key="first"),
        word("against", "second", key="second"),
        number("conversations", "conversations"),
        number("judgements", "judgements"),
        number("apart", "apart", ".4f"),
        number("same side", "same", ".4f"),
        number("correlation", "correlation", ".4f"),
        change("Brier", "first_score", 4),
        change("Brier, others", "second_score", 4),
    ]
    parts = (
        raters_part(live),
        Part("beside", "judges of one conversation, beside each other", columns, found),
        Part(
            "alpha",
            "Krippendorff's alpha of the probability of the first answer",
            [
                word("conversations", "of"),
                figure("alpha", "found.alpha", key="alpha"),
                number("units", "found.units", key="units"),
                number("values", "found.values", key="values"),
            ],
            list(alphas([*live, *afterwards])),
        ),
        *(_mode_part(mode, its) for mode, its in others.items() if its),
    )
    return Finding(parts, {"study": folder.name})


def _mode_part(mode: str, judged: Sequence[Judged]) -> Part:
    keys = {"problem": np.array([each.problem.group or each.problem.id for each in judged])}

    def mean(values: Sequence[float], ends: tuple[float, float]) -> Estimate:
        return mean_of(values, keys, ends).estimate()

    line = _Mode(
        mode,
        len(judged),
        mean([_right(each, each.verdict) for each in judged], (0.0, 1.0)),
        mean([brier(each.beliefs[0][1], each.problem.best) for each in judged], (-2.0, 0.0)),
        mean([brier(each.verdict, each.problem.best) for each in judged], (-2.0, 0.0)),
    )
    columns = [
        word("mode", "mode"),
        number("n", "n"),
        figure("right", "right", sign=False),
        figure("first Brier", "first"),
        figure("last Brier", "last"),
        program("errors", "last.errors"),
    ]
    return Part(f"mode {mode}", f"judged {mode}", columns, [line])


@dataclass(frozen=True, slots=True)
class _Mode:
    mode: str
    n: int
    right: Estimate
    first: Estimate
    last: Estimate
