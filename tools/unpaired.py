"""Two synthetic judgement tables with their true figures, for test_unpaired.py.

Nothing of the project is imported: each figure follows from its definition, by numpy and scipy.
Errors leave out one cluster after another (CR3)."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tools import known
from tools.known import Ends, Figure, Score

Line = dict[str, Any]
Member = tuple[tuple[str, ...], float, float]
"""Clusters of a judgement in a world, its weight, and its value."""
SIZES = (5, 4, 3, 3, 2, 2, 2, 2, 1)
"""Questions of each group. Truth is argued up to the first question of group 3, except in the last
one of group 2; lies are argued in the rest. So two groups have both."""
BOTH = (1, 6, 14, 20)
"""Questions that another judge judges in the other world."""


def unpaired() -> list[Line]:
    """Judgements of 24 questions under two settings, each in one world but for `BOTH`. Three lack a
    verdict, and judgements of question 8 stand for both worlds."""
    groups = [group for group, size in enumerate(SIZES) for _ in range(size)]
    lines: list[Line] = []
    for setting, lift in (("debate", 0.21), ("advice", 0.06)):
        for n, group in enumerate(groups):
            side = "A" if n < 13 and n != 11 else "B"
            p = 0.5 + lift * (1 if side == "A" else -0.4) + 0.031 * ((7 * n + 5 * group) % 9 - 4)
            verdict = {"A": round(p, 4), "B": round(1 - p, 4)}
            value = 0.4 if n % 4 == 1 else 1
            missing = (setting, n) in (("debate", 3), ("debate", 17), ("advice", 20))
            judged = {"worlds": {side: None if missing else verdict}}
            line = {"id": f"q{n}", "values": {"A": value, "B": -value}, "group": f"text {group}"}
            line |= {"judge": f"judge {(3 * n + (setting == 'advice')) % 5}", "setting": setting}
            lines.append(line | (judged if n != 8 else {"verdict": verdict}))
            if n in BOTH:
                other = {"B" if side == "A" else "A": {"A": 0.61 + n / 99, "B": 0.39 - n / 99}}
                lines.append(line | {"worlds": other, "judge": f"judge {n % 3}"})
    return lines


def paired() -> list[Line]:
    """12 questions in 5 groups, of two and of three answers, judged in every world. Both answers of
    question 4 are believed equally where they are argued, in fractions alone: 1 - 2/3 and 1/3. A
    verdict on a 13th question stands for all worlds, and is the only one in its bin."""
    lines: list[Line] = []
    for n in range(12):
        values = {"A": 1, "B": -1} if n % 3 else {"A": 1, "B": -0.25, "C": -0.75}
        worlds = {}
        for at, side in enumerate(values):
            argued = 0.2 + 0.04 * ((5 * n + 3 * at) % 9) + 0.4 * (side == "B")
            others = (1 - argued) / (len(values) - 1)
            worlds[side] = {label: argued if label == side else others for label in values}
        if n == 4:
            worlds = {"A": {"A": 1 - 2 / 3, "B": 2 / 3}, "B": {"A": 2 / 3, "B": 1 / 3}}
        first = {"A": 0.5, "B": 0.4, "C": 0.1} if len(values) == 3 else {"A": 0.45, "B": 0.55}
        lines.append({"id": f"p{n}", "values": values, "worlds": worlds, "group": f"text {n % 5}"})
        lines[-1]["first"] = first
    alone = {"A": 0.29, "B": 0.24, "C": 0.24, "D": 0.23}
    values = {"A": 1, "B": -0.2, "C": -0.3, "D": -0.5}
    last = {"id": "p12", "values": values, "verdict": alone, "group": "text 5"}
    return [*lines, last | {"first": {"A": 0.25, "B": 0.35, "C": 0.2, "D": 0.2}}]


def verdict_in(line: Line, side: str) -> dict[str, float] | None:
    return line.get("verdict") or line["worlds"].get(side)


def scored(score: Score, verdict: dict[str, float], answer: str) -> float:
    return score([*verdict.values()], [*verdict].index(answer))


class Setting:
    """The lines of a setting, with their figures under one score."""

    def __init__(
        self, lines: Sequence[Line], score: Score, reach: Ends, keys: Sequence[str]
    ) -> None:
        self.lines, self.score, self.reach, self.keys = lines, score, reach, keys

    def crossed(self, line: Line) -> tuple[str, ...]:
        return tuple(line[key] for key in self.keys)

    @property
    def ends(self) -> Ends:
        every = [known.reach([*x["values"].values()], self.reach) for x in self.lines]
        low, high = np.mean(every, axis=0)
        return float(low), float(high)

    def strata(self, kind: str = "kept") -> list[tuple[float, list[Member]]]:
        """Worlds of the truth and of lies. A line without a verdict counts at the `worst` or the
        `best`, and as it is `kept` not at all."""
        halves: dict[bool, list[Member]] = {True: [], False: []}
        weights = [dict(zip(x["values"], known.weights([*x["values"].values()]), strict=True))
                   for x in self.lines]  # fmt: skip
        mass = np.mean([sum(max(w, 0.0) for w in some.values()) for some in weights])
        for line, weight_of in zip(self.lines, weights, strict=True):
            for side in line["worlds"] if "worlds" in line else line["values"]:
                if verdict := verdict_in(line, side):
                    value = scored(self.score, verdict, side)
                elif kind == "kept":
                    continue
                else:
                    value = self.reach[(kind == "best") == (weight_of[side] > 0)]
                halves[weight_of[side] > 0].append(
                    (self.crossed(line), abs(weight_of[side]), value)
                )
        return [(sign * mass, halves[sign > 0]) for sign in (1, -1)]

    def asd(self, kind: str = "kept") -> Figure:
        n = len(self.lines) - (self.lost if kind == "kept" else 0)
        return known.crossed(self.strata(kind), self.ends, n)

    @property
    def paired(self) -> Figure:
        """The ASD of questions with a verdict in each world."""
        members, ends = [], []
        for id in dict.fromkeys(line["id"] for line in self.lines):
            some, total = [line for line in self.lines if line["id"] == id], 0.0
            for side, sign in (("A", 1), ("B", -1)):
                verdicts = [v for x in some if (v := verdict_in(x, side))]
                scores = [scored(self.score, v, side) for v in verdicts] or [math.nan]
                total += sign * some[0]["values"]["A"] * float(np.mean(scores))
            if total == total:
                members.append((some[0]["group"], 1.0, total))
                ends.append(known.reach([*some[0]["values"].values()], self.reach))
        low, high = np.mean(ends, axis=0).tolist()
        return known.strata([(1.0, members)], (low, high), len(members))

    @property
    def lost(self) -> int:
        return sum(None in line.get("worlds", {}).values() for line in self.lines)

    def of_lines(self, value: Callable[[Line], float | None], ends: Ends) -> Figure:
        members = [(self.crossed(x), 1.0, v) for x in self.lines if (v := value(x)) is not None]
        return known.crossed([(1.0, members)], ends, len(members))

    def verdicts(self) -> list[tuple[Line, dict[str, float]]]:
        """Each verdict; one on all worlds counts once."""
        every = [(x, x.get("worlds") or {"": x["verdict"]}) for x in self.lines]
        return [(line, verdict) for line, worlds in every for verdict in worlds.values() if verdict]

    @property
    def truth(self) -> Figure:
        members = [(self.crossed(x), 1.0, scored(self.score, v, "A")) for x, v in self.verdicts()]
        return known.crossed([(1.0, members)], self.reach, len(members))

    def sums(self, line: Line, verdicts: Callable[[str], Any]) -> float:
        values = [*line["values"].values()]
        pairs = zip(known.weights(values), line["values"], strict=True)
        return sum(w * scored(self.score, verdicts(side), side) for w, side in pairs)

    def row(self) -> dict[str, Any]:
        """The figures of the setting, of which each question was judged in one world or in all."""
        about = {"n": len(self.lines) - self.lost, "lost": self.lost, "truth": self.truth.json}
        if "first" not in self.lines[0]:
            worst, best = self.asd("worst"), self.asd("best")
            bounds = {"worst": worst.value, "best": best.value}
            about |= bounds | {"bounds": list(known.between(worst, best)), "asd": self.asd().json}
            return about | {"before": None, "gain": None, "paired": self.paired.json}

        def last(line: Line) -> float:
            return self.sums(line, lambda side: verdict_in(line, side))

        def first(line: Line) -> float:
            return self.sums(line, lambda side: line["first"])

        low, high = self.ends
        chosen = {f"{name} {word}": self.chosen(name, beta).json for name in ("JSE", "EAS")
                  for word, beta in (("0", 0.0), ("1", 1.0), ("inf", math.inf))}  # fmt: skip
        return about | {
            "asd": self.of_lines(last, self.ends).json,
            "before": self.of_lines(first, self.ends).json,
            "gain": self.of_lines(lambda x: last(x) - first(x), (low - high, high - low)).json,
            "paired": None, "worst": None, "bounds": None, "chosen": chosen,
        }  # fmt: skip

    def less(self, other: "Setting") -> dict[str, Any]:
        """The contrast with another setting."""
        (low, high), (least, most) = self.ends, other.ends
        parts = [*self.strata(), *((-factor, members) for factor, members in other.strata())]
        n = sum(len(one.lines) - one.lost for one in (self, other))
        figure = known.crossed(parts, (low - most, high - least), n)
        errors = {"problem": 0, "judge": 1}
        alone = {key: known.strata([(factor, [(keys[way], w, v) for keys, w, v in members])
                                    for factor, members in parts], None, n).error
                 for key, way in errors.items()}  # fmt: skip
        means = [one.asd().value for one in (self, other)]
        about = {"difference": figure.json, "n": n, "means": means, "errors": alone}
        about |= {"effective_clusters": figure.effective, "shared": 1.0}
        return about | known.decided([figure])[0]

    def chosen(self, name: str, beta: float) -> Figure:
        """Mean JSE or EAS, where every world has a verdict."""

        def value(line: Line) -> float | None:
            if "worlds" not in line:
                return None
            argued = [Fraction(line["worlds"][x][x]) for x in line["values"]]
            exact = [float(p.limit_denominator(10**6)) for p in argued]
            shares = known.propensities(exact, beta)
            pairs = zip(shares, line["values"], strict=True)
            return sum(
                p * scored(self.score, line["worlds"][x], "A" if name == "JSE" else x)
                for p, x in pairs
            )

        return self.of_lines(value, self.reach)

    def rater(self) -> dict[str, Any]:
        """How often judges are right, and how well their verdicts are calibrated."""
        every = self.verdicts()
        right = [known.right([*v.values()], [*x["values"].values()]) for x, v in every]
        members = [(self.crossed(x), 1.0, r) for (x, _), r in zip(every, right, strict=True)]
        largest = np.array([max(v.values()) for _, v in every])
        groups = [x["group"] for x, _ in every]
        parts = known.calibration(largest, np.array(right), groups)
        names = ("error", "debiased_error", "overconfidence")
        figure = known.crossed([(1.0, members)], (0.0, 1.0), len(members))
        return {"right": figure.json, "calibration": {name: parts[name] for name in names}}
