"""Commands of click from declarations: parameters of functions, and dataclasses of settings.

Parameters that several commands share are declared once, with one help text. A command takes them
as defaults: `def command(run: Path = RUN, score: str = SCORE)`."""

import inspect
import math
import os
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import click
from annotated_types import Interval

from ....protocols.settings import ends
from ...analysis.reports.formats import FORMATS
from ...run.settings import FolderSettings, RunSettings
from ...system.settings import FLAG, Flag, argument, flag

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

_RUNS = dict.fromkeys(("RUN", "RUN|PACK...", "[RUN2]", "[RUN|FOLDER]"), "run_names")
COMPLETIONS = {**_RUNS, "SWEEP": "sweep_files"}
"""By metavar, the function of `completing`, which is imported when the shell asks."""


class Number(click.FloatRange):
    """A number within a range. Unlike click's own, it does not take `nan`, which is within no range
    and yet refused by none, nor `inf` where that is not the maximum."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number) or (math.isinf(number) and self.max != number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class DeclaredOption(click.Option):
    """An option, with its heading in the help. rare: only `--help-all` shows it."""

    def __init__(self, *names: Any, under: str = "Options", rare: bool = False, **how: Any) -> None:
        super().__init__(*names, **how)
        self.under, self.rare = under, rare


RENAMED = {
    "--accept-empty": "--allow-missing-replies",
    "--adopt-code": "--allow-changed-code",
    "--each": "--raters-per-transcript",
    "--lanes": "--concurrency",
    "--readings": "--transcripts",
    "--whole": "--all-transcripts",
}
"""Options of earlier versions, which are refused with the new name."""


class DeclaredCommand(click.Command):
    """A command whose help has its options under headings, and rare ones only in `--help-all`."""

    grouped = False
    """Whether the help has headings although no option is rare."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as fault:
            if new := RENAMED.get(fault.option_name):
                raise click.UsageError(f"{fault.option_name} is now called {new}", ctx) from None
            raise

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        parameters = super().get_params(ctx)
        rare = any(getattr(parameter, "rare", False) for parameter in parameters)
        return [*parameters[:-1], HELP_ALL, parameters[-1]] if rare else parameters

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        headings: dict[str, list[tuple[str, str]]] = {}
        params = self.get_params(ctx)
        long = HELP_ALL in params or self.grouped
        for parameter in params:
            hidden = getattr(parameter, "rare", False) and not ctx.meta.get(_HELP_ALL)
            if isinstance(parameter, click.Argument) or hidden:
                continue
            under = getattr(parameter, "under", "Options") if long else "Options"
            if record := parameter.get_help_record(ctx):
                headings.setdefault(under, []).append(record)
        others = headings.pop("Options", [])
        for heading, records in (*headings.items(), ("Options", others)):
            with formatter.section(heading):
                formatter.write_dl(records)


_HELP_ALL = "--help-all"


