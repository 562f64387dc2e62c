"""`oversight pressure`: what a protocol rewards when its reward is optimised."""

from collections.abc import Callable
from typing import TypeAlias, get_args

import click
import orjson

from oversight.engine.cli.naming import run_argument, run_named
from oversight.engine.cli.output import say, show, width
from oversight.engine.decisions.pressure import RowPressure, Selection, row_pressure
from oversight.engine.decisions.pressure_text import as_json, tables
from oversight.engine.decisions.rows import read_rows, rows_meant
from oversight.engine.display.table import Table, as_latex, as_markdown, as_text
from oversight.engine.errors import UsageError
from oversight.protocols.mechanisms.baselines import NaiveJudge
from oversight.protocols.scores import ALL_SCORES

Strengths: TypeAlias = tuple[float, ...]


def _numbers(read: Callable[[str], float], least: float) -> Callable[..., Strengths | None]:
    """A callback that reads numbers with commas between them."""

    def parsed(ctx: click.Context, param: click.Parameter, text: str | None) -> Strengths | None:
        if text is None:
            return None
        try:
            found = tuple(read(word) for word in text.split(","))
        except ValueError:
            raise click.BadParameter(f"{text!r}: write numbers with commas: 1,2,4") from None
        if not all(least <= number for number in found):
            raise click.BadParameter(f"{text!r}: each number is at least {least:g}")
        return found

    return parsed


@click.command()
@run_argument
@click.option(
    "--select",
    type=click.Choice(get_args(Selection)),
    default="bon",
    show_default=True,
    help="Best of n, or the exponential tilt.",
)
@click.option(
    "--n", "ns", callback=_numbers(int, 1), help="1,2,4; doubled up to the pool unless given."
)
@click.option("--beta", "betas", callback=_numbers(float, 0), help="0,.5,1,2,4 unless given.")
@click.option("--row", "words", multiple=True, help="A row, or parts of its name. Repeatable.")
@click.option(
    "--reward",
    "score",
    type=click.Choice(list(ALL_SCORES)),
    default="brier",
    show_default=True,
    help="The score that the agent is paid by.",
)
@click.option(
    "--format",
    "format",
    type=click.Choice(["text", "md", "latex", "json"]),
    default="text",
    show_default=True,
)
@click.option("--json", "format", flag_value="json", help="The same as --format json.")
def command(
    named: str,
    select: Selection,
    ns: Strengths | None,
    betas: Strengths | None,
    words: tuple[str, ...],
    score: str,
    format: str,
) -> None:
    """Print what the rows of RUN reward under selection pressure, from their stored verdicts.

    The pool of a problem is all draws of a row in all worlds: run with `draws: 8` for pools that
    say something. Every n up to the size of the pool is exact. Nothing is sent.
    """
    if (select == "bon" and betas is not None) or (select == "tilt" and ns is not None):
        raise click.UsageError("--n is for --select bon, and --beta for --select tilt")
    run = read_rows(run_named(named))
    rows = run.sweep.rows
    chosen = [n for word in words for n in rows_meant(word, rows, run.names)]
    if not words:
        chosen = [n for n, row in enumerate(rows) if not isinstance(row.protocol, NaiveJudge)]
    strengths = ns if select == "bon" else betas
    found: list[RowPressure] = []
    for row in dict.fromkeys(chosen):
        if not run.table.landed[row]:
            say(f"{run.names[row]}: has not been run yet")
            continue
        found.append(row_pressure(run, row, select=select, strengths=strengths, score=score))
    if not found:
        raise UsageError(f"{run.folder}: no row of it has been run")
    if format == "json":
        show(orjson.dumps(as_json(found, select, score), option=orjson.OPT_INDENT_2).decode())
        return
    layouts: dict[str, Callable[[Table], str]] = {"md": as_markdown, "latex": as_latex}
    shown = tables(found, select, score)
    if format in layouts:
        show("\n\n".join(layouts[format](table) for table in shown))
    else:
        show("\n\n".join(as_text(table, width()) for table in shown))
