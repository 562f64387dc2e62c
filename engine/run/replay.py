"""Opens the sweep of a run again, and replays its cells from recorded replies.

No socket is opened. `rebuild` restores the database of a run in the same way. A pack made without
`--passages` has the sha256 of each source text instead of the text. Users who have the data set can
restore the texts for a replay: equal texts make equal calls."""

import hashlib
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson
import zstandard
from msgspec.json import decode
from msgspec.structs import replace

from ...cache.cache import EXPLAINED_MISSES, Cache, TagsOf, no_tags
from ...cache.call import Call, Identity, store_key
from ...cache.entry import read_entry, zstd
from ...cache.errors import ReplayMiss
from ...cache.reply import Reply
from ...cache.sqlite import open_untrusted
from ...cache.store import Reader
from ...protocols.datasets.rows import each_record, strict
from ...protocols.errors import DatasetError
from ...protocols.question import Problem
from ...protocols.transcript import Verdict
from ..errors import RunFolderError, UsageError
from ..models.accounting.prices import listed
from ..models.directory import THINKING, thinking_tags
from ..providers.settings import Api
from ..stop import StopToken
from ..sweep.document import MAX_SWEEP, Document, Node
from ..sweep.in_python import PYTHON_MARK, read_python_sweep
from ..sweep.loading import kept_shots
from ..sweep.sweep import Cell
from ..sweep.sweepfile import checked_sweep, read_sweep_file, texts
from ..system.files import let_go, read_bounded, refuse_links_within, take_lock, whole_lines
from .folders import is_run, remembered_addresses, remembered_store
from .lanes import REPLAY_LANES, NotedOutcome, attempt_noted, run_lanes
from .loaded_sweep import STARTED, LoadedSweep, Started, load_sweep, loaded, part_of, run_folder
from .outcome import OutcomeRecord
from .reader import RunReader
from .record.capture import Capture, stated_settings
from .record.schema import RUN_DB, NotOfThisFormat, RunDamaged
from .record.tables import RunTables
from .record.values import CallCost, RecordedCall, RecordedCell
from .run_folder import MAX_GROUP, REPORT, SHOTS, SWEEP, RunFolder
from .schedule import InOrder
from .settings import RunSettings, open_store, shown_name, store_name

MAX_SOURCE = 2**31
"""Bytes of a file that is searched for source texts."""

_BEFORE, _AFTER = "[This source text is not in the pack. sha256 ", "]"


def open_run(
    folder: Path,
    overrides: Iterable[str] = (),
    passages: Path | None = None,
    user_file: Path | None = None,
) -> LoadedSweep:
    """Return the sweep of a run folder: its file, its overrides, its problems. passages: where the
    left-out source texts are; see `with_passages`. user_file: a sweep file of the user, read
    instead of the folder's. Only code and addresses in this file are used, and none from the flags
    of the run."""
    run = RunReader(folder)
    manifest, problems = run.manifest, with_passages(run.problems, passages)
    document = Document.read(user_file or folder / SWEEP)
    if document.text.startswith(PYTHON_MARK):
        return _open_python_run(folder, document.text, problems, tuple(overrides), manifest.apis)
    document.make_inert(inert(folder), user_file is not None, remembered_addresses(folder))
    for assignment in (*manifest.overrides, *overrides):
        document.set(assignment)
    document.value.setdefault("name", manifest.name)
    for name, (examples, names_rows) in kept_shots(folder / SHOTS).items():
        document.shots[name] = with_passages(examples, passages), names_rows
    checked = checked_sweep(document, user_file or folder / SWEEP, problems, manifest.prompt_sets)
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
        file.document.make_inert(inert(folder), is_users=False, noted=remembered_addresses(folder))
        return loaded(file, apis=apis)
    except RunFolderError as exc:
        raise RunFolderError(
            f"{folder} was made from Python, and {exc}: call run() again there, and show() on its "
            f"result; the reports are in {folder / REPORT}"
        ) from exc


