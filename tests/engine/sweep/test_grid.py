"""The grid of a sweep, counted out by hand: places, baselines, models, settings of a file."""

from dataclasses import replace

import orjson
import pytest

from oversight.engine.sweep.grid import (
    Grid,
    GridRow,
    baselines,
    read_grid,
    shared_parts,
    stored_grid,
)
from oversight.engine.sweep.sweep import Sweep, report_rows, service_tiers, tool_users
from oversight.protocols import Agent, BestOf, Debate, NaiveJudge, Redrawn, StatedJudge
from tests.engine.sweep_files import sweep
from tests.world import THREE, shipment

ROWS = report_rows(NaiveJudge(StatedJudge(f"sim/{n}")) for n in range(3))
GRID = Sweep("s", (shipment(0), THREE, shipment(1)), ROWS, draws=2)


def test_a_place_tells_problem_draw_row_and_side():
    """The order of 42 cells: problems of 2, 3 and 2 answers, 2 draws, 3 rows."""
    order = [
        (problem, draw, row, side)
        for problem, answers in ((0, 2), (1, 3), (2, 2))
        for draw in (0, 1)
        for row in (0, 1, 2)
        for side in range(answers)
    ]
    cells = list(GRID.cells())
    assert len(GRID) == 42 and len({cell.id for cell in cells}) == 42
    for place, (cell, (problem, draw, row, side)) in enumerate(zip(cells, order, strict=True)):
        assert (cell.place, cell.draw, cell.side) == (place, draw, side)
        assert cell.problem is GRID.problems[problem] and cell.row is ROWS[row]
        assert (GRID.problem_at(place), GRID.row_at(place)) == (problem, row)
    assert [GRID.span(n) for n in range(3)] == [range(12), range(12, 30), range(30, 42)]
    ended = bytes({5: 1, 29: 2}.get(place, 0) for place in range(42))  # Done, and failed.
    left_out = {cell.place for cell in cells} - {cell.place for cell in GRID.cells(ended)}
    assert left_out == {5, 29}
    ways = [replace(GRID, identities=dict(order)).identity for order in (ENDS, ENDS[::-1])]
    assert ways[0] == ways[1] != GRID.identity


ENDS = [("sim/0", "here"), ("sim/1", "there")]


def row(judge: str, words: str, common: str = "c", naive: bool = False, **settings: int) -> GridRow:
    seats = {"judge": settings} if settings else {}
    kinds = ("OwnNaive", "NaiveJudge", "Protocol") if naive else ("Debate",)
    return GridRow("", "", judge, "", seats, kinds, words=words, common=common, reads=words)


def test_a_row_has_the_baseline_of_its_judge_and_prompts():
    rows = [
        row("j", "w1", naive=True), row("j", "w2", naive=True), row("j", "w1", naive=True),
        row("j", "w2"), row("j", "w3"), row("k", "w1"), row("k", "w1", "d", naive=True),
        row("k", "w9", "d"), row("j", "w1", naive=True, n=5), row("j", "w1", n=5),
        row("j", "", n=6), row("m", "w1", naive=True), row("m", "", naive=True), row("m", "w9"),
    ]  # fmt: skip
    alone = {0: 0, 1: 1, 2: 0, 3: 1, 4: 0, 6: 6, 7: 6, 8: 8, 9: 8, 11: 11, 12: 12, 13: 12}
    assert baselines(rows) == alone
    grid = Grid("s", (), rows[:5])
    assert grid.prompts == Grid("s", (), rows[4:0:-1]).prompts != "" == Grid("s", (), rows).prompts


def test_models_have_the_roles_of_every_seat_in_order_of_first_mention():
    seats = {
        "agent": {"model": "a", "checker": {"model": "c"}}, "opponent": {"model": "o"},
        "judge": {"member": {"model": "j"}, "judges": [{"model": "a"}]},
        "critics": [{"model": "k"}],
    }  # fmt: skip
    first = replace(row("j", ""), settings=seats, parts=("debate", "2 rounds", "told"))
    second = replace(row("j", "", m=1), parts=("debate", "told", "3 rounds"))
    roles = Grid("s", (), (second, first)).roles
    assert roles == tuple(
        zip("acojk", ("agent and judge", "agent", "agent", "judge", "agent"), strict=True)
    )
    assert shared_parts([first, second]) == {"debate": ("told",)}
    unchecked = {"agent": {"model": "a"}}
    assert [replace(first, settings=s).unchecked for s in (seats, unchecked, {})] == [
        False, True, False,
    ]  # fmt: skip


