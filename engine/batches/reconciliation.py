"""A run's batches as the vendor, the journal, the ledger and the store have them, compared."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ...cache.address import store_key
from ...cache.errors import DamagedEntry
from ...cache.store import Reader
from ..accounting.ledger import UsageTotals, sum_usage
from ..errors import UsageError
from ..models.directory import ModelDirectory
from ..stop import StopToken
from .endpoint import CLOCK_SLACK, BatchEndpoint, ListedBatch, Submission
from .endpoints import Endpoints
from .journal import BatchJournal, EndedBatch
from .retrying import retried

LOOKED_UP_TOGETHER = 1_000
"""Replies looked up in one round trip."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that two books say differently."""

    batch: str
    """The vendor's id; our mark where the vendor never named one; empty for all of a model."""
    model: str
    what: str
    calls: int
    dollars: float
    """Upper bound of the difference; 0 without a price."""


@dataclass(frozen=True, slots=True)
class BookTotals:
    """What one book knows of the batches of a run."""

    batches: int
    calls: int
    dollars: float | None
    """None where the book knows none."""


@dataclass
class Reconciliation:
    books: dict[str, BookTotals] = field(default_factory=dict)
    """By name: vendor, journal, ledger, store."""
    differences: list[Difference] = field(default_factory=list)


async def reconcile(
    journal: BatchJournal,
    models: ModelDirectory,
    ledger: Mapping[str, UsageTotals],
    store: Reader,
    stop_token: StopToken,
) -> Reconciliation:
    """Ask the vendors for their lists, and compare. Changes nothing.

    ledger: the accounts of the run by model, without liabilities. Halts of the vendors pass.
    """
    found, endpoints = Reconciliation(), Endpoints(models)
    batches = (*journal.intended.values(), *journal.out.values(), *(e.batch for e in journal.ended))
    asked = sorted({batch.model for batch in batches})
    try:
        listed: dict[str, ListedBatch] = {}
        for endpoint in dict.fromkeys(map(endpoints.of, asked)):
            entries = await retried(stop_token, _entries, endpoint, journal.began or 0.0)
            listed |= {entry.id: entry for entry in entries}
    finally:
        await endpoints.close()
    _compare_open(found, journal, listed)
    _compare_ended(found, journal.ended, listed)
    for model in asked:
        _compare_ledger(found, model, journal.completed.get(model, []), ledger.get(model))
    kept = _compare_store(found, journal, models, store)
    ours = [e for id, e in listed.items() if id in journal.known or _known_mark(journal, e)]
    spent = sum_usage(each.account for each in journal.ended)
    entered = sum_usage(account for model, account in ledger.items() if model in asked)
    found.books = {
        "vendor": BookTotals(len(ours), sum(e.lines for e in ours), None),
        "journal": BookTotals(
            len(batches),
            sum(batch.lines for batch in batches),
            spent.dollars + spent.doubtful + sum(_open_dollars(journal)),
        ),
        "ledger": BookTotals(entered.batches, entered.sent, entered.dollars + entered.doubtful),
        "store": BookTotals(len(journal.ended), kept, None),
    }
    return found


async def _entries(endpoint: BatchEndpoint, began: float) -> list[ListedBatch]:
    entries = []
    async for entry in endpoint.listed():
        # By two clocks, of which ours may have been wrong by hours.
        if entry.created < began - 24 * 3600.0 - CLOCK_SLACK:
            break
        entries.append(entry)
    return entries


