"""Validation: how often what is printed holds, by simulation with known truths.

Write the table in docs/statistics.md anew with: python -m tools.validation

Each check draws samples of a regime, hands them to the same functions that reports and commands
call, and counts: intervals that cover the truth (at least .95), decisions although there is nothing
to decide (at most .05), and differences found where a plan promised .8. A figure without an
interval is counted apart. Beside them: coverage, width and power of the interval and of the guard,
each over those of t.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from oversight.engine.analysis.findings.finding import Finding, Part, number, people, program, word
from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.analysis.scoring.inference import means
from tools.regimes import Check, Kind, Spread, checks, spreads

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
    """Share of simulations in which there was an interval, or a test."""

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
    """Every check, with so many simulations each."""
    return [_checked(check, simulations, seed) for check in checks()]


def _checked(check: Check, simulations: int, seed: int) -> Checked:
    rng = np.random.default_rng((seed, *f"{check.quantity} {check.regime}".encode()))
    every = [check.draw(rng) for _ in range(simulations)]
    found = [each for each in every if each is not None]
    measured = float(np.mean(found)) if found else None
    error = float(np.std(found)) / math.sqrt(len(found)) if found else 0.0
    if measured in (0.0, 1.0):
        # What happened in none of n simulations may well happen in one of n.
        error = 1 / len(found)
    nominal = NOMINAL[check.kind]
    share = len(found) / simulations
    return Checked(check.quantity, check.regime, check.kind, nominal, measured, error, share)


def validation_finding(found: Sequence[Checked], simulations: int) -> Finding:
    """One line per check."""
    columns = [
        word("quantity", "quantity"),
        word("regime", "regime"),
        word("", "kind", key="kind"),
        number("nominal", "nominal", ".2f"),
        number("measured", "measured", ".3f"),
        number("± s.e.", "error", ".3f", key="error"),
        number("with interval", "printed", ".0%", key="printed"),
        people("holds", lambda line: "yes" if line.holds else "NO"),
        program("holds", "holds"),
    ]
    lacking = [each for each in found if not each.holds]
    notes = [
        f"{simulations:,} simulations a line. coverage: intervals that hold the truth; size: "
        "decisions although nothing differs; power: differences found that a plan promised to.",
        f"{len(found) - len(lacking)} of {len(found)} lines hold: coverage .94, size .05, power "
        "within .05, each less two Monte Carlo errors.",
    ]
    title = "validation: how often what is printed holds, in simulations with known truths"
    return Finding((Part("checks", title, columns, found, notes),), {"simulations": simulations})


@dataclass(frozen=True, slots=True)
class Weighed:
    """The interval and the guard in one regime, beside t."""

    regime: str
    t: float
    """Coverage of t alone."""
    coverage: float
    stands_in: float
    """Share of simulations in which the guard stood in."""
    width: float
    """Of the interval, over that of t."""
    power: float | None
    """Decisions over those of t; None where t decides always, or there is nothing to decide."""
    guarded: float
    guarded_width: float
    guarded_power: float | None
    marked: float | None
    """Share of wrong decisions that are marked, or that the guard took back; None without any."""


def weigh(simulations: int, seed: int = 0) -> list[Weighed]:
    """Every regime of differences."""
    return [_weighed(each, simulations, seed) for each in spreads()]


def _weighed(of: Spread, simulations: int, seed: int) -> Weighed:
    rng = np.random.default_rng((seed, *of.regime.encode()))
    shown = list[Estimate]()
    for _ in range(simulations):
        values, codes = of.draw(rng)
        shown += means([np.clip(values, *of.ends).tolist()], codes, [of.ends])
    alone = [replace(each, guarded=False) for each in shown]
    rare = [each.by("guarded") for each in shown]

    def rates(every: Sequence[Estimate]) -> tuple[float, float, list[bool]]:
        spans = [each.interval or (each.value, each.value) for each in every]
        covered = float(np.mean([low <= of.truth <= high for low, high in spans]))
        width = float(np.mean([high - low for low, high in spans]))
        return covered, width, [not low <= 0 <= high for low, high in spans]

    (t, t_width, t_found), (coverage, width, found), (guarded, wide, rarely) = map(
        rates, (alone, shown, rare)
    )
    wrong = [n for n, its in enumerate(t_found) if its and not of.truth]
    some = bool(of.truth) and 0 < sum(t_found) < simulations
    return Weighed(
        of.regime,
        t,
        coverage,
        float(np.mean([each.guarded for each in shown])),
        width / t_width if t_width else math.inf,
        sum(found) / sum(t_found) if some else None,
        guarded,
        wide / t_width if t_width else math.inf,
        sum(rarely) / sum(t_found) if some else None,
        float(np.mean([shown[n].undone or not found[n] for n in wrong])) if wrong else None,
    )


def weighed_finding(found: Sequence[Weighed], simulations: int) -> Finding:
    """One line per regime."""
    columns = [
        word("differences", "regime", key="regime"),
        number("t covers", "t", ".3f"),
        number("default covers", "coverage", ".3f"),
        number("‡", "stands_in", ".0%", key="stands_in"),
        number("width / t", "width", ".2f"),
        number("power / t", "power", ".2f"),
        number("guarded covers", "guarded", ".3f"),
        number("width / t ", "guarded_width", ".2f", key="guarded_width"),
        number("power / t ", "guarded_power", ".2f", key="guarded_power"),
        number("† of wrong", "marked", ".0%", key="marked"),
    ]
    below = [f"{each.regime} {each.coverage:.2f}" for each in found if each.coverage < 0.93]
    notes = [
        f"{simulations:,} simulations a line. ‡: share in which the guard stood in. † of wrong: "
        "wrong decisions of t that are marked, or that the guard took back.",
        f"The default covers less than .93 in: {'; '.join(below) or 'none'}.",
    ]
    title = "intervals beside t"
    return Finding((Part("intervals", title, columns, found, notes),), {"simulations": simulations})


if __name__ == "__main__":
    found = validate(SIMULATIONS)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    tables = (
        weighed_finding(weigh(SIMULATIONS), SIMULATIONS),
        validation_finding(found, SIMULATIONS),
    )
    table = "\n\n".join(each.text("markdown") for each in tables)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}")
    if lacking := [line for line in found if not line.holds]:
        raise SystemExit(f"do not hold: {lacking}")
