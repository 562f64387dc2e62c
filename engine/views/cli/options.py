"""The parameters that several commands share: each is declared once, with one help text.

A command takes them as defaults: `def command(run: Path = RUN, score: str = SCORE)`.
"""

import os
from pathlib import Path
from typing import Any

import click
from annotated_types import Interval

from ...analysis.reports.formats import FORMATS
from ...run.settings import FolderSettings, RunSettings
from ...system.flags import argument, flag
from .flags import setting


class OutputPath(click.Path):
    """Where to write; a file that a run consists of is refused."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(value)
        if path.is_file():
            from ...run.folders import is_run
            from ...run.run_folder import OUTCOMES, OWN_FILES

            its, names = path.resolve(), {*OWN_FILES, OUTCOMES}
            if its.name in names and is_run(its.parent):
                self.fail(f"{path} is a file of a run: write elsewhere", param, ctx)
        return with_name(Path(os.fsdecode(super().convert(value, param, ctx))))


def with_name(path: Path) -> Path:
    """The path; a whole one where it has no name for files to be put beside it, as `.` has none."""
    return path if path.name else Path(os.path.abspath(path))


FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)

SWEEP = argument("SWEEP")
SET = flag(
    "Override a setting, e.g. agents.temperature=0.7; repeatable.",
    name="--set",
    default=(),
    metavar="KEY=VALUE",
    under="Sweep",
)
OWN_SWEEP = flag(
    "Your sweep file, whose code may run: a run folder's own is only read.",
    name="--sweep",
    type=FILE,
)
"""Of commands that compose the calls of a run again."""
JSON = flag("Print JSON.", name="--json", default=False)
STORE = setting(FolderSettings, "store")
RECORDED_STORE = flag(
    "Folder of the reply store. Default: the store that the run was made with.",
    metavar="PATH|URL",
)
"""`--store` of commands that read the replies of runs."""
RUN_STORE = flag(
    "Where replies are kept. Default: the store that the run was made with.",
    metavar="FOLDER|URL",
)
"""`--store` of commands that ask more about a run, and store the replies."""
FOLDER_OF_RUN = setting(FolderSettings, "folder")
BATCH = setting(RunSettings, "batch")
PRICES = setting(RunSettings, "prices")
MAX_COST = setting(FolderSettings, "max_cost")
SCORE = setting(RunSettings, "score")
LIMIT = flag("Use only the first N problems.", within=Interval(ge=1), metavar="N", under="Sweep")
SEED = flag("Seed of the random numbers: the same seed gives the same result.", default=0)
HOST = flag(
    "Address to listen on; any but this machine's own asks for a token.", default="127.0.0.1"
)
FORMAT = flag(
    "Format of the output.",
    default="text",
    type=click.Choice([format for format in FORMATS if format != "json"]),
    json=True,
    under="Report",
)
TABLES_FORMAT = flag(
    "Format of the output.",
    name="--format",
    default="text",
    type=click.Choice([format for format in FORMATS if format not in ("csv", "json")]),
    json=True,
)
"""`--format` of results that are several tables, which one CSV file cannot hold."""


def port(default: int) -> Any:
    """`--port` of a server."""
    help = "Port to listen on; 0 for any that is free."
    return flag(help, default=default, within=Interval(ge=0, le=65535))


def output(default: str = "") -> Any:
    """`--output`. default: where the output goes without it; required if there is no default."""
    help = f"Where to write it. Default: {default}." if default else "Where to write it. Required."
    return flag(help, name="-o --output", type=OutputPath(), required=not default)
