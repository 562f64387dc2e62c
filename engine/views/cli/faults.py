"""The message and the exit code of an error."""

from ....cache.errors import NO_ROOM, CacheError, ReplayMiss, StoreFull
from ....protocols.errors import ProtocolError
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
from .output import complain


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
