"""
EngineError
├── SweepError            the sweep file or a flag is wrong; nothing was sent
├── RunFolderError        the run folder cannot be used: locked, damaged, of another sweep
│   └── DiskFull          there is no room for what it must hold
├── DownloadError         an original file of a data set could not be had whole; what came is kept
├── Halt                  nothing more can be asked for now: stop, keep all, resume later
│   ├── QuotaExhausted    the account's quota, credit or spend limit is used up
│   ├── KeyRefused        the key is missing, wrong or not allowed
│   ├── ModelGone         the provider does not know the model, or the model lacks a needed ability
│   ├── ProviderDown      the breaker stayed open too long, or the server asks for a very long wait
│   ├── BudgetReached     the next call could exceed --max-cost
│   ├── StoreStopped      the store takes no more replies: paying on would be paying for nothing
│   └── Interrupted       the user, or the system, asked the program to stop
└── ProviderError         a model could not answer this call
    ├── TryAgain          the same call may well succeed later
    │   ├── RateLimited   429: all who ask this model wait
    │   ├── Overloaded    5xx, 408, 409: nothing billed
    │   ├── Unreachable   no connection: nothing sent, nothing billed
    │   └── Ambiguous     sent, but no whole answer came: maybe billed
    │       └── Malformed a 200 whose body is no reply
    └── BadCall           this call will never succeed; the cell fails
        ├── TooLong       beyond the model's context, with the token counts where they are known
        ├── TooBig        one call needs more than the whole per-minute budget
        └── Unheard       a whole answer, and billed, of a kind that this program does not know
"""


class EngineError(Exception):
    """The root of everything that `engine` raises on purpose."""

    sent = True
    """Whether a server saw the request that failed, where there was one."""


class SweepError(EngineError):
    """What the user wrote cannot be run. The text names place, value and mend."""


class RunFolderError(EngineError):
    """The run folder cannot be used as it is; nothing in it was changed."""


class DiskFull(RunFolderError):
    """No room for what a run folder must hold. With room, the same command goes on."""


class DownloadError(EngineError):
    """A file could not be had. Nothing stands in its place; the text says what is kept."""


class Halt(EngineError):
    """Stop admitting work; what is in flight lands and is saved; the same command resumes."""

    unsaved = 0
    """Replies that were paid for and could not be stored: going on asks for them again."""


class QuotaExhausted(Halt): ...


class KeyRefused(Halt): ...


class ModelGone(Halt): ...


class ProviderDown(Halt): ...


class BudgetReached(Halt): ...


class StoreStopped(Halt): ...


class Interrupted(Halt):
    def __init__(self, signal: int) -> None:
        super().__init__(f"stopped by signal {signal}")
        self.signal = signal


class ProviderError(EngineError):
    """A model could not answer one call."""


class TryAgain(ProviderError):
    """A fault that passes."""

    def __init__(self, message: str, delay: float = 0.0) -> None:
        super().__init__(message)
        self.delay = delay
        """Seconds that the server asks to wait; 0 if it did not say."""


class RateLimited(TryAgain): ...


class Overloaded(TryAgain): ...


class Unreachable(TryAgain):
    sent = False


class Ambiguous(TryAgain): ...


class Malformed(Ambiguous):
    def __init__(self, message: str, body: bytes) -> None:
        super().__init__(message)
        self.body = body
        """The bytes as they came, for quarantine."""


class BadCall(ProviderError): ...


class TooLong(BadCall): ...


class TooBig(BadCall): ...


class Unheard(BadCall): ...
