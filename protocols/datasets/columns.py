"""Problems from the rows of any table, by the names of its columns.

columns: {question: question, choices: options, answer: answer}
columns: {question: Question, answer: Correct Answer, wrong: [Incorrect Answer 1, …]}
columns: {question: question, choices: choices.text, labels: choices.label, answer: answerKey}
"""

import json
import math
import re
import tomllib
import unicodedata
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import product
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Interval
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from ..question import LABELS
from ..settings import suggestion
from .rows import Row, Text, brief, complaint

T = TypeVar("T")
_Names = Annotated[
    tuple[Text, ...] | Text,
    AfterValidator(lambda names: (names,) if isinstance(names, str) else names),
]

OPPOSITES = (("True", "False"), ("yes", "no"))

MAX_LIST = 100_000
"""Characters of a list of choices that is written as a text."""
CODE_INDENT = 4
"""Columns of white space before a text of one line that are taken as the indentation of code."""

_UNSEEN: dict[int, str | None] = dict.fromkeys(
    n
    for first, last in ((0, 8), (11, 31), (127, 159), (0x200B, 0x200F), (0x202A, 0x202E))
    for n in range(first, last + 1)
)
_UNSEEN |= dict.fromkeys((0xAD, 0x61C, 0xFEFF, *range(0x2060, 0x2070)))
_UNSEEN |= dict.fromkeys((0xA0, 0x1680, 0x202F, 0x205F, 0x3000, *range(0x2000, 0x200B)), " ")
"""Characters without a shape, which go, and spaces of every kind."""
_FULL_WIDTH = {n: n - 0xFEE0 for n in range(0xFF01, 0xFF5F)}
_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
_CYRILLIC = "".join(chr(n) for n in (*range(0x430, 0x439), *range(0x43A, 0x450)))
_OWN_LETTER = re.compile(
    r"[\s*_]*(?:[(\[<]\s*(\w{1,4})\s*[)\]>][.:]?|(\w{1,4})\)"
    r"|([^\W\d]{1,4})[.:\u3001]|(\d{1,2})\.(?=[\s*_]))[\s*_]*(?=\S)"
)
_QUANTIFIER = r"(?:all|none|any|both|neither|either)(?: of)?(?: the)?"
_OPTIONS = r"(?:answer|option|choice|alternative)s?\b"
_REFERS = re.compile(
    r"\b(?:all|none|any|both|neither|either|each|some|two|three|one)(?: or more)?(?: of)?(?: the)?"
    r" (?:above|foregoing|preceding)\b"
    rf"|^{_QUANTIFIER} (?:these|those|them|others?)\b"
    rf"|\b{_QUANTIFIER}(?: these)?(?: other| given| listed)? {_OPTIONS}"
    rf"|\b(?:above|previous|preceding) {_OPTIONS}|\b{_OPTIONS} above"
    r"|^(?:all|none|both|neither)(?: are| is)? (?:correct|incorrect|right|wrong|true|false)\.?$"
    r"|^(?:all|both|neither)[.!]?$"
    # As Chinese, French, German and Spanish exams put it.
    "|\u4ee5\u4e0a|\u4e0a\u8ff0|ci-dessus|genannten\\b|(?:todas|ninguna) (?:de )?las anteriores",
    re.IGNORECASE,
)
_LETTER = r"(?:\([A-H]\)|[A-H](?!\w)\)?)"
_NUMERAL = r"\(?(?:[1-9]|[ivx]{1,4})\b\)?"
_LETTERS = re.compile(
    rf"(?:(?:both|either|neither|only|all of) )?{_LETTER}"
    rf"(?: only|(?:(?:, ?| ?,? ?(?:and|or|nor|&|\+|but not) ?){_LETTER})+"
    rf"(?: (?:only|both|are .*))?)\.?|(?:both|neither) {_NUMERAL} (?:and|nor|or) {_NUMERAL}\.?",
    re.IGNORECASE,
)
_OPTION_LETTER = re.compile(rf"\b(?i:{_OPTIONS}) \(?[A-H1-9]\)?(?!\w)")


