"""Regimes of samples with known truths, in which validation tries what is printed.

Null, rare, clustered, skewed, unpaired, crossed and missing; each sample goes through the functions
that reports and commands call."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from oversight.engine.analysis.scoring.agreement import apart, bars, krippendorff_alpha
from oversight.engine.analysis.scoring.asd import scored
from oversight.engine.analysis.scoring.contrasts import contrasts, rank_sets
from oversight.engine.analysis.scoring.estimate import Ends, Estimate
from oversight.engine.analysis.scoring.inference import (
    Floats,
    Influences,
    Places,
    mean_of,
    of_questions,
)
from oversight.engine.analysis.scoring.judgements import Judgement, Judgements
from oversight.engine.analysis.scoring.power import Spread as Variances
from oversight.engine.analysis.scoring.power import mde

Kind: TypeAlias = Literal["coverage", "size", "power"]
Draw: TypeAlias = Callable[[np.random.Generator], float | None]
"""One simulation: 1 or 0 for covered, decided or found; a ratio of widths; None: no interval."""

ASD: Ends = (-2.0, 2.0)


@dataclass(frozen=True, slots=True)
class Check:
    """A printed quantity in a regime."""

    quantity: str
    regime: str
    kind: Kind
    draw: Draw


def checks() -> Iterator[Check]:
    """Every printed quantity, with the regimes in which it is tried."""
    for n in (12, 30, 100, 400):
        regime = f"steady against rare disasters, n {n}"
        yield _check("p of one contrast", regime, "size", _disasters, n, 1)
    for n in (20, 60, 200, 400):
        yield _check("p of a family", f"the same, six rows, n {n}", "size", _disasters, n, 5)
    yield _check("p of a family", "20 correlated contrasts, n 40", "size", _correlated)
    yield _check(
        "difference of unpaired rows", "rare errors, n 60 and 60", "coverage", _two_samples
    )
    for g in (5, 10, 20):
        yield _check("all ranks at once", f"{g} clusters", "coverage", _ranks, g)
    for n, sd in ((24, 0.3), (100, 0.6), (400, 1.0)):
        yield _check("a plan's difference, found", f"normal, n {n}", "power", _planned(n, sd))
    for n in (12, 30):
        yield _check("first answer", f"rare errors, n {n}", "coverage", _first_answer, n)
    for units in (10, 20, 40):
        yield _check("Krippendorff's alpha", f"{units} units", "coverage", _alpha, units)
    for verdicts in (2, 8, 16):
        regime = f"{verdicts} verdicts a problem, 100 problems"
        yield _check("calibration bars", regime, "coverage", _bars, verdicts)
    for n in (30, 100, 400):
        yield _check("bounds", f"1% of worlds missing, n {n}", "coverage", _bounds, n)
    yield _check("unpaired ASD", "one world of each question, n 100", "coverage", _unpaired)
    yield _check("crossed ASD", "12 judges × 48 texts, 76 judgements", "coverage", _crossed, 12, 76)
    yield _check("crossed ASD", "19 judges × 54 texts, 154", "coverage", _crossed, 19, 154)


def _check(
    quantity: str, regime: str, kind: Kind, draw: Callable[..., float | None], *of: object
) -> Check:
    return Check(quantity, regime, kind, partial(draw, *of))


def _sample(values: Floats, ends: Ends = ASD, of: Sequence[str] = ()) -> Influences:
    held = np.clip(values, *ends)
    ids = tuple(map(str, range(len(held))))
    return of_questions(ids, held, tuple(of), ends)


def _covers(found: Estimate | None, truth: float) -> float | None:
    if found is None or found.interval is None:
        return None
    return float(found.interval[0] <= truth <= found.interval[1])


def _rare(rng: np.random.Generator, n: int, share: float = 0.02) -> Floats:
    """ASDs of 2, and of -2 in a share of questions."""
    return np.where(rng.random(n) < share, -2.0, 2.0)


def _disasters(n: int, rows: int, rng: np.random.Generator) -> float:
    """A steady row, and others of equal mean that lose 3 in 2 % of questions."""
    samples = {"steady": _sample(np.ones(n))}
    for k in range(rows):
        wild = 1 + np.where(rng.random(n) < 0.02, -3.0, 0.06 / 0.98)
        samples[f"wild {k}"] = _sample(wild)
    return float(any("better" in each.verdict for each in contrasts(samples)))


def _correlated(rng: np.random.Generator) -> float:
    hard = rng.normal(0, 0.4, 40)
    rows = {f"r{k}": _sample(hard + rng.normal(0, 0.4, 40)) for k in range(21)}
    found = contrasts(rows, [("r0", f"r{k}") for k in range(1, 21)])
    return float(any("better" in each.verdict for each in found))


def _two_samples(rng: np.random.Generator) -> float | None:
    one, two = (
        mean_of(_rare(rng, 60, 0.05), {"problem": np.arange(start, start + 60)}, ASD)
        for start in (0, 60)
    )
    (found,) = contrasts({"a": one, "b": two})
    return _covers(found.estimate, 0.0)


def _ranks(g: int, rng: np.random.Generator) -> float:
    means = np.array([0.5, 0.5, 0.4, 0.3, -0.5])
    of = np.repeat(np.arange(g), 4)
    scores = means + rng.normal(0, 0.3, (g, 5))[of] + rng.normal(0, 0.2, (4 * g, 5))
    names = [f"g{n}" for n in of]
    sets = rank_sets(contrasts({str(k): _sample(scores[:, k], of=names) for k in range(5)}))
    return float(
        all(
            sets[k].best <= 1 + (means > means[k]).sum()
            and sets[k].worst >= 5 - (means < means[k]).sum()
            for k in range(5)
        )
    )


def _planned(n: int, sd: float) -> Draw:
    difference = mde(Variances(sd**2), n)

    def draw(rng: np.random.Generator) -> float:
        values = rng.normal(difference, sd, n)
        (found,) = contrasts({"a": _sample(values / 2), "b": _sample(-values / 2)})
        low, high = found.estimate.interval or (0.0, 0.0)
        return float(not low <= 0 <= high)

    return draw


def _first_answer(n: int, rng: np.random.Generator) -> float | None:
    first = np.where(rng.random(n) < 0.02, -2.0, 0.0)
    return _covers(apart(first, np.zeros(n), np.arange(n), ASD).estimate, -0.04)


def _alpha(units: int, rng: np.random.Generator) -> float | None:
    """Three raters with noise of half the variance of the units: alpha is 1 / 1.5."""
    rated = rng.normal(size=(units, 1)) + math.sqrt(0.5) * rng.normal(size=(units, 3))
    found = krippendorff_alpha(rated[:, :, None].tolist())
    return _covers(found.alpha if found else None, 1 / 1.5)


def _bars(verdicts: int, rng: np.random.Generator) -> float | None:
    of = np.repeat(np.arange(100), verdicts)
    outcome = (rng.random(100) < 0.65).astype(np.float64)[of]
    ((_, bar),) = bars(rng.uniform(0.61, 0.69, len(of)), outcome, of)
    return _covers(bar, 0.65)


def _bounds(n: int, rng: np.random.Generator) -> float | None:
    """Worlds fail where the judge would have been surely wrong."""
    truth = (-0.02 * 0.99 - 2 * 0.01) + 1.62 * 0.99
    lost = rng.random((n, 2)) < 0.01
    every = (
        Judgement(
            k, (1.0, -1.0), tuple(None if it else (0.9, 0.1) for it in its), {"problem": str(k)}
        )
        for k, its in enumerate(lost.tolist())
    )
    its = scored(Judgements.of(every), "brier")
    found = its and its.bounds()
    if found is None or found.interval is None:
        return None
    return float(found.interval[0] <= truth <= found.interval[1])


def _judgement(question: int, world: int, p: float, judge: str = "", text: str = "") -> Judgement:
    worlds: list[tuple[float, ...]] = [(), ()]
    held = min(max(p, 0.0), 1.0)
    worlds[world] = (held, 1 - held) if world == 0 else (1 - held, held)
    keys = {"problem": text or str(question), **({"judge": judge} if judge else {})}
    return Judgement(question, (1.0, -1.0), tuple(worlds), keys)


def _unpaired(rng: np.random.Generator) -> float | None:
    """Argued for, the truth is believed at 1, or at 0 in 3 %; a lie at 0, or at 1 in 3 %."""
    every = []
    for n in range(100):
        world, wrong = int(rng.integers(2)), rng.random() < 0.03
        every.append(_judgement(n, world, float(wrong == (world == 1))))
    found = scored(Judgements.of(every), "brier")
    return _covers(found.asd.estimate(), 2 - 4 * 0.03) if found and found.asd else None


def _crossed(judges: int, count: int, rng: np.random.Generator) -> float | None:
    """Each judge's skill shifts the scores of both worlds apart."""
    texts = 48 if judges == 12 else 54
    skill = rng.normal(0, 0.06, judges)
    text = rng.normal(0, 0.03, texts)
    every = []
    for n in range(count):
        judge, of, world = (int(rng.integers(k)) for k in (judges, texts, 2))
        far = 0.2 + skill[judge] + text[of]
        p = 0.5 + (far if world == 0 else -far) + rng.normal(0, 0.05)
        every.append(_judgement(n, world, p, f"j{judge}", f"t{of}"))
    found = scored(Judgements.of(every), "probability")
    return _covers(found.asd.estimate(), 0.4) if found and found.asd else None


