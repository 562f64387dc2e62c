"""Judgements from anywhere, column by column: a million of them are not a million objects.

A judgement is one verdict of one judge, in one world or in all of them (a debate, where every
answer is argued). A question may be judged several times, or in some of its worlds only; a world
that the design did not fill is not run, which is neither a failure nor missing."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .inference import Flags, Floats, Keys, Places


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict, or one for each of several worlds of a question."""

    question: str | int
    values: tuple[float, ...]
    worlds: tuple[tuple[float, ...] | None, ...]
    """By answer argued, the probability of each answer; None without a verdict, () if not run."""
    keys: Mapping[str, str]
    """By kind (problem, judge, speaker, setting, …), its name."""
    first: tuple[float, ...] | None = None
    """The judge's initial belief."""
    everywhere: bool = False
    """Whether one verdict stands for all worlds: every answer was argued."""
    line: int = 0
    beliefs: tuple[tuple[int, tuple[float, ...]], ...] = ()
    """Beliefs by the number of rounds heard, in order; the last is the verdict."""


_COLUMNS = (
    "question", "answers", "values", "worlds", "ran", "first", "everywhere", "line",
)  # fmt: skip


class _Names:
    """Names as numbers, in the order of their first use."""

    def __init__(self, before: int = 0) -> None:
        self.known: dict[str, int] = {}
        self.codes = array("q", [-1]) * before

    def add(self, name: str | None) -> None:
        self.codes.append(-1 if name is None else self.known.setdefault(name, len(self.known)))


