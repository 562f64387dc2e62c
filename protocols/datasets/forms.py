"""Loaders of tables: published ones by their names, files of any form, and the Hub."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from annotated_types import Interval
from msgspec import structs
from pydantic import BaseModel, ConfigDict

from ..errors import DatasetError
from ..question import LABELS, Answer, Problem, Question, Unordered, labelled, randomness
from .columns import (
    Columns,
    Options,
    columns_of,
    first_number,
    has_column,
    holds_image,
    name_of,
    number_of,
    optional_text,
    own_letters,
    refers,
    refers_by_letter,
    seen,
    table_data,
    text_of,
    value_of,
)
from .jsonl import each_problem
from .loader import Notes, RowLoader, digest
from .rows import TABLES, Row, each_record, ending, read_bytes
from .solution import laid_out, number, number_text, steps

Placed: TypeAlias = tuple[str, int, str, Row | DatasetError]
"""A row, or its fault, with its file, its line, and the name of its problem unless a column holds
one."""


class Form(BaseModel):
    """A published table: what `protocols/data/forms.toml` says of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: tuple[Columns, ...]
    about: str = ""
    settings: Mapping[str, tuple[str, ...]] = {}
    quoted: bool = False
    ids: Literal["row", "text"] = "row"
    without: tuple[str, ...] = ()
    votes: str = ""
    yes_no: bool = False
    numbers: bool = False


@cache
def published_forms() -> Mapping[str, Form]:
    """The published tables, by the names of their loaders."""
    tables = {name: form for name, form in table_data().items() if name != "missing"}
    return {name: Form.model_validate(form) for name, form in tables.items()}


Images: TypeAlias = Literal["refuse", "ignore"]


