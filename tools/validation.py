"""Validation: how often what is printed holds, by simulation with known truths.

Write the table in docs/statistics.md again with: python -m tools.validation

Each check draws samples of a regime, hands them to the same functions that reports and commands
call, and counts: intervals that cover the truth (at least .95), decisions although nothing differs
(at most .05), and differences found where a plan promised .8. A figure without an
interval is counted separately. The table also has coverage, width and power of the interval and of
the guard, each relative to t."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill

import numpy as np

from oversight.engine.analysis.findings.finding import Finding, Part, number, people, word
from oversight.engine.analysis.scoring.estimate import Estimate, t_of
from oversight.engine.analysis.scoring.inference import means
from oversight.engine.display.table import NONE
from tools.regimes import Check, Kind, Spread, checks, spreads, traded

PAGE = Path(__file__).parents[1] / "docs" / "statistics.md"
BEGIN, END = "<!-- validation -->", "<!-- end of validation -->"
"""Marks around the table in the page."""

SIMULATIONS = 1_000
"""Of each check, in the table of the page."""

NOMINAL: dict[Kind, float] = {"coverage": 0.95, "size": 0.05, "power": 0.8}


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check over many simulations."""

    quantity: str
    regime: str
    kind: Kind
    nominal: float
    measured: float | None
    """None if no interval was printed in any simulation."""
    error: float
    """Monte Carlo standard error."""
    printed: float
    """Share of simulations with an interval, or a test."""

    @property
    def holds(self) -> bool:
        """Whether the measured rate is within two Monte Carlo errors of the nominal one; for an
        interval, a coverage of .94 is enough."""
        if self.measured is None:
            return True
        slack = 2 * self.error
        match self.kind:
            case "coverage":
                return self.measured >= 0.94 - slack
            case "power":
                return abs(self.measured - self.nominal) <= 0.05 + slack
            case _:
                return self.measured <= self.nominal + slack


def validate(simulations: int, seed: int = 0) -> list[Checked]:
    """Every check, with `simulations` simulations each."""
    return [_checked(check, simulations, seed) for check in checks()]


def _checked(check: Check, simulations: int, seed: int) -> Checked:
    rng = np.random.default_rng((seed, *f"{check.quantity} {check.regime}".encode()))
    every = [check.draw(rng) for _ in range(simulations)]
    found = [each for each in every if each is not None]
    measured = float(np.mean(found)) if found else None
    error = float(np.std(found)) / math.sqrt(len(found)) if found else 0.0
    if measured in (0.0, 1.0):
        # An event of none in n simulations may well happen in one of n.
        error = 1 / len(found)
    nominal = NOMINAL[check.kind]
    share = len(found) / simulations
    return Checked(check.quantity, check.regime, check.kind, nominal, measured, error, share)


def validation_finding(found: Sequence[Checked], simulations: int) -> Finding:
    """One line per quantity, with the measured value of each regime."""
    quantities: dict[tuple[str, Kind], list[Checked]] = {}
    for each in found:
        quantities.setdefault((each.quantity, each.kind), []).append(each)

    def measured(its: Sequence[Checked]) -> str:
        return ", ".join(NONE if x.measured is None else f"{x.measured:.3f}" for x in its)

    columns = [
        people("quantity", lambda its: its[0].quantity, words=True),
        people("", lambda its: its[0].kind, words=True),
        people("regimes", lambda its: "; ".join(each.regime for each in its), words=True),
        people("measured", measured),
        people("with interval", lambda its: ", ".join(f"{each.printed:.0%}" for each in its)),
        people("hold", lambda its: f"{sum(each.holds for each in its)} of {len(its)}"),
    ]
    notes = [
        f"{simulations:,} simulations a regime. coverage: intervals that hold the truth, of .95; "
        "size: decisions although nothing differs, of .05; power: differences found that a plan "
        "promised to, of .8.",
        f"{sum(each.holds for each in found)} of {len(found)} hold: coverage .94, size .05, power "
        "within .05, each less two Monte Carlo errors.",
    ]
    title = "how often what is printed holds"
    return Finding((Part("checks", title, columns, list(quantities.values()), notes),))


@dataclass(frozen=True, slots=True)
class Weighed:
    """The interval and the guard in one regime, compared with t."""

    regime: str
    t: float
    """Coverage of t alone."""
    coverage: float
    stands_in: float
    """Share of simulations in which the guard stood in."""
    width: float
    """Width of the interval, relative to t."""
    power: float | None
    """Decisions relative to t; None where t always decides, or nothing differs."""
    conservative: float
    conservative_width: float
    conservative_power: float | None
    marked: float | None
    """Share of wrong decisions of t that are marked, or that the guard took back; None without
    any."""
    unmarked: float | None
    """Wrong decisions without a mark, over all simulations; None where something is to be found."""
    doubted: float | None
    """Share of right decisions of t that are marked or taken back."""


def weigh(simulations: int, seed: int = 0) -> list[Weighed]:
    """Every regime of differences."""
    return [_weighed(each, simulations, seed) for each in spreads()]


