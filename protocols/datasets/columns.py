"""Problems from the rows of anybody's table, by the names of its columns.

    columns: {question: question, choices: options, answer: answer}
    columns: {question: Question, answer: Correct Answer, wrong: [Incorrect Answer 1, …]}
    columns: {question: question, answer: label, passage: passage}

With `choices`, the answer is the number of a choice, its letter, or its text; with `wrong`, it is
the text of the right one, or a list of them to draw from; with neither, it is true or false.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ..question import LABELS, Problem, labelled, randomness
from ..spelling import meant
from .rows import Text, complaint
from .solution import sense
from .tabular import Row

_Names = Annotated[
    tuple[Text, ...] | Text,
    AfterValidator(lambda names: (names,) if isinstance(names, str) else names),
]

OPPOSITES = (("True", "False"), ("yes", "no"))


class Columns(BaseModel):
    """The columns that a question is read from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: _Names
    """Of several, each is a line."""
    answer: Text
    choices: _Names = ()
    """One column with a list, or one column for each choice."""
    wrong: _Names = ()
    """All but the first may be missing."""
    first: Annotated[int, Field(ge=0, le=1)] = 0
    """The number of the first choice."""
    passage: str = ""
    group: str = ""
    """What a bootstrap keeps together; the passage, unless it is named."""
    id: str = ""
    within: str = ""
    """A column with an object, or a list of them, whose fields are columns too: the questions of a
    text."""
    separator: str = ""
    """What stands between several answers in a text."""

    def fit(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has all columns that are needed, and an answer that can be read."""
        try:
            inner = next(iter(self.unnested(row)))
            self.answers(inner)
        except (StopIteration, ValueError):
            return False
        return all(name in inner for name in (*self.question, self.passage) if name)

    def unnested(self, row: Mapping[str, Any]) -> Iterator[Row]:
        """The rows within a row; the row itself where none are. ValueError."""
        if not self.within:
            yield dict(row)
            return
        inner = _value(row, self.within)
        for n, each in enumerate(inner if isinstance(inner, list) else [inner]):
            if not isinstance(each, dict):
                raise ValueError(f"{self.within}[{n}]: {each!r} is no object")
            yield {**row, **each}

    def answers(self, row: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """The right answers to draw from, and the wrong ones. ValueError names the column."""
        said = _value(row, self.answer)
        if self.choices:
            options = self._texts(row, self.choices)
            if len(options) < 2:
                raise ValueError(f"{self.choices[0]}: {options} has no two choices")
            place = self._place(said, options)
            if not options[place]:
                raise ValueError(f"choice {place + self.first}, the right one, is blank")
            return [options[place]], options[:place] + options[place + 1 :]
        if self.wrong:
            right = list(filter(None, self._texts(row, (self.answer,))))
            if not right:
                raise ValueError(f"{self.answer}: {said!r} has no text in it; leave the row out")
            return right, self._texts(row, self.wrong)
        for pair in OPPOSITES:
            if (text := str(said).strip().casefold()) in map(str.casefold, pair):
                right = [each for each in pair if each.casefold() == text]
                return right, [each for each in pair if each not in right]
        raise ValueError(
            f"{self.answer}: {said!r} is not true or false; name the wrong answers, or the choices"
        )

    def _place(self, said: Any, options: Sequence[str]) -> int:
        """Which of the choices is meant: by number, by letter or by text."""
        places = set()
        text = str(said).strip() if isinstance(said, (str, int)) else ""
        if text.isdecimal() and not isinstance(said, bool):
            places = {int(text) - self.first} & set(range(len(options)))
        elif len(text) == 1 and text.upper() in LABELS[: len(options)]:
            places = {LABELS.index(text.upper())}
        if isinstance(said, str):
            places |= {n for n, option in enumerate(options) if option == text}
        if len(places) == 1:
            return places.pop()
        which = "several" if places else "none"
        raise ValueError(
            f"{self.answer}: {said!r} is {which} of the {len(options)} choices, by number (from "
            f"{self.first}), letter or text; name a column with the letter or the number"
        )

    def _texts(self, row: Mapping[str, Any], names: Iterable[str]) -> list[str]:
        found: list[str] = []
        for n, name in enumerate(names):
            value = row.get(name) if n else _value(row, name)
            if value is None:
                continue
            if isinstance(value, str) and self.separator:
                value = [part for part in value.split(self.separator) if part.strip()]
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, bool) or not isinstance(each, (str, int, float)):
                    raise ValueError(f"{name}: {each!r} is not text")
                found.append(str(each).strip())
        return found


def columns_of(named: object) -> Columns:
    """The columns as a sweep file maps them. ValueError names the entry."""
    try:
        return Columns.model_validate(named)
    except ValidationError as exc:
        raise ValueError(f"columns: {complaint(exc)}") from exc


def drawn(
    id: str,
    text: str,
    right: Sequence[str],
    wrong: Sequence[str],
    *,
    answers: int | None = None,
    seed: int = 0,
    passage: str = "",
    group: str = "",
) -> Problem:
    """A problem of one right answer and of wrong ones, drawn from (seed, id). answers: how many in
    all; None for all. ValueError if none differs from the right one."""
    true = randomness(seed, id, "right answer").choice(right).strip()
    taken = {"", *map(sense, right)}
    # One answer in two spellings would have two labels; the first spelling is kept.
    different = {sense(each): each.strip() for each in reversed(wrong)}
    offered = [each for key, each in reversed(different.items()) if key not in taken]
    if not offered:
        alike = f"no wrong answer differs from the right one, {true!r}; give another"
        raise ValueError(alike if different else "there is no wrong answer; give one")
    most = len(LABELS) if answers is None else answers
    chosen = randomness(seed, id, "wrong answers").sample(offered, min(most - 1, len(offered)))
    given = [(true, "", 1.0), *((answer, "", -1.0) for answer in chosen)]
    if passage and not group:
        group = hashlib.sha256(passage.encode()).hexdigest()[:12]
    return labelled(id, text.strip(), given, seed=None, passage=passage, group=group)


def asked(row: Mapping[str, Any], columns: Columns) -> str:
    """What is asked. ValueError if nothing is."""
    parts = [str(_value(row, name)) for name in columns.question]
    if not "".join(parts).strip():
        raise ValueError(f"{columns.question[0]}: has no text in it; write one")
    return "\n".join(parts)


def _value(row: Mapping[str, Any], name: str) -> Any:
    """The value of a column. ValueError if it is not there, or empty."""
    if name not in row:
        near = meant(name, row) or ";"
        raise ValueError(
            f"there is no column {name!r}{near} there are: {', '.join(row)[:200]}; to name others: "
            "columns: {question: …, answer: …, wrong: …}"
        )
    if row[name] is None:
        raise ValueError(f"{name}: missing, and required")
    return row[name]