def without_passage(problem: Problem) -> Problem:
    """Return the problem with the digest of its source text instead of the text."""
    text = problem.question.passage
    return _with(problem, _mark(text)) if text and not left_out(problem) else problem


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
    whole text files, with or without surrounding white space; or a run that has them."""
    every = tuple(problems)
    digests = {digest for problem in every if (digest := left_out(problem))}
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
        digest = left_out(problem)
        if digest and digest not in texts:
            raise UsageError(
                f"--passages {source}: it has {len(texts)} of the {len(digests)} source texts; "
                f"the text of {problem.id}, with sha256 {digest}, is missing"
            )
        restored.append(_with(problem, texts[digest]) if digest else problem)
    return tuple(restored)


def left_out(problem: Problem) -> str:
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
            for _, row in strict(each_record(file)):
                yield from (text for _, text in texts((), row))


MAY_DIFFER = {"dollars", "origin", "at", "came", "elsewhere", "drafts"}
"""Fields in which two runs of one sweep may differ: time, source and price of a reply."""
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
WORDS = ("text", "outcome", "tool_calls", "reasoning")
NO_REPLY = "it has no reply"


async def unreachable(call: Call) -> Reply:
    """The `Ask` behind a replay's cache. The cache raises before it would ask."""
    raise ReplayMiss(call.model, "", "nothing is asked in a replay")


def replay_cache(
    store: Reader, identity: Identity, *, tags: TagsOf = no_tags, explained: int = EXPLAINED_MISSES
) -> Cache:
    """A cache that answers from `store` alone. tags, explained: as `Cache` has them."""
    return Cache(
        store, unreachable, identity=identity, mode="replay", explained=explained, tags=tags
    )


async def replay_cells(
    cells: Iterable[Cell],
    store: Reader,
    identity: Identity,
    keep: Callable[[Cell, NotedOutcome], None],
    *,
    tags: TagsOf = no_tags,
) -> None:
    """Run cells again, and pass each outcome with its notes to `keep`. ReplayMiss at the first call
    that was never recorded; StoreFailed at the first record that is damaged: a replay of a part
    must not pass for one of the whole."""
    stop_token = StopToken()
    attempted = partial(attempt_noted, ask=replay_cache(store, identity, tags=tags))
    await run_lanes(InOrder(cells), attempted, keep, lanes=REPLAY_LANES, stop_token=stop_token)
    stop_token.raise_if_stopped()


def difference(recorded: OutcomeRecord, replayed: OutcomeRecord) -> str:
    """Return how two outcomes of a cell differ, as `probs: [0.2,0.8] recorded, [0.3,0.7] now`.
    Empty if they agree. The id is left out, since it follows from the settings."""
    then, now = orjson.loads(recorded.line), orjson.loads(replayed.line)
    for key in dict.fromkeys((*then, *now)):
        if key != "cell" and then.get(key) != now.get(key):
            values = (
                f"{orjson.dumps(record[key]).decode():.200}" if key in record else "nothing"
                for record in (then, now)
            )
            return f"{key}: {next(values)} recorded, {next(values)} now"
    return ""


def unlike(then: msgspec.Struct, now: msgspec.Struct) -> Iterator[tuple[str, Any, Any]]:
    """(field, value of the one, value of the other) where two values differ."""
    for field in then.__struct_fields__:
        one, other = getattr(then, field), getattr(now, field)
        if isinstance(one, CallCost):
            yield from unlike(one, other)
        elif one != other and field not in MAY_DIFFER:
            yield field, one, other


def difference_of_cells(then: RecordedCell, now: RecordedCell) -> str:
    """The first difference of two records of a cell, as `turn 2, text: … recorded, … now`; empty
    if they agree. A failed cell may have ended before some of its calls."""
    one, other = then.outcome, now.outcome
    if isinstance(one, Verdict) and isinstance(other, Verdict):
        parts = [
            ("turn", one.transcript.turns, other.transcript.turns),
            ("judgement", one.judgements, other.judgements),
            ("call", then.calls, now.calls),
        ]
    else:
        common = {call.address for call in then.calls} & {call.address for call in now.calls}
        calls, calls_now = ([c for c in cell.calls if c.address in common] for cell in (then, now))
        parts = [("call", tuple(calls), tuple(calls_now))]
    for name, ours, theirs in parts:
        for number, pair in enumerate(zip(ours, theirs, strict=False), 1):
            for field, was, is_now in unlike(*pair):
                return f"{name} {number}, {field}: {was!r:.200} recorded, {is_now!r:.200} now"
        if len(ours) != len(theirs):
            return f"{name}s: {len(ours)} recorded, {len(theirs)} now"
    return ""