@dataclass(frozen=True, slots=True)
class Mapper:
    """Problems from the rows of one table."""

    form: Form
    seed: int
    answers: int | None
    """How many answers a problem has, the right one included; None for all."""
    settings: Mapping[str, str | bool]
    images: Images = "refuse"
    by_content: bool = False
    """Whether draws of a row without an id follow from its content; else from its number."""

    def problems(self, rows: Sequence[Placed], notes: Notes) -> Iterator[tuple[str, Problem]]:
        """(key of its draws, problem) of each row. DatasetError where the columns do not fit the
        table, or none is taken."""
        good = [row for *_, row in rows if not isinstance(row, DatasetError)]
        images = (name for row in good for name in row if holds_image(row[name]))
        if self.images == "refuse" and (name := next(images, "")):
            reason = f"{name} holds images, which no role can read yet; images: ignore omits them"
            raise DatasetError(rows[0][0], 0, reason)
        fitting = (columns for columns in self.form.columns if any(map(columns.fit, good[:9])))
        columns = next(fitting, self.form.columns[0])
        first = columns.first
        if columns.choices and first is None:
            try:
                first = first_number(_inner_rows(good, columns), columns)
            except ValueError as exc:
                raise DatasetError(rows[0][0], 0, str(exc)) from exc
        lines: dict[str, int] = {}
        for file, line, id, row in rows:
            if isinstance(row, DatasetError):
                notes.rows += 1
                notes.bad.append(row)
                continue
            try:
                parts = list(columns.unnested(row))
            except ValueError as exc:
                notes.rows += 1
                notes.bad.append(DatasetError(file, line, str(exc)))
                continue
            for n, part in enumerate(parts, 1):
                notes.rows += 1
                try:
                    inner_id = f"{id}-{n}" if isinstance(row.get(columns.within), list) else id
                    own_id = seen(optional_text(part, columns.id)).strip()
                    inner_id = own_id or inner_id
                    text = columns.asked(part)
                    if self.form.ids == "text":
                        inner_id = f"{id.partition('-')[0]}-{digest(text)[:8]}"
                    if not self._takes(part):
                        continue
                    if columns.is_tie(part):
                        notes.change("ties", file, line)
                        continue
                    if not inner_id.isprintable():
                        raise ValueError(f"id: {inner_id!r} is not one line of text")
                    if (taken := lines.get(inner_id)) is not None:
                        raise ValueError(f"id: {inner_id!r} is taken by line {taken}; rename one")
                    options = self._options(part, columns, first)
                    about = inner_id, text, options, part, columns, bool(own_id)
                    problem, key = self._problem(*about)
                    lines[inner_id] = line
                    self._note(notes, options, problem, file, line)
                    yield key, problem
                except ValueError as exc:
                    notes.bad.append(DatasetError(file, line, str(exc)))
        if not lines and not notes.bad:
            raise DatasetError(rows[0][0], 0, "has no question that these settings take")

    def _takes(self, row: Row) -> bool:
        """Whether the settings, such as `subject`, take a row."""
        for name, columns in self.form.settings.items():
            setting = self.settings.get(name)
            if not setting or not columns:
                continue
            value = next((row[column] for column in columns if column in row), None)
            if isinstance(setting, bool) and value is None:
                raise ValueError(
                    f"{columns[0]}: missing; `{name}: true` needs it, as the authors' own files "
                    "have it"
                )
            if not (value if isinstance(setting, bool) else value == setting):
                return False
        return True

    def _options(self, row: Row, columns: Columns, first: int | None) -> Options:
        """The options of a row as the form wants them."""
        options, form = columns.options(row, first), self.form
        if form.yes_no:
            yes = options.right[0] in ("True", "yes")
            return Options(*((("yes",), ("no",)) if yes else (("no",), ("yes",))))
        if form.without:
            says = [text for text in options.right if not self._silent(text)]
            wrong = tuple(text for text in options.wrong if not self._silent(text))
            return replace(options, right=tuple(says) or options.right, wrong=wrong)
        if form.votes and not options.ordered:
            return replace(options, wrong=self._best_distractors(row, columns, options))
        if form.numbers and not self.settings.get("raw"):
            return _as_numbers(options, columns, row)
        if columns.work:
            works = optional_text(row, columns.work), optional_text(row, columns.wrong_work)
            return replace(options, works=works)
        return options

    def _silent(self, text: str) -> bool:
        return text.strip(" .").casefold() in self.form.without

    def _best_distractors(self, row: Row, columns: Columns, options: Options) -> tuple[str, ...]:
        """The wrong options that most annotators found best."""
        column, _, name = self.form.votes.partition(".")
        numbers = (number_of(vote.get(name)) for vote in row.get(column) or ())
        votes = Counter(number - 1 for number in numbers if number is not None)
        texts = columns.offered(row).texts
        wrong = [n for n, text in enumerate(texts) if seen(text) != seen(options.right[0])]
        most = max((votes[n] for n in wrong), default=0)
        return tuple(texts[n] for n in wrong if votes[n] == most)

    def _problem(
        self, id: str, text: str, options: Options, row: Row, columns: Columns, own_id: bool
    ) -> tuple[Problem, str]:
        """A problem, and the key that its draws follow from."""
        passage, group = (optional_text(row, name) for name in (columns.passage, columns.group))
        group = name_of(group)
        if self.form.yes_no:
            text = f"{text[:1].upper()}{text[1:]}".rstrip("?") + "?"
        key = id
        if self.by_content and not own_id:
            key = digest("\0".join((text, passage, *sorted((*options.right, *options.wrong)))))
        right = randomness(self.seed, key, "right answer").choice(options.right)
        wrong = _distinct(options)
        if not wrong:
            alike = f"no wrong answer differs from the right one, {right!r}; give another"
            raise ValueError(alike if options.wrong else "no wrong answer; give one")
        if passage and not group:
            group = digest(seen(passage))
        if referring := sorted(filter(refers, (right, *wrong)), key=refers_by_letter):
            texts = _in_order(options, right, wrong, referring[-1], self.answers)
            answers = tuple(Answer(label, t) for label, t in zip(LABELS, texts, strict=False))
            values = tuple(1.0 if t == right else -1.0 for t in texts)
            return Problem(id, Question(text, answers, passage), values, group), key
        if len(wrong) >= len(LABELS) and self.answers is None:
            raise ValueError(
                f"{len(wrong) + 1} answers; labels go from A to Z, so that {len(LABELS)} are the "
                "most: set answers"
            )
        most = len(LABELS) if self.answers is None else self.answers
        draw = randomness(self.seed, key, "wrong answers")
        chosen = draw.sample(wrong, min(most - 1, len(wrong)))
        right_work, wrong_work = options.works
        pairs = [(right, right_work, 1.0), *((text, wrong_work, -1.0) for text in chosen)]
        return labelled(id, text, pairs, seed=None, passage=passage, group=group), key

    def _note(self, notes: Notes, options: Options, problem: Problem, file: str, line: int) -> None:
        if options.stripped:
            notes.change("letters", file, line)
        if any(refers(answer.text) for answer in problem.question.answers):
            notes.change("references", file, line)
        wrong = _distinct(options)
        if len(wrong) < len(options.wrong):
            notes.change("merged", file, line)
        if len(problem.values) <= len(wrong):
            notes.change("left out", file, line)


def _inner_rows(rows: Iterable[Row], columns: Columns) -> Iterator[Row]:
    for row in rows:
        try:
            yield from columns.unnested(row)
        except ValueError:
            continue


