"""Selecting stored replies: by address, by model, by outcome, by age."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import wraps
from itertools import islice
from typing import Any, get_args

import click

from ...cache.record import Record, read_record, records
from ...cache.reply import Outcome
from ...cache.store import Reader

MAX_MATCHES = 8
"""Maximum number of candidates listed for an ambiguous address."""
UNITS = {"h": 3600, "d": 86_400, "w": 604_800}
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects the entries that meet all conditions."""

    models: tuple[str, ...] = ()
    """Names, or patterns such as `openai/*`; any model if there is none."""
    outcomes: tuple[Outcome, ...] = ()
    """Any outcome if there is none."""
    before: float | None = None
    """Only what was stored before this time, in seconds since 1970."""

    def __bool__(self) -> bool:
        """Whether there is any condition."""
        return bool(self.models or self.outcomes or self.before is not None)

    def __contains__(self, record: Record) -> bool:
        return (
            (not self.models or any(fnmatchcase(record.model, each) for each in self.models))
            and (not self.outcomes or record.outcome in self.outcomes)
            and (self.before is None or record.stored_at < self.before)
        )


def selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that a Selection is made from; the command gets it as `selection`."""

    @click.option(
        "--model",
        "models",
        multiple=True,
        help="Only this model, or a pattern such as 'openai/*'; repeatable.",
    )
    @click.option(
        "--outcome",
        "outcomes",
        multiple=True,
        type=click.Choice(get_args(Outcome)),
        help="Only replies that ended so; repeatable.",
    )
    @click.option(
        "--older-than",
        "before",
        callback=_before,
        help="Only entries older than this, e.g. 12h, 30d or 8w.",
    )
    @wraps(command)
    def on_selection(
        models: tuple[str, ...], outcomes: tuple[Outcome, ...], before: float | None, **others: Any
    ) -> None:
        command(selection=Selection(models, outcomes, before), **others)

    return on_selection


def selected_entry(store: Reader, address: str) -> Record:
    """The one entry whose address starts so. UsageError, with the candidates, if it is not one.

    Two endpoints that answered one call share its address; the key tells them apart.
    """
    found = list(islice(store.keys(address), MAX_MATCHES + 1))
    if not found:
        raise click.UsageError(
            f"no stored reply has an address that starts with {address!r}; "
            "list those that there are: oversight cache list"
        )
    if len(found) == 1:
        value = store.get(found[0])
        assert value is not None, "nobody else removes what was just listed"
        return read_record(found[0], value)
    lines = [
        f"  {key}  {record.model}" if isinstance(record, Record) else f"  {key}  {record.reason}"
        for key, record in records(islice(store.items(address), MAX_MATCHES))
    ]
    more = "\n  …" if len(found) > MAX_MATCHES else ""
    raise click.UsageError(f"{address!r} may mean:\n" + "\n".join(lines) + more)


def _before(ctx: click.Context, param: click.Parameter, age: str | None) -> float | None:
    if age is None:
        return None
    if not (match := re.fullmatch(r"(\d+)([hdw])", age)):
        raise click.BadParameter(f"{age!r} is not an age; write it like 12h, 30d or 8w")
    return time.time() - int(match[1]) * UNITS[match[2]]