def unlike_replies(
    cells: Iterable[RecordedCell], store: Reader, tags: TagsOf
) -> Iterator[tuple[RecordedCell, str]]:
    """Each recorded call that differs from its stored reply, with the first cell that asked it, as
    `call 0123456789ab, stop_reason: 'end' recorded, 'cut' in its reply`, or `…: no reply`.
    DamagedEntry for a stored reply that cannot be read."""
    compared = set[RecordedCall]()
    for cell in cells:
        for asked_here in cell.calls:
            call = replace(asked_here, role="", seat="", heard=0)
            if call in compared:
                continue
            compared.add(call)
            stored = _stored(call, store, tags)
            name = f"call {call.address[:12]}"
            if stored is None:
                yield cell, f"{name}: {NO_REPLY}"
            elif difference := next(unlike(call, stored), None):
                field, was, in_store = difference
                yield cell, f"{name}, {field}: {was!r:.60} recorded, {in_store!r:.60} in its reply"


def _stored(call: RecordedCall, store: Reader, tags: TagsOf) -> RecordedCall | None:
    """A recorded call with all that its stored reply says; the rest stays as it is recorded."""
    key = store_key(call.address, call.cost.identity)
    value = store.get(key)
    if value is None:
        # The record may name the wrong endpoint.
        key = next(store.keys(call.address), key)
        value = store.get(key)
    if value is None:
        return None
    record = read_entry(key, value)
    reply, known_tags = record.reply(), tags(record.model)
    if known_tags:
        reply = reply.split(known_tags)
    tokens = {name: getattr(reply.usage, name) for name in TOKENS}
    source = {"identity": record.identity, "served": reply.served_model}
    cost = replace(call.cost, stop_reason=reply.stop_reason, **source, **tokens)
    if record.call_size:
        sent = record.call()
        call = replace(call, draw=sent.draw, settings=stated_settings(sent.request))
    words = {name: getattr(reply, name) for name in WORDS}
    return replace(call, model=record.model, cost=cost, **words)


class Rebuilt(NamedTuple):
    cells: int
    """Cells that were made again."""
    missing: int
    """Cells for which the store lacks a reply; a run asks for them again."""
    wrong: str
    """The fault of the database before."""


async def rebuild(
    folder: Path, store: Path | str | None = None, user_file: Path | None = None
) -> Rebuilt:
    """Make the database of a run again; the one before is kept under another name. user_file: the
    user's sweep file, read instead of the folder's copy: only code and data files in it are read.
    store: None for the one that this machine remembers for the run, else the user's. UsageError for
    an intact run, or one of another sweep; RunFolderError; StoreError."""
    refuse_links_within(folder)
    before = _known(folder)
    began = _started(folder)
    started = began.overrides, began.limit
    file = read_sweep_file(
        user_file or folder / SWEEP, *started, inert=inert(folder), is_users=user_file is not None
    )
    loaded = load_sweep(part_of(file, began.part) if began.part else file)
    if before.identity not in ("", loaded.sweep.identity):
        raise UsageError(
            f"{folder} was a run of another sweep than {user_file or folder / SWEEP} is: name the "
            "one that it was started with"
        )
    store_url = store_name(store or remembered_store(folder, before.id) or None)
    if not store and before.store not in ("", shown_name(store_url)):
        raise UsageError(
            f"{folder} names the store {before.store}, and a store that only a run folder names is "
            f"not opened. If it is yours: --store {before.store}"
        )
    with closing(open_store(store_url)) as replies:
        let_go(folder, take_lock(folder))  # FolderBusy while somebody runs it
        wrong = _wrong(folder, replies, loaded)
        for name in (RUN_DB, f"{RUN_DB}-wal", f"{RUN_DB}-shm", f"{RUN_DB}-journal"):
            if (folder / name).exists():
                (folder / name).rename(folder / name.replace(RUN_DB, f"damaged-{RUN_DB}"))
        settings = RunSettings(folder=folder, part=began.part)
        folder_made = run_folder(
            loaded, settings, shown_name(store_url), replies, replace_lost=True
        )
        with folder_made as run:
            missing = await _cells(loaded, run, replies)
            run.change(replies=len(replies), store_id=replies.id or run.manifest.store_id)
            if run.complete:
                run.finalize()
            return Rebuilt(run.finished, missing, wrong)


