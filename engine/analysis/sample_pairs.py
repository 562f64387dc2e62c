"""What two samples say of each other beside their difference: ranks and outliers."""

from collections.abc import Mapping

import numpy as np

from ...protocols.scores import TIE
from .scoring.arrays import codes_of
from .scoring.contrasts import RankSet, contrasts, rank_sets, shared_samples
from .scoring.estimate import Interval
from .scoring.inference import ErrorKind, Influences

MAX_DIFFERENT = 3


def comparable(first: Influences | None, second: Influences | None) -> bool:
    """Whether two rows share at least two clusters of questions."""
    if first is None or second is None:
        return False
    if first.questions == second.questions:
        return len(set(first.ways["problem"].tolist())) > 1
    both = first.on(set(second.questions)) if second.questions else first
    return both is not None and len(set(both.ways["problem"].tolist())) > 1


def ranks_of(
    samples: Mapping[str, Influences], error: ErrorKind = "cr3", interval: Interval = "t"
) -> tuple[tuple[str, RankSet], ...]:
    """Rank sets over the problems that all rows have; () for fewer than two clusters of them."""
    try:
        every = contrasts(shared_samples(samples), error=error, interval=interval)
        return tuple(rank_sets(every).items())
    except ValueError:
        return ()


def swayed(samples: Mapping[str, Influences], pair: tuple[str, str]) -> bool:
    """Whether leaving out some one cluster moves the difference by more than its standard error."""
    apart = samples[pair[0]] - samples[pair[1]]
    codes = codes_of(apart.ways["problem"].tolist())
    share = np.bincount(codes) / len(codes)
    moved = np.abs(np.bincount(codes, apart.psi) / (1 - share)).max()
    return bool(moved > (apart.estimate().error or 0.0) * (1 + 1e-9) > 0)


def most_apart(
    samples: Mapping[str, Influences], pair: tuple[str, str]
) -> tuple[tuple[str, float], ...]:
    apart = samples[pair[0]] - samples[pair[1]]
    by_size = sorted(
        zip(apart.questions, apart.values.tolist(), strict=True),
        key=lambda one: (-abs(one[1]), one[0]),
    )
    return tuple(one for one in by_size[:MAX_DIFFERENT] if abs(one[1]) > TIE)
