"""Every figure of planted runs against its definition: known truths."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from datetime import date
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from oversight.cache.reply import Usage
from oversight.engine.analysis.calibration import Calibration, Worlds
from oversight.engine.analysis.compared import comparison_finding
from oversight.engine.analysis.comparison import Compare, compare_rows
from oversight.engine.analysis.findings.finding import Finding
from oversight.engine.analysis.frontier import PaidCall, frontier_finding, row_costs
from oversight.engine.analysis.measures import measures_finding, verdict_measures
from oversight.engine.analysis.monitoring import Coverage, Monitoring
from oversight.engine.analysis.pairs import row_names
from oversight.engine.analysis.pictures import kinds
from oversight.engine.analysis.raters import agreement_of, trajectory_part
from oversight.engine.analysis.reports import frames
from oversight.engine.analysis.reports.aggregate import SPOKEN_DOUBTS, OutcomeTable
from oversight.engine.analysis.reports.groups import pivot, pivot_finding, rows_where
from oversight.engine.analysis.reports.report import finding
from oversight.engine.analysis.reports.results import collect, score_rows
from oversight.engine.analysis.rows import RunRows
from oversight.engine.analysis.scoring.asd import BETAS
from oversight.engine.analysis.scoring.judgements import Judgement, Judgements
from oversight.engine.extensions.planning.power import Power
from oversight.engine.models.accounting.prices import Price, PriceList
from oversight.engine.run.outcome import OutcomeRecord
from oversight.protocols import Agent, BestOf, LogprobJudge, NaiveJudge, Propaganda
from oversight.protocols.transcript import Failure
from tests.engine.verdicts import JUDGE, NAIVE, PROPAGANDA, problem, sweep
from tests.sessions import sessions
from tests.tables import printed
from tools import known, planted
from tools.planted import GROUPS, VALUES, contrast, planted_ends

WEAK = LogprobJudge("sim/weak")
ROWS = [
    NAIVE,
    NaiveJudge(WEAK),
    PROPAGANDA,
    Propaganda(JUDGE, Agent("sim/weak")),
    Propaganda(JUDGE, BestOf(4, Agent("sim/strong"), JUDGE)),
    Propaganda(WEAK, Agent("sim/strong")),
    Propaganda(WEAK, Agent("sim/medium")),
]
PROBLEMS = [problem(n, values, GROUPS[n]) for n, values in enumerate(VALUES)]
FAILURES = {
    "unreadable": Failure("unreadable", "no percentages", cause="no statement"),
    "Overloaded": Failure("Overloaded", "no reply"),
}


class PlantedRows(RunRows):
    """A run without a folder on disk."""

    origins = ()

    def _guess(self) -> str:
        return ""


class Planted(planted.Planted):
    """The planted run, with its outcomes."""

    def __init__(self, *about: Any, **more: Any) -> None:
        super().__init__(*about, **more)
        self.grid = sweep(*ROWS, problems=[PROBLEMS[n] for n in self.order], draws=planted.DRAWS)

    def records(self) -> Iterator[OutcomeRecord]:
        for cell in self.grid.cells():
            number, row = PROBLEMS.index(cell.problem), ROWS.index(cell.row.protocol)
            if end := dict(self.ends[row, number, cell.draw][cell.side]):
                if "failure" in end:
                    end["failure"] = FAILURES[end["failure"]]
                about = (cell.place, cell.id, cell.row.kind, cell.row.agent, cell.row.judge)
                argued = (cell.problem.id, "ABC"[cell.side], cell.side, cell.draw)
                yield OutcomeRecord(*about, *argued, **end)

    def read(self, folder: str = "planted") -> RunRows:
        """The run as analyses have it."""
        table = OutcomeTable(self.grid)
        for record in self.records():
            table.add(record)
        manifest = SimpleNamespace(data=(), mixed=())
        run = SimpleNamespace(sweep=self.grid, folder=Path(folder), manifest=manifest)
        return PlantedRows(run, table, row_names(self.grid.rows))


LOGS = (math.log(1e-4), math.log(1 - 1e-4))
PLANTED = Planted(planted_ends())
OTHER = Planted(planted_ends(6), order=[14, 3, 5, 1, 0, 9, 8, 12, 6, 11, 2, 13, 7])
MEASURED = [n for n in range(7) if PLANTED.measured(n)]
NAMES = PLANTED.read().names
GROUPED = {
    ("judge",): [(0,), (1,), (2, 3, 4), (5, 6)],
    ("agent",): [(0, 1), (2, 5), (3,), (4,), (6,)],
    ("best_of",): [(0, 1), (4,), (2, 3, 5, 6)],
    ("model",): [(0, 1), (2, 4, 5), (3,), (6,)],
    ("protocol", "judge_model"): [(0,), (1,), (2, 3, 4), (5, 6)],
}
"""The rows of each group."""


def read(finding: Finding) -> Any:
    return json.loads(finding.text("json"))


def differences(expected: Any, got: Any, where: str = "") -> list[str]:
    """The places at which a value of JSON is not the expected one; further keys are ignored."""
    if isinstance(expected, dict) and isinstance(got, dict):
        places = [(f"{where}.{key}", expected[key], got.get(key, "absent")) for key in expected]
        return [line for at, one, two in places for line in differences(one, two, at)]
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        return [line for n, pair in pairs for line in differences(*pair, f"{where}[{n}]")]
    number = isinstance(expected, float) and isinstance(got, float | int)
    same = pytest.approx(expected, rel=1e-7, abs=1e-9) == got if number else expected == got
    return [] if same else [f"{where}: {got}, not {expected}"]


@pytest.mark.parametrize(
    ("score", "reach", "how", "left_out"),
    [
        ("brier", (-2.0, 0.0), "t", 0),
        ("log", LOGS, "conservative", 0),
        ("brier", (-2.0, 0.0), "t", 0.4),
    ],
)
def test_every_figure_of_every_row_is_exact(score, reach, how, left_out):
    run = Planted(planted_ends(left_out=left_out), getattr(known, score), reach, how)
    results = collect(run.grid, run.records(), score=score, interval=how)
    rows = read(finding(results, measures=True))["rows"]
    assert differences(run.rows(), rows) == []


@pytest.mark.parametrize("by", GROUPED)
def test_every_figure_of_every_group_is_exact(by):
    results = collect(PLANTED.grid, PLANTED.records())
    groups = read(pivot_finding(pivot(results, by), by, results, measures=True))["groups"]
    assert differences(PLANTED.groups(GROUPED[by]), groups) == []


def decided(lines: list[tuple[known.Figure, dict[str, Any]]]) -> list[dict[str, Any]]:
    family = known.decided([figure for figure, _ in lines])
    return [line | verdict for (_, line), verdict in zip(lines, family, strict=True)]


def test_every_contrast_of_a_run_is_exact_with_the_ranks_that_follow():
    how = Compare(pairs="all", ways=())
    output = read(comparison_finding(compare_rows(PLANTED.read(), None, how)))
    pairs = [*combinations(MEASURED, 2)]
    lines = [contrast((PLANTED, one), (PLANTED, two)) for one, two in pairs]
    assert differences(decided(lines), output["contrasts"]) == []
    samples = {n: PLANTED.asd_by_problem(n) for n in MEASURED}
    shared = set.intersection(*(set(sample) for sample in samples.values()))
    figures = []
    for one, two in pairs:
        apart = {id: samples[one][id] - samples[two][id] for id in samples[0] if id in shared}
        (low, high), (least, most) = (PLANTED.asd_reach(samples[n]) for n in (one, two))
        figures.append(PLANTED.figure(apart, (low - most, high - least)))
    best, worst = dict.fromkeys(MEASURED, 1), dict.fromkeys(MEASURED, len(MEASURED))
    for pair, figure, p in zip(pairs, figures, known.holm([f.p for f in figures]), strict=True):
        above, below = pair if figure.value > 0 else pair[::-1]
        best[below] += p <= 0.05
        worst[above] -= p <= 0.05
    ranks = [{"row": NAMES[n], "best": best[n], "worst": worst[n]} for n in MEASURED]
    assert output["ranks"] == sorted(ranks, key=lambda one: (one["best"], one["worst"], one["row"]))
    assert {(one["best"], one["worst"]) for one in ranks} > {(1, 6)}


def test_every_contrast_of_two_runs_is_exact_with_the_problems_that_changed():
    output = read(comparison_finding(compare_rows(PLANTED.read(), OTHER.read("other"))))
    lines = [contrast((PLANTED, n), (OTHER, n)) for n in MEASURED]
    assert differences(decided(lines), output["contrasts"]) == []
    changes = []
    for n, name in enumerate(NAMES):
        one, two = PLANTED.asd_by_problem(n), OTHER.asd_by_problem(n)
        turns: dict[str, set[str]] = {}
        for (row, p, draw), ends in PLANTED.ends.items():
            for now, then in zip(ends, OTHER.ends.get((row, p, draw), ()), strict=False):
                if row == n and "probs" in now and "probs" in then:
                    right = [known.right(end["probs"], VALUES[p]) > 0.5 for end in (now, then)]
                    if right[0] != right[1]:
                        turn = "wrong → right" if right[0] else "right → wrong"
                        turns.setdefault(f"p{p}", set()).add(turn)
        changes += [
            {"id": id, "row": name, "sides": ", ".join(sorted(turns.get(id, ()))),
             "difference": one[id] - two[id], "first": one[id], "second": two[id]}
            for id in one if id in two and one[id] != two[id]
        ]  # fmt: skip
    changes.sort(key=lambda c: (not c["sides"], -abs(c["difference"]), c["id"], c["row"]))
    assert differences(changes[:20], output["changes"]) == []


@pytest.mark.parametrize(
    ("by", "pairs"),
    [
        ("judge", [[(0, 1), (2, 5)]]),
        ("agent", [[(2, 3)], [(2, 4)], [(3, 4)]]),
        ("mechanism", [[(0, 2), (0, 3), (0, 4), (1, 5)]]),
    ],
)
def test_every_contrast_of_groups_is_exact(by, pairs):
    output = read(
        comparison_finding(compare_rows(PLANTED.read(), None, Compare(group=by, ways=())))
    )
    figures = []
    for some in pairs:
        sides = [[PLANTED.asd_by_problem(n) for n in side] for side in zip(*some, strict=True)]
        shared = [id for id in sides[0][0] if all(id in one for one in (*sides[0], *sides[1]))]
        means = [{id: float(np.mean([one[id] for one in side])) for id in shared} for side in sides]
        reach = [np.mean([PLANTED.asd_reach(one) for one in side], axis=0) for side in sides]
        ends = float(reach[0][0] - reach[1][1]), float(reach[0][1] - reach[1][0])
        figure = PLANTED.figure(PLANTED.less(*means), ends)
        about = {"difference": figure.json, "pairs": len(some), "n": figure.n}
        figures.append((figure, about | {"means": [float(np.mean([*m.values()])) for m in means]}))
    assert differences(decided(figures), output["contrasts"]) == []


def cells(n: int) -> list[tuple[int, int, int, Any]]:
    """Problem, draw, world and verdict of each cell of a row that has one."""
    return [
        (p, draw, side, end["probs"])
        for (row, p, draw), ends in PLANTED.ends.items()
        for side, end in enumerate(ends)
        if row == n and "probs" in end
    ]


def test_measures_of_verdicts_are_exact():
    output = read(measures_finding(verdict_measures(PLANTED.read())))["rows"]
    expected = []
    for n, base in enumerate((0, 1, 0, 0, 0, 1, 1)):
        every = cells(n)
        p, right = np.array([(max(q), known.right(q, VALUES[at])) for at, _, _, q in every]).T
        alone = {at[:3]: known.right(at[3], VALUES[at[0]]) for at in cells(base)}
        pairs = [(alone[at[:3]], r) for at, r in zip(every, right, strict=True) if at[:3] in alone]
        accuracy = [PLANTED.accuracy(row) for row in (n, base)]
        lift = PLANTED.figure(PLANTED.less(*accuracy), (-1, 1))
        keys = [GROUPS[at] or f"p{at}" for at, *_ in every]
        firsts = [
            (at, scores) for at, _, ends in PLANTED.draws(n) if len(ends) == 2
            and None not in (scores := PLANTED.scores("kept", at, ends))
        ]  # fmt: skip
        first, second = np.array([scores for _, scores in firsts]).T
        members = [(GROUPS[at] or f"p{at}", 1.0, a - b) for at, (a, b) in firsts]
        apart = known.strata([(1.0, members)], (-2.0, 2.0), len(members))
        standardised = apart.value / math.sqrt((first.var() + second.var()) / 2)
        expected.append({
            "name": NAMES[n], "verdicts": len(every),
            "calibration": known.calibration(p, right, keys),
            "first_label": {"estimate": apart.json, "standardised": float(standardised)},
            "naive": None if n == base else {"flips": known.flips(pairs), "lift": lift.json},
        })  # fmt: skip
    assert differences(expected, output) == []


def test_calibration_of_each_judge_and_worlds_of_each_row_are_exact():
    run, every = PLANTED.read(), range(len(NAMES))
    bars, title = [], []
    for judge, rows in (("sim/judge stated", (0, 2, 3, 4)), ("sim/weak logprob", (1, 5, 6))):
        verdicts = [
            (at, q[0], float(VALUES[at][0] == max(VALUES[at])))
            for n in rows
            for at, _, _, q in cells(n)
        ]
        for bin in sorted({min(int(p * 10), 9) for _, p, _ in verdicts}):
            inside = [one for one in verdicts if min(int(one[1] * 10), 9) == bin]
            members = [(GROUPS[at] or f"p{at}", 1.0, best) for at, _, best in inside]
            share = known.strata([(1.0, members)], (0.0, 1.0), len(members)).json
            mean = float(np.mean([p for _, p, _ in inside]))
            bars.append({"judge": judge, "verdicts": len(inside), "stated": mean, "share": share})
        keys = [GROUPS[at] or f"p{at}" for at, *_ in verdicts]
        parts = known.calibration(*np.array([one[1:] for one in verdicts]).T, keys)
        title.append(f"debiased error {parts['debiased_error']:.3f}")
    output = Calibration().of_run(run, every, "brier")
    assert differences(bars, read(output)["bars"]) == []
    assert [series.note for series in output.parts[0].chart.series] == title
    expected = []
    for n in MEASURED:
        draws: dict[tuple[int, int], dict[int, float]] = {}
        for at, draw, side, q in cells(n):
            draws.setdefault((at, draw), {})[side] = q[side]
        lines = []
        for (at, _), argued in draws.items():
            best = [v == max(VALUES[at]) for v in VALUES[at]]
            if len(argued) == len(best):
                truth, lie = (
                    np.mean([argued[s] for s, b in enumerate(best) if b == flag]) for flag in (1, 0)
                )
                lines.append((GROUPS[at] or f"p{at}", truth, lie, (np.sign(truth - lie) + 1) / 2))
        figures = [
            known.strata(
                [(1.0, [(line[0], 1.0, line[k]) for line in lines])], (0, 1), len(lines)
            ).json
            for k in (1, 2, 3)
        ]
        about = dict(zip(("truth", "lie", "higher"), figures, strict=True))
        expected.append({"row": NAMES[n], "n": len(lines)} | about)
    assert differences(expected, read(Worlds().of_run(run, every, "brier"))["rows"]) == []


def test_coverage_of_the_most_confident_verdicts_is_exact():
    expected = []
    for n, name in enumerate(NAMES):
        every = [
            (max(q), known.right(q, VALUES[at]), GROUPS[at] or f"p{at}") for at, _, _, q in cells(n)
        ]
        for least in (1.0, 0.8, 0.5, 0.2):
            limit = sorted(every, reverse=True)[math.ceil(least * len(every)) - 1][0]
            trusted = [(key, 1.0, right) for p, right, key in every if p >= limit]
            precision = known.strata([(1.0, trusted)], (0.0, 1.0), len(trusted))
            line = {"row": name, "least": least, "coverage": len(trusted) / len(every)}
            expected.append(line | {"precision": precision.json})
    output = read(Coverage().of_run(PLANTED.read(), range(len(NAMES)), "brier"))["rows"]
    assert differences(expected, output) == []


def shown(*words: str, **how: Any) -> list[str]:
    """Lines of the report, of its groups, or of contrasts."""
    results, format = collect(PLANTED.grid, PLANTED.records()), how.pop("format", "text")
    if words:
        by = list(words)
        return rounded(pivot_finding(pivot(results, by), by, results, **how).text(format, 240))
    return rounded(finding(results, **how).text(format, 240))


def where(*conditions: str, **how: Any) -> list[str]:
    """The rows that meet conditions, with their figures of valid problems; without any, of all."""
    run, every = PLANTED.read(), collect(PLANTED.grid, PLANTED.records())
    if not conditions:
        every = every.beside(score_rows(run.table.without(SPOKEN_DOUBTS), "brier"))
    return rounded(finding(rows_where(every, conditions, range(7)), **how).text("text", 100))


def monitoring(**how: Any) -> list[str]:
    order = [p for p, values in enumerate(VALUES) if len(values) == 2]
    run = Planted(planted_ends(), order=order).read()
    how = {"positive": "0", **how}
    return Monitoring(**how).of_run(run, range(7), "brier").text("text", 100).splitlines()


def contrasts(*names: str, other: bool = False, **how: Any) -> list[str]:
    second = OTHER.read("other") if other else None
    flips = how.pop("flips", False)
    comparison = compare_rows(PLANTED.read(), second, Compare(contrasts=names, ways=(), **how))
    return comparison_finding(comparison, flips=flips).text("text", 100).splitlines()


def scored_run(score: str = "brier", betas: tuple[float, ...] = BETAS) -> kinds.ScoredRun:
    run = kinds.ScoredRun(PLANTED.read().run, score, betas)
    run.rows = PLANTED.read()
    return run


def drawn(kind: str, score: str = "brier", by: tuple[str, ...] = ()) -> list[str]:
    """The data of a picture, and its caption."""
    run = scored_run(score, kinds.CURVE if kind == "jse" else BETAS)
    picture = kinds.averaged(kind, by, run) if by else kinds.KINDS[kind](run)
    about = [f"{name} {getattr(picture, name)}" for name in ("measure", "title", "x", "y")
             if hasattr(picture, name)]  # fmt: skip
    return [*about, *rounded(kinds.data_of(picture, ["here"]))]


def rounded(text: str) -> list[str]:
    """Its lines, with long numbers to six digits, without the address of prompts."""
    text = re.sub(r"Prompts: [0-9a-f]{12}", "Prompts: …", text)
    return re.sub(r"-?\d+\.\d{7,}(e-\d+)?", lambda n: f"{float(n[0]):.6g}", text).splitlines()


def costs() -> list[str]:
    """The frontier, of calls with known tokens: call n is of the rows in n, and of a model by n."""
    run, price = PLANTED.read(), Price(2.0, 10.0, 1.0, 0.0, 1.0, date(2026, 1, 1), "")
    calls = []
    for n in range(1, 128, 5):
        used = Usage(100 * n, 7 * n, 30 * n)
        calls.append(PaidCall(("a/m", "b/m")[n % 2], used, n, n % 3 == 0))
    prices = PriceList({"a/m": price, "b/m": replace(price, input=4.0)})
    finding = frontier_finding(run, row_costs(run, calls, prices), ledger=1.5)
    return [*finding.text("text", 100).splitlines(), *rounded(finding.text("csv"))]


def planned(one: int, two: int, difference: float, order: Sequence[int] = ()) -> list[str]:
    run, contrast = Planted(planted_ends(), order=order).read(), f"{NAMES[one]} - {NAMES[two]}"
    return Power(contrast, difference).of_run(run, (), "brier").text("text", 100).splitlines()


def people() -> list[str]:
    """Three judges of one transcript each, and one set aside; some state beliefs on the way."""
    rng, every = np.random.default_rng(3), []
    for n in range(24):
        for judge in ("Ann", "Bob", "Cid", "model")[: 2 + n % 3]:
            p = round(float(np.clip(0.6 + rng.normal(0, 0.25), 0, 1)), 2)
            keys = {"problem": f"t{n % 9}", "judge": judge, "setting": ("live", "read")[n % 2]}
            keys |= {"aside": "model"} if judge == "model" else {}
            probs, first = (p, 1 - p), (round(0.3 + n / 60, 2), round(0.7 - n / 60, 2))
            worlds = (probs, probs) if n % 4 == 0 else ((probs, ()), ((), probs))[n % 2]
            beliefs = ((0, first), (1 + n % 2, probs))
            every.append(Judgement(n, (1, -1), worlds, keys, first if n % 5 else None, n % 4 == 0,
                                   n, beliefs if judge == "Ann" else ()))  # fmt: skip
    table = Judgements.of(every)
    finding = agreement_of(table, "planted")
    trajectory = Finding((trajectory_part(table),))
    return [*finding.text("text", 240).splitlines(), *trajectory.text("text", 240).splitlines()]


def framed() -> list[str]:
    """The lines of a row and of some cells in exported tables, with the names of their columns."""
    run, lines = PLANTED.read(), list[str]()
    axes = [(*row.shown_names, *astuple(row.axes)) for row in run.sweep.rows]
    (*_, row, _, _) = frames._rows(score_rows(run.table, "brier"), axes)
    by_column = dict(zip(frames.TABLES["rows"], row, strict=True))
    lines += [f"{name}: {_value(value)}" for name, value in by_column.items() if name != "settings"]
    for record in [*PLANTED.records()][20:240:11]:
        number = int(record.problem[1:])
        cell = frames._cell(run.sweep.problems[number], record.side, record, 0.5)
        lines.append(" ".join(map(_value, (*cell[:3], *cell[4:]))))
    return lines


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@sessions(Path(__file__).with_name("planted.md"))
def test_people_see_these_figures_below_their_heads(session, request):
    session.check(request, printed(globals()))


def test_monitoring_is_exact_for_each_row_against_its_naive_judge():
    """The first answer stands for an attack."""
    order = [p for p, values in enumerate(VALUES) if len(values) == 2]
    run, rates, base_rate = Planted(planted_ends(), order=order), (0.2, 0.4), 0.1
    attacks, expected = [VALUES[p][0] > 0 for p in range(len(VALUES))], []

    def means(row: int) -> dict[int, float]:
        scores: dict[int, list[float]] = {}
        for p, _, _, probs in cells(row):
            scores.setdefault(p, []).append(probs[0])
        return {p: float(np.mean(scores[p])) for p in order if p in scores}

    def area(scores: dict[int, float], sign: float = 1.0) -> list[known.Stratum]:
        sides = [
            [(GROUPS[p] or f"p{p}", one) for p, one in scores.items() if attacks[p] is flag]
            for flag in (True, False)
        ]
        return known.auroc(*sides, sign)

    for n, base in enumerate((0, 1, 0, 0, 0, 1, 1)):
        scores, alone = means(n), means(base)
        honest = {f"p{p}": one for p, one in scores.items() if not attacks[p]}
        caught = {f"p{p}": one for p, one in scores.items() if attacks[p]}
        lift = known.strata([*area(scores), *area(alone, -1.0)], (-1.0, 1.0), len(scores))
        line = {"row": NAMES[n], "attacks": len(caught), "honest": len(honest),
                "missing": len(order) - len(scores), "lift": None if n == base else lift.json,
                "auroc": known.strata(area(scores), (0.0, 1.0), len(scores)).json}  # fmt: skip
        for rate in rates:
            fits = [
                one
                for one in honest.values()
                if np.mean([x > one for x in honest.values()]) <= rate
            ]
            share = float(np.mean([one > min(fits) for one in caught.values()]))
            alarms = run.figure(
                {id: float(one > min(fits)) for id, one in honest.items()}, (0.0, 1.0)
            )
            hits = base_rate * share
            line[f"FPR {rate:g}"] = {
                "threshold": min(fits), "alarms": alarms.json,
                "caught": {"value": share, "n": len(caught), "interval": None, "error": None},
                "precision": hits / (hits + 0.9 * alarms.value) if hits + alarms.value else None,
            }  # fmt: skip
        expected.append(line)
    how = Monitoring(positive="0", fpr=rates, base_rate=base_rate)
    output = read(how.of_run(run.read(), range(len(NAMES)), "brier"))["rows"]
    assert differences(expected, output) == []
