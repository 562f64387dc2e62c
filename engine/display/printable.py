"""Safe display of text that others wrote: it cannot move the cursor or reverse a line."""

import re

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # all but tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    "\u2028\u2029\ufeff\ud800-\udfff]"
)
"""What `printable` escapes."""


def printable(text: str) -> str:
    """`text` with every control character as `\\u001b`: in JSON, too, that is the same text.

    Controls are those of terminals (C0 and C1, but tab and line feed), those that change the
    direction of writing, other ends of lines, and halves of characters.
    """
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str, most: int = 400) -> str:
    """`text` as one line of at most so many characters: no name can forge a line beside its own."""
    line = printable(text).replace("\n", "\\u000a")
    kept = most - len(" … 1,000,000,000 more characters")
    return line if len(line) <= most else f"{line[:kept]} … {len(line) - kept:,} more characters"
