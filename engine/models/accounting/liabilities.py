"""Calls that were sent in a submission of unknown fate: nobody knows yet whether they are billed.

They count as ambiguous requests of their models for as long as that lasts. `liabilities.json` in
the run folder names them, since the ledger only ever adds what is final.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import orjson

from ...errors import RunFolderError
from ...system.files import MAX_LEDGER, read_bounded, replace_file
from .ledger import UsageTotals, sum_usage

FILE = "liabilities.json"
UNPROVEN = "Unproven"
"""Kind of fault: in a batch of which nothing proves whether it was made."""

_OWED = msgspec.json.Decoder(dict[str, tuple[int, float]])


def write_liabilities(folder: Path, owed: Mapping[str, tuple[int, float]]) -> None:
    """owed: by model, (calls, dollars at most). RunFolderError."""
    file = folder / FILE
    if owed:
        replace_file(file, [orjson.dumps(owed)])
    else:
        file.unlink(missing_ok=True)


def with_liabilities(folder: Path, accounts: dict[str, UsageTotals]) -> dict[str, UsageTotals]:
    """The accounts of a run, its liabilities included. RunFolderError."""
    try:
        owed = _OWED.decode(read_bounded(folder / FILE, MAX_LEDGER))
    except FileNotFoundError:
        return accounts
    except (OSError, msgspec.DecodeError) as exc:
        raise RunFolderError(f"{folder / FILE}: cannot be read: {exc}") from exc
    for model, (calls, dollars) in owed.items():
        account = accounts.get(model) or sum_usage([])
        faults = tuple(sorted((*account.faults, ("ambiguous", UNPROVEN, calls))))
        accounts[model] = replace(account, faults=faults, doubtful=account.doubtful + dollars)
    return accounts
