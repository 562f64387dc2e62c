"""The tables of a report: one line a row, as people read them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Any

from oversight.engine.display.columns import Column, as_table
from oversight.engine.display.table import Table, error_text
from oversight.engine.reports.aggregate import RowSamples
from oversight.engine.reports.axes import Axes
from oversight.engine.reports.failures import OFTEN
from oversight.engine.reports.results import ByChoice, Mean, Results, RowResult
from oversight.protocols.judges.logprob import ENOUGH
from oversight.protocols.scoring.bounds import Bounds
from oversight.protocols.scoring.clustered import FEW
from oversight.protocols.scoring.statistics import Estimate
from oversight.protocols.scoring.trend import Configuration, NoSlope, Slope, split_half_trend, trend
from oversight.protocols.scoring.worlds import BETAS, beta_name

PARTS = (
    "mean",
    "low",
    "high",
    "std",
    "sample_std",
    "n",
    "clusters",
    "effective_clusters",
    "method",
)
"""What programs are told of a figure."""

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
    return as_table(title, columns(results), results.rows, _notes(results, _words(results)))


def columns(results: Results) -> list[Column[RowResult]]:
    """Every column of the report: JSON and CSV have all of them, the main table those with cells.

    The rank of a spare column is its place among the figures: a narrow terminal drops the last
    ones first, then the lift, then a `failed` of zeros.
    """
    rows, betas = results.rows, results.betas
    in_table = (1.0,) if betas == BETAS else betas
    lift = any(row.lift is not None for row in rows)
    chose = any(row.chose_right is not None for row in rows)
    by_beta = list(product(("jse", "eas"), betas))
    return [
        *_names(results),
        *(Column(key=(axis.name,), value=attrgetter(f"axes.{axis.name}")) for axis in fields(Axes)),
        Column("n", lambda row: str(row.n), ("n",), lambda row: row.n),
        Column(key=("cells",), value=lambda row: row.cells),
        Column(key=("missing",), value=lambda row: row.missing),
        _figure("ASD", ("asd",), lambda row: row.asd, _pm),
        _figure("lift", ("lift",), lambda row: row.lift, _lift if lift else None, spare=2),
        Column(key=("mde",), value=lambda row: row.mde),
        *(
            _figure(
                f"{measure.upper()} β={beta_name(beta)}",
                (measure, beta_name(beta)),
                partial(_at, measure, beta),
                _signed if beta in in_table else None,
                spare=rank,
            )
            for rank, (measure, beta) in enumerate(by_beta, start=3)
        ),
        Column(
            key=("bounds",),
            value=lambda row: asdict(row.bounds) if row.bounds else None,
            parts=tuple(part.name for part in fields(Bounds)),
        ),
        Column(
            "chose right",
            (lambda row: _percent(row.chose_right)) if chose else None,
            ("chose_right",),
            lambda row: row.chose_right,
            spare=3 + len(by_beta),
        ),
        *(replace(column, cell=None) for column in CHOICES),
        Column(
            "failed",
            lambda row: str(row.failed),
            ("failed",),
            lambda row: row.failed,
            spare=0 if results.failed else 1,
        ),
        Column(key=("failures",), value=lambda row: row.failures),
        Column(key=("counts",), value=lambda row: row.counts),
        Column(key=("measures",), value=lambda row: _by_name(row.measures), parts=PARTS),
        Column(
            key=("counts_a_world",), value=lambda row: _by_name(row.counts_a_world), parts=PARTS
        ),
        *(
            _figure("", ("captured", world), partial(_captured, world))
            for world in ("truth", "lie")
        ),
    ]


def _names(results: Results) -> list[Column[RowResult]]:
    """What tells rows apart; agents and judges are shown where there are several."""
    words = _words(results)
    return [
        Column("protocol", lambda row: row.kind, ("protocol",), lambda row: row.kind, words=True),
        *(
            Column(
                role,
                partial(_called_in, role) if role in words else None,
                (role,),
                attrgetter(role),
                words=True,
            )
            for role in ("agent", "judge")
        ),
    ]


def _figure(
    head: str,
    key: tuple[str, ...],
    of: Callable[[RowResult], Estimate | None],
    cell: Callable[[Estimate | None], str] | None = None,
    spare: int = 0,
) -> Column[RowResult]:
    """The column of an estimate, which programs are told in its parts."""
    shown = (lambda row: cell(of(row))) if cell else None
    return Column(head, shown, key, lambda row: _parts(of(row)), PARTS, spare=spare)


def _notes(results: Results, words: Sequence[str]) -> Iterable[str]:
    for column in ("agent", "judge"):
        names = {getattr(row, column) for row in results.rows} - {""}
        if column not in words and names:
            yield f"{column}: {', '.join(sorted(names))}"
    found = [row.asd for row in results.rows if row.asd]
    yield f"± 95 %, {_method(found)} over problems. n: problems with a verdict in every world."
    rough = min(
        (each for each in found if each.method), key=lambda each: each.effective, default=None
    )
    if rough and rough.effective < FEW:
        yield (
            f"only {rough.clusters} problems or groups of them, worth {rough.effective:.1f} of one "
            "size: intervals are wide, and rough."
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


CHOICES: tuple[Column[RowResult], ...] = (
    Column("agent right", lambda row: _n(_choice(row).judge_right), spare=1),
    _figure(
        "judge right too",
        ("by_choice", "judge_right_given_agent_right"),
        lambda row: _choice(row).judge_right,
        lambda figure: _share(figure),
        spare=2,
    ),
    Column("agent wrong", lambda row: _n(_choice(row).judge_wrong)),
    _figure(
        "judge wrong too",
        ("by_choice", "judge_wrong_given_agent_wrong"),
        lambda row: _choice(row).judge_wrong,
        lambda figure: _share(figure),
    ),
)


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
        yield f"MDE: with power .8 so many problems find a lift of {span}."
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
        [*_names(results), *CHOICES],
        rows,
        (
            "agent right, wrong: problems. In brackets 95 %, range-aware bootstrap over problems; "
            "exact binomial at 0 % and 100 %.",
        ),
    )


def _choice(row: RowResult) -> ByChoice:
    return row.by_choice or ByChoice(None, None)


def bounds_table(results: Results) -> Table | None:
    """What worlds that went wrong could change, in the rows that have any; None without such."""
    words = _words(results)
    body = [
        (
            *_called(row, words),
            str(row.bounds.n),
            str(row.bounds.doubtful),
            *map(_value, (row.bounds.drop, row.bounds.keep, row.bounds.worst, row.bounds.best)),
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
    words = _words(results)
    body = []
    for row in results.rows:
        means = dict(row.measures)
        means |= {f"{name} a world": mean for name, mean in row.counts_a_world.items()}
        means |= {"captured mass": row.captured} if row.captured else {}
        for name, mean in means.items():
            halves = (_n(mean.truth), _plain(mean.truth), _n(mean.lie), _plain(mean.lie))
            body.append((*_called(row, words), name, *halves))
    if not body:
        return None
    return Table(
        "measures: means by what the agent argued for",
        (*words, "measure", "n", "the truth", "n", "a lie"),
        tuple(body),
        len(words) + 1,
        (
            "n: problems. ± 95 % over problems: range-aware bootstrap for shares and scores, CR3 t "
            "for the others. What is counted has no interval.",
        ),
    )


def trend_table(results: Results) -> Table | None:
    """The slope of ASD on EAS over agents, per protocol and judge; None if no row can have one."""
    beta = 1.0 if 1.0 in results.betas else results.betas[0]
    place = results.betas.index(beta)
    lines: dict[tuple[str, str], list[Configuration]] = {}
    for row, samples in zip(results.rows, results.samples, strict=True):
        if row.agent and isinstance(samples, RowSamples):
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


def _words(results: Results) -> tuple[str, ...]:
    """The columns that say which row a line is of: agents and judges where there are several."""
    return (
        "protocol",
        *(
            column
            for column in ("agent", "judge")
            if len({getattr(row, column) for row in results.rows} - {""}) > 1
        ),
    )


def _parts(figure: Estimate | None) -> Mapping[str, float | str | None] | None:
    if figure is None:
        return None
    low, high = figure.interval or (None, None)
    return {
        "mean": figure.mean,
        "low": low,
        "high": high,
        "std": figure.std,
        "sample_std": figure.sample_std,
        "n": figure.n,
        "clusters": figure.clusters,
        "effective_clusters": figure.effective or None,
        "method": figure.method or None,
    }


def _by_name(means: Mapping[str, Mean]) -> dict[str, Any]:
    return {
        name: {"truth": _parts(mean.truth), "lie": _parts(mean.lie)} for name, mean in means.items()
    }


def _called_in(role: str, row: RowResult) -> str:
    name: str = getattr(row, role)
    return name or "–"


def _at(measure: str, beta: float, row: RowResult) -> Estimate | None:
    by_beta: Mapping[float, Estimate] = getattr(row, measure)
    return by_beta.get(beta)


def _captured(world: str, row: RowResult) -> Estimate | None:
    return getattr(row.captured, world) if row.captured else None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _called(row: RowResult, words: Sequence[str]) -> tuple[str, ...]:
    return (row.kind, *(getattr(row, column) or "–" for column in words[1:]))


def _method(figures: Sequence[Estimate]) -> str:
    return next((each.method for each in figures if each.method), "bootstrap")


def _pm(figure: Estimate | None) -> str:
    if figure is None:
        return "–"
    if figure.half_width is None:
        return _signed(figure)
    return f"{_number(figure.mean)} ± {error_text(figure.half_width)}"


def _lift(figure: Estimate | None) -> str:
    """The naive judge's own is nothing by definition, and needs no interval."""
    own = figure is not None and figure.mean == 0 and not figure.half_width
    return _signed(figure) if own else _pm(figure)


def _n(figure: Estimate | None) -> str:
    return str(figure.n) if figure else "0"


def _plain(figure: Estimate | None) -> str:
    """A mean that may be of anything, such as a number of steps."""
    if figure is None:
        return "–"
    half = figure.half_width
    return f"{figure.mean:.2f}" if half is None else f"{figure.mean:.2f} ± {error_text(half)}"


def _share(figure: Estimate | None) -> str:
    if figure is None or figure.interval is None:
        return "–" if figure is None else f"{figure.mean:.0%}"
    low, high = figure.interval
    return f"{figure.mean:.0%} [{low:.0%}, {high:.0%}]"


def _signed(figure: Estimate | None) -> str:
    return _value(figure.mean if figure else None)


def _value(value: float | None) -> str:
    return "–" if value is None else _number(value)


def _number(value: float) -> str:
    text = f"{value:+.2f}"
    # What rounds to nothing has no sign.
    return text[1:] if float(text) == 0 else text


def _slope(line: Slope | NoSlope) -> str:
    return f"{line.slope:+.2f} ± {error_text(line.error)}" if isinstance(line, Slope) else "–"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
