"""The costs of a run by model, in one file of its folder: `ledger`.

    uncollected  a line of `UNCOLLECTED` bytes: by model, calls in unconfirmed submissions, and
                 their maximum dollars
    accounts     a line of JSON: by model, the accounts of all sessions that have ended
    slots        `SLOT` bytes per model of the running or killed session: the length of its name,
                 the name, its figures (`FIGURES`) and their CRC-32, then the length and the CRC-32
                 of its last saved account, in JSON, which has the kinds of faults and the latency

A request is entered before it is sent and when it completes. Each entry is one write in place that
reaches the operating system at once, so kill -9 loses nothing; requests in flight at that moment
count as unconfirmed. At its end a session adds its accounts to the line, durably, and removes the
slots. A slot that a power failure has torn is left out.
"""

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args
from zlib import crc32

import msgspec

from ...errors import RunFolderError, StoreFailed
from ...stop import StopToken
from ...system.files import MAX_LEDGER, read_bounded, replace_file, unwritable
from .ledger import (
    ABANDONED,
    CRC,
    CUT_OFF,
    FIGURES,
    Ledger,
    RequestOutcome,
    UsageTotals,
    sum_usage,
    written_down,
)

LEDGER_FILE = "ledger"
UNCOLLECTED, SLOT = 2**12, 2**14
UNPROVEN = "Unproven"
"""Fault: in a submission that may not have been made."""

EVERY = 0.2
"""Seconds between two saves of the parts of slots other than their figures."""

_NAME, _SAVED = struct.Struct("<H"), struct.Struct("<II")
_ACCOUNTS = msgspec.json.Decoder(dict[str, UsageTotals])
_ACCOUNT = msgspec.json.Decoder(UsageTotals)
_UNCOLLECTED = msgspec.json.Decoder(dict[str, tuple[int, float]])


class LedgerFile:
    """Keeps the ledger of a run up to date: the accounts of earlier sessions and of this one."""

    def __init__(self, folder: Path, sitting: Callable[[], Mapping[str, UsageTotals]]) -> None:
        """sitting: returns the current accounts of this session by model. RunFolderError if earlier
        ones cannot be read. Uncollected submissions are not included, since they may still be
        resolved."""
        self._path = folder / LEDGER_FILE
        self._earlier = _read(self._path)[1]
        self._sitting = sitting
        self._stop_token = StopToken()
        self._file = -1
        """Opened with the first entry, since replays send no requests."""
        self._end = 0
        self._slots: dict[str, int] = {}

    def by_model(self) -> dict[str, UsageTotals]:
        return _summed(self._earlier, self._sitting())

    def total(self) -> UsageTotals:
        return sum_usage(self.by_model().values())

    @asynccontextmanager
    async def kept(
        self, stop_token: StopToken, ledger: Ledger | None = None
    ) -> AsyncIterator[None]:
        """Save the accounts every `EVERY` seconds while the body runs, and durably after it.
        ledger: its requests are also entered one by one; without it, a killed process loses all
        entries since its last save. If the folder cannot be written, the stop token is set, so that
        nothing is spent without a record."""
        self._stop_token = stop_token
        if ledger is not None:
            ledger.listen(self._write)
        try:
            async with stop_token.supervising(self._save_now_and_then()):
                yield
        finally:
            self._close()

    async def _save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            self._save()

    def _save(self) -> None:
        for model, account in self._sitting().items():
            content = msgspec.json.encode(account.cut_off())
            self._write(
                model, _SAVED.pack(len(content), crc32(content)) + content, FIGURES.size + CRC.size
            )

    def _write(self, model: str, content: bytes, at: int = 0) -> None:
        """Write into the slot of a model. at: offset in bytes after its name."""
        name = model.encode()
        if _NAME.size + len(name) + at + len(content) > SLOT:
            fault = RunFolderError(f"{self._path}: an account of {model} takes over {SLOT:,} bytes")
            return self._stop_token.stop(StoreFailed(str(fault)))
        try:
            if self._file < 0:
                if self._stop_token.halt is not None:
                    return
                _write_accounts(self._path, self._earlier)
                self._file = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                self._end = os.fstat(self._file).st_size
            if model not in self._slots:
                head = _NAME.pack(len(name)) + name
                os.pwrite(self._file, head + bytes(SLOT - len(head)), self._end)
                self._slots[model] = self._end + len(head)
                self._end += SLOT
            os.pwrite(self._file, content, self._slots[model] + at)
        except RunFolderError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))
        except OSError as exc:
            self._stop_token.stop(StoreFailed(str(unwritable(self._path, exc))))

    def _close(self) -> None:
        accounts = {model: account.cut_off() for model, account in self.by_model().items()}
        try:
            if accounts:
                _write_accounts(self._path, accounts)
        except RunFolderError as fault:
            self._stop_token.stop(StoreFailed(str(fault)))
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def write_uncollected(folder: Path, uncollected: Mapping[str, tuple[int, float]]) -> None:
    """Replace the uncollected calls; durable on return. uncollected: by model, (calls, maximum
    dollars). RunFolderError."""
    path = folder / LEDGER_FILE
    if not path.exists():
        return (
            replace_file(path, [_uncollected_line(uncollected), b"{}\n"]) if uncollected else None
        )
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.pwrite(file, _uncollected_line(uncollected), 0)
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as exc:
        raise unwritable(path, exc) from exc


