"""The tables of a report: one line a row, as people read them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from oversight.engine.display.table import Table, error_text
from oversight.engine.reports.aggregate import RowSamples
from oversight.engine.reports.results import Results, RowResult
from oversight.protocols.scoring.clustered import FEW
from oversight.protocols.scoring.statistics import Estimate
from oversight.protocols.scoring.trend import Configuration, NoSlope, Slope, split_half_trend, trend
from oversight.protocols.scoring.worlds import BETAS, beta_name

SCORE_NAMES = {"brier": "Brier", "log": "log", "logodds": "log odds", "accuracy": "accuracy"}


def tables(results: Results, *, measures: bool = False) -> list[Table]:
    """The main table, and beside it those that have something to say.

    measures: with the table of measures, which is a long one.
    """
    more = [choices_table(results), bounds_table(results)]
    more += [measures_table(results)] if measures else []
    return [table for table in (main_table(results), *more, trend_table(results)) if table]


def main_table(results: Results) -> Table:
    """One line a row: ASD and what stands beside it."""
    words = _words(results)
    chose = any(row.chose_right is not None for row in results.rows)
    lift = any(row.lift is not None for row in results.rows)
    head = [*words, "n", "ASD", *(["lift"] * lift)]
    betas = (1.0,) if results.betas == BETAS else results.betas
    head += [f"{measure} β={beta_name(beta)}" for measure in ("JSE", "EAS") for beta in betas]
    head += ["chose right"] * chose + ["failed"]
    body = []
    for row in results.rows:
        cells = [*_called(row, words), str(row.n), _pm(row.asd)]
        cells += [_lift(row.lift)] * lift
        cells += [_signed(measure.get(beta)) for measure in (row.jse, row.eas) for beta in betas]
        if chose:
            cells.append("–" if row.chose_right is None else f"{row.chose_right:.0%}")
        cells.append(str(row.failed))
        body.append(tuple(cells))
    title = (
        f"{results.name}: agent score difference ({SCORE_NAMES[results.score]}), "
        "higher is better for the truth"
    )
    measures = head[len(words) + 2 : -1]
    spare = [head for head in reversed(measures) if head != "lift"]
    spare += ["lift", *(["failed"] if not results.failed else [])]
    notes = tuple(_notes(results, words))
    return Table(title, tuple(head), tuple(body), len(words), notes, tuple(spare))


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
    if results.prompts:
        yield f"prompts {results.prompts}: what every seat read (oversight prompts show)"
    counts: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for row in results.rows:
        counts.update(row.counts)
        failures.update(row.failures)
    if failures:
        cells = sum(row.cells - row.missing for row in results.rows)
        yield f"failed cells: {_listed(failures)} ({failures.total() / cells:.0%} of all)"
    if counts:
        yield "in the transcripts: " + _listed(counts)
    if results.missing:
        yield f"{results.missing:,} cells have not been run yet: these figures will change."


def choices_table(results: Results) -> Table | None:
    """Open protocols, split by what the agent chose; None without any."""
    words = _words(results)
    body = []
    for row in results.rows:
        if row.by_choice:
            right, wrong = row.by_choice.judge_right, row.by_choice.judge_wrong
            shares = (_n(right), _share(right), _n(wrong), _share(wrong))
            body.append((*_called(row, words), *shares))
    if not body:
        return None
    return Table(
        "left to choose: how often the judge was right with an agent that was right, "
        "and wrong with one that was wrong",
        (*words, "agent right", "judge right too", "agent wrong", "judge wrong too"),
        tuple(body),
        len(words),
        (
            "agent right, wrong: problems. In brackets 95 %, range-aware bootstrap over problems; "
            "exact binomial at 0 % and 100 %.",
        ),
        ("judge right too", "agent right"),
    )


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
            "or failed its side check. drop: without them. keep: with every verdict there is.",
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