async def _cells(loaded: LoadedSweep, run: RunFolder, replies: Reader) -> int:
    """Run every cell again from the store; how many lack a reply."""
    models = loaded.models
    cache = replay_cache(replies, models.identity, tags=models.tags, explained=0)
    capture = Capture(loaded.sweep, models, models.priced(listed()), set())
    group, missing = list[RecordedCell](), 0
    for cell in loaded.sweep.cells():
        try:
            end = await attempt_noted(cell, cache)
        except ReplayMiss:
            missing += 1
            continue
        group.append(capture.cell(cell, end.outcome, end.notes))
        if len(group) == MAX_GROUP:
            run.add(group)
            group = []
    run.add(group)
    return missing


class _Known(msgspec.Struct, frozen=True):
    """Parts of a manifest, in this format and the earlier ones."""

    identity: str = ""
    id: str = ""
    store: str = ""


def _known(folder: Path) -> _Known:
    """The manifest of the run, as far as the database can be read."""
    with suppress(RunFolderError, msgspec.MsgspecError):
        try:
            with RunTables.open(folder) as tables:
                return decode(tables.told("manifest"), type=_Known)
        except NotOfThisFormat:
            return decode(_earlier_manifest(folder / RUN_DB), type=_Known)
    return _Known()


def _earlier_manifest(file: Path) -> bytes:
    """The manifest that an earlier format packed; empty if it cannot be read."""
    query = "SELECT value FROM meta WHERE name='manifest'"
    try:
        with closing(open_untrusted(file, "mode=ro&immutable=1")) as db:
            ((packed,),) = db.execute(query).fetchall()
        # The first byte says whether the rest is compressed.
        compressed = packed[:1] == b"\1" and zstandard.frame_content_size(packed[1:]) <= MAX_SWEEP
        return bytes(zstd.unpack(packed[1:]) if compressed else packed[1:])
    except (sqlite3.Error, zstandard.ZstdError, ValueError, TypeError):
        return b""


def _wrong(folder: Path, replies: Reader, loaded: LoadedSweep) -> str:
    """The fault of a database, as `is damaged (…)`. UsageError if it has none."""
    unreadable = _unreadable(folder)
    differences, calls, missing = list[str](), 0, 0
    with suppress(RunFolderError), RunTables.open(folder) as tables:
        ((calls,),) = tables.fetched("SELECT count(*) FROM calls")
        for cell, difference in unlike_replies(tables.cells(), replies, loaded.models.tags):
            if difference.endswith(NO_REPLY):
                missing += 1
            else:
                differences.append(f"cell {cell.id}: {difference}")
    audited = f"has {len(differences):,} of {calls:,} calls that differ from their replies"
    if differences:
        return " and ".join(filter(None, (unreadable, f"{audited}: {differences[0]}")))
    if unreadable:
        return unreadable
    absent = f"; {missing:,} replies are not in the store" if missing else ""
    raise UsageError(
        f"{folder / RUN_DB} needs no rebuild: it is intact, and {calls - missing:,} calls agree "
        f"with their replies{absent}"
    )


def _unreadable(folder: Path) -> str:
    """Why a database cannot be read; empty if all of it can."""
    file = folder / RUN_DB
    if not file.exists():
        return "is lost"
    try:
        with RunReader(folder) as run:
            size = len(run.sweep)
            if max((cell.place for cell in run.tables.cells()), default=0) >= size:
                return f"has cells that are not among the sweep's {size:,}"
            for _ in run.outcomes():
                pass
    except (NotOfThisFormat, RunDamaged) as exc:
        return exc.why
    except RunFolderError as exc:
        return str(exc).removeprefix(f"{file} ")
    return ""


def _started(folder: Path) -> Started:
    """The settings with which the run in a folder was started. RunFolderError."""
    last = deque(whole_lines(folder / SWEEP), 1)
    if not last or not last[0].startswith(STARTED.encode()):
        return Started()
    try:
        return decode(last[0].removeprefix(STARTED.encode()), type=Started)
    except msgspec.MsgspecError as exc:
        raise RunFolderError(f"{folder / SWEEP}: its last line cannot be read: {exc}") from exc
