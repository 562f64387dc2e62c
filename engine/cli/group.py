"""The command group: names and one-line helps at hand, everything else imported when called."""

import importlib

import click

from .exit_codes import ExitCode

SECTIONS = {
    "Start": {
        "demo": "Run a small sweep on simulated models: no key, no cost.",
        "init": "Write a commented sweep file to start from.",
        "dataset": "Check data sets for leaks, fetch them, generate or rewrite answers.",
    },
    "Before you pay": {
        "doctor": "Check keys, models, limits and the clock with a few small requests.",
        "plan": "Estimate the calls, cost and time of a sweep; nothing is sent.",
        "prompts": "Print the prompts that each seat of a sweep reads.",
        "rehearse": "Run a whole sweep against a local mock server: no key, no cost.",
    },
    "Run": {
        "run": "Start a sweep, or resume it, and print the report.",
        "runs": "List runs: how far each is, and how it ended.",
        "status": "Print how far a run is, and which process is running it.",
        "batches": "List the batches that a run has out, or cancel them.",
        "replay": "Repeat a run from its recorded replies alone; nothing is sent.",
        "record": "Write the record of a run, where it lacks one, from its stored replies.",
        "probe": "Ask judges what they believe after each turn; paid, but changes no score.",
        "human": "Seat people in a sweep, or have them judge its transcripts, in the browser.",
    },
    "Read the results": {
        "report": "Print the report of a run.",
        "show": "Print what was said about a problem, world by world.",
        "search": "Find words in what was said.",
        "view": "Browse runs: figures, transcripts, failures, cost, live progress.",
        "compare": "Tell which rows are better, and how sure that is.",
        "frontier": "Tell what each row costs, and which rows are worth it.",
        "pressure": "Tell what a protocol rewards when agents are optimised for it.",
        "scaling": "Rate judges and agents against each other; estimate nested oversight.",
        "measure": "Measure more: beliefs, cost, pressure, scaling; validate the intervals.",
        "study": "Score the judgements of experiments made elsewhere.",
        "score": "Score verdicts that were produced elsewhere.",
        "validate": "Simulate how often every printed interval and test holds.",
    },
    "Share": {
        "plot": "Draw a figure for a paper or slides, with its data.",
        "pack": "Make one file of a run for others, or open one.",
        "bundle": "Write a run as a folder of web pages: view --write, by its old name.",
        "export": "Write the replies of a run into one file, or the run as tables.",
        "export-training": "Write a run as data for supervised, preference or reward training.",
    },
    "Stores and machines": {
        "cache": "Inspect, check, prune, export and import the store of paid replies.",
        "gather": "Merge the parts of a sweep, run as separate jobs, into one run.",
        "quota": "Print how the runs that share a database divide the limits.",
    },
}
"""Commands by section of the help. Each is `commands.NAME:command`; its summary is kept here so
that `--help` imports none of them."""

COMMANDS = {name: summary for section in SECTIONS.values() for name, summary in section.items()}


class NamedGroup(click.Group):
    """A group that lists the first sentence on each command whole; click cuts it to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(limit=400)) for name, each in self.commands.items()]
            )


class LazyGroup(click.Group):
    """Imports a command's module when the command is called, not before."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"oversight.engine.cli.commands.{name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # Before a run begins or after it has ended; click would call it a failure of cells.
            raise SystemExit(ExitCode.INTERRUPTED) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                rows = [(name.ljust(width), summary) for name, summary in section.items()]
                formatter.write_dl(rows)


CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}
"""For all commands."""


@click.group(cls=LazyGroup, context_settings=CONTEXT_SETTINGS)
@click.version_option(package_name="oversight-bench", prog_name="oversight")
def oversight() -> None:
    """Benchmark oversight protocols: how well can a weak judge check a strong agent?

    A SWEEP is a YAML file: problems, agents, judges and protocols. A RUN is a run folder, the
    beginning of the name of one in runs/, or the sweep file that it was made from.
    """


def main() -> None:
    """Run the command line; an error of ours is one plain message, and no traceback."""
    try:
        oversight.main(prog_name="oversight")
    except Exception as exc:
        from .faults import report_fault

        raise SystemExit(report_fault(exc)) from None
