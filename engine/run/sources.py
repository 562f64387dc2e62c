"""Where the replies of a run came from, and which models gave them."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..providers.catalogue import entry, provider_of
from ..providers.same_model import same_model
from ..providers.simulated import PREFIX
from ..sweep.grid import Grid
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
        """Whether they come from elsewhere, or from an address that is not the provider's own."""
        try:
            own = entry(provider_of(self.asked)).base_url
        except UsageError:
            own = ""
        # Of a cloud, the address has the name of a region in it.
        start, _, rest = own.partition("{")
        address, end = self.origin.partition(" ")[2], rest.rpartition("}")[2]
        return self.elsewhere or not (own and address.startswith(start) and address.endswith(end))


def origins(sweep: Grid, folder: Path) -> tuple[str, ...]:
    """What whoever reads figures of a run must know of where they come from, a line each: models
    that are simulated, replies from elsewhere than the provider's own address, other models that
    answered. RunFolderError."""
    made_up = [model for model in sweep.models if model.startswith(PREFIX)]
    simulated = [f"SIMULATED models: {', '.join(made_up)}"] if made_up else []
    return (*simulated, *source_lines(read_sources(folder)))


def read_sources(folder: Path) -> list[ReplySource]:
    """Every call counts once; calls of simulated models not at all. RunFolderError."""
    found = Counter[tuple[str, str, str, bool]]()
    with RunTables.open(folder) as tables:
        sources = {
            number: (model, served, came, bool(elsewhere))
            for number, model, _, served, _, _, came, elsewhere, _ in tables.table("endpoints")
            if came
        }
        by_endpoint = "SELECT endpoint, count(*) FROM calls GROUP BY endpoint"
        for number, count in tables.fetched(by_endpoint) if sources else ():
            if number in sources:
                found[sources[number]] += count
    return [ReplySource(*source, count) for source, count in sorted(found.items())]


def source_lines(sources: list[ReplySource]) -> list[str]:
    """What a reader must know: models that others answered for, and replies from elsewhere."""
    lines = []
    for model in dict.fromkeys(each.asked for each in sources):
        ours = [each for each in sources if each.asked == model]
        total = sum(each.replies for each in ours)
        others: Counter[str] = Counter()
        elsewhere: Counter[str] = Counter()
        for each in ours:
            if each.served and not same_model(model.rpartition("/")[2], each.served):
                others[each.served] += each.replies
            if each.foreign:
                elsewhere[each.origin] += each.replies
        for served, replies in others.most_common():
            lines.append(f"{model}: {replies:,} of {total:,} replies were given by {served}")
        if elsewhere:
            named = ", ".join(f"{count:,} {origin}" for origin, count in elsewhere.most_common())
            lines.append(
                f"{model}: {elsewhere.total():,} of {total:,} replies are not from the provider's "
                f"own address: {named}"
            )
    return lines
