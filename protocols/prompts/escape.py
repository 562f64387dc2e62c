"""Escaping of reserved tags: the marks in a prompt that only this program can write.

Prompts are laid out with tags. A model that writes such a tag into its own speech could forge a
tool's result, a verified quote or another debater's turn. So whatever a model wrote is
escaped before anyone else reads it, and each attempt counted. The texts of a data set, which anyone
may have written, are shown without live tags as well.
"""

import re

TAGS = (
    "question",
    "passage",
    "answer",
    "turn",
    "tool",
    "verified",
    "unverified",
    "unchecked",
    "instructions",
    "example",
    "reply",
    "rules",
    "statement",
)
"""The tags that structure prompts; what we did not write never contains a live one."""

_FORGED = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(TAGS)})\b)", re.IGNORECASE)


def escape_and_count(text: str) -> tuple[str, int]:
    """`text` with every reserved tag opened by ‹ in place of <, and how many there were."""
    return _FORGED.subn("‹", text) if "<" in text else (text, 0)


def escape_tags(text: str) -> str:
    """A text of a data set with its reserved tags escaped, as readers are shown it."""
    return _FORGED.sub("‹", text) if "<" in text else text
