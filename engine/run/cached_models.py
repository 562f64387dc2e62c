"""Models behind a cache over the store, for a run or other work in this process."""

from typing import TYPE_CHECKING

from ...cache.cache import Cache, CacheStatistics, Mode
from ...cache.store import Store
from ...protocols.prompts.render import shared_beginning
from ..display.progress import Snapshot
from ..errors import Halt
from ..models.accounting.ledger import UsageTotals, sum_usage
from ..models.router import Router

if TYPE_CHECKING:
    from .later import Addition


class CachedModels:
    """The models of a run behind its cache, with their figures for the display."""

    def __init__(
        self,
        models: Router,
        store: Store,
        mode: Mode = "use",
        run_id: str = "",
        paid: set[str] | None = None,
    ) -> None:
        """models: `close` closes them. paid: as `Cache` has it."""
        self.models = models
        self.cache = Cache(
            store,
            models,
            identity=models.directory.identity,
            mode=mode,
            origin=models.directory.origin,
            run_id=run_id,
            paid=paid,
            shared=shared_beginning,
            tags=models.directory.tags,
        )
        self.added: Addition | None = None
        """The part that an extension has in the work; None without one."""

    async def close(self) -> None:
        if self.added is not None:
            await self.added.close()
        await self.models.close()

    @property
    def statistics(self) -> CacheStatistics:
        statistics = self.cache.statistics
        return statistics if self.added is None else self.added.counted(statistics)

    def accounts(self) -> dict[str, UsageTotals]:
        return self.models.accounting.ledger.accounts()

    def lines(self) -> tuple[str, ...]:
        lines: tuple[str, ...] = ()
        if statistics := self.models.statistics():
            from ..display.throughput import lines as told

            lines = told(statistics, self.cache.held)
        return lines if self.added is None else (*self.added.lines(lines),)

    @property
    def waits(self) -> tuple[str, ...]:
        """The models that wait after failures, each with its fault and its pace of probes."""
        return tuple(
            f"{model}: {state.words or state.fault}: every {state.probes_every:.0f} s"
            for model, state in self.models.statistics().items()
            if state.waits
        )

    @property
    def pending(self) -> str:
        return "" if self.added is None else self.added.pending

    @property
    def in_flight(self) -> int:
        return self.models.in_flight

    def snapshot(
        self,
        total: int,
        finished: int,
        failed: int,
        *,
        refused: int,
        spend: str,
        halt: Halt | None,
        expected: int = 0,
    ) -> Snapshot:
        """The state of the run for observers, who know what the parameters are."""
        calls = self.statistics
        return Snapshot(
            *(total, finished, failed, calls.asked, calls.stored, calls.shared, calls.new),
            *(refused, spend, self.lines()),
            note=f"stopping: {halt}" if halt else "",
            in_flight=self.in_flight,
            at_risk=sum_usage(self.accounts().values()).at_risk,
            pending=self.pending,
            waits=self.waits,
            expected=max(expected, calls.asked),
        )
