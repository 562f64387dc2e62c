"""`oversight study`: experiments that were made elsewhere."""

import click

from ..group import NamedGroup
from .score import command as score


@click.group(cls=NamedGroup)
def command() -> None:
    """Score the judgements of experiments that were made elsewhere."""


command.add_command(score, "score")
