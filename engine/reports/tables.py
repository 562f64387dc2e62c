"""The tables of a report: one line a row, as people read them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ...protocols.judges.logprob import ENOUGH
from ...protocols.scoring.clustered import FEW_CLUSTERS
from ...protocols.scoring.statistics import Estimate
from ...protocols.scoring.trend import Configuration, NoSlope, Slope, split_half_trend, trend
from ...protocols.scoring.worlds import beta_name
from ..display.columns import as_table
from ..display.quantity import signed
from ..display.table import Table, error_text
from .failures import OFTEN
from .figure_text import estimated
from .results import Results, RowResult
from .row_columns import (
    CHOICE_COLUMNS,
    columns,
    n_text,
    naming_columns,
    naming_words,
)

SCORE_NAMES = {
    "brier": "Brier",
    "log": "log",
    "logodds": "log odds",
    "accuracy": "accuracy",
    "spherical": "spherical",
    "probability": "probability",
}


def tables(results: Results, *, measures: bool = False) -> list[Table]:
    """The main table, and beside it those that have something to say.

    measures: with the table of measures, which is a long one.
    """
    more = [choices_table(results), bounds_table(results)]
    more += [measures_table(results)] if measures else []
    return [table for table in (main_table(results), *more, trend_table(results)) if table]


def main_table(results: Results) -> Table:
    """One line a row: ASD and what stands beside it."""
    title = (
        f"{results.name}: agent score difference ({SCORE_NAMES[results.score]}), "
        "higher is better for the truth"
    )
    return as_table(title, columns(results), results.rows, _notes(results, naming_words(results)))


def _notes(results: Results, words: Sequence[str]) -> Iterable[str]:
    for column in ("agent", "judge"):
        names = {getattr(row, column) for row in results.rows} - {""}
        if column not in words and names:
            yield f"{column}: {', '.join(sorted(names))}"
    found = [row.asd for row in results.rows if row.asd]
    yield f"± 95%, {_method(found)} over problems. n: problems with a verdict in every world."
    rough = min(
        (each for each in found if each.method), key=lambda each: each.effective, default=None
    )
    if rough and rough.effective < FEW_CLUSTERS:
        yield (
            f"only {rough.clusters} problems or groups of them, worth {rough.effective:.1f} equal "
            "ones: intervals are wide, and rough."
        )
    if any(row.lift is not None for row in results.rows):
        yield "lift = ASD - naive judge's, same problems and judge."
    yield from _precision(results)
    if results.prompts:
        yield f"prompts {results.prompts}: what every seat read (oversight prompts show)"
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for row in results.rows:
        counts.update(row.counts)
        failures.update(row.failures)
    cells = sum(row.cells - row.missing for row in results.rows)
    if failures:
        yield f"failed cells: {_listed(failures)} ({failures.total() / cells:.0%} of all)"
    yield from _guesses(results.rows, words)
    if counts:
        yield "in the transcripts: " + _listed(counts)
    if counts["truncated"] > OFTEN * cells:
        yield (
            "truncated speeches were cut off at max_tokens, often in mid-sentence: raise "
            "agents.max_tokens."
        )
    if results.missing:
        yield f"{results.missing:,} cells have not been run yet: these figures will change."


def _guesses(rows: Sequence[RowResult], words: Sequence[str]) -> Iterable[str]:
    """Which rows rest on verdicts whose labels had little of the probability."""
    low = [
        (row, mass) for row in rows if (mass := _mass_of_labels(row)) is not None and mass < ENOUGH
    ]
    if not low:
        return
    masses = [mass for _, mass in low]
    spread = f"{min(masses):.0%}"
    if spread != f"{max(masses):.0%}":
        spread += f" to {max(masses):.0%}"
    judged = [row for row in rows if row.captured]
    where = ", ".join(" ".join(_called(row, words)) for row, _ in low)
    rows_named = "" if len(low) == len(judged) else f" in {where}"
    yield (
        f"labels had {spread} of the probability{rows_named}: these verdicts are close to guesses."
    )


def _mass_of_labels(row: RowResult) -> float | None:
    """The mean mass of the labels, where any judge read logprobs."""
    if row.captured is None:
        return None
    halves = [half for half in (row.captured.truth, row.captured.lie) if half]
    cells = sum(half.n for half in halves)
    return sum(half.mean * half.n for half in halves) / cells if cells else None


def _precision(results: Results) -> Iterable[str]:
    """What these problems could have found, and how many rows were looked at."""
    if found := [row.mde for row in results.rows if row.mde]:
        least, most = min(found), max(found)
        span = f"{least:.2f}" if most - least < 0.005 else f"{least:.2f} to {most:.2f}"
        wider = any(
            row.mde and row.lift and (row.lift.half_width or 0.0) > row.mde for row in results.rows
        )
        seen = ", by the spread that they show; ± allows for more than that" if wider else ""
        yield f"MDE: this many problems detect a lift of {span} with power .8{seen}."
    if len(found) > 1:
        yield (
            f"{len(found)} lifts were looked at, each ± by itself; all together: oversight compare."
        )


def choices_table(results: Results) -> Table | None:
    """Open protocols, split by what the agent chose; None without any."""
    rows = [row for row in results.rows if row.by_choice]
    if not rows:
        return None
    return as_table(
        "left to choose: how often the judge was right with an agent that was right, "
        "and wrong with one that was wrong",
        [*naming_columns(results), *CHOICE_COLUMNS],
        rows,
        (
            "agent right, wrong: problems. In brackets 95%, range-aware bootstrap over problems; "
            "exact binomial at 0% and 100%.",
        ),
    )


def bounds_table(results: Results) -> Table | None:
    """What worlds that went wrong could change, in the rows that have any; None without such."""
    words = naming_words(results)
    body = [
        (
            *_called(row, words),
            str(row.bounds.n),
            str(row.bounds.doubtful),
            *map(signed, (row.bounds.drop, row.bounds.keep, row.bounds.worst, row.bounds.best)),
        )
        for row in results.rows
        if row.bounds and row.bounds.doubtful
    ]
    if not body:
        return None
    return Table(
        "bounds: what worlds that failed, or are in doubt, could change of the ASD",
        (*words, "n", "in doubt", "drop", "keep", "worst", "best"),
        tuple(body),
        len(words),
        (
            "in doubt: problems with a world that failed, or in which a speaker refused, conceded",
            "or failed its side check, or a logprob judge's labels had less than half of the",
            "probability. drop: without them. keep: with every verdict there is.",
            "worst, best: every such world with the score that lowers, or raises, ASD the most.",
        ),
        ("keep", "best"),
    )


def measures_table(results: Results) -> Table | None:
    """What was measured and counted beside the scores, by what the agent argued for."""
    words = naming_words(results)
    body = []
    for row in results.rows:
        means = dict(row.measures)
        means |= {f"{name} a world": mean for name, mean in row.counts_a_world.items()}
        means |= {"captured mass": row.captured} if row.captured else {}
        for name, mean in means.items():
            # They may be of anything, such as a number of steps: no sign.
            truth, lie = (estimated(half, sign=False) for half in (mean.truth, mean.lie))
            halves = (n_text(mean.truth), truth, n_text(mean.lie), lie)
            body.append((*_called(row, words), name, *halves))
    if not body:
        return None
    return Table(
        "measures: means by what the agent argued for",
        (*words, "measure", "n", "the truth", "n", "a lie"),
        tuple(body),
        len(words) + 1,
        (
            "n: problems. ± 95% over problems: range-aware bootstrap for shares and scores, CR3 t "
            "for the others. What is counted has no interval.",
        ),
    )


def trend_table(results: Results) -> Table | None:
    """The slope of ASD on EAS over agents, per protocol and judge; None if no row can have one."""
    beta = 1.0 if 1.0 in results.betas else results.betas[0]
    place = results.betas.index(beta)
    lines: dict[tuple[str, str], list[Configuration]] = {}
    for row, samples in zip(results.rows, results.samples, strict=True):
        if row.agent and samples:
            line = lines.setdefault((row.kind, row.judge), [])
            line.append(Configuration(row.agent, samples.eas[place], samples.asd))
    body = []
    for (kind, judge), configurations in lines.items():
        whole = trend(configurations, same_elicitations=True)
        if isinstance(whole, Slope):
            half = split_half_trend(configurations)
            body.append((kind, judge, str(whole.n), _slope(whole), _slope(half)))
    if not body:
        return None
    return Table(
        f"trend: slope of ASD on EAS (β={beta_name(beta)}) over agents",
        ("protocol", "judge", "agents", "slope ± s.e. *", "split-half"),
        tuple(body),
        2,
        ("* both axes come from the same verdicts: a slope there is no evidence by itself.",),
    )


def _called(row: RowResult, words: Sequence[str]) -> tuple[str, ...]:
    return (row.kind, *(getattr(row, column) or "–" for column in words[1:]))


def _method(figures: Sequence[Estimate]) -> str:
    return next((each.method for each in figures if each.method), "bootstrap")


def _slope(line: Slope | NoSlope) -> str:
    return f"{signed(line.slope)} ± {error_text(line.error)}" if isinstance(line, Slope) else "–"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
