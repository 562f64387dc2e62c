"""`oversight cache`: look into the store of paid replies, check it, prune it, move it."""

import heapq
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import click
import msgspec
from annotated_types import Interval
from msgspec.structs import replace

from .....cache.call import Call, Request
from .....cache.disk import exclusive_lock, recoverable, require_rescued, rescue_places
from .....cache.entry import StoreEntry, checked_entries, read_entries, read_entry, source
from .....cache.errors import DamagedEntry, PassageLost
from .....cache.portable import MergeStatistics, PortableFile, export_replies, merge
from .....cache.reply import Outcome, Reply, ToolCall
from .....cache.sqlite import STORE_FILE, EntryReader
from .....cache.store import MemoryStore, Reader
from .....protocols.prompts.render import shared_beginning
from ....display.table import Table, as_text
from ....display.text import counted, one_line
from ....run.events import mixed_lines
from ....run.folders import RUNS, remembered_store, run_folders
from ....run.reader import RunReader, recorded
from ....run.settings import open_for_reading, open_store, shown_name, store_name, store_path
from ....system.files import sync_folder
from ....system.settings import argument, flag
from ..exit_codes import ExitCode
from ..flags import JSON, RECORDED_STORE, STORE, output, with_name
from ..group import NamedGroup
from ..naming import RunFolder
from ..output import say, show, show_json, show_json_line, show_line, width

AT_ONCE = 1024
"""Entries removed per transaction."""

MAX_MATCHES = 8
"""Maximum number of candidates listed for an ambiguous address."""
UNITS = {"h": 3600, "d": 86_400, "w": 604_800}
"""Seconds."""


