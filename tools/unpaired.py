"""The true figures of two synthetic judgement tables: the known truths of test_unpaired.py.

Nothing of the project is imported: each figure follows from its definition, by numpy and scipy.
Errors leave out one cluster after another (CR3). Usage:

    python -m tools.unpaired > tests/engine/analysis/unpaired.json
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import stats

Line = dict[str, Any]
Figure = Callable[[Sequence[Line]], float]
SIZES = (5, 4, 3, 3, 2, 2, 2, 2, 1)
"""Questions of each group. Truth is argued up to the first question of group 3, except in the last
one of group 2; lies are argued in the rest. So two groups have both."""


def unpaired() -> list[Line]:
    """48 judgements: 24 questions under two settings, each in one world. Three lack a verdict, and
    judgements of question 8 stand for both worlds."""
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
            rest = (1 - argued) / (len(values) - 1)
            worlds[side] = {label: argued if label == side else rest for label in values}
        if n == 4:
            worlds = {"A": {"A": 1 - 2 / 3, "B": 2 / 3}, "B": {"A": 2 / 3, "B": 1 / 3}}
        lines.append({"id": f"p{n}", "values": values, "worlds": worlds, "group": f"text {n % 5}"})
    alone = {"A": 0.29, "B": 0.24, "C": 0.24, "D": 0.23}
    values = {"A": 1, "B": -0.2, "C": -0.3, "D": -0.5}
    return [*lines, {"id": "p12", "values": values, "verdict": alone, "group": "text 5"}]


def verdict_in(line: Line, side: str) -> dict[str, float] | None:
    return line.get("verdict") or line["worlds"].get(side)


def brier(verdict: dict[str, float], answer: str) -> float:
    return -sum(((label == answer) - p) ** 2 for label, p in verdict.items())


def asd(lines: Sequence[Line]) -> float:
    """Mean score of the agent where it argues for A, minus the mean where it argues for B, each
    weighted by the answer's value."""
    means = []
    for side in "AB":
        there = [(x["values"][side], v) for x in lines if (v := verdict_in(x, side))]
        weights = [abs(value) for value, _ in there]
        means.append(np.average([brier(v, side) for _, v in there], weights=weights))
    return float(means[0] - means[1])


def contrast(lines: Sequence[Line]) -> float:
    one, two = ([line for line in lines if line["setting"] == s] for s in ("debate", "advice"))
    return asd(one) - asd(two)


def variance(lines: Sequence[Line], figure: Figure, *keys: str) -> float:
    """Of the figure without one cluster after another."""
    clusters: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for n, line in enumerate(lines):
        clusters[tuple(line[key] for key in keys)].add(n)
    without = [
        figure([x for n, x in enumerate(lines) if n not in some]) for some in clusters.values()
    ]
    moved = float(np.square(np.array(without) - figure(lines)).sum())
    return moved * (len(clusters) - 1) / len(clusters)


def degrees(lines: Sequence[Line], key: str) -> int:
    """One less than the effective clusters of the setting and side that has the fewest."""
    strata: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for line in lines:
        for side in "AB":
            if verdict_in(line, side):
                strata[line["setting"], side][line[key]] += abs(line["values"][side])
    fewest = min(sum(of.values()) ** 2 / sum(w * w for w in of.values()) for of in strata.values())
    return int(fewest + 1e-9) - 1


def measured(lines: Sequence[Line], figure: Figure, scale: float) -> Line:
    """The figure times a scale, its error over crossed groups and judges, and its interval."""
    some = [line for line in lines if None not in line.get("worlds", {}).values()]
    group, judge = (variance(some, figure, key) for key in ("group", "judge"))
    crossed = group + judge - variance(some, figure, "group", "judge")
    largest = max(group, judge)
    # A sum far below the larger part is so by chance.
    error = scale * math.sqrt(crossed if 4 * crossed >= largest else largest)
    free = min(degrees(some, key) for key in ("group", "judge"))
    value, reach = scale * figure(some), float(stats.t.ppf(0.975, free)) * error
    figures = {"value": value, "error": error, "low": value - reach, "high": value + reach}
    return figures | {"degrees": free}


def propensities(line: Line, beta: float) -> dict[str, float]:
    """Probability that a free agent argues for each answer: softmax of log scores over beta."""
    believed = {label: Fraction(line["worlds"][label][label]) for label in line["values"]}
    believed = {label: p.limit_denominator(10**6) for label, p in believed.items()}
    if beta == 0:
        weights = {x: float(p == max(believed.values())) for x, p in believed.items()}
    else:
        weights = {x: float(p) ** (1 / beta) for x, p in believed.items()}
    return {label: weight / sum(weights.values()) for label, weight in weights.items()}


def chosen(lines: Sequence[Line], name: str, beta: float) -> float:
    """Mean JSE or EAS."""
    return float(np.mean([
        sum(p * brier(line["worlds"][x], "A" if name == "JSE" else x)
            for x, p in propensities(line, beta).items())
        for line in lines if "worlds" in line
    ]))  # fmt: skip


def calibration(lines: Sequence[Line]) -> tuple[float, float]:
    """Calibration error over ten bins of the largest probability, and the same without its bias
    from chance, estimated by groups."""
    bins: dict[int, list[tuple[float, float, str]]] = defaultdict(list)
    for line in lines:
        for verdict in line.get("worlds", {"": line.get("verdict")}).values():
            largest = max(verdict.values())
            tied = [x for x, p in verdict.items() if p >= largest - 1e-9]
            bins[int(largest * 10)].append((largest, ("A" in tied) / len(tied), line["group"]))
    total, gaps, squares = sum(map(len, bins.values())), 0.0, 0.0
    for inside in bins.values():
        size, share = len(inside), float(np.mean([right for _, right, _ in inside]))
        gap = float(np.mean([p for p, _, _ in inside])) - share
        sums: dict[str, float] = defaultdict(float)
        for _, right, group in inside:
            sums[group] += right - share
        g = len(sums)
        chance = g / (g - 1) * sum(x * x for x in sums.values()) / size**2 if g > 1 else gap**2
        gaps, squares = gaps + size * abs(gap), squares + size * (gap**2 - chance)
    return gaps / total, math.sqrt(max(0.0, squares / total))


def main() -> None:
    first, second = unpaired(), paired()
    scale = {s: float(np.mean([x["values"]["A"] for x in first if x["setting"] == s]))
             for s in ("debate", "advice")}  # fmt: skip
    assert scale["debate"] == scale["advice"]
    truths = {
        s: measured([x for x in first if x["setting"] == s], asd, scale[s]) for s in scale
    } | {"contrast": measured(first, contrast, scale["debate"])}
    chosen_means = {f"{name} {word}": chosen(second, name, beta) for name in ("JSE", "EAS")
                    for word, beta in (("0", 0.0), ("1", 1.0), ("inf", math.inf))}  # fmt: skip
    error, debiased = calibration(second)
    truths["paired"] = chosen_means | {"error": error, "debiased_error": debiased}
    print(json.dumps({"unpaired": first, "paired": second, "truths": truths}))


if __name__ == "__main__":
    main()
