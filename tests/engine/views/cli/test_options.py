"""The options of all commands: each says what it is for, and one name says one thing."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from oversight.engine.errors import RunFolderError
from oversight.engine.views.cli.exit_codes import ExitCode
from oversight.engine.views.cli.group import oversight


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
OPTIONS = {
    (words, option.opts[-1] if option.opts[-1].startswith("--") else option.opts[0]): option
    for words, command in COMMANDS.items()
    for option in command.params
    if isinstance(option, click.Option) and not option.hidden
}
OF_ITS_OWN = {
    ("dataset check", "--set"),
    ("dataset generate", "--set"),
    ("dataset generate", "--seed"),
    ("replay", "--passages"),
    ("try", "--agent"),
    ("try", "--judge"),
    ("try", "--set"),
}
"""Options that set another thing than their namesakes: a loader's setting, the order of labels,
where texts are, what a class is tried with."""
VARIANTS = {
    "--agent": 2,  # of rows, and in a slot
    "--judge": 2,  # the same
    "--by": 3,  # rows of verdicts, of a report, and of a figure
    "--store": 3,  # to be written to, of a run that is read, of one asked more
    "--all": 3,  # of a store, of the rows of a report, and of contrasts
    "--where": 2,  # of judgements, and of rows
    "--format": 4,  # printed, printed with a table for papers, exported files, imported ones
    "--contrast": 3,  # to be planned for, to be registered, and to be looked at
    "--limit": 2,  # problems, and lines of a list
    "--output": 14,  # each default is named
    "--beta": 2,  # instead of the usual ones, and beside them
    "--model": 2,  # of stored replies, and to write answers
    "--dry-run": 3,  # checks a sweep, counts questions, and counts what would go
    "--from": 2,  # a mirror of data sets, and a folder of studies
}


def test_every_option_says_what_it_is_for() -> None:
    assert len(COMMANDS) > 20
    assert [
        place for place, option in OPTIONS.items() if len((option.help or "").split()) < 2
    ] == []


def test_an_option_that_commands_share_is_told_in_one_way() -> None:
    told = defaultdict(set)
    for (words, name), option in OPTIONS.items():
        if (words, name) not in OF_ITS_OWN:
            told[name].add(option.help)
    assert {name: texts for name, texts in told.items() if len(texts) > VARIANTS.get(name, 1)} == {}


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_command_says_in_its_first_line_what_it_does(words: str) -> None:
    first = (COMMANDS[words].help or "").partition("\n\n")[0]
    assert first.endswith((".", ":")) and len(first.split()) > 3


def test_exit_codes_are_those_that_scripts_rely_on() -> None:
    assert {code.name: code.value for code in ExitCode} == {
        "DONE": 0,
        "FAILED": 1,
        "USAGE": 2,
        "STOPPED": 3,
        "OVER_BUDGET": 4,
        "MISSED": 5,
        "BUSY": 7,
        "INTERRUPTED": 130,
    }


def test_there_are_few_commands() -> None:
    assert len(oversight.list_commands(click.Context(oversight))) <= 18
    assert len(COMMANDS) <= 45


def ran(*words: str) -> Result:
    """What a command tells whose terminal is wide enough for each message to be a line."""
    return CliRunner(env={"COLUMNS": "200"}).invoke(oversight, words)


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_command_tells_its_help_and_refuses_a_flag_that_it_has_not(words: str) -> None:
    told = ran(*words.split(), "--help")
    assert told.exit_code == ExitCode.DONE and f"Usage: oversight {words} [OPTIONS]" in told.stdout
    wrong = ran(*words.split(), "--no-such-flag")
    assert (wrong.exit_code, wrong.stdout) == (ExitCode.USAGE, "")
    assert "No such option '--no-such-flag'" in wrong.stderr


ON_A_RUN = [
    words
    for words, command in COMMANDS.items()
    if next((each.name for each in command.params if isinstance(each, click.Argument)), "") == "run"
    and words != "cache rebuild"  # it takes a folder, in which there may be no run any more
]


@pytest.mark.parametrize("words", ON_A_RUN)
def test_every_command_on_a_run_tells_that_there_is_none(words: str, place: Path) -> None:
    more = {"human withdraw": ["rater"]}.get(words, [])
    told = ran(*words.split(), "nowhere", *more)
    assert (type(told.exception), told.stdout) == (RunFolderError, "")
    assert str(told.exception).startswith("no run folder in runs has a name that begins with")


JSON = {
    "run": "small.yaml",
    "status": "RUN",
    "replay": "RUN",
    "report": "RUN",
    "show": "RUN",
    "cache batches": "RUN",
    "compare": "RUN",
    "measure frontier": "RUN",
    "plan": "small.yaml",
    "cache stats": "",
    "cache verify": "",
    "dataset check": "bundled --set name=arithmetic",
    "doctor": "",
    "export verify": "run.oversight",
}
"""What each is asked. Others have tests of theirs: servers, people, studies, one's own code, and
`cache list`, which prints a line of JSON for each reply."""


@pytest.mark.wire
def test_json_is_json_and_all_of_the_output(made: Path, place: Path) -> None:
    asked = {words for words, name in OPTIONS if name == "--json"}
    assert set(JSON) < asked
    assert ran("export", "pack", str(made), "-o", "run.oversight").exit_code == ExitCode.DONE
    for words, given in JSON.items():
        told = ran(*words.split(), *given.replace("RUN", str(made)).split(), "--json")
        assert told.exit_code == ExitCode.DONE, (words, told.stderr, told.exception)
        assert isinstance(json.loads(told.stdout), dict | list), words