def _before(age: str) -> float:
    if not (match := re.fullmatch(r"(\d+)([hdw])", age)):
        raise ValueError(f"{age!r} is not an age; write it like 12h, 30d or 8w")
    return time.time() - int(match[1]) * UNITS[match[2]]


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects the entries that meet all conditions."""

    models: tuple[str, ...] = flag(
        "Only this model, or a pattern such as 'openai/*'; repeatable.", name="--model", default=()
    )
    outcomes: tuple[Outcome, ...] = flag(
        "Only replies that ended so; repeatable.", name="--outcome", default=()
    )
    before: float | None = flag(
        "Only entries older than this, e.g. 12h, 30d or 8w.", name="--older-than", read=_before
    )
    """In seconds since 1970."""

    def __bool__(self) -> bool:
        """Whether any condition is set."""
        return bool(self.models or self.outcomes or self.before is not None)

    def __contains__(self, record: StoreEntry) -> bool:
        return (
            (not self.models or any(fnmatchcase(record.model, pattern) for pattern in self.models))
            and (not self.outcomes or record.outcome in self.outcomes)
            and (self.before is None or record.stored_at < self.before)
        )


@click.group(cls=NamedGroup, path="cache", modules=["rebuild"])
def command() -> None:
    """List, check, prune, export and import stored replies.

    Commands that only read change nothing."""


@command.adds("list")
def list_(
    *,
    store: str | None = STORE,
    selection: Selection,
    limit: int = flag("List at most this many; 0: all.", default=50, within=Interval(ge=0)),
    as_json: bool = JSON,
) -> None:
    """List stored replies, the newest first."""
    with _reading(store) as (place, replies):
        fitting = [(record.stored_at, record.key) for record in _selected(replies, selection)]
        newest = heapq.nlargest(limit or len(fitting), fitting)
        chosen = [read_entry(key, replies.get(key) or b"") for _, key in newest]
    if as_json:
        for record in chosen:
            show_json_line(_line(record))
        return
    if chosen:
        show(list_text(chosen, width()))
        more = "; more with --limit, fewer with --model" if len(newest) < len(fitting) else ""
        say(f"{len(newest):,} of {counted(len(fitting), 'reply', 'replies')} in {place}{more}")


@command.adds("show")
def show_(address: str = argument(), store: str | None = STORE, as_json: bool = JSON) -> None:
    """Print the call and the reply at ADDRESS; its first digits will do."""
    with _reading(store) as (_, replies):
        record = _entry(replies, address)
    if as_json:
        call = record.call()
        document = msgspec.to_builtins(call.request) | {"draw": call.draw}
        show_json(_line(record) | {"call": document, "reply": msgspec.to_builtins(record.reply())})
    else:
        show(entry_text(record))


@command.adds()
def verify(
    store: str | None = STORE,
    recover: bool = flag(
        "Replace a damaged store by a new one with all readable replies.", default=False
    ),
    as_json: bool = JSON,
) -> None:
    """Check every stored reply, and the file itself. Exit code 1 if anything is damaged or lost.

    With --recover, the damaged store is kept unchanged as NAME.damaged, next to the new one. It is
    refused while a run uses the store; after an interruption, run it again. A run that knew of more
    replies than could be saved does not resume, and so pays for nothing again, without
    --allow-missing-replies.
    """
    if recover:
        _recover(with_name(store_path(store)))
        return
    damaged: list[DamagedEntry] = []
    sound = 0
    with _reading(store) as (place, replies):
        faults = list(replies.faults()) if isinstance(replies, EntryReader) else []
        # Every entry that can be read, even from a malformed file.
        entries = replies.recover() if isinstance(replies, EntryReader) else replies.items()
        for _, record in checked_entries(entries):
            if isinstance(record, DamagedEntry):
                damaged.append(record)
            else:
                sound += 1
        mixed = [
            f"{run}: {line}"
            for run in (*run_folders(RUNS), *run_folders(Path()))
            if remembered_store(run) == shown_name(place)
            for line in mixed_lines(run)
        ]
    if as_json:
        listed = [{"key": damage.key, "reason": damage.reason} for damage in damaged]
        document = {"store": place, "sound": sound, "damaged": listed, "faults": faults}
        show_json(document | {"mixed": mixed})
    else:
        for damage in damaged:
            show_line(f"{damage.key}  {damage.reason}")
        for line in (*(f"{place}: {fault}" for fault in faults), *mixed):
            show_line(line)
        say(
            f"{counted(sound, 'sound reply', 'sound replies')}, {len(damaged):,} damaged, "
            f"{counted(len(faults), 'other fault')}"
        )
        lost = sum(isinstance(damage, PassageLost) for damage in damaged)
        if len(damaged) > lost:
            say("to have the damaged ones asked for again: oversight cache prune --damaged")
        if lost:
            say(
                "replies whose passages are lost are served as ever; to bring the passages back: "
                "oversight cache import BACKUP"
            )
        if faults:
            say(f"to save what can be read of it: oversight cache verify --recover --store {place}")
    if damaged or faults:
        raise SystemExit(ExitCode.FAILED)


@command.adds()
def prune(
    *,
    store: str | None = STORE,
    selection: Selection,
    damaged: bool = flag(
        "Remove only entries that cannot be read; not with other conditions.", default=False
    ),
    dry_run: bool = flag("Print the replies that would be removed; remove nothing.", default=False),
    yes: bool = flag("Do not ask for confirmation.", default=False),
) -> None:
    """Remove stored replies. A run that needs them again will ask, and pay, again."""
    if bool(selection) == damaged:
        raise click.UsageError("choose replies with --model, --outcome, --older-than or --damaged")
    with _reading(store) as (place, replies):
        if damaged:
            candidates = read_entries(replies.items())
            keys = [key for key, record in candidates if isinstance(record, DamagedEntry)]
        else:
            keys = [record.key for record in _selected(replies, selection)]
        total = len(replies)
    if dry_run or not keys:
        show(f"{len(keys):,} of {total:,} replies would be removed from {place}")
        return
    if not yes:
        click.confirm(f"Remove {len(keys):,} of {total:,} replies from {place}?", abort=True)
    with closing(open_store(place)) as ours:
        some = (keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE))
        removed = sum(map(ours.delete_many, some))
        ours.drop_unused()
    show(f"{removed:,} of {total:,} replies removed from {place}")


@command.adds()
def export(
    *,
    run: Path | None = argument("[RUN]", type=RunFolder()),
    output: Path | None = output("RUN/replies.oversight"),
    store: str | None = RECORDED_STORE,
    selection: Selection,
    everything: bool = flag("Export the whole store, as a backup.", name="--all", default=False),
) -> None:
    """Write stored replies into one file: the replies of RUN, so that anyone can replay it.

    oversight cache import FILE reads it. The same replies give the same bytes. A reply of RUN that
    the store does not hold ends the export with exit code 2 and no file. Damaged replies of a store
    are left out and named, with exit code 1; runs may go on meanwhile."""
    if [run is not None, bool(selection), everything].count(True) != 1:
        raise click.UsageError(
            "choose the replies to export: RUN, or --all, or --model, --outcome, --older-than"
        )
    if output is None and run is None:
        raise click.UsageError("-o names the file to write")
    path = output or Path(run or "") / "replies.oversight"
    damaged: list[DamagedEntry] = []
    if run is not None:
        with recorded(run, store) as replies:
            count = export_replies(replies, RunReader(run).keys(), path)
    else:
        with _reading(store) as (_, replies):
            keys = replies.keys() if everything else [r.key for r in _selected(replies, selection)]
            count = export_replies(
                replies, keys, path, "store" if everything else "replies", damaged
            )
    show(f"{counted(count, 'reply', 'replies')} in {path} ({path.stat().st_size:,} bytes)")
    if run is not None:
        say(f"replay it anywhere: oversight cache import {path}, then oversight replay {run}")
    _end_with(damaged)


@command.adds("import")
def import_(source: Path = argument(exists=True), store: str | None = STORE) -> None:
    """Add the replies in SOURCE, an exported file or the folder of another store, to the store.

    Each is checked first. Replies that the store already has stay as they are. A folder whose file
    is malformed is read as far as it can be. The replies are marked as imported, and runs that are
    answered by them say so. Exit code 1 if anything had to be left out."""
    _tell(_merged(source, name := store_name(store), foreign=True), name)


def _recover(path: Path) -> None:
    """Replace a damaged store by a new one with all readable replies."""
    aside, saved = rescue_places(path)
    if aside.exists() and saved.exists():
        # Interrupted between the two renames below: all that could be saved is in `saved`.
        saved.rename(path)
        sync_folder(path.parent)
        _tell(_merged(aside, str(path)), path)
        return
    if not (path / STORE_FILE).exists():
        raise click.UsageError(f"{path} holds no store")
    if aside.exists():
        raise click.UsageError(f"{aside} already exists; move it away first")
    lock = exclusive_lock(path)
    try:
        if saved.exists():
            # Interrupted before anything was moved; the store may have been used since.
            shutil.rmtree(saved)
        merged = _merged(path, str(saved))
        path.rename(aside)
        saved.rename(path)
        sync_folder(path.parent)
    finally:
        os.close(lock)
    _tell(merged, path)


def _merged(source: Path, named: str, *, foreign: bool = False) -> MergeStatistics:
    """Add the readable entries of `source` to the store `named`; see `merge`."""
    with ExitStack() as stack:
        entries: Iterator[tuple[str, StoreEntry | DamagedEntry]]
        if source.is_file():
            file = stack.enter_context(PortableFile(source))
            if file.contents.counts.get("requests") == 0 < file.contents.counts["replies"]:
                raise file.fault(
                    "its requests were left out, and a store needs them; to make a run of it: "
                    f"oversight export open {source}"
                )
            entries, id = file.replies(), file.contents.store
        else:
            theirs = stack.enter_context(recoverable(source))
            entries, id = read_entries(theirs.recover()), theirs.id
        # A new store takes the place of the one that its replies come from.
        ours = stack.enter_context(closing(open_store(named, id=id)))
        return merge(entries, ours, foreign=foreign, shared=shared_beginning)


def _tell(merged: MergeStatistics, path: Path | str) -> None:
    """Print the counts of merged entries; exit with FAILED if any was left out."""
    show(
        f"{counted(merged.new, 'reply', 'replies')} added to {path}; already there: "
        f"{merged.known:,}; different and not replaced: {merged.other:,}; damaged: "
        f"{len(merged.damaged):,}"
    )
    _end_with(merged.damaged)


def _end_with(damaged: Sequence[DamagedEntry]) -> None:
    """Name the entries that were left out; exit with FAILED if any were."""
    for damage in damaged:
        say(f"left out {damage.key}: {damage.reason}")
    if damaged:
        raise SystemExit(ExitCode.FAILED)


@contextmanager
def _reading(store: str | None) -> Iterator[tuple[str, Reader]]:
    """The name of the store, and its reader: an empty one if nothing is stored yet."""
    store_place = store_name(store)
    if Path(store_place).is_file() or (Path(store_place) / STORE_FILE).exists():
        replies: Reader = open_for_reading(store_place)
    else:
        require_rescued(Path(store_place))
        replies = MemoryStore()
        say(f"{store_place} holds no replies yet; a first run records some: oversight demo")
    with closing(replies):
        yield store_place, replies


def _selected(replies: Reader, selection: Selection) -> Iterator[StoreEntry]:
    """The records that fit; prints how many could not be checked."""
    damaged = 0
    for _, record in read_entries(replies.items()):
        if isinstance(record, DamagedEntry):
            damaged += 1
        elif record in selection:
            yield record
    if damaged:
        say(
            f"{counted(damaged, 'damaged entry', 'damaged entries')} left out; list with: "
            "oversight cache verify"
        )


def _line(record: StoreEntry) -> dict[str, Any]:
    reply = record.reply()
    simulated = "simulated" if record.model.startswith("sim/") else ""
    return {
        "key": record.key,
        "model": record.model,
        "endpoint": record.identity,
        "outcome": record.outcome,
        "stored_at": record.stored_at,
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
        "origin": source(reply.origin or simulated),
    }


def _entry(store: Reader, address: str) -> StoreEntry:
    """The one entry whose address starts so. UsageError, with the candidates, if it is not one. Two
    endpoints that answered one call share its address; the key tells them apart."""
    matches = list(islice(store.keys(address), MAX_MATCHES + 1))
    if not matches:
        raise click.UsageError(
            f"no stored reply has an address that starts with {address!r}; "
            "list the replies: oversight cache list"
        )
    if len(matches) == 1:
        value = store.get(matches[0])
        assert value is not None, "nobody else removes what was just listed"
        return read_entry(matches[0], value)
    lines = [
        f"  {key}  {entry.model if isinstance(entry, StoreEntry) else entry.reason}"
        for key, entry in read_entries(islice(store.items(address), MAX_MATCHES))
    ]
    more = "\n  …" if len(matches) > MAX_MATCHES else ""
    raise click.UsageError(f"{address!r} may mean:\n" + "\n".join(lines) + more)


ADDRESS = 12
"""Digits of an address that are shown; enough to distinguish a million calls."""
TOKENS_SHOWN = 8
SHORTEST = 8
"""Minimum width of the column of replies."""


def list_text(listed: Sequence[StoreEntry], width: int | None) -> str:
    head = ("address", "stored", "outcome", "model", "reply")
    used_columns = ADDRESS + 10 + 9 + max((len(entry.model) for entry in listed), default=0) + 14
    room = max((width or 120) - used_columns, SHORTEST)
    body = (
        (
            entry.address[:ADDRESS],
            _when(entry)[:10],
            entry.outcome,
            entry.model,
            _clipped(" ".join(entry.reply().text[:200].split()), room),
        )
        for entry in listed
    )
    return as_text(Table("stored replies, the newest first", head, tuple(body), left=5, fixed=5))


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def entry_text(record: StoreEntry) -> str:
    call, reply = record.call(), record.reply()
    facts = {
        "address": record.address,
        "model": call.model,
        "endpoint": record.identity,
        "stored": _when(record),
        **_settings(call),
        "outcome": f"{reply.outcome} ({reply.stop_reason})" if reply.stop_reason else reply.outcome,
        "served by": reply.served_model,
        "tokens": f"{reply.usage.input_tokens:,} in, {reply.usage.output_tokens:,} out",
    }
    room = max(map(len, facts))
    parts: list[tuple[str, str, tuple[ToolCall, ...]]] = [
        (message.role, message.text, message.tool_calls) for message in call.messages
    ]
    if reply.reasoning:
        parts.append(("thoughts", reply.reasoning, ()))
    lines = [f"{name:<{room}}  {one_line(value)}" for name, value in facts.items() if value]
    for title, text, tools in (*parts, ("reply", reply.text, reply.tool_calls)):
        lines += [f"── {title} ──", *([text] if text else [])]
        lines += [f"{tool.name}({tool.arguments})" for tool in tools]
    return "\n".join([*lines, *_logprobs(reply)])


def _logprobs(reply: Reply) -> list[str]:
    lines = []
    for token in reply.logprobs[:TOKENS_SHOWN]:
        likely = "  ".join(f"{text!r} {logprob:.3f}" for text, logprob in token.top)
        lines.append(f"logprob of {token.text!r} {token.logprob:.3f}   {likely}")
    if len(reply.logprobs) > TOKENS_SHOWN:
        lines.append(f"… and of {len(reply.logprobs) - TOKENS_SHOWN:,} more tokens: --json")
    return lines


def _settings(call: Call) -> dict[str, str]:
    """The settings that differ from their defaults, by name."""
    plain, request = Request(call.model, ()), replace(call.request, messages=())
    changed = {
        name: str(getattr(request, name))
        for name in Request.__struct_fields__
        if getattr(request, name) != getattr(plain, name)
    }
    return changed | ({"draw": str(call.draw)} if call.draw else {})


def _when(record: StoreEntry) -> str:
    return datetime.fromtimestamp(record.stored_at, UTC).strftime("%Y-%m-%d %H:%M")
