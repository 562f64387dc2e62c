"""`oversight measure frontier`: costs add up, and rows on it are worth theirs: known truths."""

import json
from datetime import date
from functools import partial
from itertools import permutations

import numpy as np
import pytest

from oversight.cache.reply import Usage
from oversight.engine.analysis.frontier import (
    PaidCall,
    calls_of_run,
    frontier_finding,
    frontier_points,
    row_costs,
    sampled_costs,
    spent,
)
from oversight.engine.analysis.rows import read_rows
from oversight.engine.analysis.scoring.contrasts import better_pairs, contrasts
from oversight.engine.analysis.scoring.inference import of_questions
from oversight.engine.errors import UsageError
from oversight.engine.models.accounting.prices import Price, PriceList, listed
from tests.command_line import Command
from tests.engine.kept_runs import Kept

MIXED = """\
name: sweep
problems: {bundled: {name: arithmetic, limit: 2}}
agents: {model: sim/weak, tools: [none, calculator]}
judges: [sim/judge, sim/strong]
protocols: [naive_judge, open_debate, critique, market_making]
"""


def test_without_prices_rows_cost_tokens_and_dollars_are_refused(runs: Kept, command: Command):
    run = runs()
    output = json.loads(command("measure", "frontier", run, "--json").out)
    assert (output["axis"], output["measure"]) == ("tokens", "lift")
    cheapest = min(output["frontier"], key=lambda row: row["cost"])
    assert cheapest["name"] == "naive judge" and cheapest["on_frontier"]
    assert cheapest["worth"]["value"] == 0 and cheapest["worth"]["low"] is None
    rows = read_rows(run)
    unknown = [PaidCall("compatible/lab/m", Usage(10, 10), rows=1)]
    costs = row_costs(rows, unknown, listed())
    assert costs.total.dollars is None and costs.rows[1].alone.dollars == 0
    with pytest.raises(UsageError, match="no price is known for compatible/lab/m: name a file"):
        frontier_finding(rows, costs, axis="dollars")
    for format in ("text", "markdown", "latex"):
        assert "cost by row" in command("measure", "frontier", run, "--format", format).out


def test_a_row_is_beaten_within_its_judge_alone() -> None:
    """And only by one that costs as much or less."""
    rng, ids = np.random.default_rng(0), tuple(map(str, range(60)))
    means = {"good": 1.0, "poor": 0.0, "other judge": -0.5, "dear": 1.5, "as dear": 0.5}
    rows = {
        name: of_questions(ids, tuple((mean + rng.normal(0, 0.2, 60)).tolist()), ends=(-2.0, 2.0))
        for name, mean in means.items()
    }
    worth = {name: lift.estimate() for name, lift in rows.items()}
    judges = dict.fromkeys(means, "a") | {"other judge": "b"}
    cost = {"good": 1.0, "poor": 2.0, "other judge": 3.0, "dear": 4.0, "as dear": 1.0}
    points = frontier_points(cost, worth, partial(better_pairs, rows), judges)
    pairs = list(permutations(rows, 2))
    decided = [(c.first, c.second) for c in contrasts(rows, pairs) if c.verdict == "better"]
    assert better_pairs(rows, pairs) == decided and len(decided) > 5
    assert [(one.name, one.on_frontier, one.beaten) for one in points] == [
        ("good", True, False), ("as dear", False, True), ("poor", False, True),
        ("other judge", True, False), ("dear", True, False),
    ]  # fmt: skip


def test_cost_of_rows_is_the_sum_of_their_calls() -> None:
    price = Price(2.0, 10.0, 1.0, 0.0, 1.0, date(2026, 1, 1), "")
    prices = PriceList({"a/m": price})

    def call(model: str, rows: int, *tokens: int, judging: bool = False) -> PaidCall:
        return PaidCall(model, Usage(*tokens), rows, judging)

    calls = [
        call("a/m", 0b01, 1000, 100, 400),
        call("a/m", 0b11, 500, 50, judging=True),
        call("a/m", 0b10, 200, 20, judging=True),
        call("b/m", 0b00, 9, 9),
    ]
    alone = [spent([call for call in calls if call.rows >> n & 1], prices) for n in (0, 1)]
    dollars = [price.cost(call.usage) for call in calls[:3]]
    # 600 tokens at 2, 400 read from a cache at 1 and 100 at 10, a million.
    assert dollars[0] == pytest.approx((600 * 2 + 400 * 1 + 100 * 10) / 1e6)
    assert alone[0].dollars == pytest.approx(dollars[0] + dollars[1])
    assert alone[1].dollars == pytest.approx(dollars[1] + dollars[2])
    figures = ("calls", "input_tokens", "output_tokens", "cached_tokens", "judge_tokens")
    assert [getattr(alone[0], name) for name in figures] == [2, 1500, 150, 400, 550]
    assert [getattr(alone[1], name) for name in figures] == [2, 700, 70, 0, 770]


def test_rows_without_a_naive_judge_are_worth_their_asd(runs: Kept, command: Command) -> None:
    run = runs(MIXED.replace("naive_judge", "propaganda"))
    output = json.loads(command("measure", "frontier", run, "--json").out)
    assert output["measure"] == "ASD"
    assert {point["worth"]["value"] for point in output["frontier"]} == {
        row["asd"]["value"] for row in json.loads(command("report", run, "--json").out)["rows"]
    }


def test_costs_of_a_sample_are_per_sampled_problem(runs: Kept) -> None:
    rows = read_rows(runs(MIXED.replace("limit: 2", "limit: 12")))
    sample = sampled_costs(rows)
    first = frozenset(problem.id for problem in rows.run.sweep.problems[:10])
    calls = calls_of_run(rows.run, first)
    for n, row in enumerate(sample.rows):
        own_calls = [call for call in calls if call.rows >> n & 1]
        tokens = sum(call.usage.input_tokens + call.usage.output_tokens for call in own_calls)
        assert row.problems == 10 and row.per_problem("tokens") == tokens / 10
    every = row_costs(rows, calls_of_run(rows.run), PriceList({})).rows
    assert {row.problems for row in every} == {12}
    assert "costs are of the first 10. " in frontier_finding(rows, sample).text("text", 200)
