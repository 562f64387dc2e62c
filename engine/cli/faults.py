"""The message and the exit code of an error."""

import click

from ...cache.errors import NO_ROOM, CacheError, ReplayMiss, StoreFull, StoreUnreachable
from ...protocols.errors import ProtocolError
from ..display.printable import printable
from ..errors import (
    BudgetReached,
    DiskFull,
    EngineError,
    Halt,
    Interrupted,
    OutOfMemory,
    StoreFailed,
)
from .exit_codes import ExitCode


def report_fault(fault: Exception) -> ExitCode:
    """Print an error of ours as a plain message and return its exit code; raise any other."""
    if isinstance(fault, (EngineError, ProtocolError, CacheError)):
        click.echo(printable(str(fault)), err=True)
        if isinstance(fault, ReplayMiss):
            told = "  nothing was sent; to ask the models: oversight run, not in replay"
            click.echo(told, err=True)
            return ExitCode.MISSED
        full = isinstance(fault, (StoreFailed, StoreFull, StoreUnreachable, DiskFull))
        return ExitCode.STOPPED if full else ExitCode.USAGE
    if isinstance(fault, OSError) and fault.filename is not None:
        click.echo(f"{fault.filename}: {fault.strerror}", err=True)
        return ExitCode.STOPPED if fault.errno in NO_ROOM else ExitCode.USAGE
    if isinstance(fault, OSError) and fault.errno in NO_ROOM:
        # Writing to a file that is open: the system names none.
        click.echo(f"no room to write: {fault.strerror}; make room, then run it again", err=True)
        return ExitCode.STOPPED
    if isinstance(fault, MemoryError):
        click.echo(str(OutOfMemory()), err=True)
        return ExitCode.STOPPED
    raise fault


def halt_code(halt: Halt) -> int:
    """The exit code of a run that stopped before its end."""
    match halt:
        case Interrupted():
            return 128 + halt.signal
        case BudgetReached():
            return ExitCode.OVER_BUDGET
    return ExitCode.STOPPED
