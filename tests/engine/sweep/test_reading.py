"""Values and refusals of sweep files: one Markdown table per reader."""

import re
import sys
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any

from oversight.engine.errors import UsageError
from oversight.engine.run.loaded_sweep import load_sweep, open_sweep
from oversight.engine.sweep.document import Document, Node
from oversight.engine.sweep.loading import shots
from oversight.engine.sweep.roles import agents, judges, protocols
from oversight.engine.sweep.sweep import report_rows
from oversight.engine.sweep.sweepfile import read_sweep_file
from oversight.protocols import Agent, Debate, Judge, NaiveJudge, Protocol, Speaker, StatedJudge
from oversight.protocols.catalogue import PROTOCOLS
from tests.engine.sweep.test_document import NAMED, TEXT, parsed
from tests.engine.sweep.test_plugins import SWEEP as OWN
from tests.engine.sweep.test_sweepfile import GRID
from tests.engine.sweep_files import sweep_file
from tests.sessions import refusals, sessions

WEAK = StatedJudge("sim/weak")


def section(name: str, text: str) -> Node:
    return Node.section(Document.parse(f"{name}:\n  {text}\n", "s.yaml"), name)


def speakers(text: str) -> list[Speaker]:
    return [make(WEAK) for make in agents(section("agents", text))]


def judged(text: str) -> list[Judge]:
    return judges(section("judges", text))


def made(text: str) -> list[Protocol]:
    strong = agents(section("agents", "sim/strong"))
    return list(protocols(section("protocols", text), strong, [WEAK]))


def read_file(text: str) -> object:
    Path("s.yaml").write_text(text)
    return read_sweep_file(Path("s.yaml"))


def edited(text: str) -> object:
    right, _, wrong = text.replace("\n=>\n", " => ").partition(" => ")
    assert right in GRID
    return read_file(GRID.replace(right, wrong))


def prompted(text: str) -> object:
    """A sweep whose prompts are in a file with this text."""
    Path("mine.yaml").write_text(text)
    return read_file(GRID + "prompts: mine.yaml\n")


def of_ones_own(text: str) -> object:
    """A sweep with a protocol of this name; below it, what mine.py has."""
    name, _, code = text.partition("\n")
    Path("mine.py").write_text(code)
    Path("mine.yaml").write_text(OWN.format(name=name))
    try:
        return open_sweep(Path("mine.yaml"))
    except UsageError as fault:
        message = str(fault).replace(str(Path.cwd()), "~").replace(sys.prefix, "VENV")
        raise UsageError(re.sub(r"file \w{12} \w{12}", "file …", message)) from fault


def flagged(text: str) -> list[object]:
    *before, flag = text.split("\n")
    document = parsed("\n".join(before) or TEXT)
    document.set(flag)
    return [document.value[flag.partition("=")[0].partition(".")[0]]]


def in_roles(text: str) -> list[object]:
    file = sweep_file(text)
    return [*file.protocols, *file.notes]


def rows(text: str) -> list[str]:
    """Return the names of each row: protocol, agent, judge."""
    return [f"{row.kind} | {row.agent} | {row.judge}" for row in sweep_file(text).sweep({}).rows]


def reported(text: str) -> list[object]:
    """Return, for each row, the names that reports show, and its axes."""
    return [[*row.shown_names, *astuple(row.axes)] for row in sweep_file(text).sweep({}).rows]


def loaded(text: str, **variables: str) -> object:
    return load_sweep(sweep_file(NAMED + text), variables)


def at(url: str) -> Callable[[str], object]:
    return partial(loaded, COMPATIBLE_LAB_BASE_URL=url)


READERS: dict[str, Callable[[str], Any]] = {
    "agents": speakers,
    "judges": judged,
    "protocols": made,
    "a sweep file, and what is written otherwise in it": edited,
    "a whole sweep file": read_file,
    "a set of prompts": prompted,
    "sets of prompts": lambda text: read_file(f"{GRID}prompts:\n{indent(text, '  ')}"),
    "a class of one's own, and the text of mine.py": of_ones_own,
    "all roles": in_roles,
    "a judge of the file picks drafts, unless the agents name another": in_roles,
    "a name of one's own, whose model takes no temperature": in_roles,
    "rows": rows,
    "rows as reports show them, with their axes": reported,
    "a text": lambda text: [parsed(text).value],
    "a flag": flagged,
    "a flag, behind the text that it changes": flagged,
    "providers and models": loaded,
    "providers and models, their servers named in the environment": at("http://127.0.0.1:9/v1"),
    "providers and models, a server of the environment's that is no address": at("http://[::1"),
    "a judge, its model and a setting": lambda text: sweep_file(
        f"agents: sim/strong\njudges:\n  - {{model: {text}}}\nprotocols: debate\n"
    ).sweep({}),
    "examples": lambda text: shots(
        Node.section(Document.parse(f"examples: {text}", "s.yaml"), "examples")
    ),
}


@sessions(Path(__file__).with_name("refusals.md"))
def test_error_names_place_value_and_fix(session, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session.check(request, refusals(READERS[session.heading], UsageError))


def shown(value: Any) -> str:
    """A value in a line, without the settings that are the usual ones."""
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if not is_dataclass(value):
        return repr(value)
    settings = ((field, getattr(value, field.name)) for field in fields(value))
    changed = (f"{field.name}={shown(now)}" for field, now in settings if now != field.default)
    return f"{type(value).__name__}({', '.join(changed)})"


@sessions(Path(__file__).with_name("readings.md"))
def test_sweep_files_are_read_as_intended(session, request):
    read = READERS[session.heading]
    session.check(request, lambda text: map(shown, read(text)))


def test_every_protocol_of_the_catalogue_needs_no_setting():
    text = f"[{', '.join(PROTOCOLS)}]"
    assert [type(protocol) for protocol in made(text)] == list(PROTOCOLS.values())
    assert made(f"{{{': , '.join(PROTOCOLS)}: }}") == made(text)


def test_rows_with_equal_settings_are_one_row():
    one, other = Debate(WEAK, Agent("sim/it")), Debate(WEAK, Agent("sim/it"), rounds=2)
    assert len(report_rows([one, other])) == 1


def test_a_protocol_that_hides_its_settings_is_told_apart_all_the_same():
    @dataclass(frozen=True)
    class Quiet(NaiveJudge):
        loudness: int = 0

        @property
        def name(self) -> str:
            return "quiet"

    rows = report_rows([Quiet(WEAK, 1), Quiet(WEAK, 2)])
    assert [row.kind for row in rows] == ["quiet loudness 1", "quiet loudness 2"]
