"""Rows of a report on their shared questions, and their means over common resamples.

All comparisons of rows (ranks, ratios, shares of a gap) read one matrix, resamples × rows, drawn
once: they rest on the same resamples, and rows equal on every question are equal in every resample.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .arrays import Floats
from .clustered import by_cluster, codes
from .sample import Sample

CHUNK = 2**22
"""Counts of drawn clusters computed at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Measures of several rows on the questions that all of them have."""

    names: tuple[str, ...]
    questions: tuple[str, ...]
    clusters: tuple[tuple[str, str], ...]
    """Keys of the clusters, as in `Sample.clusters`."""
    values: Floats
    """Questions × rows."""
    sums: Floats
    """Clusters × rows."""
    sizes: Floats
    """Questions in each cluster."""
    ends: Floats
    """Rows × 2, the lowest and the highest possible value; NaN for a measure without ends."""

    @property
    def means(self) -> Floats:
        found: Floats = self.sums.sum(axis=0) / self.sizes.sum()
        return found


def together(samples: Mapping[str, Sample]) -> Rows:
    """Join samples by name over the questions that all share, in the order of the first.

    ValueError without samples or shared questions, or if a question has two groups.
    """
    if not samples:
        raise ValueError("rows to compare: there is none")
    first, *others = samples.values()
    shared = set(first.questions).intersection(*(other.questions for other in others))
    if not shared:
        raise ValueError(f"the rows {', '.join(samples)} share no question")
    clusters = {
        id: key for id, key in zip(first.questions, first.clusters, strict=True) if id in shared
    }
    columns = []
    for name, sample in samples.items():
        if sample.questions == first.questions and sample.groups == first.groups:
            each = zip(sample.questions, sample.values, strict=True)
            columns.append([value for id, value in each if id in shared])
            continue
        for id, key in zip(sample.questions, sample.clusters, strict=True):
            if id in shared and clusters[id] != key:
                raise ValueError(f"question {id} is in another group in row {name} than elsewhere")
        value = dict(zip(sample.questions, sample.values, strict=True))
        columns.append([value[id] for id in clusters])
    values = np.array(columns, dtype=np.float64).T
    sums, sizes = by_cluster(values, codes(list(clusters.values())))
    none = (np.nan, np.nan)
    ends = np.array([sample.ends or none for sample in samples.values()], dtype=np.float64)
    kept = tuple(dict.fromkeys(clusters.values()))
    return Rows(tuple(samples), tuple(clusters), kept, values, sums, sizes, ends)


def resampled_means(rows: Rows, *, seed: int = 0, resamples: int = 5_000) -> Floats:
    """Means of the rows over resampled clusters, resamples × rows."""
    g = len(rows.sizes)
    rng = np.random.default_rng(seed)
    columns: Floats = np.column_stack((rows.sums, rows.sizes))
    totals: Floats = np.empty((resamples, columns.shape[1]))
    step = max(1, CHUNK // g)
    share = np.full(g, 1 / g)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        totals[start:stop] = rng.multinomial(g, share, size=stop - start) @ columns
    return totals[:, :-1] / totals[:, -1:]
