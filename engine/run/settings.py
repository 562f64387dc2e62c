"""Settings of a run that are not in its sweep file, for Python and the command line."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from annotated_types import Interval

from ...cache.cache import Mode
from ...protocols.scores import ALL_SCORES
from ...protocols.settings import unknown
from ..display.text import dollars
from ..models.accounting.prices import PriceList, listed, load_prices
from ..models.limits.breaker import GIVE_UP
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
