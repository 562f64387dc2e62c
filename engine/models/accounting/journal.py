"""Crash-safe journal of a session's requests, `ledger.journal` in the run folder.

    heading    one line of JSON: the accounts of earlier sessions, by model
    pages      one for each model: u16 length of its name, the name, its figures; see `Page.figures`

A request is entered before it leaves and when it is back. Both entries reach the operating system
at once, so kill -9 loses nothing; requests in flight at that moment count as maybe billed. A power
failure may corrupt the file: then the accounts last saved in `ledger.json` are used.
"""

import os
import struct
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...errors import RunFolderError, StoreFailed
from ...stop import StopToken
from ...system.files import MAX_LEDGER, read_bounded, unwritable
from .ledger import FIGURES, Page, UsageTotals, sum_usage, written_down

FILE = "ledger.journal"

_LENGTH = struct.Struct("<H")
_ACCOUNTS = msgspec.json.Decoder(dict[str, UsageTotals])


class Journal:
    """Writes the pages; opens its file with the first entry, as replays send no requests."""

    def __init__(
        self, folder: Path, earlier: Mapping[str, UsageTotals], stop_token: StopToken
    ) -> None:
        """earlier: the accounts of earlier sessions. A journal that cannot be written sets the stop
        token, so that nothing is spent without a record."""
        self._path = folder / FILE
        self._earlier = earlier
        self._stop_token = stop_token
        self._file = -1
        self._end = 0
        self._offsets: dict[Page, int] = {}

    def enter(self, page: Page) -> None:
        """Write the present figures of a page."""
        if self._stop_token.halt is not None and self._file < 0:
            return
        try:
            offset = self._offsets.get(page)
            if offset is None:
                offset = self._begin(page)
            os.pwrite(self._file, page.figures(), offset)
        except OSError as exc:
            self._stop_token.stop(StoreFailed(str(unwritable(self._path, exc))))

    def close(self, *, noted: bool) -> None:
        """noted: whether `ledger.json` has the accounts now, so that the journal can be deleted."""
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        if noted:
            self._path.unlink(missing_ok=True)

    def _begin(self, page: Page) -> int:
        if self._file < 0:
            # Replaced atomically: until then, an older journal has the same earlier accounts.
            new = self._path.with_name(f".{FILE}.new")
            self._file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            self._end = os.write(self._file, msgspec.json.encode(self._earlier) + b"\n")
            os.replace(new, self._path)
        name = page.model.encode()
        head = _LENGTH.pack(len(name)) + name
        os.pwrite(self._file, head + page.figures(), self._end)
        offset = self._offsets[page] = self._end + len(head)
        self._end = offset + FIGURES.size
        return offset


def journalled(folder: Path) -> dict[str, UsageTotals]:
    """The accounts in the journal of a killed or running session; empty if there is no journal.

    Requests in flight count as abandoned.
    """
    try:
        content = read_bounded(folder / FILE, MAX_LEDGER)
    except (OSError, RunFolderError):
        return {}
    heading, _, pages = content.partition(b"\n")
    try:
        accounts = dict(_ACCOUNTS.decode(heading))
        while pages:
            end = _LENGTH.size + _LENGTH.unpack_from(pages)[0]
            model = pages[_LENGTH.size : end].decode()
            account = written_down(FIGURES.unpack_from(pages, end)).cut_off()
            accounts[model] = sum_usage(
                [accounts[model], account] if model in accounts else [account]
            )
            pages = pages[end + FIGURES.size :]
    except (msgspec.MsgspecError, UnicodeDecodeError, struct.error):
        return {}
    return accounts
