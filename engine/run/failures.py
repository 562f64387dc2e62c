"""Converts exceptions into failures of cells, or into a halt of the whole run."""

import logging
from traceback import walk_tb

from ...cache.errors import DamagedEntry, ReplayMiss, StoreError, StoreGone
from ...protocols.errors import Declined, NotRun, Unreadable
from ...protocols.transcript import NOT_RUN, Failure
from ..errors import Halt, NeverAnswered, OutOfMemory, Pending, ProviderError, StoreFailed
from .schedule import UNREPEATABLE

CONCERNS_THE_RUN = (Halt, ReplayMiss, StoreError, MemoryError, Pending)
"""Faults that do not concern the piece of work in which they are raised; all but the last two
stop the run."""

CRASH = "crash"
"""Kind of a failure that is a bug in some code, and not a model's doing."""

RETRIED_KINDS = frozenset((CRASH, UNREPEATABLE, NeverAnswered.__name__))
"""Kinds of failures whose cells are run again at a resume: a bug that may be fixed by then, and
calls that no model has answered, for example because of a setting in the sweep file."""

log = logging.getLogger(__name__)

SHOWN_CRASHES: set[tuple[str, str, int]] = set()
"""Crashes of which this run has shown a traceback."""


def failure(work: str, raised: BaseException) -> Failure:
    """Convert an exception into a `Failure`; re-raises those that concern the whole run. work: the
    name of the piece in the log."""
    match fault := first_fault(raised):
        case Halt() | ReplayMiss() | Pending():
            raise fault
        case DamagedEntry():
            raise StoreFailed(
                f"{fault}. It is neither guessed nor paid again without your order: restore it "
                "from a backup with oversight cache import, or have it asked again after "
                "oversight cache prune --damaged"
            ) from fault
        case StoreGone():
            raise StoreFailed(str(fault)) from fault
        case StoreError():
            raise StoreFailed(f"{fault}; nothing that was saved is lost") from fault
        case MemoryError():
            raise OutOfMemory from fault
        case NotRun():
            return Failure(NOT_RUN, str(fault))
        case Unreadable():
            kind = "declined" if isinstance(fault, Declined) else "unreadable"
            about = (fault.reason, fault.raw, fault.call, fault.seat, fault.cause)
            return Failure(kind, *about)
        case ProviderError():
            return Failure(type(fault).__name__, str(fault))
        case Exception():
            # A bug in one protocol must not throw away a night of the others; it is loud here,
            # counted in the report, and `--retry-failed` runs the cell again once it is fixed.
            message = f"{type(fault).__name__}: {fault}"
            place = _place(fault)
            if place in SHOWN_CRASHES:
                log.debug("%s crashed: %s", work, message)
            else:
                SHOWN_CRASHES.add(place)
                log.error(
                    "%s crashed; others that do so too are only counted", work, exc_info=fault
                )
            return Failure(CRASH, message.encode(errors="replace").decode())
    raise fault


def _place(fault: BaseException) -> tuple[str, str, int]:
    """Return the exception and where it was raised, which are equal for all crashes of one bug."""
    passed = [(frame.f_code.co_filename, line) for frame, line in walk_tb(fault.__traceback__)]
    file, line = passed[-1] if passed else ("", 0)
    return type(fault).__qualname__, file, line


def first_fault(fault: BaseException) -> BaseException:
    """The fault itself; of an exception group, the first that concerns the run, else the first."""
    if not isinstance(fault, BaseExceptionGroup):
        return fault
    leaves = [first_fault(inner) for inner in fault.exceptions]
    graver = (leaf for kind in CONCERNS_THE_RUN for leaf in leaves if isinstance(leaf, kind))
    return next(graver, leaves[0])