def test_tools_and_service_tiers_are_found_in_every_role():
    agent = Agent("a", tools=("calculator",), effort="low")
    drafts = BestOf(2, Agent("b", tools=("calculator",)), StatedJudge("j", service_tier="flex"))
    other = Agent("a", service_tier="priority")
    protocols = [Debate(StatedJudge("j"), agent, opponent=other), Debate(StatedJudge("k"), drafts)]
    assert [*tool_users(protocols)] == [("a", "low"), ("b", "")]
    tiers = {"j": {"", "flex"}, "a": {"", "priority"}, "k": {""}, "b": {""}}
    assert service_tiers(protocols) == tiers


def test_a_stored_grid_is_read_back_and_others_are_refused():
    grid = Sweep("s", GRID.problems, ROWS, 2, 7, {"sim/0": "here"}, "c0de", {"sim/0": "a/b"})
    grid = replace(grid, interval="conservative", contrast="a - b")
    stored = stored_grid(grid)
    back = read_grid(stored, grid.problems)
    assert stored_grid(back) == stored and back.problems == grid.problems and len(back) == 42
    names = ("name", "draws", "seed", "identities", "code", "meanings", "interval", "contrast")
    assert [getattr(back, name) for name in names] == [getattr(grid, name) for name in names]
    assert [row.address for row in back.rows] == [row.address for row in grid.rows]
    assert all(
        row.naive and row.shown_names == ours.shown_names
        for row, ours in zip(back.rows, ROWS, strict=True)
    )
    parts = orjson.loads(stored)
    for change, reason in (
        ({"format": 2}, "a grid of format 2; this version reads 1"),
        ({"draws": 0}, "no grid of a sweep: 0 draws, 3 rows"),
        ({"rows": []}, "no grid of a sweep: 2 draws, 0 rows"),
        ({"seed": "x"}, "no grid of a sweep: Expected `int`"),
    ):
        with pytest.raises(ValueError, match=reason):
            read_grid(orjson.dumps(parts | change), grid.problems)
    with pytest.raises(ValueError, match="no grid of a sweep"):
        read_grid(b"[" * 100_000, grid.problems)


def test_a_sweep_has_the_settings_of_its_file():
    text = (
        "{name: n, seed: 7, draws: 3, interval: conservative, "
        "contrast: prover-estimator - naive judge, "
        "agents: {model: openai/gpt-6-luna, effort: none, best_of: 2}, "
        "judges: {kind: redrawn, member: azure/mine}, protocols: [debate, naive_judge], "
        "providers: {azure: {base_url: https://res.openai.azure.com}}, "
        "models: {azure/mine: {is: openai/gpt-4.1}}, labels: {naive judge: Alone}}"
    )
    grid = sweep(text)
    assert (grid.name, grid.seed, grid.draws, len(grid)) == ("n", 7, 3, 2 * 3 * 2 * 2)
    assert (grid.interval, grid.contrast) == ("conservative", "prover-estimator - naive judge")
    assert grid.meanings == {"azure/mine": "openai/gpt-4.1"}
    assert [one.shown for one in grid.rows] == ["debate", "Alone"]
    readers = "{judges: {kind: [stated, logprob], model: sim/judge, reads_passage: [true, false]}, "
    rows = sweep(f"{readers} protocols: naive_judge}}").rows
    assert [row.reads_passage for row in rows] == [True, False, True, False]
    assert [row.judge_lineage[0] for row in rows] == ["StatedJudge"] * 2 + ["LogprobJudge"] * 2
    assert {(row.mechanism, row.naive, row.agent) for row in rows} == {("naive judge", True, "")}
    # The name of a prompt set is none of the settings of a row.
    text = "{judges: sim/judge, protocols: naive_judge, prompts: {name: %s, judge: {role: Judge.}}}"
    assert len({sweep(text % name).rows[0].address for name in ("one", "other")}) == 1
    # A judge that draws several verdicts picks among drafts once.
    judge, picker = grid.rows[0].protocol.judge, grid.rows[0].protocol.agent.judge
    assert judge == Redrawn(picker) and picker == StatedJudge("azure/mine")
