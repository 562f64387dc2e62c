"""The options that several commands share: each is declared once, with one help text."""

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from ..api.settings import FolderSettings, RunSettings
from ..reports.formats import FORMATS
from ..runs.listing import is_run
from ..system.settings import is_url
from .flags import Decorator, option_of
from .output import say


class StoreFolder(click.Path):
    """The folder of a store; the URL of a database is refused."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if is_url(str(value)):
            self.fail(f"{value} is a database, and this works on a folder: name one", param, ctx)
        return super().convert(value, param, ctx)


set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a setting, e.g. agents.temperature=0.7; repeatable.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
store_option = option_of(FolderSettings, "store")
folder_store_option = click.option(
    "--store",
    type=StoreFolder(),
    help="Folder of the reply store. Default: $OVERSIGHT_STORE, else in the user's cache folder.",
)
"""For commands that mend the files of a store."""


def _unneeded(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        say("--store is not needed here any more: what is read stands in the run folder")


no_store_option = click.option(
    "--store",
    hidden=True,
    expose_value=False,
    is_eager=True,
    callback=_unneeded,
    help="Not needed any more: what is read stands in the run folder.",
)
"""`--store` of commands that read the record: it answers until version 0.3, and does nothing."""

recorded_option = click.option(
    "--store",
    metavar="PATH|URL",
    help="Folder of the reply store, a bundle, or postgresql://… Default: the store that the run "
    "was made with.",
)
"""For commands that read the replies of runs."""
run_store_option = click.option(
    "--store",
    metavar="FOLDER|URL",
    help="Where replies are kept. Default: the store that the run was made with.",
)
"""For commands that ask more about a run, and store the replies."""
run_folder_option = option_of(FolderSettings, "folder", "run_folder")
batch_option = option_of(RunSettings, "batch")
limit_option = click.option(
    "--limit", type=click.IntRange(1), help="Use only the first N problems.", metavar="N"
)
prices_option = option_of(RunSettings, "prices")
max_cost_option = option_of(FolderSettings, "max_cost")
score_option = option_of(RunSettings, "score")
seed_option = click.option(
    "--seed",
    type=int,
    default=0,
    help="Seed of the random numbers: the same seed gives the same result.",
)
host_option = click.option(
    "--host",
    default="127.0.0.1",
    help="Address to listen on; any but this machine's own asks for a token.",
)


def port_option(default: int) -> Decorator:
    """`--port` of a server."""
    return click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=default,
        help="Port to listen on; 0 for any that is free.",
    )


def format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--format`, and `--json` as a short form of one of them."""
    return _formats(FORMATS, command)


def tables_format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for results that are several tables: they are not one CSV file."""
    return _formats([format for format in FORMATS if format != "csv"], command)


def _formats(formats: Iterable[str], command: Callable[..., Any]) -> Callable[..., Any]:
    option = click.option(
        "--format",
        type=click.Choice(list(formats)),
        default="text",
        help="Format of the output.",
    )
    json = click.option("--json", "format", flag_value="json", help="Same as --format json.")
    return option(json(command))


def _no_file_of_a_run(
    context: click.Context, parameter: click.Parameter, path: Path | None
) -> Path | None:
    """BadParameter if writing there would replace a file that a run consists of."""
    if path is not None and path.is_file():
        from ..record.schema import RECORD
        from ..runs.run_folder import OUTCOMES, OWN_FILES, RUN_ID
        from ..runs.trust import SEAL

        its, names = path.resolve(), {*OWN_FILES, OUTCOMES, RECORD, RUN_ID, SEAL}
        if its.name in names and is_run(its.parent):
            raise click.BadParameter(f"{path} is a file of a run: write elsewhere")
    return path


def output_option(default: str = "") -> Decorator:
    """`--output`. default: where the output goes without it; required if there is no default."""
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        callback=_no_file_of_a_run,
        required=not default,
        help=f"Where to write it. Default: {default}." if default else "Where to write it.",
    )


def _row_help(role: str) -> str:
    return f"Only rows with this text in the {role}'s name."


def _row_option(role: str) -> Decorator:
    return click.option(
        f"--{role}", default="", show_default=False, metavar="TEXT", help=_row_help(role)
    )


protocol_option = _row_option("protocol")
# Any default, None too, would be taken for what is required.
one_protocol_option = click.option(
    "--protocol", required=True, metavar="TEXT", help=_row_help("protocol")
)


def row_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--protocol`, `--agent` and `--judge`; the command gets them as `parts`, which choose
    rows of a report by their names."""

    @protocol_option
    @_row_option("agent")
    @_row_option("judge")
    @wraps(command)
    def on_rows(protocol: str, agent: str, judge: str, **others: Any) -> Any:
        from ..runs.lookup import Parts  # not only for `--help`

        return command(parts=Parts(protocol, agent, judge), **others)

    return on_rows
