"""The table of error answers and stop reasons, `faults.toml`, and the reader of its rules."""

import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from msgspec import Struct, convert

from ...cache.folding import MAX_TEXT, words
from .limit_headers import spent_resets, stated_seconds
from .payload import loaded

Meaning: TypeAlias = Literal[
    "key", "quota", "rate", "exceeds_rate", "too_long", "declined",
    "setting", "model", "address", "proxy", "overloaded", "unknown",
]  # fmt: skip
StopMeaning: TypeAlias = Literal["end", "cut", "declined", "interrupted"]
Phrase: TypeAlias = tuple[str, ...]
"""Parts of a phrase, which stand in a text in this order."""

MAX_VALUES = 300
"""Values of a body that are looked at. Vendors' bodies may hold anything."""
MAX_LINES = 20
"""Messages, and codes, of a body that are looked at."""
GAP = 80
"""Characters between two parts of a phrase at most."""


def phrase(text: str) -> Phrase:
    """A phrase of the table. Each part begins a word, except in scripts without spaces."""
    return tuple(f" {part}" if part.isascii() else part for part in text.split(" * "))


def has_phrase(text: str, parts: Phrase) -> bool:
    """Whether a text of `words` has the parts in order, each at most GAP behind the last."""
    first, *more = parts
    start = text.find(first)
    while start >= 0 and more:
        rest = text[start + len(first) :][: GAP + len(more[0])]
        if has_phrase(rest, tuple(more)):
            return True
        start = text.find(first, start + 1)
    return start >= 0


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule, with the conditions that the head of the table explains."""

    means: Meaning
    vendor: tuple[str, ...] = ()
    own: bool = False
    status: tuple[int | str, ...] = ()
    says: tuple[str, ...] = ()
    at: str = ""
    has: tuple[str, ...] = ()
    param: bool = False
    over: tuple[str, ...] = ()
    retry: bool = False
    fix: str = ""
    call: bool = False


class WaitPlace(Struct, frozen=True, forbid_unknown_fields=True):
    """A place where a wait stands: a header, a key of the body, or words before it."""

    kind: Literal["retry", "reset"] = "retry"
    header: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    unit: Literal["s", "ms"] = "s"


class FaultTable(Struct, frozen=True, forbid_unknown_fields=True):
    fault: tuple[Rule, ...]
    wait: tuple[WaitPlace, ...]
    places: dict[str, tuple[str, ...]]
    settings: dict[str, tuple[str, ...]]
    fix: dict[str, str]
    stop: dict[StopMeaning, tuple[str, ...]]


@cache
def table() -> FaultTable:
    """The table, read once."""
    data = tomllib.loads(files(__package__).joinpath("faults.toml").read_text("utf-8"))
    return convert(data, FaultTable)


@cache
def _rules() -> list[tuple[Rule, tuple[Phrase, ...]]]:
    return [(rule, tuple(map(phrase, rule.says))) for rule in table().fault]


@cache
def _stops() -> dict[str, StopMeaning]:
    return {reason: means for means, reasons in table().stop.items() for reason in reasons}


@cache
def stop_meaning(reason: str) -> StopMeaning | None:
    """The meaning of a stop reason; None if it is unknown."""
    head = words(reason.partition(":")[0])
    for prefix in ("finish ", "stop ", "reason "):
        if head not in _stops():
            head = head.removeprefix(prefix)
    return _stops().get(head)


class FaultEvidence:
    """An error answer as rules look at it."""

    def __init__(
        self, vendors: frozenset[str], own: bool, status: int, headers: Mapping[str, str], body: Any
    ) -> None:
        """vendors: the provider, in lower case. body: parsed JSON, else its text."""
        self.own = own
        self.status = status
        self.headers = headers
        self.pairs = [*values(body, "replies" if status == 200 else "")]
        names = [value for key, value in self.pairs if key in table().places["upstream"]]
        upstream = {part for name in names for part in (words(name), words(name).partition(" ")[0])}
        self.vendors = vendors | upstream

    def at(self, keys: tuple[str, ...]) -> list[str]:
        """The values of any of these keys, in the order of the keys."""
        return [value for name in keys for key, value in self.pairs if key == name and value]

    @cached_property
    def codes(self) -> list[str]:
        """Codes that say something: not `error`, and not the status, which some repeat."""
        codes = self.at(table().places["codes"])
        return [code for code in codes if code not in ("error", "None") and not code.isdecimal()]

    @cached_property
    def statuses(self) -> list[int]:
        """The statuses that the body names, the outermost first."""
        numbers = (value for key, value in self.pairs if key in ("code", "status"))
        return [int(n) for n in numbers if len(n) == 3 and n.isascii() and n.isdecimal()]

    @cached_property
    def messages(self) -> list[str]:
        """The messages in the order of the body, without repetitions."""
        lines: list[str] = []
        for key, value in self.pairs:
            line = " ".join(value.split()) if key in table().places["messages"] else ""
            if line and len(lines) < MAX_LINES and not any(line in other for other in lines):
                lines.append(line)
        return lines

    @cached_property
    def text(self) -> str:
        """All codes and messages, as words."""
        headers = filter(None, map(self.headers.get, table().places["headers"]))
        return "\n".join(
            f" {words(each)}" for each in (*self.messages, *self.codes[:MAX_LINES], *headers)
        )

    @cached_property
    def param(self) -> bool:
        """Whether the body names a setting of a call."""
        settings = table().settings
        params = {param.strip("`'\" ") for param in self.at(table().places["params"])}
        if not params.isdisjoint((*settings["words"], *settings["params"])):
            return True
        return any(f" {words(setting)}" in self.text for setting in settings["words"])

    @cached_property
    def waits(self) -> dict[str, float]:
        """Seconds to wait by kind, as far as the answer states them."""
        waits: dict[str, float] = {}
        for place in table().wait:
            for seconds in filter(None, self._stated(place)):
                waits.setdefault(place.kind, seconds)
        return waits

    def _stated(self, place: WaitPlace) -> Iterator[float | None]:
        for name in place.header:
            if "*" in name:
                yield spent_resets(
                    [each for each in self.headers if fnmatchcase(each, name)], self.headers
                )
            else:
                yield stated_seconds(self.headers.get(name, ""), self.headers, place.unit)
        for value in self.at(place.key):
            yield stated_seconds(value, self.headers, place.unit)
        for message in self.messages if place.says else ():
            for announcement in place.says:
                _, match, rest = message[:MAX_TEXT].casefold().partition(announcement)
                if match:
                    yield stated_seconds(rest, self.headers, within=True)

    def _over(self, first: str, second: str) -> bool:
        limit, amount = (_number_behind(self.text, word) for word in (first, second))
        return limit is not None and amount is not None and amount > limit

    def _holds(self, rule: Rule, phrases: tuple[Phrase, ...], status: int) -> bool:
        """Whether all conditions of a rule hold."""
        if rule.status and not (status in rule.status or f"{status // 100}xx" in rule.status):
            return False
        if (rule.own and not self.own) or (rule.vendor and self.vendors.isdisjoint(rule.vendor)):
            return False
        if rule.says:
            text = self.text
            if rule.at:
                text = "\n".join(f" {words(value)}" for value in self.at((rule.at,)))
            if not any(parts[0] in text and has_phrase(text, parts) for parts in phrases):
                return False
        return not (
            (rule.has and all(key not in rule.has for key, _ in self.pairs))
            or (rule.param and not self.param)
            or (rule.over and not self._over(*rule.over))
            or (rule.retry and "retry" not in self.waits)
        )

    def rule(self) -> Rule | None:
        """The first rule that holds, for the answer's status, else for those in its body."""
        for status in (self.status, *self.statuses):
            for rule, phrases in _rules():
                if self._holds(rule, phrases, status):
                    return rule
        return None


