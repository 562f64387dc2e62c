"""Contrasts of settings of judgement tables from anywhere, paired as far as they share clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from ...protocols.scoring.contrasts import Contrast, Family, decided, unpaired
from ...protocols.scoring.inference import ErrorKind, Influences
from ...protocols.scoring.power import Spread
from ..display.finding import Finding, Part, column, figure, number, people, program, word
from ..errors import UsageError
from ..reports.report import SCORE_NAMES
from ..reports.scored import settings
from ..reports.verdicts import Verdicts, read_verdicts
from ..studies.scoring import is_study, study_lines
from .statement import read_pair

TABLE = ".jsonl"
"""Ending of a judgement table."""


@dataclass(frozen=True, slots=True)
class JudgedContrast:
    """A contrast of two settings, with how far they share what they judged."""

    contrast: Contrast
    shared: float
    """Share of the problems of both that both judged: 1 is paired, 0 are two samples."""


def read_settings(
    files: Sequence[Path], score: str, by: str = "setting", ways: Sequence[str] = ()
) -> dict[str, Influences]:
    """The ASD of each setting of one table, or of several, named by file and setting.

    UsageError if a setting has no ASD, or for a file that cannot be read.
    """
    found: dict[str, Influences] = {}
    for file in files:
        read = lines_of(file)
        for name, each in settings(read, score, by, ways).items():
            parts = [file.stem] if len(files) > 1 or not name else []
            assert each.asd is not None
            found[" ".join(filter(None, [*parts, name]))] = each.asd
    return found


def lines_of(file: Path) -> tuple[Verdicts, ...]:
    """The judgements of a table, or of a study's folder. UsageError if it cannot be read."""
    if is_study(file):
        return study_lines(file)
    try:
        with file.open("rb") as lines:
            return read_verdicts(lines, str(file))
    except OSError as exc:
        raise UsageError(f"{file}: cannot be read: {exc.strerror}") from exc


def is_table(path: Path) -> bool:
    """Whether judgements can be read from it, that are no run."""
    return is_study(path) or (path.suffix == TABLE and path.is_file())


def compare_tables(
    files: Sequence[Path],
    named: Sequence[str] = (),
    *,
    score: str = "brier",
    family: Family = "holm",
    equivalence: float = 0.05,
    by: str = "setting",
    ways: Sequence[str] = (),
    error: ErrorKind = "cr3",
) -> Finding:
    """Contrasts of settings, each `A,B`; by default of all pairs. UsageError for unknown names."""
    rows = read_settings(files, score, by, ways)
    if len(rows) < 2:
        raise UsageError(
            f"{', '.join(map(str, files))}: one setting, {', '.join(rows) or 'without an ASD'}: a "
            f"contrast needs two; give lines a {by!r}, or compare two files"
        )
    pairs = [_pair(words, rows) for words in named] or list(combinations(rows, 2))
    try:
        found = [unpaired(one, two, rows[one], rows[two], error) for one, two in pairs]
        lines = [
            JudgedContrast(each, _shared(rows[each.first], rows[each.second]))
            for each in decided(found, family, equivalence)
        ]
    except ValueError as exc:
        raise UsageError(f"{', '.join(map(str, files))}: {exc}") from exc
    return _finding(lines, " and ".join(file.stem for file in files), score, family)


def table_spread(file: Path, words: tuple[str, str], score: str) -> tuple[Spread, int]:
    """Variance of the difference per problem between two settings of a table, and the problems."""
    rows = read_settings([file], score)
    one, two = _pair(",".join(words), rows)
    apart = rows[one] - rows[two]
    problems = len({*rows[one].ways["problem"].tolist(), *rows[two].ways["problem"].tolist()})
    return Spread(apart.estimate().sampling ** 2 * problems), problems


def _pair(words: str, rows: Mapping[str, Influences]) -> tuple[str, str]:
    first, second = (_named(word, rows) for word in read_pair(words))
    if first == second:
        raise UsageError(f"{words!r} means one setting twice, {first}")
    return first, second


def _named(word: str, rows: Mapping[str, Influences]) -> str:
    """The setting of this name, else the only one that has all of its words."""
    if word in rows:
        return word
    fits = [name for name in rows if all(part in name for part in word.split())]
    if len(fits) != 1:
        problem = "no setting is called" if not fits else "several settings fit"
        raise UsageError(f"{problem} {word!r}; there are:\n  " + "\n  ".join(rows))
    return fits[0]


def _shared(one: Influences, two: Influences) -> float:
    ours, theirs = (set(each.ways[next(iter(each.ways))].tolist()) for each in (one, two))
    return len(ours & theirs) / len(ours | theirs)


def _finding(lines: Sequence[JudgedContrast], name: str, score: str, family: Family) -> Finding:
    columns = [
        word("first", "contrast.first", key="first"),
        word("second", "contrast.second", key="second"),
        number("n", "contrast.estimate.n", key="n"),
        number("shared", "shared", ".0%"),
        program("means", "contrast.means"),
        figure("difference", "contrast.estimate", key="difference"),
        column("p", "contrast.p", "{:.3f}".format, key="p"),
        column("p_family", "contrast.p_family", "{:.3f}".format, key="p_family"),
        people("verdict", _verdict),
        program("verdict", "contrast.verdict"),
        program("mde", "contrast.mde"),
        program("errors", "contrast.estimate.errors"),
    ]
    first = lines[0].contrast.estimate
    how = "Holm" if family == "holm" else "Benjamini and Hochberg"
    notes = [
        f"[ ] 95%, {first.method or first.reason} ({' × '.join(first.ways)}); p inverts the same "
        f"interval, p_family by {how}.",
        "shared: of the problems or texts of both, those that both judged; what is shared pairs "
        "the difference, the rest counts as two samples.",
    ]
    title = f"{name}: differences of ASD ({SCORE_NAMES[score]}), first - second"
    about = {"name": name, "score": score, "family": family}
    return Finding((Part("contrasts", title, columns, lines, notes),), about)


def _verdict(line: JudgedContrast) -> str:
    each = line.contrast
    undecided = each.verdict == "not determined"
    return f"not determined at MDE {each.mde:.2f}" if undecided else each.verdict
