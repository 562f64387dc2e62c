"""Settings of a run that are not in its sweep file, and stores by their names."""

import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import platformdirs
from annotated_types import Interval

from ...cache.cache import Mode
from ...cache.disk import DiskStore, ReadOnlyStore
from ...cache.store import Reader, Store
from ...protocols.scores import ALL_SCORES
from ...protocols.settings import unknown
from ..display.text import dollars
from ..errors import UsageError
from ..models.accounting.prices import PriceList, listed, load_prices
from ..models.limits.breaker import GIVE_UP
from ..system.process import STORES_GROUP, load_function, registered
from ..system.settings import check_flags, flag

if TYPE_CHECKING:
    from ..models.accounting.ledger import UsageTotals


def _tokens(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a number of tokens: write it like 50M, 800k or 20000")
    return float(match[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[match[2]]


def _score(text: str) -> str:
    if text not in ALL_SCORES:
        raise ValueError(unknown("score", text, ALL_SCORES))
    return text


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if seconds < 1:
        raise ValueError(f"{text!r} is not a time of a second or more: write it as 10m, 90s or 2h")
    return seconds


_cost, _execution, _sweep = (partial(flag, under=it) for it in ("Cost", "Execution", "Sweep"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSettings:
    """Cost limits of the calls of a command, and whether they are deferred."""

    max_cost: float | None = _cost(
        "Budget: stop before the total cost could exceed it.",
        metavar="DOLLARS",
        within=Interval(ge=0),
    )
    max_tokens: float | None = _cost(
        "Budget in tokens, in and out, for models of which no price is known.",
        metavar="50M",
        read=_tokens,
    )
    prices: Path | None = _cost(
        "TOML file with prices that take precedence over the built-in ones.", exists=True
    )
    batch: bool = _cost(
        "Ask through the vendors' batch endpoints: half the price, replies within a day.",
        default=False,
    )
    no_wait: bool = _cost(
        "Submit and collect batches, then exit; run the same command again to continue.",
        default=False,
        rare=True,
    )

    @property
    def price_list(self) -> PriceList:
        """The built-in prices, where no file takes precedence. UsageError."""
        return load_prices(self.prices) if self.prices else listed()

    def spent(self, paid: "UsageTotals") -> str:
        """Return the amount paid, and the budget if set; empty if all models are free."""
        from ..models.accounting.budget import spending

        if (most := self.max_tokens) is not None:
            return spending(paid.tokens, paid.unstated, most, tokens=True)
        if (cap := self.max_cost) is not None:
            return spending(paid.counted, paid.unconfirmed, cap, tokens=False)
        return dollars(paid.dollars) if paid.dollars else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSettings(AskSettings):
    """Where a run is kept, and what it may cost."""

    store: Path | str | None = flag(
        "Where replies are kept: a folder, or postgresql://… Default: $OVERSIGHT_STORE, else in "
        "the user's cache folder.",
        metavar="FOLDER|URL",
        under="Folders",
    )
    folder: Path | None = flag(
        "Folder of the run. Default: runs/NAME-xxxxxx.", name="--run-folder", under="Folders"
    )
    allow_changed_code: bool | Literal["new folder"] = _sweep(
        "Resume a run although its code has changed: missing cells run with the present code, and "
        "the manifest says so.",
        default=False,
    )
    """`new folder`: a run with changed code stays, and a new one is made next to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings(FolderSettings):
    """How a sweep is run."""

    cache: Mode = _execution(
        "use: send only calls whose replies are not stored; refresh: send all calls again; replay: "
        "send nothing; off: neither read nor write the store.",
        default="use",
    )
    score: str = flag(
        "Scoring rule of the verdicts.",
        default="brier",
        metavar=f"[{'|'.join(ALL_SCORES)}]",
        read=_score,
        under="Report",
    )
    retry_failed: bool = _sweep("Run failed cells again.", default=False)
    allow_missing_replies: bool = _execution(
        "Resume although the store has lost replies, and pay for them again.",
        default=False,
        rare=True,
    )
    keep_going: bool = _execution(
        "Do not pause rows whose first cells all fail for one cause.", default=False, rare=True
    )
    give_up: float = _execution(
        "How long to wait for a model that answers nothing; then the run stops, or only the cells "
        "fail if no other work is left.",
        default=GIVE_UP,
        metavar="10m",
        read=_seconds,
        rare=True,
    )
    workers: int = _execution(
        "Processes of this machine, or of the cluster of --ray; they share every limit and "
        "--max-cost.",
        default=1,
        within=Interval(ge=1),
        metavar="N",
    )
    ray: str = _execution("Run on a Ray cluster.", default="", metavar="ADDRESS")
    part: str = _sweep(
        "Run part K of N: every Nth problem, from the Kth on.", default="", metavar="K/N"
    )

    def __post_init__(self) -> None:
        check_flags(self)


STORE_VARIABLE = "OVERSIGHT_STORE"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_KEYWORDS = re.compile(
    r"\b(host|hostaddr|dbname|user|password|passfile|port|service|sslmode)\s*=", re.IGNORECASE
)


def store_name(chosen: Path | str | None) -> str:
    """The name of the store: the one given, else $OVERSIGHT_STORE, else the user's cache folder. A
    folder is made absolute, so that other processes find it. UsageError for an invalid name."""
    text = str(chosen) if chosen is not None else os.environ.get(STORE_VARIABLE, "")
    if is_url(name := checked_name(text)):
        return name
    folder = Path(name).expanduser() if name else platformdirs.user_cache_path("oversight")
    return str(folder.absolute())


def shown_name(name: str) -> str:
    """The name for files that others read: with `~` for the user's home folder."""
    if is_url(name):
        return name
    folder, home = Path(name).resolve(), Path.home().resolve()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)


def open_store(name: str, id: str = "") -> Store:
    """Open a store for reading and writing; create a missing one. StoreError. id: given to a new
    store in a folder that takes another's place."""
    return _database(name, True) if is_url(name) else DiskStore(Path(name), id)


def open_for_reading(name: str) -> Reader:
    """Open a store that is there. StoreError if it is not, UsageError for a file."""
    if is_url(name):
        return _database(name, False)
    if (folder := Path(name).expanduser()).is_file():
        raise UsageError(
            f"{name} is a file, and a store is a folder; add its replies to one: oversight cache "
            f"import {name} --store FOLDER"
        )
    return ReadOnlyStore(folder)


def _database(url: str, make: bool) -> Store:
    name = url.partition(":")[0]
    store = load_function(STORES_GROUP, name)(url, make)
    if not isinstance(store, Store):
        raise UsageError(f"{name}: {store!r}, which is registered, is not a {Store.__name__}")
    return store


def is_url(name: str) -> bool:
    """Whether a store has the name of a database, and not of a folder."""
    return _SCHEME.match(name) is not None


def checked_name(text: str) -> str:
    """Return the name of a store as it is recorded. UsageError if it is neither the URL of a known
    database nor a folder. The message does not repeat the name, which may hold a password."""
    name = text.strip()
    scheme = _SCHEME.match(name)
    schemes = ", ".join(f"{each_scheme}://" for each_scheme in registered(STORES_GROUP)) or "none"
    if scheme is None:
        if _KEYWORDS.search(name):
            raise UsageError(
                f"the store is given in keywords: write it as a folder or a URL ({schemes}), "
                "and put a password into ~/.pgpass, or into the variable PGPASSWORD"
            )
        return text
    if (lower := scheme[1].lower()) in registered(STORES_GROUP):
        return lower + name[scheme.end(1) :]
    raise UsageError(
        f"the store begins with {scheme[1]}:, which names no database that can be a store "
        f"(those are: {schemes})"
    )


def store_path(chosen: Path | str | None) -> Path:
    """The folder of the store that `store_name` names. UsageError for a database."""
    if is_url(name := store_name(chosen)):
        raise UsageError("the store is a database; this needs a folder: name it with --store")
    return Path(name)
