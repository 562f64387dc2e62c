"""`oversight measure proposals`: how well verdicts tell right proposals from wrong ones."""

from pathlib import Path

import click

from ...decisions.proposals import graded_finding
from ...decisions.rows import read_rows
from ..naming import run_argument
from ..options import format_option
from ..output import show, width


@click.command()
@run_argument
@format_option
def command(run: Path, format: str) -> None:
    """Print how well each row of RUN tells right proposals from wrong ones: J, AUROC, lift.

    For data sets split into proposals (proposals: true), such as under proposer_critic: one answer
    to accept or reject, right as often as wrong.
    """
    show(graded_finding(read_rows(run)).text(format, width()))
