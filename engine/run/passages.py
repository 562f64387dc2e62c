"""Source texts that a run does not hold, and finding them again.

A pack whose data set's licence is not known to allow more has the sha256 of each source text in its
place. Whoever has the data set can put the texts back for a replay: equal texts make equal calls.
"""

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import orjson
from msgspec.structs import replace

from ...protocols.datasets.tabular import MAX_FIELD
from ...protocols.question import Problem
from ..errors import UsageError
from ..system.files import read_bounded
from .folders import is_run
from .reader import RunReader

MAX_SOURCE = 2**31
"""Bytes of a file that is searched for source texts."""

_BEFORE, _AFTER = "[This source text is not in the pack. sha256 ", "]"


def without_passage(problem: Problem) -> Problem:
    """The problem with the digest of its source text in the text's place."""
    text = problem.question.passage
    if not text:
        return problem
    return _with(problem, f"{_BEFORE}{_digest(text)}{_AFTER}")


def with_passages(problems: Iterable[Problem], source: Path | None) -> tuple[Problem, ...]:
    """The problems, digests replaced by the source texts that they are of.

    source: a file, or a folder of files, in which the texts are: as strings of JSON or JSON Lines,
    as cells of CSV, or each as a whole text file, with or without white space around them; or a
    run that has them.
    UsageError where a text is not found.
    """
    given = tuple(problems)
    wanted = {digest for problem in given if (digest := _left_out(problem))}
    if not wanted:
        return given
    if source is None:
        raise UsageError(
            f"{len(wanted)} source texts were left out of the pack that this run came in, and "
            "requests quote them: oversight replay RUN --passages FROM, a file or a folder with "
            "the data set"
        )
    found = {}
    for there in _texts(source):
        for text in (there, there.strip()):
            if (digest := _digest(text)) in wanted:
                found[digest] = text
        if len(found) == len(wanted):
            break
    for problem in given:
        digest = _left_out(problem)
        if digest and digest not in found:
            raise UsageError(
                f"--passages {source}: it has {len(found)} of the {len(wanted)} source texts, and "
                f"not that of {problem.id}, whose sha256 is {digest}"
            )
    return tuple(
        _with(problem, found[digest]) if (digest := _left_out(problem)) else problem
        for problem in given
    )


def _left_out(problem: Problem) -> str:
    """The digest of a source text that was left out; empty if none was."""
    told = problem.question.passage
    return told[len(_BEFORE) : -len(_AFTER)] if told.startswith(_BEFORE) else ""


def _with(problem: Problem, passage: str) -> Problem:
    return replace(problem, question=replace(problem.question, passage=passage))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _texts(source: Path) -> Iterator[str]:
    """Every text in a file, or in the files of a folder."""
    if not source.exists():
        raise UsageError(f"--passages {source}: there is no such file or folder")
    if is_run(source):
        yield from (problem.question.passage for problem in RunReader(source).problems)
        return
    files = sorted(source.rglob("*")) if source.is_dir() else [source]
    for file in files:
        if not file.is_file() or file.is_symlink():
            continue
        try:
            whole = read_bounded(file, MAX_SOURCE).decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
        yield whole
        if file.suffix == ".csv":
            csv.field_size_limit(MAX_FIELD)
            with suppress(csv.Error):
                for row in csv.reader(io.StringIO(whole, newline="")):
                    yield from row
            continue
        # Not splitlines: a string of JSON may hold any other separator of lines.
        for part in (whole, *whole.split("\n")) if '"' in whole else ():
            try:
                yield from _strings(orjson.loads(part))
            except orjson.JSONDecodeError:
                continue


def _strings(value: object) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