def _distinct(options: Options) -> list[str]:
    """The wrong answers that read like no other and like none that is right; first spellings."""
    used = {seen(text) for text in options.right}
    wrong = []
    for text in options.wrong:
        if (key := seen(text)) not in used:
            used.add(key)
            wrong.append(text)
    return wrong


def _in_order(
    options: Options, right: str, wrong: Sequence[str], referring: str, answers: int | None
) -> list[str]:
    """All options in the order of the table, as one refers to others. Of a table that gives them no
    order, those that refer to others come last."""
    if not options.ordered and refers_by_letter(referring):
        raise ValueError(
            f"{referring!r} refers to answers by their letters, and the table gives them no order; "
            "name the columns of choices"
        )
    texts = list(options.ordered) or sorted((right, *wrong), key=lambda text: (refers(text), text))
    texts = [text for text in dict.fromkeys(texts) if text == right or text in wrong]
    if answers is not None and len(texts) > answers:
        raise ValueError(
            f"{referring!r} refers to the other options, so none of the {len(texts)} can be left "
            "out; set answers: null"
        )
    return texts


def _as_numbers(options: Options, columns: Columns, row: Row) -> Options:
    """The options as numbers in one notation, with solutions in one layout."""
    texts, works = [], []
    for name, text, work_name in (
        (columns.answer, options.right[0], columns.work),
        (columns.wrong[0], options.wrong[0], columns.wrong_work),
    ):
        if (value := number(text)) is None:
            raise ValueError(f"{name}: {text!r} is not a number such as 18 or 7.5")
        texts.append(number_text(value))
        works.append(laid_out(steps(optional_text(row, work_name)), texts[-1]))
    if texts[0] == texts[1]:
        raise ValueError(f"both answers are {texts[0]}; the incorrect one must differ")
    return Options((texts[0],), (texts[1],), works=(works[0], works[1]))


@dataclass(frozen=True, slots=True)
class Published(RowLoader):
    """A published table: its columns are known by its name."""

    path: str
    """The published file: CSV, TSV, JSON, JSON Lines, Parquet or Arrow, also as `.gz`."""
    answers: Annotated[int, Interval(ge=2, le=len(LABELS))] | None = 2
    """How many answers a problem has, the right one included; fewer where a row has fewer."""
    subject: str = ""
    """Take only this subject, such as `anatomy`; empty takes all."""
    hard: bool = False
    """Only QuALITY-HARD, the questions that most readers in a hurry got wrong."""
    raw: bool = False
    """Keep numbers and proofs as published, to reproduce published tables. Beware: a `.0` at the
    right number then gives most answers away."""
    form: str = ""
    """The name of the table; a sweep file says it once, as the name of the loader."""

    def __post_init__(self) -> None:
        super(Published, self).__post_init__()
        if self.form not in (forms := published_forms()):
            raise ValueError(f"form: unknown table {self.form!r}: choose from {', '.join(forms)}")
        for name in ("subject", "hard", "raw"):
            if getattr(self, name) and name not in forms[self.form].settings:
                raise ValueError(f"{name}: unknown setting of {self.form}")

    def _problems(self, root: Path, notes: Notes) -> Iterator[tuple[str, Problem]]:
        path = root / self.path
        name = self.form.replace("_", "")
        records = enumerate(each_record(path), 1)
        rows = [(str(path), line, f"{name}-{n}", row) for n, (line, row) in records]
        settings: dict[str, str | bool] = {"hard": self.hard, "raw": self.raw}
        settings["subject"] = self.subject
        mapper = Mapper(published_forms()[self.form], self.seed, self.answers, settings)
        return mapper.problems(rows, notes)


_TABLE = Columns(
    question="question",
    answer="answer",
    wrong=("wrong", "wrong_2", "wrong_3"),
    id="id",
    passage="passage",
    group="group",
)