def _compare_open(
    found: Reconciliation, journal: BatchJournal, listed: Mapping[str, ListedBatch]
) -> None:
    for mark, batch in journal.liabilities.items():
        made = next((entry for entry in listed.values() if entry.mark == mark), None)
        alike = [e for id, e in listed.items() if not e.mark and e.lines == batch.lines
                 and id not in journal.known and (mark, id) not in journal.others]  # fmt: skip
        sent = datetime.fromtimestamp(journal.sending[mark], UTC).isoformat(" ", "minutes")
        if made is not None:
            what = f"no answer came to its submission; the vendor made it, as {made.id}"
        elif alike:
            what = (
                f"no answer came to its submission at {sent}; {alike[0].id} is as large, and its "
                "results will show whose it is"
            )
        else:
            what = f"no answer came to its submission at {sent}, and the vendor lists no such batch"
        found.differences.append(Difference(mark, batch.model, what, batch.lines, batch.worst))
    for id, batch in journal.out.items():
        entry = listed.get(id)
        if entry is None:
            what = "out, and not in the vendor's list under this key"
        elif entry.status in ("ended", "completed", "expired", "cancelled", "failed"):
            what = f"{entry.status} at the vendor, and not collected yet"
        else:
            continue
        found.differences.append(Difference(id, batch.model, what, batch.lines, batch.worst))


def _compare_ended(
    found: Reconciliation, ended: Iterable[EndedBatch], listed: Mapping[str, ListedBatch]
) -> None:
    for each in ended:
        batch, lost = each.batch, _count(each.account, "Missing")
        entry = listed.get(each.id)
        here = batch.lines - lost
        if lost and (entry is None or entry.results > here):
            there = "not in the vendor's list" if entry is None else f"{entry.results:,} there"
            what = f"results of {here:,} of {batch.lines:,} calls were collected, {there}"
            dollars = each.account.doubtful
            found.differences.append(Difference(each.id, batch.model, what, lost, dollars))
        elif entry is None and each.id != batch.mark:
            what = "collected, and not in the vendor's list any more, or not under this key"
            found.differences.append(Difference(each.id, batch.model, what, 0, 0.0))


def _compare_ledger(
    found: Reconciliation,
    model: str,
    completed: list[UsageTotals],
    entered: UsageTotals | None,
) -> None:
    ours = sum_usage(completed)
    account = entered or sum_usage([])
    if account.batches != len(completed):
        missing = sum_usage(completed[account.batches :])
        what = (
            f"the ledger has {account.batches:,} of {len(completed):,} ended batches; the next "
            "session enters the others"
        )
        found.differences.append(
            Difference("", model, what, missing.sent, missing.dollars + missing.doubtful)
        )
    elif account.sent < ours.sent or account.dollars < ours.dollars * (1 - 1e-9):
        what = f"the ledger has {account.sent:,} requests, and ended batches alone {ours.sent:,}"
        found.differences.append(
            Difference("", model, what, ours.sent - account.sent, ours.dollars - account.dollars)
        )


def _compare_store(
    found: Reconciliation, journal: BatchJournal, models: ModelDirectory, store: Reader
) -> int:
    """How many replies of ended batches are in the store."""
    kept = 0
    for each in journal.ended:
        identity = models.model_identity(each.batch.model)
        addresses = journal.stored(each.batch)
        lost = len(addresses)
        for at in range(0, len(addresses), LOOKED_UP_TOGETHER):
            part = addresses[at : at + LOOKED_UP_TOGETHER]
            there = store.get_many([store_key(address, identity) for address in part])
            lost -= sum(not isinstance(value, DamagedEntry) for value in there.values())
        kept += len(addresses) - lost
        if lost:
            what = f"{lost:,} of its {len(addresses):,} replies are not in the store any more"
            dollars = each.account.dollars * lost / len(addresses)
            found.differences.append(Difference(each.id, each.batch.model, what, lost, dollars))
    return kept


def _known_mark(journal: BatchJournal, entry: ListedBatch) -> bool:
    return entry.mark in journal.intended


def _open_dollars(journal: BatchJournal) -> Iterable[float]:
    waiting: Iterable[Submission] = (*journal.intended.values(), *journal.out.values())
    return (batch.worst for batch in waiting)


def _count(account: UsageTotals, kind: str) -> int:
    return sum(count for _, slug, count in account.faults if slug == kind)


def open_names(journal: BatchJournal, wanted: Iterable[str]) -> list[str]:
    """The ids and marks that are wanted; UsageError for one that is none of an open batch."""
    known = {*journal.out, *journal.liabilities}
    for name in (names := list(wanted)):
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise UsageError(
                f"{name}: no open batch of {journal.folder.parent}; there are: {there}"
            )
    return names