def values(body: Any, more: str = "") -> Iterator[tuple[str, str]]:
    """(key, value) of a body in its order, the texts of a list under its key. A text that is JSON
    is read too, such as the upstream's own answer in `metadata.raw`. more: further skipped keys."""
    skipped = table().places["skipped"] + table().places.get(more, ())
    waiting, left = [("message", body, 0)], MAX_VALUES
    while waiting and left:
        key, value, depth = waiting.pop()
        left -= 1
        match value:
            case dict() | list() if depth > 20:
                continue
            case dict():
                yield key, ""
                inner = [(_key(name), part, depth + 1) for name, part in value.items()]
                waiting += [each for each in reversed(inner) if each[0] not in skipped]
            case list():
                yield key, ""
                waiting += [(key, part, depth + 1) for part in reversed(value[:MAX_VALUES])]
            case str() if value[:1] in ("{", "[") and not (read := loaded(value.encode()))[1]:
                waiting.append((key, read[0], depth + 1))
            case str():
                yield key, value[:MAX_TEXT]
            case bool() | None:
                yield key, ""
            case _:
                yield key, str(value)[:MAX_TEXT]


def _key(name: Any) -> str:
    return str(name)[:MAX_TEXT].casefold().replace("_", "").replace("-", "")


def _number_behind(text: str, word: str) -> int | None:
    """The first number directly behind a word."""
    for rest in text.split(f" {word} ")[1:]:
        number = rest[:20].partition(" ")[0].partition("\n")[0]
        if number.isascii() and number.isdecimal():
            return int(number)
    return None
