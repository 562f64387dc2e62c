"""What a sitting asks, request by request, where a killed process leaves it: `ledger.journal`.

    heading    one line of JSON: the accounts of earlier sittings, by model
    pages      one for each model: u16 length of its name, the name, its figures; see `Page.figures`

A request is entered before it leaves and when it is back. Both are with the operating system at
once, so that kill -9 forgets nothing; what is out at that moment is known to be out, and may have
been billed. A power failure may tear the file: then the accounts that were noted last stand.
"""

import os
import struct
from collections.abc import Mapping
from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError

from oversight.engine.accounting.ledger import FIGURES, Page, UsageTotals, sum_usage, written_down
from oversight.engine.errors import StoreFailed
from oversight.engine.stop import StopToken
from oversight.engine.system.files import unwritable

FILE = "ledger.journal"

_LENGTH = struct.Struct("<H")
_ACCOUNTS = TypeAdapter(dict[str, UsageTotals])


class Journal:
    """Opened with the first entry, since a run that is served from the store asks nothing."""

    def __init__(
        self, folder: Path, earlier: Mapping[str, UsageTotals], stop_token: StopToken
    ) -> None:
        """earlier: the accounts of earlier sittings. A journal that cannot be written pulls the
        latch: nothing is spent that would not be known."""
        self._path = folder / FILE
        self._earlier = earlier
        self._stop_token = stop_token
        self._file = -1
        self._end = 0
        self._places: dict[Page, int] = {}

    def enter(self, page: Page) -> None:
        """Write down how a page stands now."""
        if self._stop_token.halt is not None and self._file < 0:
            return
        try:
            place = self._places.get(page)
            if place is None:
                place = self._begin(page)
            os.pwrite(self._file, page.figures(), place)
        except OSError as exc:
            self._stop_token.stop(StoreFailed(str(unwritable(self._path, exc))))

    def close(self, *, noted: bool) -> None:
        """noted: whether the accounts are in the ledger now, so that this is needed no more."""
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        if noted:
            self._path.unlink(missing_ok=True)

    def _begin(self, page: Page) -> int:
        if self._file < 0:
            # Put in place whole: until then an older one says the same of earlier sittings.
            new = self._path.with_name(f".{FILE}.new")
            self._file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            self._end = os.write(self._file, orjson.dumps(self._earlier) + b"\n")
            os.replace(new, self._path)
        name = page.model.encode()
        head = _LENGTH.pack(len(name)) + name
        os.pwrite(self._file, head + page.figures(), self._end)
        place = self._places[page] = self._end + len(head)
        self._end = place + FIGURES.size
        return place


def journalled(folder: Path) -> dict[str, UsageTotals]:
    """The accounts that a sitting left which was killed, or is at work; none where none is there.

    What is out counts as abandoned.
    """
    try:
        told = (folder / FILE).read_bytes()
    except OSError:
        return {}
    heading, _, pages = told.partition(b"\n")
    try:
        accounts = dict(_ACCOUNTS.validate_json(heading))
        while pages:
            end = _LENGTH.size + _LENGTH.unpack_from(pages)[0]
            model = pages[_LENGTH.size : end].decode()
            account = written_down(FIGURES.unpack_from(pages, end)).cut_off()
            accounts[model] = sum_usage(
                [accounts[model], account] if model in accounts else [account]
            )
            pages = pages[end + FIGURES.size :]
    except (ValidationError, UnicodeDecodeError, struct.error):
        return {}
    return accounts
