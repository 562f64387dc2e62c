"""`oversight cache quota`: the shares of an account's limits that runs hold."""

from ...errors import UsageError
from ...fleet.quota import quota_shares
from ...runs.stores import store_name
from ...system.settings import is_url
from ..flags import as_command
from ..options import JSON, STORE
from ..output import show, show_json


@as_command
def command(store: str | None = STORE, as_json: bool = JSON) -> None:
    """Print which runs share limits in a database now, and what part each of them holds."""
    named = store_name(store)
    if not is_url(named):
        raise UsageError("quotas are kept in a database: name it with --store postgresql://…")
    rows = quota_shares(named)
    if as_json:
        keys = ("name", "run", "weight", "wanted", "share", "silent")
        show_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    for name, run, weight, wanted, share, silent in rows:
        quiet = f", silent for {silent:.0f} s" if silent >= 1 else ""
        weighs = "" if weight == 1 else f"weight {weight:g}, "
        show(f"{name}  {run}: {weighs}{share:.0%}, wants {wanted:.1f} calls a second{quiet}")
    if not rows:
        show("no run shares limits here")