def _weighed(of: Spread, simulations: int, seed: int) -> Weighed:
    rng = np.random.default_rng((seed, *of.regime.encode()))
    shown = list[Estimate]()
    for _ in range(simulations):
        values, codes = of.draw(rng)
        shown += means([np.clip(values, *of.ends).tolist()], codes, [of.ends])
    alone = [replace(each, conservative="") for each in shown]
    rare = [each.by("conservative") for each in shown]

    def rates(every: Sequence[Estimate]) -> tuple[float, float, list[bool]]:
        spans = [each.interval or (each.value, each.value) for each in every]
        covered = float(np.mean([low <= of.truth <= high for low, high in spans]))
        width = float(np.mean([high - low for low, high in spans]))
        return covered, width, [not low <= 0 <= high for low, high in spans]

    (t, t_width, t_found), (coverage, width, found), (conservative, wide, rarely) = map(
        rates, (alone, shown, rare)
    )
    marked = [each.undone or not it for each, it in zip(shown, found, strict=True)]
    wrong, right = (
        [mark for mark, its in zip(marked, t_found, strict=True) if its and bool(of.truth) == real]
        for real in (False, True)
    )
    some = bool(of.truth) and 0 < sum(t_found) < simulations
    return Weighed(
        of.regime,
        t,
        coverage,
        float(np.mean([bool(each.conservative) for each in shown])),
        width / t_width if t_width else math.inf,
        sum(found) / sum(t_found) if some else None,
        conservative,
        wide / t_width if t_width else math.inf,
        sum(rarely) / sum(t_found) if some else None,
        float(np.mean(wrong)) if wrong else None,
        None if of.truth else wrong.count(False) / simulations,
        float(np.mean(right)) if right else None,
    )


def weighed_finding(found: Sequence[Weighed], simulations: int) -> Finding:
    """One line per regime."""
    columns = [
        word("differences", "regime", key="regime"),
        number("t covers", "t", ".3f"),
        number("default covers", "coverage", ".3f"),
        number("conservative", "stands_in", ".0%", key="stands_in"),
        number("width / t", "width", ".2f"),
        number("power / t", "power", ".2f"),
        number("conservative covers", "conservative", ".3f"),
        number("width / t ", "conservative_width", ".2f", key="conservative_width"),
        number("power / t ", "conservative_power", ".2f", key="conservative_power"),
        number("fragile of right", "doubted", ".0%", key="doubted"),
        number("fragile of wrong", "marked", ".0%", key="marked"),
        number("wrong, not fragile", "unmarked", ".3f", key="unmarked"),
    ]
    below = [f"{each.regime} {each.coverage:.2f}" for each in found if each.coverage < 0.93]
    notes = [
        f"{simulations:,} simulations per line. conservative: share where it replaces t. "
        "fragile of right, of wrong: decisions of t that it would undo, or takes back.",
        f"The default covers less than .93 in: {'; '.join(below) or 'none'}.",
    ]
    title = "intervals compared with t"
    return Finding((Part("intervals", title, columns, found, notes),), {"simulations": simulations})


AS_MANY = (1, 2, 4, 8)
"""Pseudo-clusters at each end, instead of the guard's single one."""


@dataclass(frozen=True, slots=True)
class Traded:
    """Share of t's decisions that a guard with this many pseudo-clusters would mark."""

    pseudo: int
    wrong: float
    right: tuple[float, ...]
    """By spread."""


def trade(simulations: int, seed: int = 0) -> list[Traded]:
    """Best possible separation by the mark, with other guards."""
    shares = dict[tuple[str, int], float]()
    for of in traded():
        rng = np.random.default_rng((seed, *of.regime.encode()))
        values = np.array([np.clip(of.draw(rng)[0], *of.ends) for _ in range(simulations)])
        n, low, high = values.shape[1], *of.ends
        mean, reach = values.mean(axis=1), t_of(0.95, n - 1)
        found = np.abs(mean) > reach * values.std(axis=1, ddof=1) / math.sqrt(n)
        for k in AS_MANY:
            # The guard by its definition: n values and k at each end, around their mean.
            centre, size = (mean * n + k * (low + high)) / (n + 2 * k), n + 2 * k
            squares = np.square(values - centre[:, None]).sum(axis=1)
            squares += k * ((low - centre) ** 2 + (high - centre) ** 2)
            undone = np.abs(centre) <= reach * np.sqrt(squares / size / (size - 1))
            shares[of.regime, k] = float(undone[found].mean())
    wrong, *right = (of.regime for of in traded())
    return [Traded(k, shares[wrong, k], tuple(shares[each, k] for each in right)) for k in AS_MANY]


def traded_finding(found: Sequence[Traded]) -> Finding:
    """One line for each guard."""
    _, *right = (of.regime for of in traded())
    columns = [
        number("pseudo-clusters at each end", "pseudo"),
        number("fragile of wrong, 2% errors of 4 in sd .3", "wrong", ".0%"),
        *(
            people(f"fragile of right, {name}", lambda line, n=n: f"{line.right[n]:.0%}")
            for n, name in enumerate(right)
        ),
    ]
    return Finding((Part("trade", "cost of a mark, at n 400", columns, found),))


if __name__ == "__main__":
    found = validate(SIMULATIONS)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    tables = (
        weighed_finding(weigh(SIMULATIONS), SIMULATIONS),
        traded_finding(trade(SIMULATIONS)),
        validation_finding(found, SIMULATIONS),
    )
    told = "\n\n".join(each.text("markdown") for each in tables).splitlines()
    table = "\n".join(line if line.startswith("|") else fill(line, 120) for line in told)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}")
    if lacking := [line for line in found if not line.holds]:
        raise SystemExit(f"do not hold: {lacking}")
