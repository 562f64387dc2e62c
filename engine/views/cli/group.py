"""The command group: names and one-line helps at hand, everything else imported when called."""

import importlib
import os
from collections.abc import Callable, Collection
from typing import Any

import click

from ...system.process import COMMANDS_GROUP, extensions, load_one, registered
from .exit_codes import ExitCode

SECTIONS = {
    "Start": {
        "demo": "Run a small sweep on simulated models: no key, no cost.",
        "init": "Write a commented sweep file to start from.",
    },
    "Before you pay": {},
    "Run": {
        "run": "Start a sweep, or resume it, and print the report.",
        "status": "Print how far a run is; without a run, list all runs.",
        "replay": "Repeat a run from its recorded replies alone; nothing is sent.",
    },
    "Read": {
        "report": "Print the report of a run, or of several runs and packs side by side.",
        "show": "Print the transcripts of a problem, world by world, or search them all.",
        "view": "Browse runs in the browser, or write a run as a folder of web pages.",
        "compare": "Compare rows: differences with intervals and corrected p-values.",
        "measure": "Measure more of a run: beliefs, cost, calibration, people.",
    },
    "Share": {
        "export": "Write a run as a figure, tables, logs of Inspect, or one file for others."
    },
    "Stores": {"cache": "Inspect, check, prune, back up, move and merge stored replies."},
}
"""The core's commands by heading of the help. Each is `commands.NAME:command`; its summary is kept
here so that `--help` imports none of them."""


def headings() -> dict[str, dict[str, str]]:
    """Summaries of all commands of the core and of extensions, by heading and name."""
    commands_by_heading = {heading: dict(commands) for heading, commands in SECTIONS.items()}
    for groups in extensions().values():
        for name, point in groups.get(COMMANDS_GROUP, {}).items():
            if "under" in point:
                commands_by_heading.setdefault(point["under"], {})[name] = point["does"]
    return {heading: commands for heading, commands in commands_by_heading.items() if commands}


class NamedGroup(click.Group):
    """A group that lists the first sentence on each command whole; click cuts it to one line.

    modules: names of commands that lie in modules so called; imported when they are called.
    path: the words of the group itself; commands that are registered under them are its own too."""

    def __init__(
        self, *args: Any, modules: Collection[str] = (), path: str | None = None, **others: Any
    ) -> None:
        super().__init__(*args, **others)
        self.modules = modules
        self.path = None if path is None else f"{path} "

    def adds(self, name: str | None = None) -> Callable[[Callable[..., Any]], click.Command]:
        """Add the decorated function as a command; see `flags.as_command`."""
        from .flags import DeclaredCommand, with_parameters

        return lambda function: self.command(name, cls=DeclaredCommand)(with_parameters(function))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.modules, *self.commands, *self._registered()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in self.modules:
            module = importlib.import_module(f".commands.{name}", __package__)
            command: click.Command = module.command
            return command
        if name not in self.commands and (registered_name := self._registered().get(name)):
            return load_one(COMMANDS_GROUP, registered_name, click.Command)
        return super().get_command(ctx, name)

    def _registered(self) -> dict[str, str]:
        """The names of commands that are registered for this group -> under which name."""
        if (path := self.path) is None:
            return {}
        ours = (name for name in registered(COMMANDS_GROUP) if name.startswith(path))
        return {name.removeprefix(path): name for name in ours}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and args[0] not in (names := self.list_commands(ctx)):
            import difflib

            near = difflib.get_close_matches(args[0], names, n=3)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            every = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
            rows = [(name, entry.get_short_help_str(limit=400)) for name, entry in every if entry]
            formatter.write_dl(rows)


class CommandTree(NamedGroup):
    """All commands, by section."""

    def __init__(self, **others: Any) -> None:
        core = [name for commands in SECTIONS.values() for name in commands]
        super().__init__(modules=core, **others)

    def _registered(self) -> dict[str, str]:
        every = (name for commands in headings().values() for name in commands)
        return {name: name for name in every if name not in self.modules}

    def get_help(self, ctx: click.Context) -> str:
        ctx.terminal_width = _columns() - 2
        return super().get_help(ctx)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # Before a run begins or after it has ended; click would call it a failure of cells.
            raise SystemExit(ExitCode.INTERRUPTED) from None
        except click.ClickException as fault:
            if not os.environ.get(LOG) == "json":
                raise
            from .output import complain

            complain(fault.format_message())
            raise SystemExit(fault.exit_code) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        every = headings()
        width = max(len(name) for commands in every.values() for name in commands)
        for title, section in every.items():
            with formatter.section(title):
                rows = [(name.ljust(width), summary) for name, summary in section.items()]
                formatter.write_dl(rows)


def _columns() -> int:
    """Columns of the terminal, 52 to 80, as click finds them; it would import `shutil` and zlib."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        try:
            columns = os.get_terminal_size(1).columns
        except OSError:
            columns = 0
    return max(min(columns or 80, 80), 52)


LOG = "OVERSIGHT_LOG"
"""Set to `json`, it makes every line on stderr an object."""

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
"""Settings of click that all commands share."""


@click.group(cls=CommandTree, context_settings=CONTEXT_SETTINGS)
@click.version_option(package_name="oversight-bench", prog_name="oversight")
def oversight() -> None:
    """Benchmark oversight protocols: how well can a weak judge check a strong agent?

    A SWEEP is a YAML file: problems, agents, judges and protocols. A RUN is a run folder, the
    beginning of the name of one in runs/, or the sweep file that it was made from."""


def main() -> None:
    """Run the command line; an error of ours is one plain message, and no traceback."""
    try:
        if os.environ.get(LOG) == "json":
            from ...display.progress import log_as_json

            log_as_json()
        oversight.main(prog_name="oversight")
    except Exception as exc:
        from .output import report_fault

        raise SystemExit(report_fault(exc)) from None
