"""The sweep of a run, opened again from the run folder that it made.

A pack made without `--passages` has the sha256 of each source text instead of the text. Users who
have the data set can restore the texts for a replay: equal texts make equal calls.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ...cache.cache import TagsOf, no_tags
from ...protocols.datasets.rows import records
from ...protocols.errors import DatasetError
from ...protocols.question import Problem
from ..errors import RunFolderError, UsageError
from ..models.directory import THINKING, thinking_tags
from ..providers.settings import Api
from ..sweep.document import Document, Node
from ..sweep.in_python import PYTHON_MARK, read_python_sweep
from ..sweep.loading import kept_shots
from ..sweep.sweepfile import checked_sweep, texts
from ..system.files import read_bounded
from .folders import is_run, remembered_addresses
from .loaded_sweep import LoadedSweep, loaded
from .reader import RunReader
from .run_folder import REPORT, SHOTS, SWEEP

MAX_SOURCE = 2**31
"""Bytes of a file that is searched for source texts."""

_BEFORE, _AFTER = "[This source text is not in the pack. sha256 ", "]"


def open_run(
    folder: Path,
    overrides: Iterable[str] = (),
    passages: Path | None = None,
    own: Path | None = None,
) -> LoadedSweep:
    """The sweep of a run folder: its file, its overrides, its problems.

    passages: where source texts are that were left out of the folder; see `with_passages`. own: a
    sweep file of the user, read instead of the folder's. Only code and addresses in this file are
    used, and none from the flags of the run.
    """
    run = RunReader(folder)
    manifest, problems = run.manifest, with_passages(run.problems, passages)
    document = Document.read(own or folder / SWEEP)
    if document.text.startswith(PYTHON_MARK):
        return _open_python_run(folder, document.text, problems, tuple(overrides), manifest.apis)
    document.make_inert(inert(folder), own is not None, remembered_addresses(folder))
    for assignment in (*manifest.overrides, *overrides):
        document.set(assignment)
    document.value.setdefault("name", manifest.name)
    for name, (examples, names_rows) in kept_shots(folder / SHOTS).items():
        document.shots[name] = with_passages(examples, passages), names_rows
    checked = checked_sweep(document, own or folder / SWEEP, problems, manifest.prompt_sets)
    return loaded(checked, apis=manifest.apis)


def inert(folder: Path) -> str:
    """Advice for settings of a run folder that name code, files or addresses."""
    return (
        "for safety, code in a run folder is not run; pass your own sweep file with --sweep FILE, "
        f"or start that: oversight run FILE --run-folder {folder}"
    )


def tags_named(run: RunReader) -> TagsOf:
    """The tags of thoughts that the run's sweep file names, by model; the file is read as data."""
    document = Document.read(run.folder / SWEEP)
    if document.text.startswith(PYTHON_MARK):
        return no_tags
    for assignment in run.manifest.overrides:
        document.set(assignment)
    models = Node.section(document, "models").settings()
    nodes = {name: model.settings().get(THINKING) for name, model in models.items()}
    return {name: thinking_tags(node) for name, node in nodes.items() if node}.get


def _open_python_run(
    folder: Path,
    text: str,
    problems: tuple[Problem, ...],
    overrides: tuple[str, ...],
    apis: Mapping[str, Api],
) -> LoadedSweep:
    if overrides:
        raise UsageError(f"--set {overrides[0]}: {folder} was made from Python; set it there")
    try:
        file = read_python_sweep(text, problems)
        file.document.make_inert(inert(folder), own=False, noted=remembered_addresses(folder))
        return loaded(file, apis=apis)
    except RunFolderError as exc:
        raise RunFolderError(
            f"{folder} was made from Python, and {exc}: call run() again there, and show() on its "
            f"result; the reports are in {folder / REPORT}"
        ) from exc


def without_passage(problem: Problem) -> Problem:
    """Return the problem with the digest of its source text instead of the text."""
    text = problem.question.passage
    return _with(problem, _mark(text)) if text else problem


def without_passages(settings: Any, passages: Collection[str]) -> Any:
    """Return plain settings with digests instead of these texts."""
    if isinstance(settings, Mapping):
        return {key: without_passages(value, passages) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [without_passages(value, passages) for value in settings]
    return _mark(settings) if isinstance(settings, str) and settings in passages else settings


def with_passages(problems: Iterable[Problem], source: Path | None) -> tuple[Problem, ...]:
    """Return the problems with source texts instead of their digests. UsageError if one is missing.

    source: a file or folder with the texts, as fields of a table that data sets may have, or as
    whole text files, with or without surrounding white space; or a run that has them.
    """
    every = tuple(problems)
    digests = {digest for problem in every if (digest := _left_out(problem))}
    if not digests:
        return every
    if source is None:
        raise UsageError(
            f"{len(digests)} source texts were left out of the pack that this run came in, and "
            "requests quote them: oversight replay RUN --passages FROM, a file or a folder with "
            "the data set"
        )
    texts = {}
    for source_text in _texts(source):
        for text in (source_text, source_text.strip()):
            if (digest := _digest(text)) in digests:
                texts[digest] = text
        if len(texts) == len(digests):
            break
    restored = []
    for problem in every:
        digest = _left_out(problem)
        if digest and digest not in texts:
            raise UsageError(
                f"--passages {source}: it has {len(texts)} of the {len(digests)} source texts; "
                f"the text of {problem.id}, with sha256 {digest}, is missing"
            )
        restored.append(_with(problem, texts[digest]) if digest else problem)
    return tuple(restored)


def _left_out(problem: Problem) -> str:
    """Return the digest of a left-out source text; empty if the problem has its text."""
    passage = problem.question.passage
    return passage[len(_BEFORE) : -len(_AFTER)] if passage.startswith(_BEFORE) else ""


def _mark(text: str) -> str:
    return f"{_BEFORE}{_digest(text)}{_AFTER}"


def _with(problem: Problem, passage: str) -> Problem:
    return replace(problem, question=replace(problem.question, passage=passage))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _texts(source: Path) -> Iterator[str]:
    """Yield every text in a file, or in the files of a folder."""
    if not source.exists():
        raise UsageError(f"--passages: file not found: {source}")
    if is_run(source):
        yield from (problem.question.passage for problem in RunReader(source).problems)
        return
    for file in sorted(source.rglob("*")) if source.is_dir() else [source]:
        if file.is_symlink() or not file.is_file():
            continue
        with suppress(UnicodeDecodeError):
            yield read_bounded(file, MAX_SOURCE).decode("utf-8-sig")
        # A file that is not a table was a text as a whole.
        with suppress(DatasetError):
            for _, row in records(file):
                yield from (text for _, text in texts((), row))
