"""`oversight plot`: pictures of a run for papers and slides, with their figures."""

from pathlib import Path

import click

from oversight.engine.cli.completing import run_names
from oversight.engine.cli.naming import run_named
from oversight.engine.cli.options import recorded_option
from oversight.engine.cli.output import say, show
from oversight.engine.errors import RunFolderError, UsageError
from oversight.protocols.scores import SCORES

KINDS = (
    "asd", "lift", "worlds", "jse", "asd-jse", "calibration", "rounds", "trend", "gap", "bestof",
    "frontier", "heat", "compare",
)  # fmt: skip


@click.command()
@click.argument("named", metavar="RUN [RUN]", nargs=-1, required=True, shell_complete=run_names)
@click.option("--kind", type=click.Choice(KINDS), default="asd", show_default=True)
@click.option(
    "-o",
    "--output",
    "to",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A .pdf, .svg or .png; RUN-KIND.pdf unless given.",
)
@click.option(
    "--data", type=click.Path(path_type=Path, dir_okay=False), help="The figures, as CSV."
)
@click.option("--protocol", default="", help="Part of the names of the rows to show.")
@click.option("--agent", default="", help="Part of the agent's name.")
@click.option("--judge", default="", help="Part of the judge's name.")
@click.option("--score", type=click.Choice(list(SCORES)), default="brier", show_default=True)
@click.option(
    "--style", type=click.Choice(["paper", "column", "slides"]), default="paper", show_default=True
)
@recorded_option
def command(
    named: tuple[str, ...],
    kind: str,
    to: Path | None,
    data: Path | None,
    protocol: str,
    agent: str,
    judge: str,
    score: str,
    style: str,
    store: str | None,
) -> None:
    """Draw RUN. With --kind compare, two runs: the second less the first.

    Equal runs give equal files. With --data and no -o only the figures are written, as `-` on
    stdout; that needs no matplotlib.
    """
    from oversight.engine.pictures.drawing import data_of, pictured
    from oversight.engine.pictures.opened import OpenedRun
    from oversight.engine.runs.lookup import Parts

    if len(named) != (2 if kind == "compare" else 1):
        raise UsageError(f"--kind {kind} takes {'two runs' if kind == 'compare' else 'one run'}")
    runs = [OpenedRun(run_named(word), store) for word in named]
    try:
        parts = Parts(protocol, agent, judge)
        picture = pictured(runs[0], kind, score, runs[1] if runs[1:] else None, parts)
    finally:
        for run in runs:
            run.__exit__()
    if data is not None:
        text = data_of(picture)
        if str(data) == "-":
            show(text)
        else:
            try:
                data.write_text(text + "\n", encoding="utf-8")
            except OSError as exc:
                raise RunFolderError(f"{data}: cannot be written: {exc.strerror}") from exc
            say(f"{data}")
        if to is None:
            return
    from oversight.engine.pictures.figures import draw, save

    to = to or Path(f"{runs[0].name}-{kind}.pdf")
    save(draw(picture, style), to, runs[0].manifest.identity[:12], style)
    show(str(to))
