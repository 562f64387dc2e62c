"""The ledger of requests: outcomes, tokens, cost and latency, by model."""

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from zlib import crc32

from ....cache.reply import Outcome, Reply, Usage
from ...errors import EngineError, KeyEchoed, OutcomeUnknown, UnrecognizedReply, UsageError
from .prices import Price, PriceList, charged

if TYPE_CHECKING:
    from .budget import Budget, Quarantine

DOUBLING = 8
"""Bins for each doubling of the duration: the error of a quantile is at most 4.4 %."""
LEAST = 1e-4
"""Shortest duration (s) that is distinguished; shorter ones count as this."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Durations of complete replies, from sending to arrival, without waits for limits."""

    bins: tuple[tuple[int, int], ...] = ()
    """(bin, replies), ascending; bin n is centred on 2^(n / DOUBLING) seconds."""
    seconds: float = 0.0
    tokens: int = 0

    @property
    def replies(self) -> int:
        return sum(count for _, count in self.bins)

    def quantile(self, share: float) -> float:
        """Seconds within which a fraction, in (0, 1], of the replies came. ValueError without
        replies."""
        rank = math.ceil(share * self.replies)
        for at, count in self.bins:
            rank -= count
            if rank <= 0:
                return float(2 ** (at / DOUBLING))
        raise ValueError("no reply was timed, so no quantile is known")

    @property
    def pace(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0

    def told(self) -> dict[str, float]:
        """The values by name, for JSON: seconds, and output tokens per second."""
        quantiles = {name: self.quantile(q) for name, q in QUANTILES.items()}
        return {"replies": self.replies, **quantiles, "tokens_a_second": self.pace}

    def __str__(self) -> str:
        quantiles = (f"{name} {_seconds(self.quantile(q))}" for name, q in QUANTILES.items())
        return f"{', '.join(quantiles)}; {self.pace:,.0f} output tokens/s"


QUANTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99}


class Stopwatch:
    """Accumulates the latency of one model's replies."""

    def __init__(self) -> None:
        self._bins: Counter[int] = Counter()
        self._seconds = 0.0
        self._tokens = 0

    def reply(self, seconds: float, tokens: int) -> None:
        self._bins[round(DOUBLING * math.log2(max(seconds, LEAST)))] += 1
        self._seconds += seconds
        self._tokens += tokens

    def latency(self) -> Latency:
        return Latency(tuple(sorted(self._bins.items())), self._seconds, self._tokens)


def sum_latency(parts: Iterable[Latency]) -> Latency:
    bins: Counter[int] = Counter()
    seconds, tokens = 0.0, 0
    for part in parts:
        for at, count in part.bins:
            bins[at] += count
        seconds += part.seconds
        tokens += part.tokens
    return Latency(tuple(sorted(bins.items())), seconds, tokens)


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


RequestOutcome: TypeAlias = Literal["failed", "unconfirmed", "unsent"]
"""How a request without a reply ended. failed: answered with an error, not billed. unconfirmed:
sent and maybe billed, but no answer came that can be stored. unsent: never seen by the server."""

ABANDONED = "Abandoned"
"""Fault: the request was cancelled in flight."""
CUT_OFF = "CutOff"
"""Fault: unknown, since the process was killed."""

FIGURES, CRC = struct.Struct("<14q3d"), struct.Struct("<I")
"""Binary format of a page's figures, and of the CRC-32 that follows them."""
_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_FATES: tuple[RequestOutcome, ...] = get_args(RequestOutcome)


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """Totals of the requests to one or several models, at one moment."""

    outcomes: tuple[tuple[Outcome, int], ...]
    faults: tuple[tuple[RequestOutcome, str, int], ...]
    """(fate, class name of the error, count) of requests without a reply."""
    usage: Usage
    dollars: float
    unconfirmed: float
    """Maximum dollars of unconfirmed requests, and of replies without usage."""
    unpriced: int
    in_flight: int = 0
    at_risk: float = 0.0
    """Maximum dollars of the requests in flight."""
    accounts_added: int = 0
    """Number of accounts added as a whole. Each line counts as a request."""
    latency: Latency = field(default_factory=Latency)
    """Latency of the replies; unsaved replies of a killed process are missing."""
    unstated: float = 0.0
    """Under a cap in tokens, maximum tokens of requests without stated usage; unsaved ones of a
    killed process are missing."""

    @property
    def stored(self) -> int:
        """Complete replies, refusals and truncations included; all of them are stored."""
        return sum(count for _, count in self.outcomes)

    @property
    def sent(self) -> int:
        """Requests that the server saw: stored + failed + unconfirmed."""
        return self.stored + self.count("failed") + self.count("unconfirmed")

    @property
    def counted(self) -> float:
        return self.dollars + self.unconfirmed

    @property
    def tokens(self) -> float:
        """Tokens that count towards a cap in tokens."""
        return self.usage.input_tokens + self.usage.output_tokens + self.unstated

    def count(self, fate: RequestOutcome) -> int:
        return sum(count for outcome, _, count in self.faults if outcome == fate)

    def cut_off(self) -> "UsageTotals":
        """The totals if no request in flight is answered: all become unconfirmed."""
        if not (self.in_flight or self.at_risk):
            return self
        lost: tuple[RequestOutcome, str, int] = ("unconfirmed", ABANDONED, self.in_flight)
        faults = (*self.faults, lost) if self.in_flight else self.faults
        cut = replace(self, faults=faults, in_flight=0, at_risk=0.0)
        return replace(sum_usage([cut]), unconfirmed=self.unconfirmed + self.at_risk)


