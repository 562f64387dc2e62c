"""`oversight bundle`: the name of `view --write` until version 0.3."""

from pathlib import Path
from typing import Any

import click

from ..naming import run_argument
from ..options import output_option, recorded_option
from ..output import say
from ..site import site_options, write_site


@click.command()
@run_argument
@output_option()
@site_options
@recorded_option
def command(run: Path, output: Path, store: str | None, **settings: Any) -> None:
    """Write RUN as a folder of pages; from 0.3 on: oversight view RUN --write DIR."""
    say("bundle is called view --write now, and goes in version 0.3")
    write_site(run, output, store, **settings)
