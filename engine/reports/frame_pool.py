"""The tables of a run read and encoded by several processes, and handed over in their order."""

import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Self, TypeAlias

from ..system.garbage import gc_relaxed
from .frame_tables import TABLES, Columns
from .frames import FrameReader, FrameSource, TableLines

Encode: TypeAlias = Callable[[Columns, TableLines], Any]
"""Lines of a table in the form in which its file takes them."""

CHUNK = 500
"""Cells read at a time, rounded up to whole problems."""


@dataclass(frozen=True, slots=True)
class EncodedChunk:
    """Lines of every table but that of rows, of some problems in a row."""

    tables: Mapping[str, Any]
    """By the name of the table."""
    calls: tuple[str, ...]
    """Addresses of the calls, in the order of their lines."""


class _Encoder:
    """Reads and encodes chunks in one process."""

    def __init__(self, source: FrameSource, encode: Encode) -> None:
        self._source, self._encode = source, encode
        self._reader = FrameReader(source)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(gc_relaxed())
        self._open.enter_context(self._reader)
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def chunk(self, numbers: range) -> EncodedChunk:
        lines = self._reader.problems(numbers)
        return EncodedChunk(
            {
                name: self._encode(TABLES[name], lines[name])
                for name in self._source.tables
                if name in lines
            },
            tuple(line[0] for line in lines["calls"]),
        )


_encoder: _Encoder
"""That of this process, where it is one of several."""


@contextmanager
def encoded_chunks(
    source: FrameSource, encode: Encode, processes: int
) -> Iterator[Iterator[EncodedChunk]]:
    """All chunks in the order of the sweep, while the body runs; the same for any `processes`.

    With several, they are forked on entry, from a process that should have no other threads.
    """
    sweep = source.run.sweep
    step = max(1, CHUNK * len(sweep.problems) // len(sweep))
    count = len(sweep.problems)
    chunks = deque(range(n, min(n + step, count)) for n in range(0, count, step))
    with ExitStack() as stack:
        here = _Encoder(source, encode)
        if processes < 2:
            stack.enter_context(here)
            yield map(here.chunk, chunks)
            return
        pool = ProcessPoolExecutor(processes, get_context("fork"), _start, (source, encode))
        stack.callback(pool.shutdown, cancel_futures=True)
        sent: deque[tuple[range, Future[EncodedChunk | None]]] = deque()

        def send() -> None:
            # Enough that none idles while this process writes, few enough to be held.
            while chunks and len(sent) < 2 * processes:
                numbers = chunks.popleft()
                sent.append((numbers, pool.submit(_chunk, numbers)))

        def received() -> Iterator[EncodedChunk]:
            while sent:
                numbers, future = sent.popleft()
                chunk = future.result()
                send()
                # What fails there is done again here, where the error is raised as it is.
                yield chunk or stack.enter_context(here).chunk(numbers)

        send()
        yield received()


def _start(source: FrameSource, encode: Encode) -> None:
    global _encoder
    # An interrupt reaches all processes of a terminal; the one that started these ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _encoder = _Encoder(source, encode).__enter__()


def _chunk(numbers: range) -> EncodedChunk | None:
    """None if it failed: not every error can be sent to another process."""
    try:
        return _encoder.chunk(numbers)
    except Exception:
        return None
