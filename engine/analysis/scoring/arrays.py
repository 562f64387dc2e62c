"""The arrays that scores are computed in, and sums over clusters."""

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
"""An array of 64-bit floating point numbers."""

Flags: TypeAlias = npt.NDArray[np.bool_]
"""An array of truth values."""

Places: TypeAlias = npt.NDArray[np.int64]
"""An array of indices."""


def codes_of(keys: Sequence[Hashable]) -> Places:
    """Cluster keys as whole numbers from 0, in the order of their first judgement."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.int64)


def by_cluster(values: npt.ArrayLike, of: Places) -> tuple[Floats, Floats]:
    """Sums and sizes of the clusters, numbered from 0 without a gap. values: questions, or
    questions × measures."""
    table = np.asarray(values, dtype=np.float64)
    order = np.argsort(of, kind="stable")
    starts = np.flatnonzero(np.diff(of[order], prepend=-1))
    return np.add.reduceat(table[order], starts, axis=0), np.bincount(of).astype(np.float64)
