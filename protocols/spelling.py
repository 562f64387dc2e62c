"""Suggestions for mistyped names."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(word: str, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`; did you mean 'debate'?`, for the end of an error, or an empty string. cutoff: minimum
    similarity of the names, from 0 to 1, as difflib measures it."""
    near = get_close_matches(word, list(names), 1, cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""
