"""Verifying a pack: every figure is computed again from the evidence inside, and every difference
is told by its name. No code of the pack is executed, and no socket is opened.

Figures follow from the record, the record from the replies: who invents replies is not found out,
and whether the cells follow from the replies is for a replay of the opened run.
"""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import orjson

from ....cache.bundle import BundleStore
from ....cache.errors import CacheError
from ...analysis.reports.report import report
from ...analysis.rows import read_rows
from ...errors import EngineError
from ...run.opened import tags_named
from ...run.reader import REPLIES, RunReader
from ...run.record.cells import replied
from ...run.replay import unlike_replies
from ...system.files import read_bounded, whole_lines
from .lines import cell_line, cells_of
from .opening import CELLS, CONTENTS, FIGURES, Contents, open_pack

MAX_FIGURES = 2**30
"""Bytes of the figures of a pack at most."""


def figures_of(run: RunReader, contents: Contents) -> bytes:
    """Every report under every score, a digest of each cell, and what else the pack holds."""
    rows = read_rows(run)
    told = {
        "contents": msgspec.to_builtins(contents)
        | {"files": {each.path: each.sha256 for each in contents.files}},
        "cells": {
            str(cell.place): hashlib.sha256(cell_line(cell)).hexdigest() for cell in cells_of(run)
        },
        "figures": {s: orjson.loads(report(rows.results(s), "json")) for s in run.scores},
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2)


def verify(file: Path) -> tuple[Contents | None, tuple[str, ...]]:
    """What a pack says that it holds, and by the names of files, cells and figures, what is not so.
    None for the first where the pack is not even opened."""
    contents = None
    with TemporaryDirectory(prefix="oversight-pack") as at:
        opened = Path(at) / "run"
        try:
            contents = open_pack(file, opened, keep_lines=True)
            return contents, tuple(dict.fromkeys(_wrong(RunReader(opened), contents)))
        except (EngineError, CacheError) as exc:
            return contents, (str(exc).replace(str(opened), str(file)),)


def _wrong(run: RunReader, contents: Contents) -> Iterator[str]:
    for name in ("name", "identity", "version", "cells"):
        told = {name: getattr(contents, name)}, {name: getattr(run.manifest, name)}
        yield from (f"{CONTENTS}: {each}" for each in differences(*told))
    yield from _contradictions(run)
    beside = tuple(each for each in contents.files if each.path != FIGURES)
    now = figures_of(run, msgspec.structs.replace(contents, files=beside))
    try:
        raw = read_bounded(run.folder / FIGURES, MAX_FIGURES)
        then = orjson.loads(raw)
    except FileNotFoundError:
        yield f"{FIGURES}: it is missing"
    except orjson.JSONDecodeError as exc:
        yield f"{FIGURES}: it cannot be read: {exc}"
    else:
        found = list(differences(then, orjson.loads(now)))
        for path, *parts in (each.split(": ", 1) for each in found):
            place = path.removeprefix("cells.")
            shown = named(run, int(place)) if place != path and place.isdigit() else path
            yield f"{FIGURES}: {': '.join((shown, *parts))}"
        if not found and raw != now:
            yield f"{FIGURES}: another spelling"


def _contradictions(run: RunReader) -> Iterator[str]:
    """Cells whose lines and replies contradict one another."""
    known: dict[str, int] = {}
    for cell, packed in zip(cells_of(run), whole_lines(run.folder / CELLS), strict=True):
        same = [
            known.setdefault(call.address, hash(replied(call))) == hash(replied(call))
            for call in cell.calls
        ]
        if packed != cell_line(cell) or not all(same):
            yield f"{CELLS}: {named(run, cell.place)}: it contradicts the cells before it"
    file = run.folder / REPLIES
    if file.exists():
        with closing(BundleStore(file)) as replies:
            for cell, difference in unlike_replies(cells_of(run), replies, tags_named(run)):
                yield f"{CELLS}: {named(run, cell.place)}: {difference}"


def named(run: RunReader, place: int) -> str:
    """A cell, for people."""
    if not 0 <= place < len(run.sweep):
        return f"cell {place}, which the sweep does not have"
    where, side = run.where(place)
    row, problem = run.sweep.rows[where.row], run.problems[where.problem]
    label = problem.question.answers[side].label
    return f"cell {place} ({row.title}; {problem.id}, side {label}, draw {where.draw})"


def differences(then: Any, now: Any, path: str = "") -> Iterator[str]:
    """Every value in which two JSON trees differ, by its path."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*then, *now)):
            yield from differences(then.get(key), now.get(key), f"{path}.{key}")
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for n, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from differences(one, other, f"{path}[{n}]")
    elif then != now or type(then) is not type(now):
        yield f"{path.lstrip('.')}: {then!s:.60} stated, {now!s:.60} follows from the evidence"
