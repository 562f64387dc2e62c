"""What all sittings of a run asked and paid, model by model: `ledger.json` in its folder."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import orjson
from pydantic import TypeAdapter, ValidationError

from engine.books.journal import Journal, journalled
from engine.books.ledger import ABANDONED, CUT_OFF, Account, Fate, Ledger, together
from engine.errors import RunFolderError, StoreStopped
from engine.files import replace_file
from engine.limits.latch import Latch

FILE = "ledger.json"

EVERY = 0.2
"""Seconds between two notes, of half a millisecond each: after which others see how it stands."""

_ACCOUNTS = TypeAdapter(dict[str, Account])


class Accounts:
    """Those of earlier sittings, and this one's as it goes on."""

    def __init__(self, folder: Path, sitting: Callable[[], Mapping[str, Account]]) -> None:
        """sitting: the accounts of this sitting by model, as they stand. RunFolderError."""
        self._file = folder / FILE
        self._earlier = read_accounts(folder)
        self._sitting = sitting

    def by_model(self) -> dict[str, Account]:
        now = self._sitting()
        return {
            model: together([side[model] for side in (self._earlier, now) if model in side])
            for model in (*self._earlier, *(model for model in now if model not in self._earlier))
        }

    def total(self) -> Account:
        return together(self.by_model().values())

    @asynccontextmanager
    async def kept(self, latch: Latch, ledger: Ledger | None = None) -> AsyncIterator[None]:
        """Note the accounts now and then while the body runs, and for good after it.

        ledger: whose requests are entered in a journal too, one by one; without it a process that
        is killed forgets what came after its last note. A note counts what is in flight as
        abandoned: if the process is killed, it is. A folder that cannot be written pulls the latch:
        nothing is spent that would not be known.
        """
        journal = Journal(self._file.parent, self._earlier, latch)
        if ledger is not None:
            ledger.listen(journal.enter)
        noting = asyncio.create_task(self._note_now_and_then(latch))
        try:
            yield
        finally:
            noting.cancel()
            await asyncio.wait([noting])
            journal.close(noted=self._note(latch, durable=True))

    async def _note_now_and_then(self, latch: Latch) -> None:
        while True:
            await asyncio.sleep(EVERY)
            self._note(latch, durable=False)

    def _note(self, latch: Latch, *, durable: bool) -> bool:
        """Whether it could be written."""
        accounts = {model: account.cut_off() for model, account in self.by_model().items()}
        if accounts:
            written = orjson.dumps(accounts, option=orjson.OPT_INDENT_2)
            try:
                replace_file(self._file, [written], durable=durable)
            except RunFolderError as fault:
                latch.pull(StoreStopped(str(fault)))
                return False
        return True


def read_accounts(folder: Path) -> dict[str, Account]:
    """The accounts in a run folder by model; none where no real model was asked yet.

    Of what a killed sitting noted and what its journal has, the one that knows of more. A request
    whose fate it could not tell counts as ambiguous: it may have been billed.
    """
    file = folder / FILE
    try:
        accounts = _ACCOUNTS.validate_json(file.read_bytes())
    except FileNotFoundError:
        accounts = {}
    except (OSError, ValidationError) as exc:
        raise RunFolderError(
            f"{file}: cannot be read: {exc}; move it away to go on without knowing what was paid"
        ) from exc
    for model, account in journalled(folder).items():
        if model not in accounts or account.sent >= accounts[model].sent:
            accounts[model] = _with_kinds(account, accounts.get(model))
    return accounts


def _with_kinds(account: Account, noted: Account | None) -> Account:
    """An account from a journal, which has no kinds of faults, with those that were noted."""
    faults: list[tuple[Fate, str, int]] = []
    for fate in get_args(Fate):
        left = account.count(fate)
        for noted_fate, kind, count in noted.faults if noted else ():
            if noted_fate == fate and kind not in (ABANDONED, CUT_OFF) and left:
                faults.append((fate, kind, min(count, left)))
                left -= min(count, left)
        if left:
            faults.append((fate, ABANDONED if fate == "ambiguous" else CUT_OFF, left))
    return replace(account, faults=tuple(sorted(faults)))
