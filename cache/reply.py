"""A `Reply`: the parts of an answer that are kept."""

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .normalize import normalized

if TYPE_CHECKING:
    from .reasoning import Tags

Outcome: TypeAlias = Literal["ok", "truncated", "refused", "empty"]
"""How a paid reply ended: complete, cut at max_tokens, declined, or without content."""

_SIGNS = ("<", "[", "◁", "assistantfinal", "thought process")
"""At least one of these is in every text with reasoning tags; others need no search."""
UNKNOWN_STOP = "unknown: "
"""Prefix of unknown stop reasons: the text is kept, and counted separately."""


class ToolCall(Struct, frozen=True, gc=False):
    """A tool call of a model."""

    id: str
    name: str
    arguments: str
    """JSON text as the model wrote it; it may be invalid."""


class Usage(Struct, frozen=True, gc=False):
    """Tokens as billed. They differ between identical calls, so reproducible values must not use
    them."""

    input_tokens: int = 0
    """All prompt tokens, cached ones included, however the provider counts."""
    output_tokens: int = 0
    """All generated tokens, hidden reasoning included."""
    cache_read_tokens: int = 0
    """Input tokens that came from the provider's prompt cache."""
    cache_write_tokens: int = 0
    """Input tokens that were written to the provider's prompt cache."""
    raw: str = ""
    """The provider's usage object as JSON text, to recompute costs."""


class Token(Struct, frozen=True, gc=False):
    """One output token and its best alternatives."""

    text: str
    logprob: float
    """Natural logarithm of the probability, as the server states it: rounding may lift it above 0.
    Judges detect contradictory values."""
    top: tuple[tuple[str, float], ...] = ()
    """(token, logprob) of the most likely candidates here, best first."""


class Reply(Struct, frozen=True):
    """An answer, with the model's reasoning separated from its text.

    The separation is done here, so it holds for replies from wires, batches and stores. A reply
    that ends within its reasoning is truncated and has no text. Logprobs cover the text, and are
    left out if they cannot be matched to it."""

    text: str
    """The text without reasoning, normalized by `oversight.cache.normalize`."""
    tool_calls: tuple[ToolCall, ...] = ()
    outcome: Outcome = "ok"
    stop_reason: str = ""
    logprobs: tuple[Token, ...] = ()
    usage: Usage = Usage()
    served_model: str = ""
    """The model that answered, as the provider states it; may be a dated snapshot."""
    opaque: str = ""
    """JSON of reasoning blocks to send back to the provider with the next message."""
    call: str = ""
    """Address of the answered call; set by the cache."""
    origin: str = ""
    """How and from where it came, and for which run, such as `live https://HOST/v1 RUN`. The first
    word is `live` or `batch`, after `imported` if it came in a file. Empty if unknown. Reproducible
    values must not use it."""
    reasoning: str = ""
    """The model's reasoning, as far as the provider shows it."""

    hidden: int = 0
    """Number of invisible characters that normalization removed from the text."""

    @property
    def unknown_stop(self) -> bool:
        return self.stop_reason.startswith(UNKNOWN_STOP)

    def __post_init__(self) -> None:
        if not self.text.isascii():
            text, hidden = normalized(self.text)
            force_setattr(self, "text", text)
            force_setattr(self, "hidden", self.hidden + hidden)
        if self.opaque and not self.reasoning:
            from .reasoning import separate_reasoning

            force_setattr(self, "reasoning", separate_reasoning(self.opaque))
        if self.logprobs or any(map(self.text.__contains__, _SIGNS)):
            self._split()

    def split(self, tags: "Tags") -> "Reply":
        """This reply, also split by the extra tags of its model. A truncated reply without any tag
        is all reasoning: the prompt has opened the block."""
        reply = replace(self)
        reply._split(tags)
        if reply.outcome == "truncated" and reply.text and not reply.reasoning:
            reply = replace(reply, text="", reasoning=reply.text, logprobs=())
        return reply

    def _split(self, tags: "Tags | None" = None) -> None:
        from .reasoning import TAGS, split_reasoning, spoken_from

        parts = split_reasoning(self.text, bool(self.reasoning), tags or TAGS)
        if parts is not None:
            speech, thoughts, within = parts
            reasoning = "\n\n".join(filter(None, (self.reasoning, thoughts)))
            force_setattr(self, "text", speech)
            force_setattr(self, "reasoning", reasoning)
            if self.outcome == "ok" and not self.tool_calls and not speech.strip():
                force_setattr(self, "outcome", "truncated" if within else "empty")
        if self.logprobs and (parts or self.reasoning):
            first = spoken_from([token.text for token in self.logprobs], self.text)
            force_setattr(self, "logprobs", self.logprobs[first:])
