"""`limits`: one sweep over three providers, each with a limit of another kind. How near does it
come to what no program could beat?"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from oversight.engine.display.table import Table
from oversight.engine.mock import Profile
from tests.bench.clients.asked import MAX_TOKENS, MODEL, TURNS
from tests.bench.command import oversight
from tests.bench.measured import Measured, at_most
from tests.bench.options import Options
from tests.bench.server import Server
from tests.bench.sweep import write_sweep

LATENCY = 0.2
MINUTE = 60.0
LIMITS = {
    "one": {"requests": 1_800},
    "two": {"concurrency": 6},
    "three": {"input_tokens": 900_000},
}
"""Of each provider: as a sweep file sets them. The last one's model is the judge, too."""
JUDGE = "three"


@dataclass(frozen=True, slots=True)
class Share:
    """What one provider was asked."""

    provider: str
    calls: int
    tokens: int
    """Input tokens."""

    def bound(self) -> float:
        """Seconds that it takes at the least."""
        ((kind, limit),) = LIMITS[self.provider].items()
        match kind:
            case "requests":
                return self.calls / limit * MINUTE
            case "concurrency":
                return self.calls * LATENCY / limit
        return self.tokens / limit * MINUTE


def measure(options: Options) -> Measured:
    questions = options.sized(100, 2)
    # Once only: what takes half a minute of waiting varies little.
    wall, shares = _run(questions)
    chain = (TURNS + 1) * LATENCY
    least = max(chain, *(share.bound() for share in shares))
    body = (
        *(
            (
                f"provider {share.provider}: {_told(share)}",
                f"{share.calls:,}",
                f"{share.bound():.1f}",
            )
            for share in shares
        ),
        (f"a chain of {TURNS + 1} calls of {LATENCY} s", "", f"{chain:.1f}"),
        ("no program is faster than", "", f"{least:.1f}"),
        ("`oversight run`, from its start to its end", "", f"{wall:.1f}"),
    )
    cells = questions * 2 * len(LIMITS)
    table = Table(f"limits: {cells:,} debates over three providers", ("", "calls", "s"), body, 1)
    return Measured("limits", table, (at_most("wall", wall / least, 1.10, " × the lower bound"),))


def _told(share: Share) -> str:
    ((kind, limit),) = LIMITS[share.provider].items()
    unit = "calls at once" if kind == "concurrency" else f"{kind.replace('_', ' ')} a minute"
    return f"{limit:,} {unit}"


def _run(questions: int) -> tuple[float, Sequence[Share]]:
    """Seconds of the whole command, and what each provider was asked."""
    models = {name: f"compatible/{name}/{MODEL}" for name in LIMITS}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-")))
        servers = {name: stack.enter_context(Server(Profile(latency=LATENCY))) for name in LIMITS}
        sweep = write_sweep(
            folder,
            range(questions),
            agents={"model": [*models.values()], "max_tokens": MAX_TOKENS},
            judges=[{"kind": "stated", "model": models[JUDGE]}],
            protocols={"debate": {"simultaneous": False, "rounds": TURNS // 2}},
            providers={
                f"compatible/{name}": {"base_url": server.url} for name, server in servers.items()
            },
            models={models[name]: limits for name, limits in LIMITS.items()},
        )
        url = servers[JUDGE].url
        wall = oversight("run", sweep, "--run-folder", "run", folder=folder, url=url).wall
        counts = {name: server.counts() for name, server in servers.items()}
    return wall, [
        Share(name, seen["requests"], seen["input_tokens"]) for name, seen in counts.items()
    ]
