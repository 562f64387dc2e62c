"""Settings of judgement tables from anywhere: what can be read, and the ASD of each."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import UsageError
from ..system.entry_points import JUDGEMENTS_GROUP, load_one, registered
from .reports.scored import by_setting, ways_of
from .reports.verdicts import parsed, told_apart
from .rows import read_pair
from .scoring.asd import scored
from .scoring.inference import Influences
from .scoring.judgements import Judgement, Judgements
from .scoring.power import Spread

TABLE = ".jsonl"
"""Ending of a judgement table."""


def is_table(path: Path) -> bool:
    """Whether judgements can be read from it, that are no run."""
    if path.suffix == TABLE and not path.is_dir():
        return True
    return any(each.holds(path) for each in _sources())


class JudgementSource(ABC):
    """What has judgements and is no run, registered under `oversight.judgements`."""

    @abstractmethod
    def holds(self, path: Path) -> bool:
        """Whether the path is one of its own; cheap."""

    @abstractmethod
    def judgements(self, path: Path) -> Iterator[Judgement]:
        """All judgements there. UsageError if there are none, or if they cannot be read."""


def _sources() -> Iterator[JudgementSource]:
    names = registered(JUDGEMENTS_GROUP)
    return (load_one(JUDGEMENTS_GROUP, name, JudgementSource) for name in names)


def lines_of(*files: Path) -> Judgements:
    """The judgements of tables, or of studies' folders; of several, with the name of the file as a
    key of each. UsageError, with file and line, for one that cannot be read."""

    def every() -> Iterator[Judgement]:
        for file in files:
            none = True
            for each in _judgements(file):
                none = False
                named = {"file": file.stem} if len(files) > 1 else {}
                yield replace(each, keys={**each.keys, **named}) if named else each
            if none and len(files) > 1:
                raise UsageError(f"{file}: there is no judgement in it")

    return told_apart(every(), " and ".join(map(str, files)))


def _judgements(file: Path) -> Iterator[Judgement]:
    for source in _sources():
        if source.holds(file):
            yield from source.judgements(file)
            return
    try:
        with file.open("rb") as lines:
            yield from parsed(lines, str(file))
    except OSError as exc:
        raise UsageError(f"{file}: cannot be read: {exc.strerror}") from exc


def asds(
    settings: Mapping[str, Judgements], score: str, ways: Sequence[str]
) -> dict[str, Influences]:
    """The ASD of each setting that has one."""
    found = {name: scored(its, score, ways=ways) for name, its in settings.items()}
    return {name: each.asd for name, each in found.items() if each and each.asd}


def read_asds(
    files: Sequence[Path], score: str, by: str, ways: Sequence[str]
) -> dict[str, Influences]:
    every = lines_of(*files)
    return asds(by_setting(every, by), score, ways_of(every, ways))


def table_spread(file: Path, words: tuple[str, str], score: str) -> tuple[Spread, int, float]:
    """Spread of the difference per question between two settings of a table, its questions, and
    how many of them there are for each cluster of the kind that has the fewest.

    Questions of one text, and judgements of one judge, depend on each other as far as they do in
    the table: the design effect is the variance by all kinds of clusters over that by questions.
    """
    every = lines_of(file)
    clusters = (*ways_of(every), "question")
    rows = asds(by_setting(every), score, clusters)
    one, two = pair_of(" - ".join(words), rows)
    apart = rows[one] - rows[two]
    alone = apart.by("question").estimate()
    found = apart.by(*clusters[:-1]).estimate()
    questions = len(np.unique(apart.ways["question"]))
    error = alone.error or 0.0
    effect = ((found.error or 0.0) / error) ** 2 if error else 1.0
    spread = Spread(error**2 * questions, design_effect=max(1.0, effect))
    return spread, questions, questions / max(found.clusters, 1)


def pair_of(words: str, rows: Mapping[str, Influences]) -> tuple[str, str]:
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
