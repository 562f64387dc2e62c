"""Shares of a gap: ratios of means, with the interval of Fieller (1954)."""

import math
from dataclasses import replace

import numpy as np

from .estimate import Estimate, Interval
from .inference import Influences, inverted, means, together


def gap_recovered(asd: Influences, naive: Influences, most: Influences) -> Estimate | None:
    """Incentive gap recovered: (ASD - naive ASD) / (most - naive ASD), over shared questions.

    most: what a perfect judge reaches, or one who reads the passage. The interval holds every share
    r for which the mean of ASD - (1 - r) naive - r most may be 0. If the gap itself may be 0 there
    is no end to them: the ratio is not determined. None without shared questions, or without a gap.
    """
    try:
        rows = together({"row": asd, "naive": naive, "most": most})
    except ValueError:
        return None
    own, base, best = rows.values.mean(axis=1).tolist()
    if abs(best - base) < 1e-12:
        return None
    none = (math.nan, math.nan)
    (low, high), (least, greatest), (worst, top) = (s.ends or none for s in (asd, naive, most))

    # A row that shows too little for t is no surer for being mixed with another that shows more.
    ends = [each.ends for each in (asd, naive, most)]
    codes = rows.codes
    alone = means(rows.values, codes, ends)
    interval: Interval = "guarded" if any(each.guarded for each in alone) else "t"

    def test(share: float) -> Estimate:
        """Whether the row recovers this share: the mean that is then 0."""
        values = np.array((1.0, share - 1.0, -share)) @ rows.values
        naive_ends = sorted(((share - 1) * least, (share - 1) * greatest))
        best_ends = sorted((-share * worst, -share * top))
        both = low + naive_ends[0] + best_ends[0], high + naive_ends[1] + best_ends[1]
        return means([values.tolist()], codes, [both], interval=interval)[0]

    value, n, g = (own - base) / (best - base), len(rows.questions), int(codes.max()) + 1
    gap = means(
        [(rows.values[2] - rows.values[1]).tolist()],
        codes,
        [(worst - greatest, top - least)],
    )[0]
    sure = gap.interval is not None and (gap.interval[0] > 0 or gap.interval[1] < 0)
    shares = inverted(value, test) if sure else None
    found = Estimate(value, n, g, method="Fieller, CR3 t", ways=("problem",), stated=shares)
    return found if shares else replace(found, reason="the gap may be 0: not determined")
