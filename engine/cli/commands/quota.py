"""`oversight quota`: who holds which part of an account's limits."""

import click
import orjson

from oversight.engine.cli.output import show
from oversight.engine.errors import UsageError
from oversight.engine.fleet.quota import shares
from oversight.engine.runs.stores import is_url, store_name


@click.command()
@click.option("--store", metavar="URL", help="The database. Default: $OVERSIGHT_STORE.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(store: str | None, as_json: bool) -> None:
    """Print which runs share limits in a database now, and what part each of them holds."""
    named = store_name(store)
    if not is_url(named):
        raise UsageError("quotas are kept in a database: name it with --store postgresql://…")
    rows = shares(named)
    if as_json:
        keys = ("name", "run", "wanted", "share", "silent")
        told = [dict(zip(keys, row, strict=True)) for row in rows]
        show(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())
        return
    for name, run, wanted, share, silent in rows:
        quiet = f", silent for {silent:.0f} s" if silent >= 1 else ""
        show(f"{name}  {run}: {share:.0%}, wants {wanted:.1f} calls a second{quiet}")
    if not rows:
        show("no run shares limits here")
