"""The command group: names and one-line helps at hand, everything else imported when called."""

import importlib

import click

from oversight.engine.cli.exit_codes import ExitCode

COMMANDS = {
    "demo": "Run a small sweep on simulated models: no key, no cost.",
    "init": "Write a commented sweep file to start from.",
    "doctor": "Check keys, models, limits and the clock, with a few small requests.",
    "plan": "Estimate the calls, cost and time of a sweep; nothing is sent.",
    "prompts": "Show what every seat of a sweep reads.",
    "rehearse": "Run a whole sweep against a local mock server: no key, no cost.",
    "run": "Start a sweep, or go on with one that was stopped.",
    "gather": "Put the parts of a sweep together into one run.",
    "runs": "List runs: how far each is, and how it ended.",
    "status": "Say how far a run is, and which process is running it.",
    "report": "Print the report of a run.",
    "compare": "Say which rows are better than which, and how sure that is.",
    "frontier": "Say what each row costs, and which rows are worth their cost.",
    "pressure": "Say what a protocol rewards when agents are optimised for it.",
    "scaling": "Rate judges and agents against each other; estimate nested oversight.",
    "view": "Look at runs in the browser: figures, transcripts, failures, live progress.",
    "bundle": "Write a run as a folder of web pages, to send or to keep.",
    "plot": "Draw a picture of a run for papers and slides, with its data.",
    "probe": "Ask judges what they believe after each turn; paid, but changes no score.",
    "human": "Put persons into seats, or have them judge transcripts, in the browser.",
    "show": "Print what was said about a problem, world by world.",
    "replay": "Repeat a run from its recorded replies alone; nothing is sent.",
    "export": "Write the recorded replies of a run into one file, or the run as tables.",
    "export-training": "Write a run as data for supervised, preference and reward training.",
    "score": "Score verdicts that were produced elsewhere.",
    "dataset": "Check data sets for leaks, fetch them, generate or rewrite answers.",
    "batches": "List the batches that a run has out, or cancel them.",
    "quota": "Say which runs of a shared database hold which part of the limits.",
    "cache": "Inspect, check, prune, export and import the store of paid replies.",
}
"""Each is `commands.NAME:command`. Help is kept here so that `--help` imports none of
them."""


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
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="oversight-bench", prog_name="oversight")
def oversight() -> None:
    """Benchmark oversight protocols: how well can a weak judge check a strong agent?

    A RUN is a run folder, the beginning of the name of one in runs/, or the sweep file that it was
    made from.
    """


def main() -> None:
    """Run the command line; an error of ours is one plain message, and no traceback."""
    try:
        oversight.main(prog_name="oversight")
    except Exception as exc:
        from oversight.engine.cli.faults import report_fault

        raise SystemExit(report_fault(exc)) from None
