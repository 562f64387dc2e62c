"""The accounts of all sessions of a run by model, in `ledger.json` in its folder."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import msgspec

from ...errors import RunFolderError, StoreFailed
from ...stop import StopToken
from ...system.files import MAX_LEDGER, read_bounded, replace_file
from .journal import Journal, journalled
from .latency import Latency
from .ledger import (
    ABANDONED,
    CUT_OFF,
    Ledger,
    RequestOutcome,
    UsageTotals,
    sum_usage,
)
from .liabilities import with_liabilities

LEDGER_FILE = "ledger.json"

EVERY = 0.2
"""Seconds between two saves of half a millisecond each; other processes read the file."""

_ACCOUNTS = msgspec.json.Decoder(dict[str, UsageTotals])


class LedgerFile:
    """Keeps `ledger.json` up to date: the accounts of earlier sessions and of the present one."""

    def __init__(self, folder: Path, sitting: Callable[[], Mapping[str, UsageTotals]]) -> None:
        """sitting: returns the present accounts of this session by model. Raises RunFolderError."""
        self._file = folder / LEDGER_FILE
        self._earlier = read_entries(folder)
        self._sitting = sitting

    def by_model(self) -> dict[str, UsageTotals]:
        now = self._sitting()
        return {
            model: sum_usage([side[model] for side in (self._earlier, now) if model in side])
            for model in (*self._earlier, *(model for model in now if model not in self._earlier))
        }

    def total(self) -> UsageTotals:
        return sum_usage(self.by_model().values())

    @asynccontextmanager
    async def kept(
        self, stop_token: StopToken, ledger: Ledger | None = None
    ) -> AsyncIterator[None]:
        """Save the accounts every `EVERY` seconds while the body runs, and durably after it.

        ledger: its requests are also entered in a journal, one by one; without one, a killed
        process loses what came after its last save. A save counts requests in flight as abandoned,
        which they are if the process is killed. A folder that cannot be written sets the stop
        token, so that nothing is spent without a record.
        """
        journal = Journal(self._file.parent, self._earlier, stop_token)
        if ledger is not None:
            ledger.listen(journal.enter)
        noting = asyncio.create_task(self._note_now_and_then(stop_token))
        try:
            yield
        finally:
            noting.cancel()
            await asyncio.wait([noting])
            journal.close(noted=self._note(stop_token, durable=True))

    async def _note_now_and_then(self, stop_token: StopToken) -> None:
        while True:
            await asyncio.sleep(EVERY)
            self._note(stop_token, durable=False)

    def _note(self, stop_token: StopToken, *, durable: bool) -> bool:
        """Save the accounts; whether that succeeded."""
        accounts = {model: account.cut_off() for model, account in self.by_model().items()}
        if accounts:
            written = msgspec.json.format(msgspec.json.encode(accounts), indent=2)
            try:
                replace_file(self._file, [written], durable=durable)
            except RunFolderError as fault:
                stop_token.stop(StoreFailed(str(fault)))
                return False
        return True


def read_ledger(folder: Path) -> dict[str, UsageTotals]:
    """The accounts in a run folder by model, with the submissions of unknown fate; empty if no real
    model was asked yet. RunFolderError if a file cannot be read."""
    return with_liabilities(folder, read_entries(folder))


def read_entries(folder: Path) -> dict[str, UsageTotals]:
    """The accounts in a run folder by model, without what may yet turn out not to be owed.

    Where a killed session left a journal, the account with more requests of file and journal.
    A request whose fate is unknown counts as ambiguous: it may have been billed.
    Raises RunFolderError if the file cannot be read.
    """
    file = folder / LEDGER_FILE
    try:
        accounts = _ACCOUNTS.decode(read_bounded(file, MAX_LEDGER))
    except FileNotFoundError:
        accounts = {}
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise RunFolderError(
            f"{file}: cannot be read: {why}; move it away to go on without knowing what was paid"
        ) from exc
    for model, account in journalled(folder).items():
        if model not in accounts or account.sent >= accounts[model].sent:
            accounts[model] = _filled(account, accounts.get(model))
    return accounts


def _filled(account: UsageTotals, noted: UsageTotals | None) -> UsageTotals:
    """A journal's account, with the kinds of faults and the latency from the saved account, which
    journals do not have."""
    faults: list[tuple[RequestOutcome, str, int]] = []
    for fate in get_args(RequestOutcome):
        left = account.count(fate)
        for noted_fate, kind, count in noted.faults if noted else ():
            if noted_fate == fate and kind not in (ABANDONED, CUT_OFF) and left:
                faults.append((fate, kind, min(count, left)))
                left -= min(count, left)
        if left:
            faults.append((fate, ABANDONED if fate == "ambiguous" else CUT_OFF, left))
    latency = noted.latency if noted else Latency()
    return replace(account, faults=tuple(sorted(faults)), latency=latency)
