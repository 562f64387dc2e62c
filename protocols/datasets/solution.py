"""Worked solutions in one format: texts of a person and of several models must look alike.

A difference in style leaks the label. So every arithmetic solution is reformatted: one sentence per
line, capital first, full stop last; numbers and operators in one notation; the same last line."""

import re
from collections.abc import Sequence
from decimal import Decimal

DECIMAL_PLACES = 4
"""Decimals that a number keeps: models write 0.47119999999999995 where people write 0.4712."""
MAX_NUMBER_LENGTH = 24
"""Maximum length of a number, in characters: exact in the 28 digits of a Decimal."""
PASSES = 4
"""Most times that a step is gone over again, so that any text takes a bounded time."""

_MARK = re.compile(r"<<[^<>\n]*>>")
_CLOSING = re.compile(r"(?:A:|#+|(?:the )?(?:final )?answer(?: is|:))\s*(\S.*)", re.IGNORECASE)
_BULLET = re.compile(r"^(?:[-*•]|\d{1,2}[.)]|step \d+[:.)])\s+(?=\S)", re.IGNORECASE)
_SENTENCE = re.compile(r"\.(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)\s+(?=[A-Z])")
_NUMBER = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.\d+)(?![\d,]*\d)")
_PLAIN = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?", re.ASCII)
_TIMES = re.compile(r"(?<=[\d)%])\s*\b[xX]\b\s*(?=[\d(])|(?<=\w)\s+[xX]\s+(?=[\d(])")
_SUM = re.compile(r"(?<=[\w)%])\s*([+*])\s*(?=[\w(-])|(?<=[\d)%])\s*(-)\s*(?=[\d(])")
_OVER = re.compile(r"(?<=[\d)%])\s*/\s*(?=[\d(])")
_EQUALS = re.compile(r"\s*=\s*(?:(-)\s*(?=\d))?")
_LETTERS = str.maketrans(
    # curly quotes, multiplication and division signs, minus, en dash; then what is left out
    "\u2018\u2019\u201c\u201d`\u00d7\u00b7\u00f7\u2212\u2013",
    "''\"\"'**/--",
    "$€£\u200b\u2060\ufeff",
)


def number(text: str) -> Decimal | None:
    """The number that `text` states; None if it is not one, or exceeds MAX_NUMBER_LENGTH. Reads
    `$1,248.00`, `-3`, `.5`, `18.` and `40%` (as 40). No exponents: nothing is astronomical."""
    bare = text.translate(_LETTERS).strip().removesuffix(".").removesuffix("%")
    if 0 < len(bare) <= MAX_NUMBER_LENGTH and _PLAIN.fullmatch(bare) and bare.strip("-."):
        return Decimal(bare.replace(",", ""))
    return None


def number_text(value: Decimal) -> str:
    """A number in the common notation: no separators or trailing zeros, DECIMAL_PLACES decimals."""
    rounded = round(value, DECIMAL_PLACES) or value
    text = f"{rounded:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def sense(text: str) -> Decimal | str:
    """Key by which answers are the same: a number, or text without case and extra spaces."""
    value = number(text)
    return " ".join(text.casefold().split()) if value is None else value


def is_apart(truth: Decimal, final: Decimal) -> bool:
    """Whether a number is of the truth's kind (whole, sign) but not a rounding of it. Apart: by one
    unit or more in the last place of the coarser of the two."""
    places = min(len(number_text(value).partition(".")[2]) for value in (final, truth))
    return (
        abs(final - truth) >= Decimal(1).scaleb(-places)
        and (final == final.to_integral_value()) == (truth == truth.to_integral_value())
        and (final < 0) == (truth < 0)
    )


def closing(text: str) -> Decimal | None:
    """The final number that a solution names on its last line, after `####` or `A:`; or None."""
    match = _CLOSING.fullmatch(text.rstrip().rpartition("\n")[2].strip())
    return number(match[1]) if match else None


def steps(text: str) -> tuple[str, ...]:
    """The steps of a solution, one sentence each, without its closing line."""
    lines = [line.strip() for line in _MARK.sub("", text).translate(_LETTERS).split("\n")]
    sentences = (
        sentence
        for line in lines
        if line and not _CLOSING.fullmatch(line)
        for sentence in _SENTENCE.split(_BULLET.sub("", line))
    )
    return tuple(step for step in map(_step, sentences) if step)


def laid_out(written: Sequence[str], final: str) -> str:
    """The text of a solution with these steps, closing with `final`."""
    return "\n".join((*written, f"The answer is {final}."))


def _step(sentence: str) -> str:
    line = _alike(sentence)
    for _ in range(PASSES):
        # One long word may have come apart, and is read as several words now.
        before, line = line, _alike(line)
        if line == before:
            break
    return f"{line[0].upper()}{line[1:]}." if line else ""


def _alike(line: str) -> str:
    # Models write solutions, too. Patterns that look ahead see a word of bounded length, and those
    # that take white space see one space: else they take a time that grows with the square of it.
    line = " ".join(
        # Numbers without one of these signs stay as they are.
        _NUMBER.sub(_renumbered, word)
        if ("," in word or "." in word) and len(word) <= MAX_NUMBER_LENGTH
        else word
        for word in line.split()
    )
    line = _TIMES.sub(" * ", line)
    line = _OVER.sub("/", line)
    line = _SUM.sub(lambda match: f" {match[1] or match[2]} ", line)
    line = _EQUALS.sub(lambda match: f" = {match[1] or ''}", line)
    return " ".join(line.split()).strip(" ;:,.")


def _renumbered(match: re.Match[str]) -> str:
    value = number(match[0])
    return match[0] if value is None else number_text(value)
