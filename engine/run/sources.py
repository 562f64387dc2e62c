"""Where the replies of a run came from, and which models gave them."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..providers.catalogue import entry, provider_of, same_model
from ..providers.simulated import PREFIX
from ..sweep.grid import Grid
from .mixed import mixed_lines
from .record.tables import RunTables


@dataclass(frozen=True)
class ReplySource:
    """Replies to one model that came the same way."""

    asked: str
    served: str
    """The model that the server says answered; empty if it does not say."""
    origin: str
    """`live ADDRESS`, `batch ADDRESS`, `imported` or `unknown`."""
    elsewhere: bool
    """Whether that is not the address that the run itself asks, or is not known."""
    replies: int

    @property
    def foreign(self) -> bool:
        """Whether they come from elsewhere, or from an address that is not the provider's own.

        The user names the address of a self-hosted server, so replies from it are never foreign,
        even after it moved. Imported replies are, whoever gave them.
        """
        try:
            provider = entry(provider_of(self.asked))
        except UsageError:
            return True
        kind, _, address = self.origin.partition(" ")
        if provider.own and kind in ("live", "batch"):
            return False
        # The address of a cloud contains the name of a region.
        start, _, _end = provider.base_url.partition("{")
        is_known = bool(start) and address.startswith(start)
        return self.elsewhere or not (is_known and address.endswith(_end.rpartition("}")[2]))


def origins(sweep: Grid, folder: Path, *, addresses: bool = True) -> tuple[str, ...]:
    """Return a line for each fact about the origin of replies that a reader of figures must know.

    The facts: simulated models, replies from another address than the provider's own, and other
    models that answered. addresses: whether to name addresses; captions leave them out. Raises
    RunFolderError.
    """
    made_up = [model for model in sweep.models if model.startswith(PREFIX)]
    simulated = [f"SIMULATED models: {', '.join(made_up)}"] if made_up else []
    lines = source_lines(read_sources(folder), addresses=addresses)
    return (*simulated, *mixed_lines(folder), *lines)


def read_sources(folder: Path) -> list[ReplySource]:
    """Every call counts once; calls of simulated models not at all. RunFolderError."""
    counts = Counter[tuple[str, str, str, bool]]()
    with RunTables.open(folder) as tables:
        sources = {
            number: (model, served, came, bool(elsewhere))
            for number, model, _, served, _, came, elsewhere in tables.table("endpoints")
            if came
        }
        by_endpoint = "SELECT endpoint, count(*) FROM calls GROUP BY endpoint"
        for number, count in tables.fetched(by_endpoint) if sources else ():
            if number in sources:
                counts[sources[number]] += count
    return [ReplySource(*source, count) for source, count in sorted(counts.items())]


def source_lines(sources: list[ReplySource], *, addresses: bool = True) -> list[str]:
    """Return the lines of `origins` about replies of real models."""
    lines = []
    for model in dict.fromkeys(source.asked for source in sources):
        ours = [source for source in sources if source.asked == model]
        total = sum(source.replies for source in ours)
        others: Counter[str] = Counter()
        elsewhere: Counter[str] = Counter()
        for source in ours:
            if source.served and not same_model(model.rpartition("/")[2], source.served):
                others[source.served] += source.replies
            if source.foreign:
                elsewhere[source.origin] += source.replies
        for served, replies in others.most_common():
            lines.append(f"{model}: {replies:,} of {total:,} replies were given by {served}")
        if elsewhere:
            names = ", ".join(f"{count:,} {origin}" for origin, count in elsewhere.most_common())
            lines.append(
                f"{model}: {elsewhere.total():,} of {total:,} replies came from a different address"
                + (f": {names}" if addresses else "")
            )
    return lines
