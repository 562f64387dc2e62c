"""A study while it is imported: rows that are laid down once, and what was left out, with why."""

import csv
import hashlib
import io
import os
import shutil
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from oversight.engine.display.text import counted
from oversight.engine.errors import UsageError
from oversight.engine.system.files import replace_file
from oversight.protocols.datasets.jsonl import jsonl
from oversight.protocols.datasets.study import (
    CONVERSATIONS,
    JUDGEMENTS,
    PROBLEMS,
    SOURCES,
    ConversationRow,
    JudgementRow,
    SourceRow,
    StudyRow,
    answer_digest,
    looks_recruited,
    read_study,
)
from oversight.protocols.errors import DatasetError
from oversight.protocols.question import LABELS, Answer, Problem, Question
from oversight.protocols.scores import check_probabilities

INFO = "study.json"


@dataclass(frozen=True, slots=True)
class Attribution:
    """Source and licence of a study."""

    name: str
    paper: str
    source: str
    licence: str
    attribution: str


@dataclass(slots=True)
class Draft:
    """The parts of an experiment that were read so far."""

    about: Attribution
    changed: str = "converted into one form; nothing was rewritten"
    problems: dict[str, Problem] = field(default_factory=dict)
    sources: dict[str, SourceRow] = field(default_factory=dict)
    conversations: dict[str, ConversationRow] = field(default_factory=dict)
    judgements: list[JudgementRow] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Rows that did not become part of it, by reason."""
    inputs: dict[str, str] = field(default_factory=dict)
    """sha256 of every file that was read, by name."""

    def read(self, file: Path) -> bytes:
        """The bytes of an input. UsageError if it cannot be read."""
        try:
            content = file.read_bytes()
        except OSError as exc:
            raise UsageError(f"{file}: cannot be read: {exc.strerror}") from exc
        self.inputs[file.name] = hashlib.sha256(content).hexdigest()
        return content.removeprefix(b"\xef\xbb\xbf")

    def table(self, file: Path, needed: Iterable[str] = ()) -> Iterator[dict[str, str]]:
        """The rows of a CSV input, or of the one in a ZIP, by the names in its first line.
        UsageError if it lacks a column that is needed."""
        content = self.read(file)
        if zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                tables = [name for name in archive.namelist() if name.endswith(".csv")]
                if len(tables) != 1:
                    raise UsageError(f"{file}: it holds {len(tables)} tables, and one is expected")
                content = archive.read(tables[0])
        csv.field_size_limit(sys.maxsize)
        table = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        if lacking := sorted(set(needed) - set(table.fieldnames or ())):
            raise UsageError(f"{file}: it has no column {lacking[0]}")
        return table

    def problem(
        self, text: str, answers: Iterable[tuple[str, float]], group: str = ""
    ) -> tuple[str, list[str]]:
        """The id of a question, which is the same in whatever order its answers stand, and the
        digests of its answers in this order. UsageError where two values contradict each other."""
        given = [(" ".join(answer.split()), value) for answer, value in answers]
        order = [answer_digest(answer) for answer, _ in given]
        if len(set(order)) < len(order):
            raise ValueError(f"{text[:60]!r} has the answer {given[0][0][:40]!r} twice")
        about = "\0".join([group, " ".join(text.split()), *sorted(order)])
        id = hashlib.sha256(about.encode()).hexdigest()[:12]
        shown = tuple(Answer(LABELS[n], answer) for n, (answer, _) in enumerate(given))
        worth = tuple(value for _, value in given)
        made = Problem(id, Question(text.strip(), shown), worth, group)
        known = self.problems.setdefault(id, made)
        digests = [answer_digest(answer.text) for answer in known.question.answers]
        values = dict(zip(digests, known.values, strict=True))
        if any(values[digest] != value for digest, (_, value) in zip(order, given, strict=True)):
            raise UsageError(f"{text[:60]!r}: the right answer differs between two conversations")
        return id, order

    def identity(self, name: str) -> str:
        """A pseudonym that may stand in the study, in place of an id of a recruiting platform, by
        which a person can be found."""
        digest = hashlib.sha256(f"{self.about.name}/{name}".encode()).hexdigest()
        return f"rater-{digest[:10]}" if looks_recruited(name) else name

    def held(self, row: dict[str, Any]) -> None:
        """Add a conversation. UsageError if another one has its id."""
        row["speakers"] = {seat: self.identity(n) for seat, n in row.get("speakers", {}).items()}
        made = ConversationRow.model_validate(row)
        if self.conversations.setdefault(made.id, made) != made:
            raise UsageError(f"conversation {made.id!r}: two of them contradict each other")

    def judged(self, row: dict[str, Any]) -> None:
        """Add a judgement. ValueError if its beliefs are not probabilities of the answers."""
        made = JudgementRow.model_validate(row | {"judge": self.identity(row["judge"])})
        answers = len(self.conversations[made.conversation].order)
        for belief in made.beliefs:
            if len(belief.probs) != answers:
                raise ValueError(f"probs: {belief.probs}: one for each of {answers} answers")
            try:
                check_probabilities(belief.probs)
            except ValueError as exc:
                raise ValueError(f"probs: {belief.probs}: {exc}") from exc
        self.judgements.append(made)

    def told(self) -> Iterator[str]:
        """How much is in it, and how much was left out, a line each."""
        yield (
            f"{counted(len(self.conversations), 'conversation')} on "
            f"{counted(len(self.problems), 'question')}, "
            f"{counted(len(self.judgements), 'judgement')}"
        )
        for reason, count in sorted(self.left_out.items()):
            yield f"left out: {count:,} × {reason}"

    def write(self, to: Path) -> None:
        """Lay the study down as a folder, whole or not at all. UsageError if something is there
        already."""
        if to.exists():
            raise UsageError(f"{to} is there already: name another folder")
        judged = sorted(self.judgements, key=lambda row: (row.conversation, row.mode, row.judge))
        files = {
            PROBLEMS: jsonl(each for _, each in sorted(self.problems.items())),
            SOURCES: _rows(each for _, each in sorted(self.sources.items())),
            CONVERSATIONS: _rows(each for _, each in sorted(self.conversations.items())),
            JUDGEMENTS: _rows(judged),
        }
        told = {name: b"".join(parts) for name, parts in files.items()}
        if not told[SOURCES]:
            del told[SOURCES]
        about = {
            **{name: getattr(self.about, name) for name in Attribution.__slots__},
            "changed": self.changed,
            "left_out": dict(sorted(self.left_out.items())),
            "inputs": dict(sorted(self.inputs.items())),
            "files": {name: hashlib.sha256(content).hexdigest() for name, content in told.items()},
        }
        told[INFO] = orjson.dumps(about, option=orjson.OPT_INDENT_2)
        unfinished = to.with_name(f".{to.name}.{os.getpid()}")
        try:
            unfinished.mkdir(parents=True)
            for name, content in told.items():
                replace_file(unfinished / name, [content])
            read_study(unfinished)
            unfinished.rename(to)
        except DatasetError as exc:
            raise UsageError(
                f"{to}: not written: {str(exc).partition(f'{unfinished}/')[2]}"
            ) from exc
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def import_study(
    about: Attribution,
    read: Callable[[Sequence[Path], Draft], None],
    files: Sequence[Path],
    to: Path,
) -> Draft:
    """Convert the files of an experiment into a study folder. UsageError for what is wrong in them;
    nothing is written then."""
    draft = Draft(about)
    shown = ", ".join(map(str, files))
    try:
        read(files, draft)
    except (LookupError, ValueError, TypeError, AttributeError) as exc:
        said = f"there is no {exc}" if isinstance(exc, KeyError) else str(exc)
        raise UsageError(f"{shown}: not what {about.name} is made of: {said}") from exc
    if not draft.conversations:
        raise UsageError(f"{shown}: no conversation is in it")
    draft.write(to)
    return draft


def run(about: Attribution, read: Callable[[Sequence[Path], Draft], None]) -> None:
    """Import the files that the command line names into the folder that it names last."""
    if len(sys.argv) < 3:
        raise SystemExit(f"usage: {sys.argv[0]} FILE... FOLDER")
    *files, to = map(Path, sys.argv[1:])
    try:
        print(*import_study(about, read, files, to).told(), sep="\n")
    except UsageError as exc:
        raise SystemExit(str(exc)) from None


def _rows(rows: Iterable[StudyRow]) -> Iterator[bytes]:
    for row in rows:
        told = row.model_dump(exclude_defaults=True)
        yield orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)
