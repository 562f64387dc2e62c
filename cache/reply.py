"""What comes back: a `Reply`, everything of an answer that somebody may want to read again."""

from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .normalize import normalized

if TYPE_CHECKING:
    from .reasoning import Tags

Outcome: TypeAlias = Literal["ok", "truncated", "refused", "empty"]
"""How a paid reply ended: as asked, cut at max_tokens, declined, or with nothing in it."""

_SIGNS = ("<", "[", "◁", "assistantfinal", "thought process")
"""Parts of all forms of thoughts: most texts have none of them, and need no search."""
UNKNOWN_STOP = "unknown: "
"""Mark before a stop reason whose meaning is unknown: the text is kept, and counted apart."""


class ToolCall(Struct, frozen=True, gc=False):
    """A model's wish to use a tool."""

    id: str
    name: str
    arguments: str
    """JSON text just as the model wrote it; it may be invalid."""


class Usage(Struct, frozen=True, gc=False):
    """Tokens as billed. Differs between identical calls: nothing that must repeat may read it."""

    input_tokens: int = 0
    """All prompt tokens, cached ones included, whichever way the provider counts."""
    output_tokens: int = 0
    """All generated tokens, hidden reasoning included."""
    cache_read_tokens: int = 0
    """The part of input_tokens that the provider took from its own prompt cache."""
    cache_write_tokens: int = 0
    """The part of input_tokens that the provider wrote to its own prompt cache."""
    raw: str = ""
    """The provider's usage object, as JSON text: cost can be computed from it again."""


class Token(Struct, frozen=True, gc=False):
    """One output token and its best alternatives."""

    text: str
    logprob: float
    """Natural logarithm of its probability, as the server states it: rounding may lift it above 0,
    and a server that contradicts itself is told by the judge that reads it."""
    top: tuple[tuple[str, float], ...] = ()
    """(token, logprob) of the likeliest candidates at this place, best first."""


class Reply(Struct, frozen=True):
    """An answer, with what the model thought apart from what it said, however a server mixes them.

    That is made sure of here, so that it holds wherever a reply comes from: a wire, a batch, or a
    store that was filled before. A reply that ends within its thoughts is truncated, and says
    nothing; logprobs are those of the text, and there are none where nobody can tell which these
    are.
    """

    text: str
    """What was said, folded as `oversight.cache.normalize` says, wherever it comes from: a wire, a
    batch, a person, or a store that others have filled."""
    tool_calls: tuple[ToolCall, ...] = ()
    outcome: Outcome = "ok"
    stop_reason: str = ""
    """The provider's own word for why it stopped."""
    logprobs: tuple[Token, ...] = ()
    usage: Usage = Usage()
    served_model: str = ""
    """The model that the provider says answered; may be a dated snapshot of the one asked."""
    opaque: str = ""
    """JSON of reasoning blocks that must go back to the provider with the next message."""
    call: str = ""
    """Address of the call that this answers; the cache stamps it."""
    origin: str = ""
    """How it came, from which address, and for which run, as in `live https://HOST/v1 RUN`: `live`
    or `batch`, with `imported` before it if it came in a file. Empty for one that was stored before
    this was kept. Nothing that must repeat may read it."""
    reasoning: str = ""
    """What the model thought before it spoke, as far as the provider shows it."""

    hidden: int = 0
    """How many characters that nobody sees folding took out of the text."""

    @property
    def unknown_stop(self) -> bool:
        """Whether it ended for a reason whose meaning is unknown."""
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
        """This reply, split by the tags of its model beside those that all are split by.

        One that was cut and has no thoughts is all thoughts: a model with tags thinks, and where
        its prompt opens them, such a reply has none.
        """
        reply = replace(self)
        reply._split(tags)
        if reply.outcome == "truncated" and reply.text and not reply.reasoning:
            reply = replace(reply, text="", reasoning=reply.text, logprobs=())
        return reply

    def _split(self, tags: "Tags | None" = None) -> None:
        from .reasoning import TAGS, split_reasoning, spoken_from

        found = split_reasoning(self.text, bool(self.reasoning), tags or TAGS)
        if found is not None:
            speech, thoughts, within = found
            reasoning = "\n\n".join(filter(None, (self.reasoning, thoughts)))
            force_setattr(self, "text", speech)
            force_setattr(self, "reasoning", reasoning)
            if self.outcome == "ok" and not self.tool_calls and not speech.strip():
                force_setattr(self, "outcome", "truncated" if within else "empty")
        if self.logprobs and (found or self.reasoning):
            first = spoken_from([token.text for token in self.logprobs], self.text)
            force_setattr(self, "logprobs", self.logprobs[first:])
