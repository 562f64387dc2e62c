"""Words: the texts that may stand among a reader's instructions.

A model follows whatever looks like an instruction. So instructions are made of `Words` alone:
blocks of a prompt set, and settings of the user's. Every other string is untrusted: what a
participant wrote, and the texts of a data set, which anyone may have written. Those are laid out as
data, by `oversight.protocols.prompts.render`, which warns whoever reads them.
"""

from collections.abc import Iterable


class Words(str):
    """A text of a prompt set or of a sweep file.

    Whatever string methods, `+` and f-strings make of one is a plain `str` again: what has met
    other text is untrusted until it is known to be safe. So `Words(...)` is written where a text
    is made of literals, numbers, labels and settings, and nowhere else.
    """

    __slots__ = ()

    @classmethod
    def joined(cls, *parts: "Words", by: str = " ") -> "Words":
        """The parts that are not empty, one after another."""
        return cls(by.join(filter(None, parts)))


NOTHING = Words("")


def require_words(**texts: object) -> None:
    """TypeError, with the remedy, if one of these texts is no `Words`."""
    for name, text in texts.items():
        if not isinstance(text, Words):
            raise TypeError(
                f"{name}: {str(text)[:40]!r} is a plain {type(text).__name__}, which may come from "
                "a participant; a text that you wrote yourself is Words('…')"
            )


def as_words(text: str) -> Words:
    """A text of a protocol's author, in which an answer is named by its label alone."""
    return Words(text.replace("({label}) {answer}", "({label})").replace("{answer}", "({label})"))


def lines(parts: Iterable[Words]) -> Words:
    """The parts that are not empty, each on a line of its own."""
    return Words("\n".join(filter(None, parts)))
