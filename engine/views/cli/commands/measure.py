"""`oversight measure`: further measures of a run, one command per analysis."""

import inspect
from pathlib import Path
from traceback import extract_tb
from typing import Any

import click

from ....errors import EngineError, UsageError
from ....system.settings import argument
from ..flags import SCORE, TABLES_FORMAT, as_command
from ..group import NamedGroup
from ..naming import rows_of, run_named
from ..output import show, width


class Analyses(NamedGroup):
    """One command per analysis, by its name or as `my_file.py:MyAnalysis`, and the group's own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from ....analysis.catalogue import TOP, names

        return [*super().list_commands(ctx), *(name for name in names() if name not in TOP)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        is_listed = name in super().list_commands(ctx)
        return super().get_command(ctx, name) if is_listed else _command(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ":" in args[0]:
            return args[0], _command(args[0]), args[1:]
        return super().resolve_command(ctx, args)


def _command(name: str) -> click.Command:
    from ....analysis.catalogue import analysis
    from ....analysis.reading import is_table
    from ....analysis.scores import MeasureScores, is_scores

    kind = analysis(name)

    def command(
        named: str = argument("RUN"),
        score: str = SCORE,
        *,
        settings: Any,
        format: str = TABLES_FORMAT,
    ) -> None:
        path = Path(named)
        elsewhere = kind is MeasureScores or is_table(path)
        table = path if elsewhere or (kind.reads_scores and is_scores(path, {})) else None
        run = None if table else rows_of(run_named(named))
        try:
            finding = settings.of_table(table, score) if table else settings.sourced(run, score)
            text = finding.text(format, width())
        except EngineError:
            raise
        except Exception as fault:
            if ":" in name:
                raise UsageError(_raised(kind, fault)) from fault
            raise
        show(text)

    command.__annotations__["settings"] = kind
    command.__doc__ = kind.__doc__
    return as_command(command)


def _raised(kind: type, fault: Exception) -> str:
    """The error of a user's analysis, with its line."""
    place = inspect.getfile(kind)
    frames = [frame for frame in extract_tb(fault.__traceback__) if frame.filename == place]
    at = f"{place}:{frames[-1].lineno}" if frames else place
    return f"{at}: {kind.__name__}: {type(fault).__name__}: {fault}"


@click.group(cls=Analyses, path="measure", modules=["probe", "sides"])
def command() -> None:
    """Measure more of a run: beliefs, cost, calibration, people."""
