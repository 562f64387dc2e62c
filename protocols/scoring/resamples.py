"""The rows of a report on the same questions, and their means on the same resampled questions.

Whatever compares rows (ranks, ratios, shares of a gap, meta-analysis) reads one matrix, resamples
× rows, drawn once: so that every statement rests on the same draws, and rows that agree question
by question agree resample by resample.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oversight.protocols.scoring.arrays import Floats
from oversight.protocols.scoring.clustered import by_cluster, codes
from oversight.protocols.scoring.sample import Sample

CHUNK = 2**22
"""Counts of drawn clusters made at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Measures of several rows on the questions that all of them have."""

    names: tuple[str, ...]
    questions: tuple[str, ...]
    clusters: tuple[tuple[str, str], ...]
    """What was put together, as `Sample.clusters` names it."""
    values: Floats
    """Questions × rows."""
    sums: Floats
    """Clusters × rows."""
    sizes: Floats
    """Questions in each cluster."""
    ends: Floats
    """Rows × 2, the lowest and the highest value; not a number where a measure has no ends."""

    @property
    def means(self) -> Floats:
        found: Floats = self.sums.sum(axis=0) / self.sizes.sum()
        return found


def together(samples: Mapping[str, Sample]) -> Rows:
    """Rows by name, over the questions that all share, in the order of the first.

    ValueError if there is no row, no question that all share, or a question of two groups.
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
    found: Floats = np.empty((resamples, columns.shape[1]))
    step = max(1, CHUNK // g)
    share = np.full(g, 1 / g)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        found[start:stop] = rng.multinomial(g, share, size=stop - start) @ columns
    means: Floats = found[:, :-1] / found[:, -1:]
    return means