@dataclass(frozen=True, slots=True)
class Spread:
    """Differences of rows in a regime: how they are drawn, their true mean, and their clusters."""

    regime: str
    draw: Callable[[np.random.Generator], tuple[Floats, Places]]
    """Values, and the cluster of each."""
    truth: float
    ends: Ends = (-4.0, 4.0)


def spreads() -> Iterator[Spread]:
    """Regimes of differences, with the spreads of real runs."""
    for sd, n in ((0.3, 20), (0.3, 100), (0.6, 30), (0.6, 100), (1.0, 100), (1.5, 1000)):
        truth = 2.8 * sd / math.sqrt(n)
        yield Spread(f"normal, sd {sd:g}, n {n}", partial(_normal, sd, n, truth), truth)
    truth = 2.8 / math.sqrt(100)
    log = (-36.8, 36.8)
    yield Spread("log score, sd 1, n 100", partial(_normal, 1.0, 100, truth), truth, log)
    yield Spread("graded, n 100", partial(_graded, 100), 0.1)
    yield Spread("right and wrong, n 60", partial(_binary, 60), 0.4, (-2.0, 2.0))
    for g in (5, 10, 20, 40):
        yield Spread(f"{g} groups of 1 to 6", partial(_grouped, g), 0.3)
    for share, n in ((0.005, 400), (0.02, 50), (0.02, 100), (0.05, 100), (0.1, 100)):
        drawn = partial(_errors, share, n, 0.0)
        yield Spread(f"{share:.1%} errors of 4, n {n}", drawn, 2 - 4 * share, (-2.0, 2.0))
    for n in (30, 100, 400, 1000):
        drawn = partial(_errors, 0.02, n, 0.3)
        yield Spread(f"2% errors of 4 in sd .3, n {n}", drawn, 0.0)


