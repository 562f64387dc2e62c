"""All commands describe themselves and their options, and refuse by name."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from oversight.engine.errors import RunFolderError
from oversight.engine.views.cli.exit_codes import ExitCode
from oversight.engine.views.cli.flags import RENAMED
from oversight.engine.views.cli.group import oversight
from tests.engine.conftest import Finished


def commands(group: click.Group = oversight, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


COMMANDS = dict(commands())


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_command_and_option_has_a_help_text(words: str) -> None:
    first = (COMMANDS[words].help or "").partition("\n\n")[0]
    assert first.endswith((".", ":")) and len(first.split()) > 3
    options = [param for param in COMMANDS[words].params if isinstance(param, click.Option)]
    assert all(len((option.help or "").split()) > 1 for option in options if not option.hidden)


def test_number_of_commands_is_small() -> None:
    assert len(oversight.list_commands(click.Context(oversight))) <= 17 and len(COMMANDS) <= 44


def test_exit_codes_are_those_that_scripts_rely_on() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "DONE": 0, "FAILED": 1, "USAGE": 2, "STOPPED": 3, "OVER_BUDGET": 4, "MISSED": 5, "BUSY": 7,
        "INTERRUPTED": 130,
    }  # fmt: skip


def ran(*words: str) -> Result:
    """Output of a command on a terminal wide enough for one line per message."""
    return CliRunner(env={"COLUMNS": "200"}).invoke(oversight, words)


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_command_prints_help_and_refuses_unknown_options(words: str) -> None:
    help = ran(*words.split(), "--help")
    assert help.exit_code == ExitCode.DONE and f"Usage: oversight {words} [OPTIONS]" in help.stdout
    wrong = ran(*words.split(), "--no-such-flag")
    assert (wrong.exit_code, wrong.stdout) == (ExitCode.USAGE, "")
    assert "No such option '--no-such-flag'" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "headings"),
    [
        ("plan", "Sweep, Sample size, Prompts, Rehearsal, Output, Options"),
        ("export plot", "Figure, Rows, Look, Output, Options"),
    ],
)
def test_help_of_commands_with_many_options_is_in_groups(words: str, headings: str) -> None:
    lines = ran(*words.split(), "--help").stdout.splitlines()
    assert ", ".join(line[:-1] for line in lines if line[:1] > " " and line[-1:] == ":") == headings


@pytest.mark.parametrize("old", sorted(RENAMED))
def test_renamed_options_are_refused_with_their_new_name(old: str) -> None:
    words = next(
        words
        for words, command in COMMANDS.items()
        if any(RENAMED[old] in parameter.opts for parameter in command.params)
    )
    refused = ran(*words.split(), old)
    assert refused.exit_code == ExitCode.USAGE
    assert f"{old} is now called {RENAMED[old]}" in refused.stderr


ON_A_RUN = [
    words
    for words, command in COMMANDS.items()
    if next((p.name for p in command.params if isinstance(p, click.Argument)), "") == "run"
    and words != "cache rebuild"  # it takes a folder, which may have lost its run
]


@pytest.mark.parametrize("words", ON_A_RUN)
def test_every_command_on_a_run_refuses_a_missing_run(words: str, place: Path) -> None:
    more = {"human withdraw": ["rater"]}.get(words, [])
    result = ran(*words.split(), "nowhere", *more)
    assert (type(result.exception), result.stdout) == (RunFolderError, "")
    assert str(result.exception).startswith("no run folder in runs has a name that begins with")


JSON = {
    "run": "small.yaml", "status": "RUN", "replay": "RUN", "report": "RUN", "show": "RUN",
    "cache batches": "RUN", "compare": "RUN", "measure frontier": "RUN", "plan": "small.yaml",
    "cache verify": "", "dataset check": "bundled --set name=arithmetic", "doctor": "",
    "export verify": "run.oversight",
}  # fmt: skip
"""Arguments of each. Others have separate tests: servers, people, studies, one's own code, and
`cache list`, which prints a line of JSON for each reply."""


@pytest.mark.wire
def test_json_is_json_and_all_of_the_output(finished: Finished) -> None:
    assert ran("export", "pack", str(finished.folder), "-o", "run.oversight").exit_code == 0
    for words, arguments in JSON.items():
        arguments = arguments.replace("RUN", str(finished.folder))
        result = ran(*words.split(), *arguments.split(), "--json")
        assert result.exit_code == ExitCode.DONE, (words, result.stderr, result.exception)
        assert isinstance(json.loads(result.stdout), dict | list), words
