"""Words: trusted texts that may be part of instructions.

Models follow any text that looks like an instruction. So instructions consist only of `Words`:
blocks of a prompt set, and the user's settings. Every other string is untrusted: participants'
words, and texts of data sets, which anyone may have written. `oversight.protocols.prompts.render`
shows those as data, with a warning.
"""

from collections.abc import Iterable


class Words(str):
    """A text of a prompt set or of a sweep file. String methods, `+` and f-strings return a plain
    `str`, since text combined with other text is untrusted until it is known to be safe. So
    `Words(...)` is written only where a text consists of literals, numbers, labels and settings."""

    __slots__ = ()

    @classmethod
    def joined(cls, *parts: "Words", by: str = " ") -> "Words":
        """The nonempty parts, one after another."""
        return cls(by.join(filter(None, parts)))


NOTHING = Words("")


def require_words(**texts: object) -> None:
    """Raise TypeError, with the fix, if one of these texts is not `Words`."""
    for name, text in texts.items():
        if not isinstance(text, Words):
            raise TypeError(
                f"{name}: {str(text)[:40]!r} is a plain {type(text).__name__}, which may come from "
                "a participant; a text that you wrote yourself is Words('…')"
            )


def as_words(text: str) -> Words:
    """A text of a protocol's author, with answers shown only by their labels."""
    return Words(text.replace("({label}) {answer}", "({label})").replace("{answer}", "({label})"))


def lines(parts: Iterable[Words]) -> Words:
    """The nonempty parts, one per line."""
    return Words("\n".join(filter(None, parts)))