def read_ledger(folder: Path) -> dict[str, UsageTotals]:
    """The accounts in a run folder by model, uncollected calls included; empty if no real model was
    asked yet. RunFolderError if a file cannot be read."""
    uncollected, accounts = _read(folder / LEDGER_FILE)
    for model, (calls, dollars) in uncollected.items():
        account = accounts.get(model) or sum_usage([])
        faults = tuple(sorted((*account.faults, ("unconfirmed", UNPROVEN, calls))))
        accounts[model] = replace(account, faults=faults, unconfirmed=account.unconfirmed + dollars)
    return accounts


def _read(path: Path) -> tuple[dict[str, tuple[int, float]], dict[str, UsageTotals]]:
    """(uncollected calls, accounts), by model."""
    try:
        content = read_bounded(path, MAX_LEDGER)
        line, _, slots = content[UNCOLLECTED:].partition(b"\n")
        return _UNCOLLECTED.decode(content[:UNCOLLECTED]), _summed(
            _ACCOUNTS.decode(line), dict(_slots(slots))
        )
    except FileNotFoundError:
        return {}, {}
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise RunFolderError(
            f"{path}: cannot be read: {why}; move it away to continue without the record of costs"
        ) from exc


def _slots(content: bytes) -> Iterator[tuple[str, UsageTotals]]:
    """The accounts in the slots, by model: the figures, or the last save if it has more
    requests."""
    for at in range(0, len(content), SLOT):
        slot = content[at : at + SLOT]
        try:
            end = _NAME.size + _NAME.unpack_from(slot)[0]
            model, figures = slot[_NAME.size : end].decode(), slot[end : end + FIGURES.size]
            saved = _saved(slot[end + FIGURES.size + CRC.size :])
            (crc,) = CRC.unpack_from(slot, end + FIGURES.size)
        except (UnicodeDecodeError, struct.error):
            continue
        account = written_down(FIGURES.unpack(figures)).cut_off() if crc32(figures) == crc else None
        if account is not None and (saved is None or account.sent >= saved.sent):
            yield model, _filled(account, saved)
        elif saved is not None:
            yield model, saved


def _saved(part: bytes) -> UsageTotals | None:
    size, crc = _SAVED.unpack_from(part)
    content = part[_SAVED.size : _SAVED.size + size]
    return _ACCOUNT.decode(content) if content and crc32(content) == crc else None


def _filled(account: UsageTotals, saved: UsageTotals | None) -> UsageTotals:
    """An account of figures, with the kinds of faults and the latency of the last save."""
    faults: list[tuple[RequestOutcome, str, int]] = []
    for fate in get_args(RequestOutcome):
        missing = account.count(fate)
        for saved_fate, kind, count in saved.faults if saved else ():
            if saved_fate == fate and kind not in (ABANDONED, CUT_OFF) and missing:
                faults.append((fate, kind, min(count, missing)))
                missing -= min(count, missing)
        if missing:
            faults.append((fate, ABANDONED if fate == "unconfirmed" else CUT_OFF, missing))
    if saved is not None:
        account = replace(account, latency=saved.latency, unstated=saved.unstated)
    return replace(account, faults=tuple(sorted(faults)))


def _write_accounts(path: Path, accounts: Mapping[str, UsageTotals]) -> None:
    """Replace a ledger by one without slots; uncollected calls stay. RunFolderError."""
    uncollected = _read(path)[0]
    replace_file(path, [_uncollected_line(uncollected), msgspec.json.encode(accounts) + b"\n"])


def _uncollected_line(uncollected: Mapping[str, tuple[int, float]]) -> bytes:
    line = msgspec.json.encode(uncollected)
    if len(line) >= UNCOLLECTED:
        count = len(uncollected)
        raise RunFolderError(f"too many models with uncollected calls ({count}): submit fewer")
    return line.ljust(UNCOLLECTED - 1) + b"\n"


def _summed(
    one: Mapping[str, UsageTotals], other: Mapping[str, UsageTotals]
) -> dict[str, UsageTotals]:
    return {
        model: sum_usage([side[model] for side in (one, other) if model in side])
        for model in dict.fromkeys((*one, *other))
    }
