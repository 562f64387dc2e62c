"""Safe display of foreign text, and counts, amounts and durations as users read them.

Foreign text cannot move the cursor or reverse a line."""

import re

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # all but tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction of writing
    "\u2028\u2029\ufeff\ud800-\udfff]"
)
"""What `printable` escapes."""


def printable(text: str) -> str:
    """`text` with every control character as `\\u001b`: in JSON, too, that is the same text.

    Controls are terminal codes (C0 and C1, but tab and line feed), marks that change the
    direction of writing, other ends of lines, and halves of characters."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str, most: int = 400) -> str:
    """`text` as one line of at most `most` characters, so that a name cannot forge another line."""
    line = printable(text).replace("\n", "\\u000a")
    room = most - len(" … 1,000,000,000 more characters")
    return line if len(line) <= most else f"{line[:room]} … {len(line) - room:,} more characters"


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 question`, `1,200 questions`. plural: where it is not the noun and an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def counted_between(least: int, most: int, noun: str) -> str:
    """`92 problems`, or `8 to 12 problems`."""
    return f"{least:,} to " * (least < most) + counted(most, noun)


def signed(value: float | None, digits: int = 2) -> str:
    """`+0.40`, `-0.38`, `–` for None; a value that rounds to 0 has no sign."""
    if value is None:
        return "–"
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def short(amount: float) -> str:
    """An amount in three digits, so that a column compares: `950`, `2.80k`, `12.3k`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # 999,600 rounds to a million.
        if amount >= 0.9995 * size:
            digits = 2 - (amount >= 9.995 * size) - (amount >= 99.95 * size)
            return f"{amount / size:.{max(digits, 0)}f}{unit}"
    return f"{amount:,.0f}"


def duration(seconds: float) -> str:
    """`0:00:06`; days are counted in hours."""
    total = round(seconds)
    return f"{total // 3600}:{total // 60 % 60:02}:{total % 60:02}"


def minutes(seconds: float) -> str:
    """`0:06` or `1:02:03`."""
    text = duration(seconds)
    return text[2:].removeprefix("0") if text.startswith("0:") else text


def dollars(amount: float | None) -> str:
    """`$12.30`; four decimals below a dollar, so that calls do not cost 0; – for None."""
    if amount is None:
        return "–"
    return f"${amount:,.2f}" if amount == 0 or amount >= 1 else f"${amount:.4f}"
