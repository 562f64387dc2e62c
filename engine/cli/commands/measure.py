"""`oversight measure`: further measures of a run, and how often what is printed holds."""

from pathlib import Path

import click

from ..group import NamedGroup
from ..options import format_option
from ..output import say, show, width

QUICK, FULL = 200, 2_000
"""Simulations of each check."""

BEGIN, END = "<!-- validation -->", "<!-- end of validation -->"
"""Marks around the table in a page of documentation."""


MODULES = {
    name: name for name in ("probe", "frontier", "pressure", "proposals", "scaling", "tools")
}


@click.group(cls=NamedGroup, modules=MODULES)
def command() -> None:
    """Measure more of a run: beliefs, cost, pressure, scaling; or validate all intervals."""


@command.command()
@click.option("--full", is_flag=True, help=f"{FULL:,} simulations of each check, not {QUICK}.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Write the table as Markdown into FILE, between its marks.",
)
@format_option
def validate(full: bool, into: Path | None, format: str) -> None:
    """Simulate samples with known truths, and print how often every interval and test holds.

    Null, rare, clustered, skewed, unpaired, crossed and missing regimes; each goes through the
    functions that reports and comparisons call. Exit code 1 if a line does not hold.
    """
    from ...decisions.validation import validate as simulate
    from ...decisions.validation import validation_finding

    simulations = FULL if full else QUICK
    found = simulate(simulations)
    finding = validation_finding(found, simulations)
    if into is not None:
        before, begin, rest = into.read_text().partition(BEGIN)
        _, end, after = rest.partition(END)
        if not (begin and end):
            raise click.BadParameter(f"{into} has no {BEGIN} and {END} to write between")
        table = finding.text("markdown")
        into.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")
        say(f"written into {into}")
    show(finding.text(format, width()))
    if not all(line.holds for line in found):
        raise SystemExit(1)