Write: TypeAlias = Callable[[str, bytes], None]
"""Writes the current figures of a model, and their CRC-32."""


class Ledger:
    """The pages of a run's models."""

    def __init__(self) -> None:
        self._pages: dict[str, Page] = {}
        self._write: Write | None = None

    def listen(self, write: Write) -> None:
        """Call `write` whenever a request is sent or completes."""
        self._write = write
        for page in self._pages.values():
            page.write = write

    def page(self, model: str, price: Price | None) -> "Page":
        """The page of `model`, created on first use. price: None if unknown."""
        if model not in self._pages:
            self._pages[model] = Page(model, price, self._write)
        return self._pages[model]

    def accounts(self) -> dict[str, UsageTotals]:
        return {model: page.account() for model, page in self._pages.items()}

    def total(self) -> UsageTotals:
        return sum_usage(self.accounts().values())


class Page:
    """The running figures of one model."""

    def __init__(self, model: str, price: Price | None, write: Write | None = None) -> None:
        self.model = model
        self.price = price
        self.write = write
        self.fates: dict[RequestOutcome, int] = dict.fromkeys(_FATES, 0)
        self.outcomes: Counter[Outcome] = Counter()
        self.faults: Counter[tuple[RequestOutcome, str]] = Counter()
        self.input = self.output = self.cache_read = self.cache_write = 0
        self.dollars = self.unconfirmed = self.at_risk = self.unstated = 0.0
        self.in_flight = self.accounts_added = self.unpriced = 0
        self.stopwatch = Stopwatch()

    def begun(self, worst: float) -> None:
        """Enter a request. worst: its maximum cost in dollars, 0 if unpriced."""
        self.in_flight += 1
        self.at_risk += worst
        self._enter()

    def reply(self, reply: Reply, seconds: float, worst: float) -> None:
        """Enter the reply to a request, `seconds` after it was sent."""
        self.stopwatch.reply(seconds, reply.usage.output_tokens)
        self.count(reply, worst)
        self._enter(worst)

    def failed(self, fate: RequestOutcome, kind: str, worst: float) -> None:
        self.fault(fate, kind, worst)
        self._enter(worst)

    def fault(self, fate: RequestOutcome, kind: str, worst: float) -> None:
        self.faults[fate, kind] += 1
        self.fates[fate] += 1
        if fate == "unconfirmed":
            self.unconfirmed += worst

    def count_unstated(self, tokens: float) -> None:
        self.unstated += tokens

    def count(self, reply: Reply, worst: float) -> None:
        """Count a reply, at its worst case if its usage is unknown."""
        usage = reply.usage
        if not usage.input_tokens and billed(reply) is None:
            self.unconfirmed += worst
        self.outcomes[reply.outcome] += 1
        self.input += usage.input_tokens
        self.output += usage.output_tokens
        self.cache_read += usage.cache_read_tokens
        self.cache_write += usage.cache_write_tokens
        if (dollars := charged(usage, self.price)) is None:
            self.unpriced += 1
        else:
            self.dollars += dollars

    def add_account(self, account: UsageTotals) -> None:
        """Add an account in one entry: a killed process has entered all of it or nothing."""
        self.outcomes.update(dict(account.outcomes))
        for fate, kind, count in account.faults:
            self.faults[fate, kind] += count
            self.fates[fate] += count
        self.input += account.usage.input_tokens
        self.output += account.usage.output_tokens
        self.cache_read += account.usage.cache_read_tokens
        self.cache_write += account.usage.cache_write_tokens
        self.dollars += account.dollars
        self.unconfirmed += account.unconfirmed
        self.unpriced += account.unpriced
        self.accounts_added += 1
        self._enter()

    def _enter(self, back: float | None = None) -> None:
        """Write the figures in a fixed size, for `written_down`. back: the worst case of a
        completed request, whatever its result."""
        if back is not None:
            self.in_flight -= 1
            # Reset, since rounding errors would be left over.
            self.at_risk = self.at_risk - back if self.in_flight else 0.0
        if self.write is None:
            return
        count, fates = self.outcomes.get, self.fates
        figures = FIGURES.pack(
            count("ok", 0),
            count("truncated", 0),
            count("refused", 0),
            count("empty", 0),
            fates["failed"],
            fates["unconfirmed"],
            fates["unsent"],
            self.input,
            self.output,
            self.cache_read,
            self.cache_write,
            self.unpriced,
            self.in_flight,
            self.accounts_added,
            self.dollars,
            self.unconfirmed,
            self.at_risk,
        )
        self.write(self.model, figures + CRC.pack(crc32(figures)))

    def account(self) -> UsageTotals:
        return UsageTotals(
            tuple(sorted(self.outcomes.items())),
            _sorted(self.faults),
            Usage(self.input, self.output, self.cache_read, self.cache_write),
            self.dollars,
            self.unconfirmed,
            self.unpriced,
            self.in_flight,
            self.at_risk,
            self.accounts_added,
            latency=self.stopwatch.latency(),
            unstated=self.unstated,
        )