@dataclass(frozen=True, slots=True)
class JsonLines(RowLoader):
    """Problems from a file in our own format, JSON Lines or a table (CSV). A line of JSON Lines:
    `{"id": …, "question": …, "answers": [{"text": …, "value": …}, …]}`, with +1 for true and -1
    for false, or any grades. An answer may have a `label`, `work` (a solution that everybody
    may read) and a `flaw` (what is wrong in it, for nobody to read), a problem a `passage` and
    a `group`. A table has the columns `question`, `answer`, which is right, and `wrong`, and
    may have `wrong_2`, `wrong_3`, `id`, `passage` and `group`. A `.gz` is read as the file in it.
    """

    names_rows: ClassVar[bool] = True

    path: str
    relabel: bool = False
    """Label the answers A, B, C … in an order drawn by the seed, whatever labels the file has."""
    columns: dict[str, str | int | list[str]] | None = None
    """Which column of another table is what: {question: …, answer: …, wrong: …}, or
    {question: …, choices: …, answer: …}; CSV, TSV, JSON Lines, JSON, Parquet or Arrow."""
    answers: Annotated[int, Interval(ge=2, le=len(LABELS))] | None = None
    """How many answers a problem of a table has, the right one included; None for all."""
    images: Images = "refuse"
    """Whether a column of images is an error, or is ignored and questions are asked without it."""

    def __post_init__(self) -> None:
        super(JsonLines, self).__post_init__()
        if self.columns is not None:
            columns_of(self.columns)

    def _problems(self, root: Path, notes: Notes) -> Iterator[tuple[str, Problem]]:
        path = root / self.path
        if self.columns is None and ending(path) not in TABLES:
            yield from self._own(path, notes)
            return
        columns = _TABLE if self.columns is None else columns_of(self.columns)
        stem = _name(path, root)
        rows = [(str(path), line, f"{stem}-{line}", row) for line, row in each_record(path)]
        _check_columns(str(path), rows, columns)
        form = Form(columns=(columns,))
        mapper = Mapper(form, self.seed, self.answers, {}, self.images, by_content=True)
        yield from mapper.problems(rows, notes)

    def _own(self, path: Path, notes: Notes) -> Iterator[tuple[str, Problem]]:
        """The problems of a file in our own format."""
        for line, problem in notes.good(each_problem(str(path), read_bytes(path), self.relabel)):
            try:
                yield problem.id, _checked(problem, notes, str(path), line)
            except ValueError as exc:
                notes.bad.append(DatasetError(str(path), line, str(exc)))


def _checked(problem: Problem, notes: Notes, file: str, line: int) -> Problem:
    """A problem of our own format: if its letters are drawn, without those that its answers carry,
    and in their order if one refers to others. ValueError for the mark of a missing value."""
    question = problem.question
    texts = [text_of("text", answer.text) and answer.text for answer in question.answers]
    if not isinstance(problem, Unordered):
        return problem
    if carried := own_letters(texts):
        texts = carried[0]
        notes.change("letters", file, line)
    pairs = zip(question.answers, texts, strict=True)
    answers = tuple(structs.replace(answer, text=text) for answer, text in pairs)
    question = structs.replace(question, answers=answers)
    if any(map(refers, texts)):
        notes.change("references", file, line)
        return Problem(problem.id, question, problem.values, problem.group, problem.flaws)
    return structs.replace(problem, question=question)


def _name(path: Path, root: Path) -> str:
    """The path of a file from the folder of the sweep, without the ending."""
    path = path.with_name(path.name.removesuffix(".gz"))
    try:
        return Path(os.path.relpath(path, root)).with_suffix("").as_posix()
    except ValueError:
        # Another drive, on Windows.
        return path.with_suffix("").as_posix()


def _check_columns(file: str, rows: Sequence[Placed], columns: Columns) -> None:
    """DatasetError for a column that no row has. In our own table, also for one whose name only
    looks like a name that is read: it would be left out in silence."""
    good = [row for *_, row in rows if not isinstance(row, DatasetError)]
    inner = list(_inner_rows(good, columns))
    if not inner:
        return
    names = (*columns.question, columns.answer, *columns.choices, *columns.wrong, columns.labels)
    names = (*names, columns.passage, columns.group, columns.id, columns.work)
    if columns is _TABLE:
        known = ", ".join(filter(None, names))
        for name in sorted(inner[0].keys() - names):
            if _letters(name) in map(_letters, filter(None, names)):
                text = f"the column {name!r} is not read; use {known}, or name all: columns: {{…}}"
                raise DatasetError(file, rows[0][1], text)
        names = names[:3]
    for name in names:
        if name and not any(has_column(row, name) for row in inner):
            try:
                value_of(inner[0], name)
            except ValueError as exc:
                raise DatasetError(file, rows[0][1], str(exc)) from exc


def _letters(name: str) -> str:
    return "".join(filter(str.isalpha, name)).casefold()


PASSAGES = ("article", "context", "paragraph", "passage", "story", "support", "text")
"""Names of columns with a text that a question may need."""
ENDINGS = (*TABLES, ".jsonl", ".json")


