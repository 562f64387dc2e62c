"""Errors of the engine.

EngineError
├── UsageError              the sweep file or a flag is wrong; nothing was sent
├── RunFolderError          the run folder cannot be used: locked, damaged, of another sweep
│   ├── DiskFull            the disk is full
│   └── FolderBusy          another process runs it: try again when that has ended
├── DownloadError           an original file of a data set is incomplete; its part is kept
├── Halt                    stop asking, keep everything, resume later
│   ├── QuotaExhausted      the account's quota, credit or spend limit is used up
│   ├── AuthenticationFailed  the key is missing, wrong or not permitted
│   ├── KeyEchoed         a billed reply repeats the key: it cannot be stored
│   ├── ModelNotFound       the provider does not know the model, or it lacks a needed ability
│   ├── RowsPaused          rows whose first cells all failed for one cause were stopped
│   ├── AllRefused          the first calls to a model were all refused for the same reason
│   ├── ProviderDown        the breaker stayed open too long, or the server demands a long wait
│   │   └── GaveUp          no answer for as long as --give-up says
│   ├── BudgetReached       the next call could exceed --max-cost
│   ├── StoreFailed         the store takes no more replies: they would be paid in vain
│   ├── Later               replies come later; this or another command collects them
│   ├── OutOfMemory         this process is out of memory
│   └── Interrupted         the user or the system asked the program to stop
├── Pending                 the reply comes later: the result of the cell is unknown
└── ProviderError           a model could not answer this call
    ├── TransientError      the same call may succeed later
    │   ├── RateLimited     429: everyone who asks this model waits
    │   ├── Overloaded      5xx, 408, 409: nothing billed
    │   ├── Unreachable     no connection: nothing sent, nothing billed
    │   └── OutcomeUnknown  sent, but no whole answer came: maybe billed
    │       ├── Malformed   a 200 whose body is not a reply
    │       └── ServerBusy     a self-hosted server that had other calls: fewer go at once
    └── InvalidRequest      this call will never succeed; the cell fails
        ├── ContextLengthExceeded  beyond the model's context, with token counts where known
        ├── NeverAnswered   the model has answered no call yet: a resumed run asks again
        ├── ExceedsRateLimit  one call needs more than the whole per-minute budget
        ├── UnknownFault    an error answer whose meaning is unknown: nothing billed
        └── UnrecognizedReply  a whole, billed answer of a kind that this program does not know
"""

from signal import Signals
from typing import Self


class EngineError(Exception):
    """Base class of the exceptions of `engine`."""

    sent = True
    """Whether a server saw the failed request, if one was made."""
    words = ""
    """The server's answer, as `HTTP 500 "its message"`; empty without one."""

    def unsent(self) -> Self:
        """This error, for a request that no server saw."""
        self.sent = False
        return self


class UsageError(EngineError):
    """The user's input cannot be run. The text names the place, the value and the fix."""


class RunFolderError(EngineError):
    """The run folder cannot be used as it is; it was not changed."""


class DiskFull(RunFolderError):
    """The disk is full. After freeing space, the same command resumes."""


class FolderBusy(RunFolderError):
    """Another process is running the folder, which is intact."""


class DownloadError(EngineError):
    """A file could not be downloaded. The text says what is kept."""


class Halt(EngineError):
    """Stop sending new work; calls in flight are completed and saved; the same command resumes."""

    unsaved = 0
    """Paid replies that could not be stored: they are asked again."""


class QuotaExhausted(Halt):
    def __init__(self, message: str, delay: float = 0.0) -> None:
        super().__init__(message)
        self.delay = delay
        """Seconds until the server serves the account again; 0 if unstated."""


class AuthenticationFailed(Halt): ...


class KeyEchoed(Halt): ...


class ModelNotFound(Halt): ...


class RowsPaused(Halt): ...


class AllRefused(Halt): ...


class ProviderDown(Halt): ...


class GaveUp(ProviderDown): ...


class BudgetReached(Halt): ...


class StoreFailed(Halt): ...


class Later(Halt):
    def __init__(self, message: str, again: str = "", when: str = "in a while") -> None:
        super().__init__(message)
        self.again, self.when = again, when
        """The command that resumes instead of `oversight run`, if it is another; and when."""


class OutOfMemory(Halt):
    def __init__(self) -> None:
        super().__init__(
            "out of memory: free some, raise the limit of this process "
            "(ulimit -v), or lower max_cells in the sweep file"
        )

    def __reduce__(self) -> tuple[type["OutOfMemory"], tuple[()]]:
        return OutOfMemory, ()


class Interrupted(Halt):
    def __init__(self, signal: int) -> None:
        super().__init__("Ctrl-C" if signal == Signals.SIGINT else f"signal {Signals(signal).name}")
        self.signal = signal

    def __reduce__(self) -> tuple[type["Interrupted"], tuple[int]]:
        return Interrupted, (self.signal,)


class Pending(EngineError):
    """The reply comes later."""


class ProviderError(EngineError):
    """A model could not answer one call."""


class TransientError(ProviderError):
    """A temporary fault."""

    def __init__(self, message: str, delay: float = 0.0) -> None:
        super().__init__(message)
        self.delay = delay
        """Seconds that the server asks to wait; 0 if unstated."""


class RateLimited(TransientError): ...


class Overloaded(TransientError): ...


class Unreachable(TransientError):
    sent = False


class OutcomeUnknown(TransientError): ...


class Malformed(OutcomeUnknown):
    KEPT = 2**16
    """Maximum bytes of a body. Many calls may wait for a retry at once, each with its fault."""

    def __init__(self, message: str, body: bytes) -> None:
        super().__init__(message)
        self.body = body[: self.KEPT]
        """The first bytes of the body, for quarantine."""


class ServerBusy(OutcomeUnknown): ...


class InvalidRequest(ProviderError): ...


class ContextLengthExceeded(InvalidRequest): ...


class NeverAnswered(InvalidRequest): ...


class ExceedsRateLimit(InvalidRequest): ...


class UnknownFault(InvalidRequest):
    """A series of them after good answers may be a fault of the server and not of the calls."""


class UnrecognizedReply(InvalidRequest): ...
