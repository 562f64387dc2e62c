"""Sessions: command lines and their output, in Markdown files that read like a user's screen.

In a block of `console`, `$ oversight …` is run in this process. Below it stand the lines of stdout,
the lines of stderr after `! `, and `[3]` for a non-zero exit code. `<<< y` answers a question. `$
cat FILE` and `$ python EXAMPLE …` are supported. `>>> …` is Python, with names of the test. In
tables `$ …` is a text, continued after `> `, and below it stands the result or refusal. Each
heading is a test. Files at the top, or below a heading, are in the working folder. `pytest
--accept` writes the current output: read the difference before committing it."""

import re
import runpy
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from oversight.engine.errors import EngineError
from tests.command_line import ROOT, Ran, within

_HEADING = re.compile(r"^## (.+)\n", re.MULTILINE)
_FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
Answer: TypeAlias = Callable[[str], Iterable[str]]
"""The lines that stand below a line."""
Names: TypeAlias = dict[str, Any] | None
Shape: TypeAlias = Callable[[str], str]
"""Replaces values that differ between runs by names: folders, sizes."""


class Session(NamedTuple):
    """The content below one heading."""

    file: Path
    heading: str

    @property
    def text(self) -> str:
        return dict(_sections(self.file))[self.heading]

    def check(self, request: pytest.FixtureRequest, answer: Answer, names: Names = None) -> None:
        """Compares each answer with the text below its line. names: for the Python lines."""
        top, before = _HEADING.split(self.file.read_text())[0], self.text
        for name, text in _FILE.findall(f"{top}\n{before}"):
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(text)
        after = _BLOCK.sub(lambda block: _answered(block[0], answer, names), before)
        if after != before and request.config.getoption("--accept"):
            self.file.write_text(self.file.read_text().replace(before, after, 1))
        else:
            assert after == before


def _answered(block: str, answer: Answer, names: Names) -> str:
    lines: list[str] = []
    for text in re.findall(r"^(?:\$ .*(?:\n> .*)*|>>> .*)$", block, re.MULTILINE):
        lines.append(text)
        if text.startswith("$ "):
            lines += answer(text[2:].replace("\n> ", "\n"))
        else:
            exec(text[4:], names)
    return "".join(f"{line}\n" for line in lines)


def commands(names: dict[str, Any], shape: Shape, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """The output of a command line, run in the working folder."""

    def answer(line: str) -> Iterator[str]:
        words, _, typed = line.partition(" <<< ")
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(f"{typed}\n".encode()), "utf-8"))
        program, *args = shlex.split(words.format_map(names))
        match program:
            case "cat":
                yield from shape(Path(args[0]).read_text()).splitlines()
            case "python":
                yield from _printed(_example(*args), shape)
            case _:
                yield from _printed(within(*args, cwd=Path.cwd()), shape)

    return answer


def _example(*words: str) -> Ran:
    """The output of an example program, run in this process."""
    script = ROOT / "examples" / words[0]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out:
        patch.setattr("sys.argv", list(words))
        patch.syspath_prepend(script.parent)
        try:
            runpy.run_path(str(script), run_name="__main__")
        except (EngineError, SystemExit) as fault:
            return Ran(1, out.getvalue(), str(fault))
    return Ran(0, out.getvalue(), "")


def refusals(read: Callable[[str], object], fault: type[Exception]) -> Answer:
    """The result or refusal of a text."""

    def answer(text: str) -> list[str]:
        with pytest.raises(fault) as caught:
            read(text)
        return str(caught.value).splitlines()

    return answer


def _printed(ran: Ran, shape: Shape) -> Iterator[str]:
    yield from (line.rstrip() for line in shape(ran.out).splitlines())
    yield from (f"! {line}".rstrip() for line in shape(ran.err).splitlines())
    if ran.code:
        yield f"[{ran.code}]"


def _sections(file: Path) -> Iterator[tuple[str, str]]:
    _, *parts = _HEADING.split(file.read_text())
    return zip(parts[::2], parts[1::2], strict=True)


def sessions(*files: Path) -> pytest.MarkDecorator:
    """A test per heading of the files, with the fixture `session`. Commands that start a server are
    marked `wire`, and so is the drawing of a site's pictures."""
    headings = [
        pytest.param(
            Session(file, heading),
            id=heading,
            marks=[pytest.mark.wire] * ("= serve(" in text or " --write site" in text),
        )
        for file in files
        for heading, text in _sections(file)
    ]
    return pytest.mark.parametrize("session", headings)
