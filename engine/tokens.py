"""Estimates of the tokens of a call, made before it is sent."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from msgspec import Struct

from ..cache.call import Call
from ..cache.reply import Usage
from .display.throughput import Resource

BYTES_A_TOKEN = 4.0
"""For English prose and current tokenizers; code and other languages have fewer."""

MESSAGE_TOKENS = 4.0

DECAY = 0.98
"""Factor on the weight of earlier replies per new one: about the last fifty count."""

PRIOR = 2.0
"""Weight of the first guess, in replies."""

CAUTION = 1.5
"""Factor from the calibrated estimate of a call to its worst case."""


class TokenEstimate(Struct, frozen=True):
    """Tokens of one call before it is sent."""

    raw: float
    input: float
    """Expected input tokens, calibrated by earlier calls."""
    output: float
    """Expected output tokens, from the fraction of max_tokens that earlier replies used."""
    max_output: int

    @property
    def max_input(self) -> float:
        """Likely maximum of input tokens: reserved where money is at stake."""
        return CAUTION * max(self.input, self.raw)


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """One way in which providers count tokens against a limit."""

    resource: Resource
    expected: Callable[[TokenEstimate], float]
    most: Callable[[TokenEstimate], float]
    actual: Callable[[Usage], float] | None
    """Tokens that were counted; None if all reserved ones were."""


OUTPUT = TokenLimit(
    "output tokens",
    attrgetter("output"),
    attrgetter("max_output"),
    attrgetter("output_tokens"),
)
INPUT = TokenLimit(
    "input tokens",
    attrgetter("input"),
    attrgetter("input"),
    lambda usage: usage.input_tokens - usage.cache_read_tokens,
)
COMBINED = TokenLimit(
    "tokens",
    lambda demand: demand.input + demand.max_output,
    lambda demand: demand.input + demand.max_output,
    None,
)


class TokenEstimator:
    """Estimates for one model, calibrated by the usage that its replies report.

    Input tokens are the bytes of all text over four, plus a few per message, times the observed
    ratio. Output tokens are max_tokens times the fraction that replies have used, separately for
    each power of two of max_tokens, since verdicts and speeches differ. Without replies, the
    estimates are the length and max_tokens."""

    def __init__(self) -> None:
        self._input = _Ratio()
        self._output: dict[int, _Ratio] = {}

    def demand(self, call: Call) -> TokenEstimate:
        raw, most = prompt_tokens(call), call.request.max_tokens
        ratio = self._output.get(most.bit_length())
        part = ratio.value if ratio else 1.0
        return TokenEstimate(raw, raw * self._input.value, most * part, most)

    def observe(self, demand: TokenEstimate, usage: Usage) -> None:
        """Learn from the actual usage of a call. Usage without input tokens is ignored."""
        if not usage.input_tokens:
            return
        self._input.add(usage.input_tokens, demand.raw)
        size = demand.max_output.bit_length()
        ratio = self._output.get(size)
        if ratio is None:
            ratio = self._output[size] = _Ratio()
        ratio.add(usage.output_tokens, demand.max_output)


def prompt_tokens(call: Call) -> float:
    """Input tokens by length alone: of messages, tools and the schema of the answer."""
    request, size = call.request, 0
    for message in request.messages:
        text = message.text
        size += len(text) if text.isascii() else _size(text)
        if message.tool_calls or message.opaque:
            size += _size(message.opaque)
            for use in message.tool_calls:
                size += _size(use.name) + _size(use.arguments)
    for tool in request.tools:
        size += _size(tool.name) + _size(tool.description) + _size(tool.parameters)
    if request.response_format is not None:
        size += _size(request.response_format.schema)
    return size / BYTES_A_TOKEN + MESSAGE_TOKENS * len(request.messages)


def _size(text: str) -> int:
    # isascii() reads a flag; encoding would copy every prompt once more.
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


class _Ratio:
    """Ratio of actual to expected sums, with older values fading; initially 1."""

    __slots__ = ("_expected", "_seen", "value")

    def __init__(self) -> None:
        self.value = 1.0
        self._seen = 0.0
        self._expected = 0.0

    def add(self, actual: float, expected: float) -> None:
        if not self._expected:
            self._seen = self._expected = PRIOR * expected
        self._seen = DECAY * self._seen + actual
        self._expected = DECAY * self._expected + expected
        self.value = self._seen / self._expected
