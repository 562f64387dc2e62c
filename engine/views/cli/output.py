"""Where the command line writes: results on stdout, everything else on stderr behind a `·`."""

import json
import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

import click
import msgspec
import orjson

from ....cache.errors import NO_ROOM, CacheError, ReplayMiss, StoreFull
from ....protocols.errors import ProtocolError
from ...display.progress import as_json, log_line
from ...display.text import counted, one_line, printable
from ...errors import (
    BudgetReached,
    DiskFull,
    EngineError,
    FolderBusy,
    GaveUp,
    Halt,
    Interrupted,
    OutOfMemory,
    StoreFailed,
)
from .exit_codes import ExitCode

if TYPE_CHECKING:
    from ...models.accounting.ledger import UsageTotals


MOST_LINE = 20_000
"""Characters of a line of a result at most."""


def width() -> int | None:
    """Columns of the terminal that results are printed on; None if they go into a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def typed() -> str:
    """This command, as the user typed it."""
    return shlex.join(["oversight", *sys.argv[1:]])


def asked(paid: "UsageTotals") -> str:
    """Requests to real models and their tokens, as text."""
    usage = paid.usage
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    return f"{counted(paid.sent, 'request')}, {tokens}"


def say(text: str) -> None:
    """Print one line of progress; an empty text is an empty line."""
    if as_json():
        if text:
            print(log_line(text), file=sys.stderr, flush=True)
        return
    # Not click's echo: it finds the stream beneath, and would write across a live line.
    # A line end within a name begins no line of ours.
    printed = printable(text).replace("\n", "\n  ")
    print(f"· {printed}" if text else "", file=sys.stderr, flush=True)


def complain(text: str) -> None:
    """Print why a command ends, and what to do."""
    line = log_line(text, "error") if as_json() else printable(text)
    print(line, file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Print the result of a command. A reader that stops early (`| head`) is not an error."""
    try:
        click.echo(printable(text))
    except OSError as exc:
        # The rest of the buffer would fail again at the end, and change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(exc, BrokenPipeError):
            sys.stderr.close()
            raise SystemExit(0) from None
        say(f"the result could not be written: {exc.strerror}")
        raise SystemExit(ExitCode.STOPPED) from None


def show_line(text: str) -> None:
    """Print one line of a result: a name in it begins no other."""
    show(one_line(text, MOST_LINE))


def show_json(value: object) -> None:
    """Print the result of a command as indented JSON."""
    document = orjson.dumps(value, default=msgspec.to_builtins, option=orjson.OPT_INDENT_2)
    show(_json_text(document))


def show_json_line(value: object) -> None:
    """Print one of several results as a line of JSON."""
    show(_json_text(orjson.dumps(value)))


def _json_text(document: bytes) -> str:
    """Return JSON as text; characters that stdout cannot encode become escapes, so none is lost."""
    text = document.decode()
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        # Outside strings, JSON is ASCII.
        return "".join(
            char if char.isascii() else json.dumps(char, ensure_ascii=True)[1:-1] for char in text
        )
    return text


def report_fault(fault: Exception) -> ExitCode:
    """Print an error of ours as a plain message and return its exit code; raise any other."""
    if isinstance(fault, (EngineError, ProtocolError, CacheError)):
        if isinstance(fault, ReplayMiss):
            complain(
                f"{fault}\n  nothing was sent; to ask the models: oversight run, not in replay"
            )
            return ExitCode.MISSED
        complain(str(fault))
        if isinstance(fault, FolderBusy):
            return ExitCode.BUSY
        full = isinstance(fault, (StoreFailed, StoreFull, DiskFull))
        return ExitCode.STOPPED if full else ExitCode.USAGE
    if isinstance(fault, OSError) and fault.filename is not None:
        complain(f"{fault.filename}: {fault.strerror}")
        return ExitCode.STOPPED if fault.errno in NO_ROOM else ExitCode.USAGE
    if isinstance(fault, OSError) and fault.errno in NO_ROOM:
        # Writing to a file that is open: the system names none.
        complain(f"no room to write: {fault.strerror}; make room, then run it again")
        return ExitCode.STOPPED
    if isinstance(fault, MemoryError):
        complain(str(OutOfMemory()))
        return ExitCode.STOPPED
    raise fault


def halt_code(halt: Halt) -> int:
    """The exit code of a run that stopped before its end."""
    match halt:
        case Interrupted():
            return 128 + halt.signal
        case BudgetReached():
            return ExitCode.OVER_BUDGET
        case GaveUp():
            return ExitCode.FAILED
    return ExitCode.STOPPED
