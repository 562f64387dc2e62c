"""`oversight measure`: further measures of a run, a command of each analysis there is."""

from pathlib import Path
from typing import Any

import click

from ....system.flags import argument
from ..flags import as_command
from ..group import NamedGroup
from ..naming import run_named
from ..options import SCORE, TABLES_FORMAT
from ..output import show, width


class Analyses(NamedGroup):
    """A command of each analysis, by its name or as `my_file.py:MyAnalysis`, beside its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from ....analysis.catalogue import TOP, names

        return [*super().list_commands(ctx), *(name for name in names() if name not in TOP)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        own = name in super().list_commands(ctx)
        return super().get_command(ctx, name) if own else _command(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ":" in args[0]:
            return args[0], _command(args[0]), args[1:]
        return super().resolve_command(ctx, args)


def _command(name: str) -> click.Command:
    from ....analysis.catalogue import analysis
    from ....analysis.judged import is_table
    from ....analysis.rows import read_rows

    kind = analysis(name)

    def command(
        named: str = argument("RUN"),
        score: str = SCORE,
        *,
        settings: Any,
        format: str = TABLES_FORMAT,
    ) -> None:
        if is_table(Path(named)):
            found = settings.of_table(Path(named), score)
        else:
            found = settings.sourced(read_rows(run_named(named)), score)
        show(found.text(format, width()))

    command.__annotations__["settings"] = kind
    command.__doc__ = kind.__doc__
    return as_command(command)


@click.group(cls=Analyses, path="measure", modules={"probe": "probe"})
def command() -> None:
    """Measure more of a run: beliefs, cost, calibration, people."""