def _help_all(context: click.Context, _: click.Parameter, is_set: bool) -> None:
    if is_set:
        context.meta[_HELP_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


HELP_ALL = click.Option(
    [_HELP_ALL],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_help_all,
    help="Show all options.",
)


def as_command(function: Callable[..., Any]) -> click.Command:
    """A command with an option or an argument for each parameter that is declared with `flag` or
    `argument`, and for each such field of a parameter whose type is a dataclass of them."""
    return click.command(cls=DeclaredCommand)(with_parameters(function))


def grouped(headings: Mapping[str, str]) -> Callable[[click.Command], click.Command]:
    """Put the options of a command under these headings of its help, in this order. headings: names
    of parameters, separated by spaces, by heading."""
    places = {
        name: (n, heading)
        for n, (heading, names) in enumerate(headings.items())
        for name in names.split()
    }

    def group(command: click.Command) -> click.Command:
        assert isinstance(command, DeclaredCommand)
        command.grouped = True
        for option in command.params:
            if isinstance(option, DeclaredOption):
                option.under = places[option.name or ""][1]
        command.params.sort(key=lambda param: places.get(param.name or "", (-1, ""))[0])
        return command

    return group


def with_parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    """What `as_command` makes a command of; for one that a group adds under another name."""
    hints = get_type_hints(function)
    settings: dict[str, type[Any]] = {}
    every: list[Decorator] = []
    for parameter in inspect.signature(function).parameters.values():
        name, hint, default = parameter.name, hints[parameter.name], parameter.default
        if isinstance(default, Field):
            every += _parameter(name, hint, default)
        elif is_dataclass(hint) and isinstance(hint, type):
            settings[name], of_fields = hint, get_type_hints(hint)
            for declared_field in declared(hint):
                every += _parameter(
                    declared_field.name, of_fields[declared_field.name], declared_field
                )

    @wraps(function)
    def called(**values: Any) -> Any:
        for name, kind in settings.items():
            values[name] = kind(
                **{field_of.name: values.pop(field_of.name) for field_of in declared(kind)}
            )
        return function(**values)

    added: Callable[..., Any] = called
    for add in reversed(every):
        added = add(added)
    return added


def setting(settings: type[Any], name: str) -> Any:
    """The declaration of one setting, for a command that takes no others of them."""
    (declared_field,) = (candidate for candidate in declared(settings) if candidate.name == name)
    return field(default=declared_field.default, metadata=declared_field.metadata)


def declared(settings: type[Any]) -> "list[Field[Any]]":
    """The fields that are options."""
    return [candidate for candidate in fields(settings) if FLAG in candidate.metadata]


def _parameter(name: str, hint: Any, declared_field: "Field[Any]") -> Iterator[Decorator]:
    flag: Flag = declared_field.metadata[FLAG]
    default = None if declared_field.default is MISSING else declared_field.default
    kinds = [kind for kind in _kinds(hint) if kind is not types.NoneType]
    many = default == () or (flag.read is None and get_origin(kinds[0]) is tuple)
    how: dict[str, Any] = {"metavar": flag.metavar, "required": flag.required}
    if flag.complete:
        how["shell_complete"] = flag.complete
    elif offers := COMPLETIONS.get(flag.metavar or ""):
        how["shell_complete"] = partial(_offered, offers)
    if bool in kinds and flag.read is None:
        how["is_flag"] = True
    else:
        how["type"] = flag.type or _type(kinds, flag)
    if flag.read is not None:
        how["callback"] = _reader(flag.read)
        default = default if default is None or many else str(default)
    if flag.argument:
        optional = many or default is not None or types.NoneType in _kinds(hint)
        how["required"] = flag.required or not optional
        if default is not None or optional:
            how["default"] = default
        yield click.argument(name, nargs=-1 if many else 1, **how)
        return
    if many:
        how["multiple"], default = True, ()
    has_default = default not in ("", ()) and default is not None
    if not flag.required:
        how["default"] = default
    if flag.json:
        how["callback"] = lambda context, _, value: context.meta.get(_JSON, value)
    names = (flag.name or f"--{name.replace('_', '-')}").split()
    where: dict[str, Any] = {"cls": DeclaredOption, "under": flag.under, "rare": flag.rare}
    yield click.option(*names, name, help=flag.help, show_default=has_default, **where, **how)
    if flag.json:
        yield click.option(
            _JSON,
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_json,
            help="Print JSON.",
            **where,
        )


def _offered(by: str, *about: Any) -> Any:
    """Completions, by the name of a function."""
    return getattr(import_module(".completing", __package__), by)(*about)


_JSON = "--json"


def _json(context: click.Context, _: click.Parameter, is_set: bool) -> None:
    if is_set:
        context.meta[_JSON] = "json"


def _type(kinds: list[Any], flag: Flag) -> Any:
    kind = kinds[0]
    if get_origin(kind) is tuple:
        kind = get_args(kind)[0]
    if flag.read is not None:
        return str
    if get_origin(kind) is Literal:
        return click.Choice(list(get_args(kind)))
    least, most = ends(flag.within)
    if kind in (int, float) and least is most is None:
        return kind
    if kind is int:
        lowest, highest = (None if end is None else int(end) for end in (least, most))
        return click.IntRange(lowest, highest)
    if kind is float:
        return Number(least, most)
    if kind is Path and str not in kinds:
        return click.Path(path_type=Path, exists=flag.exists)
    return str


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a union; of anything else, itself."""
    return get_args(hint) if get_origin(hint) in (types.UnionType, Union) else (hint,)


def _reader(read: Callable[[Any], Any]) -> Callable[..., Any]:
    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return None if value is None else read(value)
        except ValueError as exc:
            raise click.BadParameter(str(exc)) from None

    return callback


class OutputPath(click.Path):
    """Where to write; a file that a run consists of is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(value)
        if path.is_file():
            from ...run.folders import is_run
            from ...run.run_folder import OUTCOMES, OWN_FILES

            resolved, names = path.resolve(), {*OWN_FILES, OUTCOMES}
            if resolved.name in names and is_run(resolved.parent):
                self.fail(f"{path} is a file of a run: write elsewhere", param, ctx)
        return with_name(Path(os.fsdecode(super().convert(value, param, ctx))))


def with_name(path: Path) -> Path:
    """The path; made absolute if it has no name, as `.` has none."""
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
RECORDED_STORE = flag("Store of the replies. Default: the run's.", metavar="PATH|URL")
"""`--store` of commands that read the replies of runs."""
RUN_STORE = flag("Store of the replies. Default: the run's.", metavar="FOLDER|URL")
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
    """`--output`. default: the output without it; required if empty."""
    help = f"Where to write it. Default: {default}." if default else "Where to write it. Required."
    return flag(help, name="-o --output", type=OutputPath(), required=not default)
