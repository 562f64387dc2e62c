"""`oversight measure tools`: what speakers had computed, and how often their claims held."""

from pathlib import Path

import click

from ...decisions.tool_uses import tool_uses
from ...runs.reader import RunReader
from ..naming import run_argument
from ..options import format_option
from ..output import show, width


@click.command()
@run_argument
@format_option
def command(run: Path, format: str) -> None:
    """Print how often the speakers of each row used tools and had claims checked, and what came
    of it, apart for those who argued for the best answer and for the others."""
    show(tool_uses(RunReader(run)).text(format, width()))