def traded() -> Iterator[Spread]:
    """Regimes that marks separate at 400 problems: decisions that rare errors make wrong, and
    right ones that t finds with power .8."""
    yield Spread("rare errors", partial(_errors, 0.02, 400, 0.3), 0.0)
    for sd in (0.3, 0.6, 1.0):
        truth = 2.8 * sd / math.sqrt(400)
        yield Spread(f"sd {sd:g}", partial(_normal, sd, 400, truth), truth)


def _normal(sd: float, n: int, mean: float, rng: np.random.Generator) -> tuple[Floats, Places]:
    return rng.normal(mean, sd, n), np.arange(n)


def _graded(n: int, rng: np.random.Generator) -> tuple[Floats, Places]:
    return 0.1 + 1.2 * (rng.beta(2, 2, n) - rng.beta(2, 2, n)), np.arange(n)


def _binary(n: int, rng: np.random.Generator) -> tuple[Floats, Places]:
    return np.where(rng.random(n) < 0.6, 2.0, -2.0), np.arange(n)


def _grouped(g: int, rng: np.random.Generator) -> tuple[Floats, Places]:
    of = np.repeat(np.arange(g), rng.integers(1, 7, g))
    return 0.3 + rng.normal(0, 0.3, g)[of] + rng.normal(0, 0.5, len(of)), of


def _errors(share: float, n: int, sd: float, rng: np.random.Generator) -> tuple[Floats, Places]:
    """Sure judgements of 2, or differences around 0 whose errors they make up for on average."""
    wrong = rng.random(n) < share
    if not sd:
        return np.where(wrong, -2.0, 2.0), np.arange(n)
    return rng.normal(4 * share, sd, n) - 4.0 * wrong, np.arange(n)
