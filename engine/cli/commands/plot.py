"""`oversight plot`: pictures of a run for papers and slides, with their figures."""

from pathlib import Path

import click

from ...errors import UsageError
from ...runs.lookup import Parts
from ...system.files import unwritable
from ..completing import run_names
from ..naming import run_named
from ..options import output_option, recorded_option, row_options, score_option
from ..output import say, show

KINDS = (
    "asd", "lift", "worlds", "jse", "asd-jse", "calibration", "rounds", "trend", "gap", "bestof",
    "frontier", "heat", "ratings", "scaling", "pressure", "compare",
)  # fmt: skip


@click.command()
@click.argument("named", metavar="RUN [RUN2]", nargs=-1, required=True, shell_complete=run_names)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="asd",
    help="What to draw; docs/pages.md says what each kind shows.",
)
@output_option("RUN-KIND.pdf")
@click.option(
    "--data",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the numbers behind the picture as CSV; - for standard output.",
)
@row_options
@score_option
@click.option(
    "--style",
    type=click.Choice(["paper", "column", "slides"]),
    default="paper",
    help="Size: two columns of a page, one column, or a slide.",
)
@click.option(
    "--by",
    multiple=True,
    metavar="DIMENSION",
    help="With asd and lift: average over all rows of one protocol, agent, judge or setting; "
    "repeatable.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="OLD=NEW",
    help="Write the name of a protocol, agent, judge or row otherwise; repeatable.",
)
@click.option(
    "--order",
    type=click.Choice(["sweep", "mean", "name"]),
    default="sweep",
    help="Order of the lines of asd, lift, gap, ratings and compare.",
)
@click.option("--no-caption", is_flag=True, help="Leave out the line with n, method and models.")
@recorded_option
def command(
    named: tuple[str, ...],
    kind: str,
    output: Path | None,
    data: Path | None,
    parts: Parts,
    score: str,
    style: str,
    by: tuple[str, ...],
    labels: tuple[str, ...],
    order: str,
    no_caption: bool,
    store: str | None,
) -> None:
    """Draw a picture of RUN; with --kind compare, of two runs: the first less the second.

    The file is a .pdf, .svg or .png, as the name given to -o ends. The same run gives the same
    bytes. With --data and without -o only the numbers are written; that needs no matplotlib.
    """
    from ...pictures.drawing import caption, data_of, ordered, pictured, relabelled
    from ...runs.reader import RunReader

    if len(named) != (2 if kind == "compare" else 1):
        raise UsageError(f"--kind {kind} takes {'two runs' if kind == 'compare' else 'one run'}")
    runs = [RunReader(run_named(word), store) for word in named]
    try:
        picture = pictured(runs[0], kind, score, runs[1] if runs[1:] else None, parts, by)
        picture = ordered(relabelled(picture, _labels(labels)), order)
        told = "" if no_caption else caption(runs[0], picture)
    finally:
        for run in runs:
            run.__exit__()
    if data is not None:
        text = data_of(picture)
        if str(data) == "-":
            show(text)
        else:
            try:
                data.parent.mkdir(parents=True, exist_ok=True)
                data.write_text(text + "\n", encoding="utf-8")
            except OSError as exc:
                raise unwritable(data, exc) from exc
            say(str(data))
        if output is None:
            return
    from ...pictures.figures import draw, save

    to = output or Path(f"{runs[0].name}-{kind}.pdf")
    save(draw(picture, style, told), to, runs[0].manifest.identity[:12], style)
    show(str(to))


def _labels(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for each in given:
        old, sign, new = each.partition("=")
        if not (sign and old and new):
            raise UsageError(
                f"--label {each!r}: write it as OLD=NEW, with the name as tables have it"
            )
        found[old] = new
    return found