class Columns(BaseModel):
    """The columns that a question is read from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: _Names
    """Of several, each is a line."""
    answer: Text
    choices: _Names = ()
    """One column with a list or an object of choices, or one column for each choice."""
    labels: str = ""
    """A column with the labels of the choices, which the answer names."""
    wrong: _Names = ()
    """All but the first may be missing."""
    first: Annotated[int, Interval(ge=0, le=1)] | None = None
    """The number of the first choice; None where answers tell it, being 0 or the last number."""
    letters: Literal["strip", "keep"] = "strip"
    """Letters or numbers that choices carry themselves, as in `(A) four`."""
    work: str = ""
    """The worked solution of the right answer, and of the wrong one."""
    wrong_work: str = ""
    passage: str = ""
    group: str = ""
    """Problems that a bootstrap keeps together; by default all of one passage."""
    id: str = ""
    within: str = ""
    """A column with an object, or a list of them, whose fields are columns too: the questions of a
    text."""
    separator: str = ""
    """The text between several answers in one field."""

    def fit(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has all columns that are needed, and an answer that can be read."""
        try:
            inner = next(iter(self.unnested(row)))
            self.options(inner, self.first)
        except (StopIteration, ValueError):
            return False
        names = filter(None, (*self.question, self.passage))
        return all(has_column(inner, name) for name in names)

    def unnested(self, row: Mapping[str, Any]) -> Iterator[Row]:
        """The rows within a row; the row itself where none are. ValueError."""
        if not self.within:
            yield dict(row)
            return
        inner = value_of(row, self.within)
        for n, part in enumerate(inner if isinstance(inner, list) else [inner]):
            if not isinstance(part, dict):
                raise ValueError(f"{self.within}[{n}]: {brief(part)} is not an object")
            yield {**row, **part}

    def is_tie(self, row: Mapping[str, Any]) -> bool:
        """Whether the answer of a pair is `A=B`, so neither is better."""
        return bool(self.choices) and _preferred(value_of(row, self.answer)) == "="

    def asked(self, row: Mapping[str, Any]) -> str:
        """The question. ValueError if its columns hold no text."""
        parts = [text_of(name, value_of(row, name)) for name in self.question]
        if not (text := tidy("\n".join(parts))):
            raise ValueError(f"{self.question[0]}: has no text in it; write one")
        return text

    def key(self, row: Mapping[str, Any]) -> Any:
        """The value that says which answer is right."""
        key = value_of(row, self.answer)
        while isinstance(key, list) and len(key) == 1 and self.choices:
            key = key[0]
        return (self.choices and _preferred(key)) or key

    def options(self, row: Mapping[str, Any], first: int | None) -> "Options":
        """The right answers to draw from, and the wrong ones. ValueError names the column."""
        key = self.key(row)
        if self.choices:
            choices = self.offered(row)
            place = choices.place(key, self.answer, first, self.first is not None)
            if not choices.texts[place]:
                raise ValueError(f"choice {place + (first or 0)}, the right one, is blank")
            return Options.chosen(choices, place)
        if self.wrong:
            right = list(filter(None, self._texts(row, (self.answer,))))
            if not right:
                raise ValueError(f"{self.answer}: {key!r} has no text in it; leave the row out")
            texts, ends = [*right, *filter(None, self._texts(row, self.wrong))], len(right)
            carried = own_letters(texts) if self.letters == "strip" and ends == 1 else None
            texts = carried[0] if carried else texts
            return Options(tuple(texts[:ends]), tuple(texts[ends:]), stripped=bool(carried))
        for pair in OPPOSITES:
            if (text := str(key).strip().casefold()) in map(str.casefold, pair):
                right = [word for word in pair if word.casefold() == text]
                return Options(tuple(right), tuple(word for word in pair if word not in right))
        raise ValueError(
            f"{self.answer}: {key!r} is not true or false; name the wrong answers, or the choices"
        )

    def offered(self, row: Mapping[str, Any]) -> "Choices":
        """The choices of a row, with the labels that the answer may name."""
        value = value_of(row, self.choices[0]) if len(self.choices) == 1 else None
        value = value if self.separator else _written(value)
        labels: list[str] = []
        if isinstance(value, dict):
            texts_of = {name: text for name, text in value.items() if not is_missing(text)}
            labels = [str(name) for name in texts_of]
            raw = [text_of(f"{self.choices[0]}.{name}", text) for name, text in texts_of.items()]
        elif isinstance(value, list):
            raw = [text_of(self.choices[0], part) for part in value]
        else:
            raw = self._texts(row, self.choices)
        if self.labels:
            listed = value_of(row, self.labels)
            labels = [text_of(self.labels, label).strip() for label in _listed(_written(listed))]
            if len(labels) != len(raw):
                raise ValueError(f"{self.labels}: {len(labels)} labels of {len(raw)} choices")
            if len(set(labels)) < len(labels):
                raise ValueError(f"{self.labels}: {labels} are not distinct")
        if (count := sum(map(bool, raw))) < 2:
            raise ValueError(f"{self.choices[0]}: {brief(value or raw)} has no two choices")
        if count > len(LABELS):
            why = f"labels go from A to Z, so that {len(LABELS)} are the most"
            raise ValueError(f"{self.choices[0]}: {count} choices; {why}")
        texts, letters = raw, list[str]()
        if self.letters == "strip" and (carried := own_letters(raw)):
            texts, letters = carried
        offers = value if isinstance(value, list) else [lookup(row, name) for name in self.choices]
        numbers = any([isinstance(offer, int | float) for offer in offers])
        given = tuple(raw), tuple(texts), tuple(labels), tuple(letters)
        return Choices(*given, bool(self.labels), numbers)

    def _texts(self, row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
        """The texts of some columns, in their order; a blank one stays empty."""
        texts: list[str] = []
        for n, name in enumerate(names):
            value = lookup(row, name) if n else value_of(row, name)
            if value is _ABSENT or is_missing(value):
                value = ""
            parts = _written(value) if self.wrong and isinstance(value, str) else value
            if isinstance(value, str) and self.separator:
                value = value.split(self.separator)
            elif parts is not value and [*map(type, _listed(parts))] == [str] * len(parts):
                raise ValueError(
                    f"{name}: {brief(value)} reads like a list of answers; write JSON Lines, "
                    "or columns: {separator: …}, the text between answers"
                )
            texts += [text_of(name, part) for part in _listed(value)]
        return texts


@dataclass(frozen=True, slots=True)
class Choices:
    raw: tuple[str, ...]
    """As the table has them; empty for a blank one."""
    texts: tuple[str, ...]
    """Without the letters that they carry."""
    labels: tuple[str, ...]
    """Those that the table gives them; empty if it gives none."""
    letters: tuple[str, ...]
    """The letters that they carried; empty if they carried none."""
    strict: bool
    """Whether the answer names one of the labels, and nothing else."""
    numbers: bool = False
    """Whether the table has them as numbers, so that a number may be one of them."""

    def by_label(self, key: Any) -> set[int]:
        word = bare_key(key)
        forms: tuple[Callable[[str], str], ...] = (str, str.casefold)
        for labels, form in product((self.labels, self.letters), forms):
            if places := {n for n, label in enumerate(labels) if form(label) == form(word)}:
                return places
        return set()

    def by_text(self, key: Any) -> set[int]:
        if self.numbers and (number := number_of(key)) is not None:
            return {n for n, text in enumerate(self.raw) if number_of(text) == number}
        if not isinstance(key, str):
            return set()
        word = seen(key)
        pairs = enumerate(zip(self.raw, self.texts, strict=True))
        return {n for n, texts in pairs if word and word in map(seen, texts)}

    def place(self, key: Any, name: str, first: int | None, counts: bool = False) -> int:
        """Index of the choice that is meant: by label, number, letter or text. counts: whether a
        number counts choices, even if it is the text of one."""
        places = self.by_label(key)
        number = number_of(key)
        if self.strict:
            if len(places) == 1:
                return places.pop()
            raise ValueError(f"{name}: {key!r} is not one of the labels {', '.join(self.labels)}")
        if not places:
            if number is not None and first is not None:
                places = {number - first} & set(range(len(self.raw)))
            elif number is not None:
                if number <= len(self.raw) and not self.by_text(key):
                    raise ValueError(f"{name}: {key!r} may count from 0 or from 1: set first")
            elif isinstance(key, str) and len(word := bare_key(key)) == 1:
                places = {LABELS.find(word.upper())} & set(range(len(self.raw)))
        if not (counts and number is not None and places):
            places |= self.by_text(key)
        if len({seen(self.texts[n]) for n in places}) == 1:
            return min(places)
        which = "several" if places else "none"
        start = "0 or 1" if first is None else first
        fix = "name a column with the letter or the number"
        if places and number is not None:
            fix += f", or say with columns: {{first: {first}}} that it is a number"
        raise ValueError(
            f"{name}: {key!r} is {which} of the {len(self.raw)} choices, by number (from "
            f"{start}), letter or text; {fix}"
        )


@dataclass(frozen=True, slots=True)
class Options:
    """The right answers of a question to draw from, and the wrong ones."""

    right: tuple[str, ...]
    wrong: tuple[str, ...]
    ordered: tuple[str, ...] = ()
    """All in the order of the table, where one refers to others; else empty."""
    stripped: bool = False
    """Whether the letters that they carry were taken off."""
    works: tuple[str, str] = ("", "")
    """The worked solutions of the right answer and of the wrong ones."""

    @classmethod
    def chosen(cls, choices: Choices, place: int) -> "Options":
        texts = choices.texts
        wrong = tuple(text for n, text in enumerate(texts) if n != place and text)
        ordered = tuple(filter(None, texts)) if any(map(refers, texts)) else ()
        return cls((texts[place],), wrong, ordered, bool(choices.letters))


def first_number(rows: Iterable[Row], columns: Columns) -> int | None:
    """The number of the first choice, as the answers of a table tell it: 0 occurs, or the number of
    choices does. None if no answer is a number. ValueError if the answers do not tell."""
    unclear: Any = None
    numbers, zero, last, beyond, texts = 0, False, False, False, 0
    for row in rows:
        try:
            key, choices = columns.key(row), columns.offered(row)
        except ValueError:
            continue
        number = number_of(key)
        if number is None or choices.by_label(key):
            continue
        numbers += 1
        texts += bool(choices.by_text(key))
        zero |= number == 0
        last |= number == len(choices.raw)
        beyond |= number > len(choices.raw)
        if 0 < number < len(choices.raw):
            unclear = key
    if numbers == texts and (beyond or not numbers):
        return None
    if zero or last:
        return 0 if zero else 1
    if unclear is not None:
        raise ValueError(
            f"{columns.answer}: {unclear!r} may count from 0 or from 1, and no answer is 0 or the "
            "number of choices; say which with columns: {first: 0} or {first: 1}, or name the "
            "column of labels with columns: {labels: …}"
        )
    return None


def columns_of(value: object) -> Columns:
    """The columns as a sweep file maps them. ValueError names the entry."""
    try:
        return Columns.model_validate(value)
    except ValidationError as exc:
        raise ValueError(f"columns: {complaint(exc)}") from exc


_ABSENT = object()


def has_column(row: Mapping[str, Any], name: str) -> bool:
    return lookup(row, name) is not _ABSENT


def lookup(row: Mapping[str, Any], name: str) -> Any:
    """The value of a column; a name with dots leads into objects. `_ABSENT` if it is not there."""
    if name in row:
        return row[name]
    head, dot, tail = name.partition(".")
    while dot:
        if head in row:
            inner = row[head]
            if isinstance(inner, Mapping):
                return lookup(inner, tail)
            if isinstance(inner, list) and inner and all(isinstance(i, Mapping) for i in inner):
                values = [lookup(part, tail) for part in inner]
                return _ABSENT if _ABSENT in values else values
            return _ABSENT
        more, dot, tail = tail.partition(".")
        head = f"{head}.{more}"
    return _ABSENT


def value_of(row: Mapping[str, Any], name: str) -> Any:
    """The value of a column. ValueError if it is not there, or marked as missing."""
    value = lookup(row, name)
    if value is _ABSENT:
        near = suggestion(name, row) or ";"
        raise ValueError(
            f"no column {name!r}{near} the columns are: {', '.join(row)[:200]}; to name others: "
            "columns: {question: …, answer: …, wrong: …}"
        )
    if is_missing(value):
        raise ValueError(f"{name}: missing, and required")
    return value


def optional_text(row: Mapping[str, Any], name: str) -> str:
    """The text of a column that may be missing; empty if it is."""
    value = lookup(row, name) if name else None
    if value is _ABSENT or is_missing(value):
        return ""
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return "" if not text.strip() or is_mark(text) else text


@lru_cache(4096)
def name_of(text: str) -> str:
    """The name of a group or a judge; empty if it is blank or marks a missing value. Otherwise all
    rows without a name would be one cluster, and `Ann ` would be another judge."""
    name = seen(text).strip()
    return "" if name == "None" or is_mark(name) else name


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


@cache
def table_data() -> Mapping[str, Any]:
    """What `protocols/data/forms.toml` says: marks of missing values, and published tables."""
    file = files("oversight.protocols").joinpath("data", "forms.toml")
    tables = tomllib.loads(file.read_text("utf-8"))
    return tables | {"missing": frozenset(tables["missing"])}


def is_mark(text: str) -> bool:
    """Whether a text is the mark of spreadsheets and data tools for a missing value."""
    return text.strip() in table_data()["missing"]


def text_of(name: str, value: Any) -> str:
    """A value as text. ValueError if it is none, or the mark of a missing value."""
    if is_missing(value):
        raise ValueError(f"{name}: missing, and required")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        inner = next(iter(value), "") if isinstance(value, dict) else ""
        fix = f"; name a field of it, such as {name}.{inner}" if inner else ""
        raise ValueError(f"{name}: {brief(value)} is not text{fix}")
    if is_mark(text := str(value)):
        raise ValueError(f"{name}: {text.strip()!r} marks a missing value; write the text")
    return tidy(text)


def _written(value: Any) -> Any:
    """The list or object that a text is, as JSON or Python writes it; else the value."""
    text = value.strip() if isinstance(value, str) else ""
    if (text[:1], text[-1:]) not in (("[", "]"), ("{", "}")) or len(text) > MAX_LIST:
        return value
    for read in (json.loads, literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
    return value


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def number_in(text: str, otherwise: T) -> float | T:
    """The number that a text is; `float` would read 0_1 as 1, and digits of other scripts."""
    try:
        return float(text) if text.isascii() and "_" not in text else otherwise
    except ValueError:
        return otherwise


def number_of(key: Any) -> int | None:
    """The whole number that a key is, also as `1.0` or in text; None if it is not one."""
    if isinstance(key, bool) or not isinstance(key, str | int | float):
        return None
    text = str(key).strip()
    digits, _, zeros = text.partition(".")
    return int(digits) if digits.isdecimal() and len(digits) < 9 and not zeros.strip("0") else None


def _preferred(key: Any) -> str:
    """The better label of a comparison, such as B of `A<B` and `[[B>>A]]`; `=` for a tie; empty for
    other values."""
    word = "".join(key.strip(" []").split()) if isinstance(key, str) else ""
    signs = set(word[1:-1])
    if {word[:1], word[-1:]} != {"A", "B"} or len(signs) != 1 or not signs <= set("<>="):
        return ""
    return {">": word[0], "<": word[-1], "=": "="}[signs.pop()]


def holds_image(value: Any) -> bool:
    """Whether a value is an image as data sets store it: bytes, an object of them, or a list."""
    if isinstance(value, list):
        return any(map(holds_image, value))
    return isinstance(value, bytes) or (isinstance(value, dict) and {"bytes", "path"} <= {*value})


def bare_key(key: Any) -> str:
    """A key without what it is dressed in: `(A)`, `A.` and `1.0` are A and 1."""
    if (number := number_of(key)) is not None:
        return str(number)
    return str(key).strip().strip("()[].:") if isinstance(key, str) else str(key)


def tidy(text: str) -> str:
    """A text without blank lines and spaces around it; the indentation of code stays."""
    lines = text.rstrip().split("\n")
    while len(lines) > 1 and not lines[0].strip():
        del lines[0]
    body = lines[0].lstrip()
    indent = lines[0][: len(lines[0]) - len(body)].expandtabs(CODE_INDENT)
    if len(indent) < CODE_INDENT and not any([line[:1] in (" ", "\t") for line in lines[1:]]):
        lines[0] = body
    return "\n".join(lines)


def seen(text: str) -> str:
    """Key of the visible text: not how its characters are composed, nor which kind of
    space separates words, nor what is invisible. Case, signs, units and layout count."""
    if text.isascii() and text.isprintable() and not text.startswith(" "):
        return text.rstrip()
    plain = unicodedata.normalize("NFC", text.translate(_UNSEEN))
    return tidy("\n".join([line.rstrip() for line in plain.split("\n")]))


def refers_by_letter(text: str) -> bool:
    """Whether an option refers to others by their letters, such as `Both A and B`."""
    words = " ".join(text.split())
    return bool(_LETTERS.fullmatch(words) or _OPTION_LETTER.search(words))


def refers(text: str) -> bool:
    """Whether an option refers to others, by their letters or as `All of the above` does."""
    return bool(_REFERS.search(" ".join(text.split()))) or refers_by_letter(text)


def own_letters(texts: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """(texts without, letters) of options that all carry letters or numbers; None if
    they carry none. ValueError if some carry them and others do not."""
    marks = [_OWN_LETTER.match(text.translate(_FULL_WIDTH)) for text in texts]
    tokens = [next(filter(None, mark.groups())).casefold() if mark else "" for mark in marks]
    used = [n for n, text in enumerate(texts) if text]
    numbers = [str(n) for n in range(len(LABELS) + 1)]
    for family in (LABELS.casefold(), numbers[1:], numbers, _ROMAN, _CYRILLIC):
        expected = family[: len(texts)]
        right = [n for n in used if n < len(expected) and tokens[n] == expected[n]]
        if len(right) == len(used) or {tokens[n] for n in used} == set(expected):
            pairs = zip(texts, marks, strict=True)
            stripped = [text[mark.end() :] if mark else text for text, mark in pairs]
            if len(set(stripped)) < len(stripped):
                # As in `(A) only` and `(B) only`, the letters are the text.
                return None
            return stripped, [token.upper() for token in tokens]
        bare = [n for n in used if not tokens[n]]
        if right[:1] == [0] and 1 < len(right) == len(used) - len(bare) > len(bare):
            places = ", ".join(str(n + 1) for n in right)
            raise ValueError(
                f"choices {places} begin with letters, as {texts[0][:20]!r} does, and "
                f"{brief(texts[bare[0]])} does not; take the letters off, or keep them with "
                "columns: {letters: keep}"
            )
    return None