@dataclass(frozen=True, slots=True)
class Hub(RowLoader):
    """A data set on the Hugging Face Hub: `{hf: {name: TIGER-Lab/MMLU-Pro, split: test}}`.

    Its files are read as they lie there, and no code of it is run. They stay in the Hub's own cache
    on this machine, which HF_HOME names; HF_HUB_OFFLINE=1 and your token work as elsewhere."""

    name: str
    """As on the Hub: owner/name."""
    split: str = "test"
    config: str = ""
    """Which of its configurations, where it has several: the folder of the files."""
    revision: str = ""
    """A commit, tag or branch. A run keeps the commit that it began with, and its problems."""
    columns: dict[str, str | int | list[str]] | str | None = None
    """Which column is what; or the name of a known form; where it is left out, the form that
    fits."""
    answers: int | None = 2
    """How many answers a problem has, the right one included; None: all that a row has."""
    images: Images = "refuse"
    """Whether a column of images is an error, or is ignored and questions are asked without it."""

    def __post_init__(self) -> None:
        super(Hub, self).__post_init__()
        forms = published_forms()
        if isinstance(self.columns, str) and self.columns not in forms:
            names = ", ".join(forms)
            raise ValueError(f"columns: unknown form {self.columns!r}: choose from {names}")
        if isinstance(self.columns, dict):
            columns_of(self.columns)

    def _problems(self, root: Path, notes: Notes) -> Iterator[tuple[str, Problem]]:
        """root is not used. DatasetError where the Hub has no such thing, or it cannot be read."""
        rows = list(self._placed(self._snapshot()))
        mapper = Mapper(self._form(rows), self.seed, self.answers, {}, self.images)
        return mapper.problems(rows, notes)

    def _form(self, rows: Sequence[Placed]) -> Form:
        """The form of the table: as the settings say, or the published one that fits."""
        if isinstance(self.columns, dict):
            return Form(columns=(columns_of(self.columns),))
        if isinstance(self.columns, str):
            return published_forms()[self.columns]
        first = next((row for *_, row in rows if not isinstance(row, DatasetError)), {})
        for form_name, form in published_forms().items():
            for columns in filter(lambda columns: columns.fit(first), form.columns):
                read = {columns.within, columns.passage, *columns.question}
                if texts := [name for name in PASSAGES if name in first and name not in read]:
                    how = f"columns: {form_name} asks without it; or map the columns, passage too"
                    reason = f"fits {form_name}, which does not read {texts[0]!r}; {how}"
                    raise DatasetError(self.name, 0, reason)
                return form
        names = f"has the columns {', '.join(first)}; say which is what: columns: "
        raise DatasetError(self.name, 0, names + "{question: …, choices: …, answer: …}")

    def pinned(self) -> Self:
        """With the commit that the revision is now, as the Hub or its cache names it."""
        return replace(self, revision=self._snapshot().name)

    def _snapshot(self) -> Path:
        """The folder of the files of the split, in the Hub's cache; its name is the commit."""
        try:
            from huggingface_hub import snapshot_download
            from huggingface_hub.errors import HfHubHTTPError, HFValidationError
        except ImportError:
            why = "is on the Hub: pip install 'oversight-bench[data]'"
            raise DatasetError(self.name, 0, why) from None
        globs = [f"*{self.split}*{kind}" for kind in (*ENDINGS, *(f"{end}.gz" for end in ENDINGS))]
        try:
            return Path(
                snapshot_download(
                    self.name,
                    repo_type="dataset",
                    revision=self.revision or None,
                    allow_patterns=globs,
                )
            )
        except (HfHubHTTPError, HFValidationError, OSError, ValueError) as exc:
            raise DatasetError(self.name, 0, f"cannot be had from the Hub: {exc}") from exc

    def _placed(self, folder: Path) -> Iterator[Placed]:
        word = re.compile(rf"(?:^|[^a-z0-9]){re.escape(self.split)}(?:[^a-z0-9]|$)", re.IGNORECASE)
        tables = sorted(path for path in folder.rglob("*") if ending(path) in ENDINGS)
        files = [p for p in tables if word.search(str(p.relative_to(folder).with_suffix("")))]
        if self.config:
            files = [path for path in files if self.config in path.relative_to(folder).parts[:-1]]
        configs = sorted({str(path.parent.relative_to(folder)) for path in files})
        if len(configs) > 1:
            raise DatasetError(self.name, 0, f"config: which of {', '.join(configs)}?")
        if not files:
            why = f"has no table for the split {self.split!r} that can be read here"
            raise DatasetError(self.name, 0, why)
        place = 0
        for path in files:
            for line, row in each_record(path):
                place += 1
                name = f"{self.name}/{path.relative_to(folder)}"
                yield name, line, f"{self.name.rpartition('/')[2]}-{place}".lower(), row
