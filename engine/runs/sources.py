"""Where the replies of a run came from, and which models gave them: `sources.json` in its folder.

Counts replies as sessions were handed them: a session that resumes counts its own.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from ...cache.stats import source
from ..errors import RunFolderError
from ..providers.same_model import same_model
from ..simulation.model import PREFIX
from ..system.files import replace_file

SOURCES_FILE = "sources.json"

Sources = Mapping[tuple[str, str, str], int]
"""How many replies, by (model asked, model served, origin); see `Cache.sources`."""


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


_SOURCES = TypeAdapter(list[ReplySource])


def note_sources(folder: Path, sources: Sources, address: Callable[[str], str]) -> None:
    """Add the replies of a session. address: what the run asks a model at. RunFolderError."""
    counts: Counter[tuple[str, str, str, bool]] = Counter()
    for known in read_sources(folder):
        counts[known.asked, known.served, known.origin, known.elsewhere] = known.replies
    for (asked, served, origin), replies in sources.items():
        if not asked.startswith(PREFIX):
            came = source(origin)
            here = came in (f"live {address(asked)}", f"batch {address(asked)}")
            counts[asked, served, came, not here] += replies
    if counts:
        told = [ReplySource(*key, replies) for key, replies in sorted(counts.items())]
        replace_file(folder / SOURCES_FILE, [orjson.dumps(told)], durable=False)


def read_sources(folder: Path) -> list[ReplySource]:
    """None where the run has noted none. RunFolderError."""
    try:
        return _SOURCES.validate_json((folder / SOURCES_FILE).read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValidationError) as exc:
        raise RunFolderError(f"{folder / SOURCES_FILE}: cannot be read: {exc}") from exc


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
            if each.elsewhere:
                elsewhere[each.origin] += each.replies
        for served, replies in others.most_common():
            lines.append(f"asked {model}, served {served} in {replies:,} of {total:,}")
        if elsewhere:
            named = ", ".join(f"{count:,} {origin}" for origin, count in elsewhere.most_common())
            lines.append(
                f"{model}: {elsewhere.total():,} of {total:,} replies come from elsewhere: {named}"
            )
    return lines
