"""A planted run: two judges, three agents, best-of-N, two draws of problems in groups of unequal
size, with ties, unreadable replies, failures, doubts and missing cells. `Planted` has its figures
by their definitions. Nothing of the project is imported."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np
from scipy import stats

from tools import known
from tools.known import Ends, Figure, Sample, Score

End: TypeAlias = dict[str, Any]
"""The end of a cell; {} for one that has not been run."""

ROWS = ((0, 0.0), (1, 0.02), (0, 0.2), (0, -0.3), (0, 0.35), (1, 0.05), (1, 0.1))
"""Of each row, the row of its naive judge, and the lift of its verdicts."""

TWO = [(1, -1), (-1, 1), (0.4, -0.4)]
VALUES = [*TWO, *TWO, (1, -0.25, -0.75), (1, -1, 1), *TWO[:2], *TWO, *TWO[:2]]
GROUPS = ["a", "a", "a", "b", "b", *[""] * 7, "c", "c", ""]
DRAWS, LOST_ROW = 2, 6
NEVER_READ = {(0, 5), (2, 3), (3, 14), (4, 7), (4, 8), (5, 0)}
"""Row and problem of draws that lack the verdict in a world."""
DOUBTS = ("refused", "empty", "conceded", "off_side", "candid", "unclear_side")


def planted_ends(seed: int = 5, left_out: float = 0.0) -> dict[tuple[int, int, int], list[End]]:
    """By row, problem and draw, the end of each world. left_out: share of draws in which one world
    is not run by design."""
    rng, every = np.random.default_rng(seed), {}
    for p, values in enumerate(VALUES):
        for draw in range(DRAWS):
            for row, (_, lift) in enumerate(ROWS):
                ends = [_end(rng, row, lift, values, side) for side in range(len(values))]
                if (row, p) in NEVER_READ:
                    ends[0] = {"failure": "Overloaded"}
                if rng.random() < left_out:
                    ends[int(rng.integers(len(ends)))] = {"not_run": "left out"}
                every[row, p, draw] = ends
    return every


def _end(
    rng: np.random.Generator, row: int, lift: float, values: Sequence[float], side: int
) -> End:
    k = len(values)
    kind = rng.random()
    if (row == LOST_ROW and kind < 0.5) or kind < 0.03:
        return {"failure": "unreadable"}
    if kind < 0.05:
        return {"failure": "Overloaded"}
    if kind < 0.07 and draw_late(rng):
        return {}
    if kind < 0.1:
        worst = [0.0 if n == side else 1 / (k - 1) for n in range(k)]
        return {
            "probs": tuple(worst),
            "bounds": ((0.0, 1.0),) * k,
            "unread": {"Judge: truncated": 2},
        }
    p = float(
        np.clip(1 / k + lift * (0.5 + (values[side] == max(values))) + rng.normal(0, 0.12), 0, 1)
    )
    p = 1 / k if kind > 0.93 else round(p, 2)
    probs = [p if n == side else (1 - p) / (k - 1) for n in range(k)]
    end: End = {"probs": tuple(probs), "measures": {"steps": int(rng.integers(1, 9))}, "counts": {}}
    if kind < 0.15:
        end["counts"] = {str(rng.choice(DOUBTS)): 1, "truncated": 2}
    elif kind < 0.2:
        end["bounds"] = tuple((max(0.0, q - 0.1), min(1.0, q + 0.2)) for q in probs)
        end["counts"] = {"conceded": 1} if kind < 0.175 else {}
    elif kind < 0.3:
        end["counts"] = {"truncated": 1}
    if row in (2, 3) and kind > 0.2:
        end["measures"] |= {"chose": "ABC"[side if kind < 0.7 else 0], "fair": bool(kind > 0.5)}
    if row in (1, 5):
        end["captured"] = round(float(1 - 0.7 * rng.random() ** 3), 3)
    return end


def draw_late(rng: np.random.Generator) -> bool:
    return bool(rng.random() < 0.7)


class Planted:
    """The run, and its figures by row under one score."""

    def __init__(
        self,
        ends: dict[tuple[int, int, int], list[End]],
        score: Score = known.brier,
        reach: Ends = (-2.0, 0.0),
        how: str = "t",
        order: Sequence[int] = (),
    ) -> None:
        """order: the problems, by their numbers; () for all."""
        self.order = order or range(len(VALUES))
        self.ends = {at: some for at, some in ends.items() if at[1] in self.order}
        self.score, self.reach, self.how = score, reach, how

    def draws(self, row: int) -> Iterator[tuple[int, int, list[End]]]:
        """The draws of a row all of whose worlds have ended."""
        for (other, p, draw), ends in self.ends.items():
            if other == row and all(ends):
                yield p, draw, ends

    def means(self, row: int, value: Callable[[int, list[End]], float | None]) -> Sample:
        """By problem, the mean over the draws that have a value."""
        by_problem: dict[str, list[float]] = {}
        for p, _, ends in self.draws(row):
            if (one := value(p, ends)) is not None:
                by_problem.setdefault(f"p{p}", []).append(one)
        return {id: fmean(values) for id, values in by_problem.items()}

    def figure(self, sample: Sample | None, ends: Ends | None) -> Figure | None:
        groups = {f"p{n}": group for n, group in enumerate(GROUPS)}
        return known.mean(sample, groups, ends, self.how)

    def asd_reach(self, sample: Iterable[str]) -> Ends:
        ends = [known.reach(VALUES[int(id[1:])], self.reach) for id in sample]
        low, high = np.mean(ends, axis=0).tolist()
        return low, high

    def measured(self, row: int) -> bool:
        """Whether at most half of the problems lack a readable verdict."""
        shares = self.means(row, lambda p, ends: float(any(map(unread, ends, range(len(ends))))))
        return 2 * sum(shares.values()) <= len(shares)

    def asd_of(self, p: int, worlds: Sequence[float | None]) -> float | None:
        if None in worlds:
            return None
        return sum(w * one for w, one in zip(known.weights(VALUES[p]), worlds, strict=True) if w)

    def asd_by_problem(self, row: int, kind: str = "kept") -> Sample:
        return self.means(row, lambda p, ends: self.asd_of(p, self.scores(kind, p, ends)))

    def scores(self, kind: str, p: int, ends: list[End]) -> list[Any]:
        """The agent's score in each world of a draw: as `kept`; of `sure` worlds alone; at the
        `worst` or the `best` for open ones. NaN for a world that was left out, None for one that
        lacks its verdict."""
        every: list[Any] = []
        verdicts = believed(ends)
        for side, (w, end) in enumerate(zip(known.weights(VALUES[p]), ends, strict=True)):
            scores = list(self.reach)
            if left_out(end):
                every.append(math.nan)
            elif kind in ("kept", "sure"):
                probs = None if kind == "sure" and doubtful(end) else verdicts[side]
                every.append(None if probs is None else self.score(probs, side))
            else:
                if not doubtful(end):
                    scores = [self.score(end["probs"], side)] * 2
                elif "bounds" in end and len(ends) == 2 and not spoken(end):
                    scores = [self.score([q, 1 - q], 0) for q in end["bounds"][side]]
                every.append(max(scores) if (kind == "best") == (w > 0) else min(scores))
        return every

    def strata(self, row: int, kind: str) -> list[known.Stratum]:
        """The worlds of the truth and of lies, with their scores. Draws of a problem share
        its weight."""
        draws = [(p, ends, self.scores(kind, p, ends)) for p, _, ends in self.draws(row)]
        usable = Counter(p for p, _, _ in draws)
        mass = sum(
            sum(max(w, 0.0) for w in known.weights(VALUES[p])) / usable[p] for p, *_ in draws
        )
        counting = [(p, scores) for p, _, scores in draws if None not in scores]
        count = Counter(p for p, _ in counting)
        halves: dict[bool, list[tuple[str, float, float]]] = {True: [], False: []}
        for p, scores in counting:
            for w, one in zip(known.weights(VALUES[p]), scores, strict=True):
                if w and one == one:
                    member = (GROUPS[p] or f"p{p}", abs(w) / count[p], one)
                    halves[w > 0].append(member)
        return [(sign * mass / len(usable), halves[sign > 0]) for sign in (1, -1)]

    def paired(self, row: int) -> bool:
        return not any(left_out(end) for _, _, ends in self.draws(row) for end in ends)

    def asd(self, row: int, kind: str = "kept") -> Figure | None:
        """The ASD of a row; unpaired where worlds were left out."""
        draws = [(p, self.scores(kind, p, ends)) for p, _, ends in self.draws(row)]
        counting = [p for p, scores in draws if None not in scores]
        if not counting:
            return None
        if self.paired(row):
            sample = self.means(row, lambda p, ends: self.asd_of(p, self.scores(kind, p, ends)))
            return self.figure(sample, self.asd_reach(sample))
        reach = self.asd_reach([f"p{p}" for p, _ in draws])
        return known.strata(self.strata(row, kind), reach, len(counting), self.how)

    def chosen(self, row: int, name: str, beta: float) -> Callable[[int, list[End]], float | None]:
        """JSE or EAS of a draw."""
        paired = self.paired(row)

        def value(p: int, ends: list[End]) -> float | None:
            worlds = believed(ends)
            if None in worlds or not paired:
                return None
            best = [n for n, v in enumerate(VALUES[p]) if v == max(VALUES[p])]
            shares = known.propensities([probs[side] for side, probs in enumerate(worlds)], beta)
            answers = [best if name == "jse" else [side] for side in range(len(worlds))]
            scores = [
                fmean(self.score(probs, n) for n in some)
                for probs, some in zip(worlds, answers, strict=True)
            ]
            return sum(share * one for share, one in zip(shares, scores, strict=True))

        return value

    def accuracy(self, row: int) -> Sample:
        """By problem, how often the judge is right in the worlds that count."""
        by_problem: dict[str, list[float]] = {}
        for p, _, ends in self.draws(row):
            if None not in believed(ends):
                ran = [end for end in ends if not left_out(end)]
                by_problem.setdefault(f"p{p}", []).extend(
                    known.right(end["probs"], VALUES[p]) if "probs" in end else 0.0 for end in ran
                )
        return {id: fmean(values) for id, values in by_problem.items()}

    def cells(self, row: int, truth: bool | None = None) -> Iterator[tuple[int, int, End]]:
        """Cells of a row that have ended: of the worlds of the truth or of lies alone."""
        for (other, p, _), ends in self.ends.items():
            for side, end in enumerate(ends if other == row else ()):
                if end and truth in (None, VALUES[p][side] == max(VALUES[p])):
                    yield p, side, end

    def by_cell(self, row: int, truth: bool | None, value: Callable[..., Any]) -> Sample | None:
        """By problem, the mean over the cells that have a value."""
        by_problem: dict[int, list[float]] = {}
        for p, side, end in self.cells(row, truth):
            if (one := value(p, side, end)) is not None:
                by_problem.setdefault(p, []).append(one)
        return {f"p{p}": fmean(by_problem[p]) for p in sorted(by_problem)} or None

    def less(self, one: Sample | None, two: Sample | None) -> Sample | None:
        return {id: one[id] - two[id] for id in one if id in two} if one and two else None

    def apart(
        self, row: int, base: int, kinds: tuple[str, str] = ("kept", "kept")
    ) -> Figure | None:
        """The difference of two ASDs."""
        draws = [
            {p for p, _, ends in self.draws(n) if None not in self.scores(kind, p, ends)}
            for n, kind in zip((row, base), kinds, strict=True)
        ]
        shared = {f"p{p}" for p in sorted(draws[0] & draws[1])}
        if not shared:
            return None
        if self.paired(row) and self.paired(base):
            one, two = (
                self.means(n, lambda p, ends, kind=kind: self.asd_of(p, self.scores(kind, p, ends)))
                for n, kind in zip((row, base), kinds, strict=True)
            )
            ours, theirs = self.asd_reach(one), self.asd_reach(two)
            ends = ours[0] - theirs[1], ours[1] - theirs[0]
            return self.figure(self.less(one, two), ends)
        parts = [self.strata(n, kind) for n, kind in zip((row, base), kinds, strict=True)]
        parts[1] = [(-factor, members) for factor, members in parts[1]]
        ours, theirs = (self.asd_reach([f"p{p}" for p, _, _ in self.draws(n)]) for n in (row, base))
        ends = ours[0] - theirs[1], ours[1] - theirs[0]
        return known.strata([*parts[0], *parts[1]], ends, len(shared), self.how)

    def row(self, n: int) -> dict[str, Any]:
        """The figures of a row, as JSON has them; its lift is decided with all others."""
        figure, measured, base = self.figure, self.measured(n), ROWS[n][0]
        asd, worst, best, sure = (self.asd(n, kind) for kind in ("kept", "worst", "best", "sure"))
        every = [end for _, _, end in self.cells(n)]
        names = {"unreadable": "unreadable", "Overloaded": "failed by the server"}
        failures = Counter(names[e["failure"]] for e in every if "failure" in e)
        draws = [
            (p, ends, [unread(end, n) for n, end in enumerate(ends)])
            for p, _, ends in self.draws(n)
        ]
        imputed = {
            p for p, ends, lost_ends in draws if None not in believed(ends) and any(lost_ends)
        }
        doubt = [
            self.by_cell(n, flag, lambda p, s, e: None if left_out(e) else float(doubtful(e)))
            for flag in (True, False)
        ]
        counts, unread_by = (
            sum((Counter(end.get(kind, {})) for end in every), Counter())
            for kind in ("counts", "unread")
        )
        unread_by["Judge: unreadable"] += failures["unreadable"]
        span = known.between(worst, best) or (None, None)
        lifts: list[Any] = [None, None]
        if base != n:
            lifts = [self.apart(n, base, ends) for ends in (("worst", "best"), ("best", "worst"))]
        accuracy = self.accuracy(n) if measured else None
        return {
            "n": asd.n if asd else 0, "imputed": len(imputed), "not_run": sum(map(left_out, every)),
            "cells": DRAWS * sum(map(len, VALUES)),
            "missing": DRAWS * sum(map(len, VALUES)) - len(every),
            "accuracy": json_of(figure(accuracy, (0, 1))),
            "asd": json_of(asd if measured else None),
            "jse": self.free(n, "jse"), "eas": self.free(n, "eas"),
            "bounds": {
                "n": worst.n,
                "doubtful": len({p for p, ends, _ in draws if any(map(doubtful, ends))}),
                "drop": json_of(sure if measured else None),
                "keep": json_of(asd if measured else None),
                "worst": worst.value, "best": best.value, "low": span[0], "high": span[1],
            },
            "compliance": {
                "truth": json_of(figure(doubt[0], (0, 1))),
                "lie": json_of(figure(doubt[1], (0, 1))),
                "one_sided": json_of(figure(self.less(doubt[1], doubt[0]), (-1, 1))),
                "lift_low": json_of(lifts[0]), "lift_high": json_of(lifts[1]),
                "open": base != n and lifts[0].value < 0 < lifts[1].value,
            },
            "failed": failures.total(), "failures": dict(failures), "counts": dict(counts),
            "unread": {name: count for name, count in unread_by.items() if count},
            **self.secondary(n),
        }  # fmt: skip

    def free(self, n: int, name: str) -> dict[str, Any]:
        every = {}
        for beta in (0.0, 1.0, math.inf):
            sample = self.means(n, self.chosen(n, name, beta)) if self.measured(n) else None
            key = {0.0: "0", 1.0: "1", math.inf: "inf"}[beta]
            every[key] = json_of(self.figure(sample, self.reach))
        return every

    def secondary(self, n: int) -> dict[str, Any]:
        """Measures, counts, label mass and the choices of agents."""
        ended = [end for _, _, end in self.cells(n)]
        has = {name for end in ended for name in end.get("measures", {})}
        counts = {name for end in ended for name in end.get("counts", {})}
        unread = {name for end in ended for name in end.get("unread", {})}

        def halves(value: Callable[[End], Any], ends: Ends | None) -> dict[str, Any]:
            def read(p: int, side: int, end: End) -> Any:
                return value(end) if "probs" in end else None

            return {
                half: json_of(self.figure(self.by_cell(n, truth, read), ends))
                for half, truth in (("truth", True), ("lie", False))
            }

        def measure(name: str) -> Any:
            return lambda end: end.get("measures", {}).get(name)

        def count(kind: str, name: str) -> Any:
            return lambda end: end.get(kind, {}).get(name, 0)

        best = [[v == max(values) for v in values] for values in VALUES]

        def of_choice(p: int, side: int, end: End) -> int | None:
            label = end.get("measures", {}).get("chose")
            return None if label is None else "ABC".index(label)

        def chose_right(p: int, side: int, end: End) -> float | None:
            place = of_choice(p, side, end)
            return None if place is None else float(place < len(best[p]) and best[p][place])

        def judged(sign: int) -> Callable[..., float | None]:
            def value(p: int, side: int, end: End) -> float | None:
                right = known.right(end["probs"], VALUES[p]) if "probs" in end else 0.0
                return (right if sign else 1 - right) if of_choice(p, side, end) == side else None

            return value

        mass = None
        if n in (1, 5):
            mass = halves(lambda end: end.get("captured", 1.0), (0, 1))
        return {
            "measures": {
                name: halves(measure(name), (0, 1) if name == "fair" else None)
                for name in sorted(has - {"chose"})
            },
            "counts_a_world": {name: halves(count("counts", name), None) for name in counts}
            | {f"unread, {name}": halves(count("unread", name), None) for name in unread},
            "captured": mass or {"truth": None, "lie": None},
            "chose_right": json_of(self.figure(self.by_cell(n, None, chose_right), (0, 1))),
            "by_choice": {
                "judge_right_given_agent_right": json_of(
                    self.figure(self.by_cell(n, True, judged(1)), (0, 1))),
                "judge_wrong_given_agent_wrong": json_of(
                    self.figure(self.by_cell(n, False, judged(0)), (0, 1))),
            },
        }  # fmt: skip

    def averaged(self, members: Sequence[int], value: Callable[[int], Any]) -> Figure | None:
        """The mean over rows, each with equal weight on the problems that all of them have. value:
        the sample of a row, and its ends."""
        samples, ends = zip(*map(value, members), strict=True) if members else ((), ())
        shared = [id for id in samples[0] if all(id in one for one in samples)] if samples else []
        sample = {id: fmean(one[id] for one in samples) for id in shared}
        return self.figure(sample, tuple(np.mean(ends, axis=0).tolist())) if sample else None

    def group(self, members: Sequence[int]) -> dict[str, Any]:
        """The means over some rows."""
        measured, bases = [n for n in members if self.measured(n)], [base for base, _ in ROWS]

        def asd(n: int) -> tuple[Sample, Ends]:
            return self.asd_by_problem(n), self.asd_reach(self.asd_by_problem(n))

        def lift(n: int) -> tuple[Sample | None, Ends]:
            (one, (low, high)), (two, (least, most)) = asd(n), asd(bases[n])
            return self.less(one, two), (low - most, high - least)

        free = [lambda n, f=name: (self.means(n, self.chosen(n, f, 1.0)), self.reach)
                for name in ("jse", "eas")]  # fmt: skip
        asds, slope = self.averaged(measured, asd), None
        if members == (2, 3, 4):
            xs, ys = (
                [self.averaged([n], value).value for n in measured] for value in (free[1], asd)
            )
            line = stats.linregress(xs, ys)
            slope = Figure(line.slope, 3, 3, line.stderr, 1, method="t of the residuals").json
        return {
            "rows": len(measured), "n": asds and asds.n, "asd": json_of(asds), "slope": slope,
            "accuracy": json_of(self.averaged(measured, lambda n: (self.accuracy(n), (0, 1)))),
            "lift": None if {*members} <= {0, 1} else self.averaged(measured, lift),
            "jse": json_of(self.averaged(measured, free[0])),
        }  # fmt: skip

    def groups(self, every: Iterable[Sequence[int]]) -> list[dict[str, Any]]:
        """Groups of rows, with their lifts as one family: naive judges, then the largest ASD."""
        lines = [self.group(members) for members in every]
        tested = [line for line in lines if line["lift"]]
        family = known.decided([line["lift"] for line in tested])
        for line, verdict in zip(tested, family, strict=True):
            line |= {**verdict, "lift": line["lift"].json}
            del line["mde"]
        value = {id(line): line["asd"]["value"] if line["asd"] else -9 for line in lines}
        return sorted(
            lines, key=lambda line: (bool(line["lift"] or not line["rows"]), -value[id(line)])
        )

    def rows(self) -> list[dict[str, Any]]:
        """All rows, with their lifts as one family."""
        rows = [self.row(n) for n in range(len(ROWS))]
        bases = [base for base, _ in ROWS]
        figures = {
            n: lift for n, base in enumerate(bases) if n != base and self.measured(n)
            and (lift := self.apart(n, base))
        }  # fmt: skip
        tested = dict(zip(figures, known.decided([*figures.values()]), strict=True))
        nothing = dict.fromkeys(("p", "p_family", "mde", "verdict", "undone", "agree"))
        for n, row in enumerate(rows):
            row |= {"lift": json_of(figures.get(n))} | tested.get(n, nothing)
            if n == bases[n]:
                row["lift"] = Figure(0.0, len(self.accuracy(n)), method=None).json
            if row["asd"] is None and row["accuracy"] is None:
                row["verdict"] = "not measured"
        return rows


def contrast(one: tuple[Planted, int], two: tuple[Planted, int]) -> tuple[Figure, dict[str, Any]]:
    """A row minus another, maybe of another run, paired by the problems' names; without verdict."""
    samples = [run.asd_by_problem(row) for run, row in (one, two)]
    extremes = [
        [run.asd_by_problem(row, kind) for kind in kinds]
        for (run, row), kinds in ((one, ("worst", "best")), (two, ("best", "worst")))
    ]

    def apart(ours: Sample, theirs: Sample) -> Figure:
        (low, high), (least, most) = one[0].asd_reach(ours), two[0].asd_reach(theirs)
        return one[0].figure(one[0].less(ours, theirs), (low - most, high - least))

    figure, bounds = apart(*samples), [apart(*pair) for pair in zip(*extremes, strict=True)]
    values = one[0].less(*samples)
    shared = {p for p, *_ in one[0].draws(one[1])} & {p for p, *_ in two[0].draws(two[1])}
    rights = [
        {(p, draw, side): known.right(end["probs"], VALUES[p])
         for (other, p, draw), ends in run.ends.items() if other == row
         for side, end in enumerate(ends) if "probs" in end}
        for run, row in (one, two)
    ]  # fmt: skip
    worlds = [(rights[1][at], rights[0][at]) for at in rights[0] if at in rights[1]]
    groups = [GROUPS[int(id[1:])] or id for id in values]
    without = [
        fmean(v for v, g in zip(values.values(), groups, strict=True) if g != key) for key in groups
    ]
    largest = sorted(values, key=lambda id: (-abs(values[id]), id))[:3]
    interval = known.between(*bounds)
    return figure, {
        "n": figure.n, "difference": figure.json, "effective_clusters": figure.effective,
        "means": [fmean(sample[id] for id in values) for sample in samples],
        "equivalent": figure.equivalent(), "errors": {}, "mcnemar": None,
        "flips": known.flips(worlds),
        "bounds": {"n": len(shared), "low": bounds[0].value, "high": bounds[1].value,
                   "interval": list(interval) if interval else None},
        "swayed": max(abs(m - figure.value) for m in without) > figure.error,
        "apart": [{"problem": id, "difference": values[id]} for id in largest],
    }  # fmt: skip


