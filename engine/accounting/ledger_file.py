"""What all sittings of a run asked and paid, model by model: `ledger.json` in its folder."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import orjson
from pydantic import TypeAdapter, ValidationError

from oversight.engine.accounting.journal import Journal, journalled
from oversight.engine.accounting.latency import Latency
from oversight.engine.accounting.ledger import (
    ABANDONED,
    CUT_OFF,
    Ledger,
    RequestOutcome,
    UsageTotals,
    sum_usage,
)
from oversight.engine.errors import RunFolderError, StoreFailed
from oversight.engine.stop import StopToken
from oversight.engine.system.files import replace_file

LEDGER_FILE = "ledger.json"

EVERY = 0.2
"""Seconds between two notes, of half a millisecond each: after which others see how it stands."""

_ACCOUNTS = TypeAdapter(dict[str, UsageTotals])


class LedgerFile:
    """Those of earlier sittings, and this one's as it goes on."""

    def __init__(self, folder: Path, sitting: Callable[[], Mapping[str, UsageTotals]]) -> None:
        """sitting: the accounts of this sitting by model, as they stand. RunFolderError."""
        self._file = folder / LEDGER_FILE
        self._earlier = read_ledger(folder)
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
        """Note the accounts now and then while the body runs, and for good after it.

        ledger: whose requests are entered in a journal too, one by one; without it a process that
        is killed forgets what came after its last note. A note counts what is in flight as
        abandoned: if the process is killed, it is. A folder that cannot be written pulls the latch:
        nothing is spent that would not be known.
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
        """Whether it could be written."""
        accounts = {model: account.cut_off() for model, account in self.by_model().items()}
        if accounts:
            written = orjson.dumps(accounts, option=orjson.OPT_INDENT_2)
            try:
                replace_file(self._file, [written], durable=durable)
            except RunFolderError as fault:
                stop_token.stop(StoreFailed(str(fault)))
                return False
        return True


def read_ledger(folder: Path) -> dict[str, UsageTotals]:
    """The accounts in a run folder by model; none where no real model was asked yet.

    Of what a killed sitting noted and what its journal has, the one that knows of more. A request
    whose fate it could not tell counts as ambiguous: it may have been billed.
    """
    file = folder / LEDGER_FILE
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
            accounts[model] = _filled(account, accounts.get(model))
    return accounts


def _filled(account: UsageTotals, noted: UsageTotals | None) -> UsageTotals:
    """An account from a journal, which has neither kinds of faults nor latency, with those that
    were noted."""
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
