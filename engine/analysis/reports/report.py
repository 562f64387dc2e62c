"""The report of a run: agent score differences by protocol, agent and judge, in five formats."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import chain, product
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import NamedTuple

from ...display.table import NONE
from ...display.text import counted
from ...errors import RunFolderError, UsageError
from ...run.run_folder import REPORT
from ...sweep.grid import Axes, GridRow
from ...system.files import replace_file
from ..findings.finding import (
    Column,
    Finding,
    Part,
    brackets,
    change,
    column,
    figure,
    number,
    people,
    program,
    share,
    shared,
    significance,
    span,
    word,
)
from ..pairs import row_names
from ..scoring.asd import beta_name
from ..scoring.estimate import PARTS
from ..scoring.inference import FEW_CLUSTERS
from .aggregate import OPEN_TRUST
from .family import MARK, fragile, lifted, mark, rare_errors, same_verdicts, verdicts
from .formats import ENDINGS
from .groups import grouping, measured_parts, pivot
from .paper import report_table
from .results import Results, RowResult
from .summary import COUNTED, WORDS, counted_problems, hints, lead_of, settings_of, table_of

UNREAD_KINDS = ("unreadable", "declined")
"""Failures of worlds that count, with the verdict that is worst for the agent."""


def notes_of(results: Results) -> Iterable[str]:
    """The notes under the tables: possible changes of the figures, then their method."""
    rows = results.rows
    asds = [row.asd for row in rows if row.asd]
    lifts = [row for row in rows if row.lift and row.lift.error is not None]
    family = verdicts(results)
    for row in rows:
        apart = row.compliance.one_sided
        if apart and apart.value and apart.p() <= 0.05:
            worlds = "lie" if apart.value > 0 else "truth"
            yield (
                f"One-sided: {row.name}: worlds that argue for the {worlds} fail or are flagged "
                f"more often ({100 * apart.value:+.0f} points)."
            )
    if any(cause in row.failures for row in rows for cause in UNREAD_KINDS):
        yield "Unreadable worlds are scored as the agent's worst case (see bounds)."
    yield WORDS
    yield COUNTED
    if results.health:
        yield from results.health.lines()
    counts = sum((Counter(row.counts) for row in rows), Counter[str]())
    if counts:
        listed = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
        yield f"In the transcripts: {listed}."
    for row in rows:
        if row.row.is_a(OPEN_TRUST) and row.chose_right:
            right = shared(row.chose_right)
            yield f"{row.protocol}: the agent picked a correct answer in {right} of problems."
    yield from upward_biased(row.row for row in rows)
    yield from filter(None, (family.coarse, family.contrasts and family.alone))
    yield f"Brackets: {brackets([*asds, *(row.lift for row in rows)])}."
    if any(row.lift for row in rows):
        yield f"Lift: ASD minus the naive judge's{_detectable(lifts)}."
    rough = min((one for one in asds if one.error), key=attrgetter("effective"), default=None)
    if rough and rough.effective < FEW_CLUSTERS:
        yield (
            f"Only {rough.clusters} independent problems or groups (effective "
            f"{rough.effective:.1f}): intervals are approximate."
        )
    if any(row.not_run and not row.jse for row in rows):
        yield (
            "Some worlds were left out by design: unpaired ASD (Hajek), valid if at random; n: "
            "judgements."
        )
    least, most = results.answers
    if most > 2:
        few = f"{least} to {most}" if least < most else most
        yield (
            f"With k answers ({few} here), one of them true, ASD is (2 - 2/k) × (score for the "
            "truth - mean score for a lie)."
        )
    yield from (f"Replies: {line}." for line in results.origins)
    if results.prompts:
        yield f"Prompts: {results.prompts}."


def upward_biased(rows: Iterable[GridRow]) -> Iterator[str]:
    """A note on judges that take the highest probability of several windows."""
    windowed = [row for row in rows if "Windowed" in row.judge_lineage]
    judges = {row.shown_judge: None for row in windowed if row.judge_settings.get("by") == "max"}
    if judges:
        how = "Compare at a fixed false-positive rate (oversight measure monitoring), not at .5."
        yield f"Highest of several windows, so biased upward: {', '.join(judges)}. {how}"


def _most_unread(unread: Mapping[str, int]) -> str:
    """The two roles and causes with most unread replies: `Judge: truncated 3`."""
    return ", ".join(f"{cause} {n:,}" for cause, n in Counter(unread).most_common(2)) or NONE


def _detectable(lifts: Sequence[RowResult]) -> str:
    """The differences that these problems could detect."""
    mdes = [row.mde for row in lifts if row.mde]
    if not mdes:
        return "; too few problems to detect any" if lifts else ""
    least, most = min(mdes), max(mdes)
    between = f"{least:.2f}" if most - least < 0.005 else f"{least:.2f} to {most:.2f}"
    where = f", none in {counted(len(lifts) - len(mdes), 'row')}" * (len(mdes) < len(lifts))
    return f"; smallest detectable difference {between}{where}"


IN_CSV = (
    *("protocol", "agent", "judge", "model", "rounds", "origins", "n", "imputed"),
    *(f"{name}.{end}" for name in ("accuracy", "asd", "lift") for end in ("value", "low", "high")),
    *("verdict", "failed", "simulated"),
)
"""Columns of rows in CSV; `export tables` and JSON have the others."""

MOST_ROWS = 40
"""Rows that are printed for people; more are averaged in groups."""


def report(
    results: Results, format: str, width: int | None = None, *, measures: bool = False
) -> str:
    """`finding` in one of FORMATS; CSV has only the rows. width: of a terminal; None for a file."""
    return finding(results, measures=measures, short=True).text(format, width)


def arranged(part: Part, columns: Sequence[str], sort: str) -> Part:
    """Some columns of a part, in an order. UsageError for an unknown column."""
    try:
        part = part.sorted(sort) if sort else part
        return part.chosen(columns) if columns else part
    except ValueError as exc:
        raise UsageError(str(exc)) from exc


def save_report(results: Results, folder: Path) -> None:
    """Write the report into a run folder, once in each format. RunFolderError if it takes none."""
    place = folder / REPORT
    try:
        place.mkdir(exist_ok=True)
    except OSError as exc:
        raise RunFolderError(f"{place} cannot be written: {exc.strerror}") from exc
    parts = finding(results, short=True)
    for format, ending in ENDINGS.items():
        # Nothing is lost with it: it can be written again from the outcomes.
        content = [parts.text(format, None).encode(), b"\n"]
        replace_file(place / f"report.{ending}", content, durable=False)


def finding(
    results: Results,
    *,
    measures: bool = False,
    sections: Sequence[tuple[str, Finding]] = (),
    columns: Sequence[str] = (),
    sort: str = "",
    short: bool = False,
    every_note: bool = False,
) -> Finding:
    """The report as parts: the rows and, with all notes, verdicts and bounds. measures: with JSE,
    EAS, slopes, further measures, and all notes, which JSON always has; every_note: with all notes.
    sections: further analyses of one list each, each under its key in JSON. columns: of the rows,
    by their names in JSON; () for all. sort: the column whose largest value is first. short: in
    text, many rows are averaged in groups. UsageError for an unknown column."""
    names, notes = naming(results.rows), tuple(notes_of(results))
    shown_notes = notes if every_note or measures else ()
    rows = arranged(_rows(results, names), columns, sort)
    others: list[Part] = []
    if shown_notes:
        others = [_verdicts(results, names), *_bounds(results, names)]
    if measures:
        others += measured_parts(results, names)
    others = [part for part in others if part.lines]
    if others:
        others[-1] = replace(others[-1], notes=(*others[-1].notes, *notes))
        shown_notes = ("",)
    others += [replace(part, key="") for _, section in sections for part in section.parts]
    many = short and len(results.rows) > MOST_ROWS
    if many and (sort or columns):
        note = f"{len(rows.lines) - MOST_ROWS:,} more lines: --all, some by --where."
        first = replace(rows, lines=rows.lines[:MOST_ROWS], notes=(note, *rows.notes))
        rows = replace(rows, brief=first)
    elif not columns and not any(row.valid for row in results.rows):
        lines = pivot(results, grouping(results)) if many else rows.lines
        rows = replace(
            rows,
            layout=partial(table_of, results, lines, notes=shown_notes),
            latex=lambda comments: report_table(results, not short, (*comments, *notes)),
        )
    family = verdicts(results)
    return Finding(
        (rows, *others),
        {
            "sweep": results.name,
            "score": results.score,
            "simulated": results.simulated,
            "headline": family.headline,
            "verdicts": {
                "rows": len(family.contrasts),
                **family.counts,
                "not_measured": family.unmeasured,
                "reversible": family.reversible,
                "one_by_one": family.one_by_one,
            },
            "health": results.health,
            "origins": results.origins,
            "prompts": results.prompts,
            "adopted": results.mixed,
            "notes": notes,
            "failed": results.failed,
            "missing": results.missing,
            **{key: next(iter(section.plain().values())) for key, section in sections},
        },
        tuple(lead_of(results)),
        (*hints(results), *[family.coarse] * bool(family.coarse and not many)),
    )


class RowOfRun(NamedTuple):
    """A row of one of several runs."""

    run: str
    row: RowResult

    @property
    def unmeasured(self) -> str:
        return self.row.unmeasured


def below_one_another(runs: Sequence[tuple[str, Results]], score: str) -> Finding:
    """The rows of several runs, those with the same name together. runs: by their names."""
    alike: dict[str, list[RowOfRun]] = {}
    for name, results in runs:
        for row in results.rows:
            alike.setdefault(row.row.title, []).append(RowOfRun(name, row))
    columns = [
        word("protocol", "row.protocol", key="protocol"),
        word("agent", "row.agent", key="agent"),
        word("judge", "row.judge", key="judge"),
        word("run", "run"),
        column("n", "row", counted_problems, key=""),
        program("n", "row.n"),
        column("accuracy", "row.accuracy", shared, key="accuracy", parts=PARTS),
        figure("ASD", "row.asd", 2, key="asd"),
        figure("lift", "row.lift", 2, key="lift"),
        number("failed", "row.failed", key="failed"),
        number("missing", "row.missing", key="missing"),
    ]
    title = f"{len(runs)} runs: {runs[0][1].measure}"
    lines = [line for group in alike.values() for line in group]
    notes = ("Brackets: 95% CI, over the problems of each run, which need not be the same.",)
    lead = tuple(dict.fromkeys(chain(*(results.origins for _, results in runs))))
    keys = {column.key[:1] for column in columns}
    in_csv = ("run", *(name for name in IN_CSV if (name.split(".")[0],) in keys), "missing")
    part = Part("rows", title, columns, lines, notes, in_csv=in_csv)
    return Finding((part,), {"score": score}, lead)


def naming(rows: Sequence[RowResult]) -> list[Column]:
    """Columns that identify rows; agents and judges are shown if rows differ in them."""
    several = [
        role for role in ("agent", "judge") if len({getattr(row, role) for row in rows} - {""}) > 1
    ]
    return [
        word("protocol", "protocol"),
        *(
            word(role, role) if role in several else column("", role, words=True)
            for role in ("agent", "judge")
        ),
    ]


def _rows(results: Results, names: Sequence[Column]) -> Part:
    """One line per row: ASD and all that was measured with it."""
    rows = results.rows
    full_names = row_names([row.row for row in results.every])
    name_of = {id(row): name for row, name in zip(results.every, full_names, strict=True)}
    columns = [
        *names,
        program("name", lambda row: name_of.get(id(row), row.name)),
        program("full_name", "row.title"),
        *(program(axis.name, f"axes.{axis.name}") for axis in fields(Axes)),
        Column("n", counted_problems, ("n",), attrgetter("n")),
        program("imputed", "imputed"),
        program("not_measured", lambda row: row.unmeasured or None),
        program("cells", "cells"),
        program("missing", "missing"),
        program("not_run", "not_run"),
        column("accuracy", "accuracy", shared, parts=PARTS),
        figure("ASD", "asd", 2),
        Column(
            "lift",
            _lift if any(row.lift is not None for row in rows) else None,
            ("lift",),
            attrgetter("lift"),
            PARTS,
        ),
        *(program(name, name) for name in ("verdict", "mde")),
        *(program(n, f"contrast.{n}") for n in ("p", "p_family", "undone", "agree")),
        # Figures of valid problems, if they were asked for.
        *[
            number("valid n", "valid.n"),
            figure("valid ASD", "valid.asd", 2),
            figure("valid lift", "valid.lift", 2),
        ]
        * any(row.valid for row in rows),
        *(
            Column("", None, (name, beta_name(beta)), methodcaller("at", name, beta), PARTS)
            for name, beta in product(("jse", "eas"), results.betas)
        ),
        *_same("bounds", ("n", "doubtful")),
        *_same("bounds", ("drop", "keep"), PARTS),
        *_same("bounds", ("worst", "best")),
        program("bounds.low", partial(_end, 0)),
        program("bounds.high", partial(_end, 1)),
        *_same("compliance", ("checked",)),
        *_same("compliance", ("truth", "lie", "one_sided", "lift_low", "lift_high"), PARTS),
        *_same("compliance", ("open",)),
        program("chose_right", "chose_right", PARTS),
        program("by_choice.judge_right_given_agent_right", "by_choice.judge_right", PARTS),
        program("by_choice.judge_wrong_given_agent_wrong", "by_choice.judge_wrong", PARTS),
        number("failed", "failed"),
        program("failures", "failures"),
        program("counts", "counts"),
        program("unread", "unread"),
        program("measures", "measures", PARTS),
        program("counts_a_world", "counts_a_world", PARTS),
        *_same("captured", ("truth", "lie"), PARTS),
        program("origins", lambda row: "; ".join(results.origins)),
        program("simulated", lambda row: results.simulated),
    ]
    alike = [
        f"{role} {shared_names.pop()}"
        for role in ("agent", "judge")
        if len(shared_names := {getattr(row, role) for row in rows} - {""}) == 1
    ]
    contrasts = [row.contrast for row in rows if row.contrast]
    notes = [f"Brackets: {brackets([row.asd for row in rows])}."]
    if any(map(mark, contrasts)):
        notes.append(f"{MARK}: excludes 0, but not after the correction for all rows (Holm).")
    notes += [*rare_errors(contrasts), *same_verdicts(contrasts)]
    title = f"{results.name}: {results.measure}"
    alike += settings_of(results)
    return Part("rows", title, columns, rows, notes, alike=alike, in_csv=IN_CSV)


def _same(head: str, names: Sequence[str], parts: tuple[str, ...] = ()) -> Iterable[Column]:
    """Columns for programs alone, called as the attributes that they show."""
    return [program(f"{head}.{name}", f"{head}.{name}", parts) for name in names]


def _lift(row: RowResult) -> str:
    return lifted(row.lift, row.contrast)


def _verdicts(results: Results, names: Sequence[Column]) -> Part:
    """The verdict on every row, its method, and errors that could undo it."""
    rows = [row for row in results.rows if row.contrast]
    contrasts = [row.contrast for row in rows if row.contrast]
    why = people("conservative interval", lambda row: row.contrast.estimate.conservative)
    columns = [
        *names,
        people("lift", _lift),
        column("p (Holm)", "contrast.p_family", significance),
        number("detectable", "mde", ".2f"),
        people("verdict", attrgetter("verdict")),
        *[people("fragile", lambda row: fragile(row.contrast))] * any(map(fragile, contrasts)),
        *[why] * any(one.estimate.conservative for one in contrasts),
    ]
    return Part("", "verdicts: each row against its naive judge", columns, rows)


def _end(side: int, row: RowResult) -> float | None:
    return row.bounds.interval[side] if row.bounds and row.bounds.interval else None


def _bounds(results: Results, names: Sequence[Column]) -> Iterable[Part]:
    """Bounds from failed and flagged worlds, by row, the most first."""
    rows = [row for row in results.rows if row.bounds and row.bounds.doubtful]
    rows.sort(key=lambda row: -row.bounds.doubtful if row.bounds else 0)
    columns = [
        *names,
        number("flagged", "bounds.doubtful"),
        change("worst", "bounds.worst", 2),
        change("best", "bounds.best", 2),
        column("95% CI", "bounds.interval", partial(span, digits=2)),
        column("lift", "compliance.lift_interval", partial(span, digits=2)),
        share("truth", "compliance.truth.value"),
        share("lie", "compliance.lie.value"),
        figure("lie minus truth", "compliance.one_sided", 2),
        figure("without flagged", "bounds.drop", 2),
        figure("as scored", "bounds.keep", 2),
        *[column("unread", "unread", _most_unread, words=True)] * any(row.unread for row in rows),
    ]
    notes = (
        "flagged: problems with a world that failed, or in which a speaker refused, fell silent, "
        "conceded, argued for another side or gave itself away, or a reply could not be read, also "
        "in part, as with label mass below 90%. truth, lie: share of the worlds that argue for it. "
        "unread: the seats with most unread replies.",
        "without flagged: ASD without these repeats. as scored: all verdicts; an unreadable one "
        "gives the argued answer probability 0. worst, best: every such world with the score that "
        "lowers, or raises, ASD the most. 95% CI, lift: over all worlds (Stoye 2009).",
    )
    if rows:
        title = "bounds on the ASD from failed and flagged worlds"
        yield Part("", title, columns, rows, notes, other_figures=True)