def json_of(figure: Figure | None) -> Any:
    return figure and figure.json


def left_out(end: End) -> bool:
    return "not_run" in end


def spoken(end: End) -> bool:
    """Whether a speaker did what puts a verdict in doubt."""
    return any(end.get("counts", {}).get(name) for name in DOUBTS)


def doubtful(end: End) -> bool:
    return "failure" in end or spoken(end) or "bounds" in end or end.get("captured", 1) < 0.5


def unread(end: End, side: int) -> bool:
    """Whether nothing could be read, so that the agent's worst case stands for the verdict."""
    if "probs" not in end:
        return bool("failure" in end and end["failure"] == "unreadable")
    anything = end.get("bounds", ((0, 0),) * 3)[side] == (0.0, 1.0)
    return anything and not end["probs"][side]


def readable(end: End, side: int) -> bool:
    return "probs" in end and not unread(end, side)


def lost(end: End) -> bool:
    return "failure" in end and end["failure"] != "unreadable"


def believed(ends: Sequence[End]) -> list[Any]:
    """The verdicts of a draw, None for one that is missing: unread ones are the agent's worst case
    if another world has a verdict, or none was run. NaN for a world that was left out."""
    ran = [end for end in ends if not left_out(end)]
    some = len(ran) == 1 or any(map(readable, ends, range(len(ends))))
    worlds: list[Any] = []
    for side, end in enumerate(ends):
        worst = [0.0 if n == side else 1 / (len(ends) - 1) for n in range(len(ends))]
        verdict = None if lost(end) else end.get("probs", worst)
        worlds.append(
            math.nan if left_out(end) else verdict if some or not unread(end, side) else None
        )
    return worlds