@dataclass(frozen=True, slots=True, eq=False)
class Judgements:
    """Judgements in columns; those with fewer answers than others are filled up with NaN.

    Names are numbers, which belong to one table: figures to be compared come from parts of one."""

    question: Places
    answers: Places
    """Number of answers."""
    values: Floats
    """Judgements × answers."""
    worlds: Floats
    """Judgements × worlds × answers: probabilities; NaN without a verdict."""
    ran: Flags
    """Judgements × worlds."""
    first: Floats
    """Judgements × answers: beliefs before anything was said; NaN if not stated."""
    everywhere: Flags
    line: Places
    codes: Mapping[str, Places]
    """By kind of key, the number of its name; -1 for a judgement without that key."""
    questions: Sequence[str | int] = field(repr=False, default=())
    names: Mapping[str, Sequence[str]] = field(repr=False, default_factory=dict)
    """By kind of key, its names."""
    doubt: Flags | None = None
    """Judgements × worlds: whether a verdict is flagged."""
    reach: Floats | None = None
    """Judgements × worlds × 2: the least and the most that the probability of each world's own
    answer would be, whatever its unread replies had said; NaN where it could be anything."""
    drawn: bool = False
    """Whether judgements of one question are draws, which share its weight."""
    certain: bool = False
    """Whether verdicts are so by definition: equal ones are then no estimate."""
    imputed: Flags | None = None
    """Judgements × worlds: whether the worst case stands in for a reply that nobody could read."""
    measured: bool = True
    """Whether at most half of the questions lack a verdict that could be read."""
    beliefs: Sequence[tuple[tuple[int, tuple[float, ...]], ...]] = field(repr=False, default=())
    """Beliefs of each judgement, round by round; () if no judgement states any."""

    def __len__(self) -> int:
        return len(self.question)

    def __getitem__(self, lines: Places | Flags) -> "Judgements":
        """Those judgements, with the numbers of names unchanged."""
        columns = {name: getattr(self, name)[lines] for name in _COLUMNS}
        for name in ("doubt", "reach", "imputed"):
            if (column := getattr(self, name)) is not None:
                columns[name] = column[lines]
        codes = {kind: codes[lines] for kind, codes in self.codes.items()}
        places = np.arange(len(self))[lines].tolist() if self.beliefs else ()
        beliefs = [self.beliefs[n] for n in places]
        return replace(self, **columns, codes=codes, beliefs=beliefs)

    def after(self, rounds: int) -> "Judgements":
        """Judgements with the belief after `rounds` rounds as the verdict: the last one by then,
        or the first one if none was stated by then."""
        worlds = self.worlds.copy()
        for n, beliefs in enumerate(self.beliefs):
            if beliefs:
                past = [probs for k, probs in beliefs if k <= rounds] or [beliefs[0][1]]
                worlds[n, self.ran[n], : self.answers[n]] = past[-1]
        return replace(self, worlds=worlds)

    @classmethod
    def of(cls, every: Iterable[Judgement]) -> "Judgements":
        """Gather judgements as they come. ValueError without any."""
        questions, keys = _Names(), dict[str, _Names]()
        ids: list[str | int] = []
        flat = {name: array("d") for name in ("values", "worlds", "first")}
        answers, line, ran, everywhere = array("q"), array("q"), bytearray(), bytearray()
        beliefs = dict[int, tuple[tuple[int, tuple[float, ...]], ...]]()
        count = 0
        none: tuple[float, ...] = ()
        for count, judgement in enumerate(every, start=1):
            k = len(judgement.values)
            none = none if len(none) >= k else (np.nan,) * k
            questions.add(str(judgement.question))
            if len(questions.known) > len(ids):
                ids.append(judgement.question)
            for kind in judgement.keys.keys() - keys.keys():
                keys[kind] = _Names(count - 1)
            for kind, names in keys.items():
                names.add(judgement.keys.get(kind))
            flat["values"].extend(judgement.values)
            flat["first"].extend(judgement.first or none[:k])
            for world in judgement.worlds:
                flat["worlds"].extend(world or none[:k])
                ran.append(world != ())
            answers.append(k)
            everywhere.append(judgement.everywhere)
            line.append(judgement.line)
            if judgement.beliefs:
                beliefs[count - 1] = judgement.beliefs
        if not count:
            raise ValueError("no judgements")
        sizes: Places = np.frombuffer(answers, np.int64)
        # Their numbers are what is needed from here on, and they are a third of the memory.
        names_of = {kind: tuple(names.known) for kind, names in keys.items()}
        questions.known.clear()

        def padded(cells: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
            """One line a judgement of cells that stand one after the other. width: axes."""
            most = int(sizes.max())
            if len(cells) == count * most**width:
                return cells.reshape(count, *(most,) * width)
            table: Floats = np.full((count, *(most,) * width), np.nan)
            starts = np.cumsum(sizes**width) - sizes**width
            for k in np.unique(sizes).tolist():
                lines = np.flatnonzero(sizes == k)
                at = starts[lines, None] + np.arange(k**width)
                table[np.ix_(lines, *[np.arange(k)] * width)] = cells[at].reshape(-1, *(k,) * width)
            return table

        return cls(
            np.frombuffer(questions.codes, np.int64),
            sizes,
            padded(np.frombuffer(flat["values"]), 1),
            padded(np.frombuffer(flat["worlds"]), 2),
            padded(np.frombuffer(ran, np.uint8), 1) == 1,
            padded(np.frombuffer(flat["first"]), 1),
            np.frombuffer(everywhere, np.bool_),
            np.frombuffer(line, np.int64),
            {kind: np.frombuffer(names.codes, np.int64) for kind, names in keys.items()},
            ids,
            names_of,
            beliefs=[beliefs.get(n, ()) for n in range(count)] if beliefs else (),
        )

    @property
    def lost(self) -> Flags:
        """Worlds that were run and have no verdict, judgements × worlds."""
        return self.ran & np.isnan(self.worlds[:, :, 0])

    @property
    def open(self) -> Flags:
        """Worlds that failed or are in doubt, judgements × worlds."""
        return self.lost if self.doubt is None else self.lost | (self.ran & self.doubt)

    @property
    def best(self) -> Flags:
        """Which answers are the most valuable, judgements × answers."""
        best: Flags = self.values == np.nanmax(self.values, axis=1, keepdims=True)
        return best

    def clusters(self, ways: Sequence[str] = ()) -> dict[str, Keys]:
        """The clusters of these kinds, or of every kind that all judgements have. ValueError for a
        kind that a judgement lacks, with its line. `problem`: the group of a question, or the
        question; `question`, `line`: each by itself."""
        kinds = [kind for kind, codes in self.codes.items() if codes.min(initial=0) >= 0]
        clusters: dict[str, Keys] = {}
        for way in ways or kinds:
            codes = self.codes.get(way)
            if codes is None and way == "question":
                codes = self.question
            elif codes is None and way == "problem":
                group = self.codes.get("group", np.full(len(self), -1))
                alone = self.question + len(self.names.get("group", ()))
                codes = np.where(group < 0, alone, group)
            elif codes is None and way == "line":
                # Lines of several files have equal numbers.
                codes = self.line + (self.codes.get("file", 0 * self.line) << 40)
            if codes is None or codes.min(initial=0) < 0:
                at = self.line[0 if codes is None else int(np.argmin(codes))]
                raise ValueError(f"line {at} names no {way}")
            clusters[way] = codes
        return clusters

    def by(self, *kinds: str) -> "dict[str, Judgements]":
        """The judgements by their names of these kinds, in the order in which they come."""
        chosen = [kind for kind in kinds if kind in self.codes]
        if not chosen:
            return {"": self}
        columns = np.stack([self.codes[kind] for kind in chosen])
        every, first, group = np.unique(columns, axis=1, return_index=True, return_inverse=True)
        parts = {}
        for n in np.argsort(first).tolist():
            names = (
                self.names[kind][code] if code >= 0 else ""
                for kind, code in zip(chosen, every[:, n].tolist(), strict=True)
            )
            parts[" ".join(filter(None, names))] = self[group.ravel() == n]
        return parts

    def repeated(self, kinds: Sequence[str]) -> tuple[int, int] | None:
        """The first judgement that judges a world of a question again while all these keys are
        equal: the indices of both; None if each is told apart."""
        keys = [self.codes[kind] for kind in kinds if kind in self.codes]
        columns = (self.question, *keys, *self.ran.T)
        order = np.lexsort(columns)
        same: Flags = np.ones(len(order) - 1, np.bool_)
        for column in columns:
            # One at a time: a table of all of them would be too large.
            ordered = column[order]
            same &= ordered[1:] == ordered[:-1]
        if not same.any():
            return None
        later = order[1:][same]
        n = int(np.argmin(later))
        return int(later[n]), int(order[:-1][same][n])

    def contradicted(self, values: Floats | Places) -> tuple[int, int] | None:
        """Places of the first judgement whose line of `values` differs from an earlier one of the
        same question, and of the earlier one; None if all agree."""
        question = self.question + (self.codes.get("file", 0 * self.line) << 40)
        _, first, place = np.unique(question, return_index=True, return_inverse=True)
        earlier = first[place]
        other = np.flatnonzero((values != values[earlier]).any(axis=1))
        return (int(other[0]), int(earlier[other[0]])) if len(other) else None

    def verdicts(self) -> tuple[Places, Places, Floats]:
        """Judgement, world and probabilities of every verdict. One on all worlds counts once."""
        present = self.ran & ~self.lost
        present[self.everywhere, 1:] = False
        line, world = np.nonzero(present)
        return line, world, self.worlds[line, world]
