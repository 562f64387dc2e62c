"""Rows of a store read a block at a time, where they are asked for about in the order in which they
were stored: a rerun asks for replies as its first run stored them, some streams of cells side by
side.

A row that is looked up by its key takes SQLite's locks and gives them back, as a whole block does.
"""

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import TypeAlias

BLOCK_ROWS = 64
"""Rowids of a block."""
MAX_BLOCKS = 16
"""Blocks in memory: one for each stream, and some to spare."""
KEPT_SECONDS = 0.05
"""How long rows are kept, since another process may replace or delete them."""
BLOCK_COST = 24
"""How many lookups cost as much as reading a block."""
MAX_CREDIT = 256

StoredRow: TypeAlias = tuple[int, object, object]
"""(rowid, mode, value)"""


class ReadAhead:
    """The rows of some blocks that nobody has asked for yet. Any thread may use it.

    Each row that is taken pays for a part of a further block: where the order of reading is
    another one, hardly any blocks are read.
    """

    def __init__(self, read: Callable[[int, int], list[tuple[bytes, StoredRow]]]) -> None:
        """read: the rows from one rowid up to another, each with its key; none where that fails."""
        self._read = read
        self._lock = Lock()
        self._blocks: dict[int, list[bytes]] = {}
        """The keys of each block, the oldest block first."""
        self._rows: dict[bytes, StoredRow] = {}
        self._since = 0.0
        self._last = 0
        self._credit = float(MAX_CREDIT)
        self._stopped = False

    def take(self, key: bytes) -> StoredRow | None:
        """The row of a key, if it was read a moment ago."""
        if not self._rows or monotonic() - self._since >= KEPT_SECONDS:
            return None
        row = self._rows.pop(key, None)
        if row is not None:
            self._last = row[0]
            self._credit += 1
        return row

    def looked_up(self, rowid: int) -> None:
        """Read the block of a row that had to be looked up, if that promises to pay."""
        near = abs(rowid - self._last) < BLOCK_ROWS * MAX_BLOCKS
        self._last = rowid
        if not near:
            return
        with self._lock:
            now = monotonic()
            if now - self._since >= KEPT_SECONDS:
                self._blocks, self._rows, self._since = {}, {}, now
            block = rowid // BLOCK_ROWS
            if self._stopped or block in self._blocks:
                return
            if self._credit < BLOCK_COST:
                self._credit += BLOCK_COST / MAX_CREDIT  # tried again now and then
                return
            self._credit = min(self._credit, MAX_CREDIT) - BLOCK_COST
            rows = self._read(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS)
            self._blocks[block] = [key for key, _ in rows]
            self._rows.update(rows)
            if len(self._blocks) > MAX_BLOCKS:
                for key in self._blocks.pop(next(iter(self._blocks))):
                    self._rows.pop(key, None)

    def stop(self) -> None:
        """Forget all rows, and read no more of them: what is in the store is about to change."""
        with self._lock:
            self._stopped = True
            self._blocks, self._rows = {}, {}