def written_down(figures: tuple[float, ...]) -> UsageTotals:
    """The totals of a page's figures, which hold the fate of faults but not their kind."""
    counts, (dollars, unconfirmed, at_risk) = [int(n) for n in figures[:14]], figures[14:]
    outcomes = {outcome: n for outcome, n in zip(_OUTCOMES, counts[:4], strict=True) if n}
    faults = zip(_FATES, counts[4:7], strict=True)
    return UsageTotals(
        tuple(sorted(outcomes.items())),
        tuple(sorted((fate, CUT_OFF, n) for fate, n in faults if n)),
        Usage(counts[7], counts[8], counts[9], counts[10]),
        dollars,
        unconfirmed,
        counts[11],
        counts[12],
        at_risk,
        counts[13],
    )


_COUNTS = [name for name in Usage.__struct_fields__ if name != "raw"]
_SUMMED = [field.name for field in fields(UsageTotals) if field.type in (int, float)]


def sum_usage(accounts: Iterable[UsageTotals]) -> UsageTotals:
    """The sum of the totals of several models or sessions."""
    outcomes: Counter[Outcome] = Counter()
    faults: Counter[tuple[RequestOutcome, str]] = Counter()
    accounts = tuple(accounts)
    for account in accounts:
        outcomes.update(dict(account.outcomes))
        for fate, kind, count in account.faults:
            faults[fate, kind] += count
    usages = [account.usage for account in accounts]
    sums: dict[str, Any] = {
        name: sum(getattr(account, name) for account in accounts) for name in _SUMMED
    }
    return UsageTotals(
        tuple(sorted(outcomes.items())),
        _sorted(faults),
        Usage(*(sum(getattr(usage, name) for usage in usages) for name in _COUNTS)),
        latency=sum_latency(account.latency for account in accounts),
        **sums,
    )


def _sorted(
    faults: Counter[tuple[RequestOutcome, str]],
) -> tuple[tuple[RequestOutcome, str, int], ...]:
    return tuple((fate, kind, count) for (fate, kind), count in sorted(faults.items()))


def billed(reply: Reply) -> Usage | None:
    """The usage that a reply was billed for: zero if no model read the prompt, None if unknown."""
    usage, unread = reply.usage, reply.outcome == "refused" and not reply.served_model
    return usage if usage.input_tokens or unread or charged(usage, None) else None


def fate(exc: EngineError) -> RequestOutcome:
    if not exc.sent:
        return "unsent"
    unconfirmed = isinstance(exc, (OutcomeUnknown, UnrecognizedReply, KeyEchoed))
    return "unconfirmed" if unconfirmed else "failed"


@dataclass(frozen=True, slots=True)
class Accounting:
    """Prices, budget, quarantine and ledger of all models of a run."""

    prices: PriceList
    budget: "Budget | None" = None
    quarantine: "Quarantine | None" = None
    ledger: Ledger = field(default_factory=Ledger)

    @classmethod
    def capped(
        cls,
        prices: PriceList,
        cost: float | None,
        tokens: float | None = None,
        paid: UsageTotals | None = None,
    ) -> "Accounting":
        """Accounting with a cap, if any, in dollars or tokens. paid: totals of earlier sessions,
        which count towards the cap. UsageError for two caps."""
        if cost is None and tokens is None:
            return cls(prices)
        if cost is not None and tokens is not None:
            raise UsageError("--max-cost and --max-tokens exclude each other")
        # Imported late: most runs have no cap.
        from .budget import Budget

        before = paid or sum_usage([])
        if tokens is None:
            budget = Budget(cost or 0.0, before.counted, before.unconfirmed)
        else:
            budget = Budget(tokens, before.tokens, before.unstated, tokens=True)
        return cls(prices, budget)
