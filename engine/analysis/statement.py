"""Statements about two rows on the command line, such as `debate - consultancy < .05`.

    contrast     A - B
    condition    A - B < X     (or <=, >, >=)    of --fail-if

A and B are names of rows or parts of names (`oversight.engine.analysis.rows`).
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import UsageError

COMPARED: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
)

_PAIR = r"\s*(?P<first>.+?)\s+-\s+(?P<second>.+?)\s*"
_CONDITION = re.compile(rf"{_PAIR}(?P<sign><=|>=|<|>)\s*(?P<number>\S+)\s*")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the difference between two rows."""

    first: str
    second: str
    sign: str
    number: float

    def holds(self, difference: float) -> bool:
        return COMPARED[self.sign](difference, self.number)

    def __str__(self) -> str:
        return f"{self.first} - {self.second} {self.sign} {self.number:g}"


def read_pair(text: str) -> tuple[str, str]:
    """Parse `A - B`. UsageError if it is not two names."""
    names = [name.strip() for name in text.split(" - ")]
    if len(names) != 2 or not all(names):
        raise UsageError(f"{text!r} is no contrast; write two rows: 'debate - consultancy'")
    return names[0], names[1]


def read_condition(text: str) -> Condition:
    """Parse `A - B < X`. UsageError with an example if malformed."""
    if not (match := _CONDITION.fullmatch(text)):
        raise UsageError(
            f"{text!r} is not a condition; write it as 'debate - consultancy < 0.05', with spaces "
            "around the minus"
        )
    return Condition(match["first"], match["second"], match["sign"], _number(text, match["number"]))


def _number(text: str, word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{text!r}: {word!r} is not a finite number")
    return number
