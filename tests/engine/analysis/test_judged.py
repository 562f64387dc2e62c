"""`measure judgements`, `compare` and `plan` on judgement tables."""

import csv
import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest

from oversight.cache import Call, Reply
from oversight.engine.analysis.judged import table_spread
from oversight.engine.analysis.reports.results import collect
from oversight.engine.analysis.scoring.power import questions_needed
from oversight.engine.run.lanes import attempt
from oversight.engine.run.outcome import outcome_of
from oversight.protocols.mechanisms.baselines import NaiveJudge
from tests.command_line import Command
from tests.engine.verdicts import JUDGE, problem, sweep


def table(file: Path, lines: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def judged(setting: str, shift: float, count: int = 60, seed: int = 0) -> list[dict[str, Any]]:
    """Judgements of one world each, by ten judges of twenty texts."""
    rng = random.Random(seed)
    return [
        {
            "id": f"{setting}{n}", "values": {"A": 1, "B": -1},
            "worlds": {rng.choice("AB"): {"A": p, "B": 1 - p}}, "group": f"text {n % 20}",
            "judge": f"judge {n % 10}", "setting": setting,
        }
        for n in range(count)
        for p in [min(1.0, max(0.0, 0.5 + shift + rng.gauss(0, 0.05)))]
    ]  # fmt: skip


def test_settings_without_common_questions_are_compared(place: Path, command: Command) -> None:
    file = table(place / "some.jsonl", judged("debate", 0.4))
    text = " ".join(command("measure", "judgements", file).out.split())
    assert "some worlds were not run" in text and "JSE and EAS need all worlds" in text
    one, two = (table(place / f"{s}.jsonl", judged(s, d)) for s, d in (("x", 0.4), ("y", 0.1)))
    by = ("--cluster", "question", "--json")
    (apart,) = json.loads(command("compare", one, two, *by).out)["contrasts"]
    assert (apart["first"], apart["second"], apart["shared"]) == ("x x", "y y", 1)
    assert command("compare", one, two).out.count("better") == 1


def test_a_spreadsheet_and_parquet_are_read_as_the_same_lines(place: Path, command: Command):
    """`p_right` with a world is the verdict of a line; `--column` names other columns."""
    lines = judged("debate", 0.4, 40)
    for n, line in enumerate(lines):
        line["group"] = line["group"] if n % 2 else ""
    rows = [
        {
            "q": line["id"], "world": {"A": "right", "B": "wrong"}[side], "sure": probs["A"],
            "note": "seen", **{key: line[key] for key in ("group", "judge", "setting")},
        }
        for line in lines
        for side, probs in line["worlds"].items()
    ]  # fmt: skip
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        with (place / f"t{suffix}").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
    columns = {name: [row[name] or None for row in rows] for name in rows[0]}
    columns["first"] = [math.nan] * len(rows)  # as pandas marks an empty number
    parquet.write_table(pyarrow.table(columns), place / "t.parquet")
    expected = command("measure", "judgements", table(place / "t.jsonl", lines), "--json")
    options = ("--column", "question=q", "--column", "p_right=sure", "--json")
    for suffix in (".csv", ".tsv", ".parquet"):
        ran = command("measure", "judgements", f"t{suffix}", *options)
        assert json.loads(ran.out)["rows"] == json.loads(expected.out)["rows"], ran.err
    assert json.loads(expected.out)["rows"][0]["asd"]["clusters"] == 10, "judges; 30 texts"
    people = json.loads(command("measure", "people", "t.csv", *options).out)
    assert len(people["raters"]) == 10 and people["agreement"][0]["units"] is None
    for columns_named, message in (
        (options[2:], "t.csv:2: id: missing; it is a text or a whole number"),
        (options[:2], "t.csv:2: p_right: missing"),
        (("--column", "question=k"), "t.csv:2: --column question=k: unknown column"),
        (("--column", "question"), "write KEY=COLUMN"),
    ):
        ran = command("measure", "judgements", "t.csv", *columns_named)
        assert ran.code == 2 and message in " ".join(ran.err.split())
    (place / "near.csv").write_text("question,p_right,Judge\nq,.8,Ann\n")
    ran = command("measure", "judgements", "near.csv")
    assert "near.csv:2: Judge: unknown column; did you mean 'judge'?" in ran.err
    assert command("compare", "t.csv", *options).err.count("one setting, debate") == 1


LACKS = judged("debate", 0.4, 12)
del LACKS[3]["judge"]
ALONE = judged("debate", 0.4)


def test_single_judge_does_not_prevent_figures(place: Path, command: Command) -> None:
    file = table(place / "lacks.jsonl", LACKS)
    assert command("measure", "judgements", file, "--cluster", "group").code == 0
    same = [{**line, "judge": "one"} for line in ALONE]
    out = command("measure", "judgements", table(place / "same.jsonl", same)).out
    assert "it needs at least two judges" in " ".join(out.split())


@pytest.mark.wire
def test_rows_are_labelled_ordered_and_averaged(place: Path, command: Command) -> None:
    (place / "named.yaml").write_text(
        "problems: {bundled: {name: arithmetic, limit: 6}}\nagents: sim/strong\n"
        "judges: [sim/judge, sim/weak]\n"
        "protocols: {naive_judge: , propaganda: , debate: {rounds: [1, 2]}}\n"
        "labels: {debate simultaneous 2 rounds: In turn, sim/judge stated: Able, "
        "sim/strong: Agent Smith}\n"
    )
    assert command("run", "named.yaml").code == 0
    assert command("export", "tables", "named.yaml", "--format", "csv").code == 0
    (frames,) = place.glob("runs/*/frames")
    every_shown = {file.name: file.read_text() for file in frames.glob("rows.*")}
    kinds = ("asd", "lift", "worlds", "calibration", "jse", "frontier")
    for words in (
        ("report",),
        ("report", "--measures"),
        ("report", "--format", "csv", "--columns", "asd,lift"),
        ("report", "--json", "--columns", "asd"),
        ("report", "--table", "paper"),
        ("report", "--group", "protocol,judge"),
        ("compare", "--pairs", "all"),
        ("compare", "--json"),
        ("show", "--protocol", "in turn", "--judge", "able", "--json"),
        ("show", "--protocol", "in turn", "--search", "simulated"),
        *(("export plot", "--kind", kind, "--data", "-") for kind in kinds),
    ):
        ran = command(*words[0].split(), "named.yaml", *words[1:])
        assert ran.code == 0, ran.err
        every_shown[" ".join(words)] = ran.out
    for words, text in every_shown.items():
        assert "Able" in text, words
        assert "In turn" in text or words.endswith("calibration --data -")
        for name in ("debate simultaneous 2 rounds", "sim/judge stated", "· sim/strong"):
            # Its own settings, which a program may read, name the model.
            assert name not in text, words
    assert "Agent Smith" in command("report", "named.yaml").out
    rows = json.loads(command("report", "named.yaml", "--sort", "asd", "--json").out)["rows"]
    assert {row["protocol"] for row in rows} > {"debate, 1 round", "In turn"}
    every = json.loads(command("report", "named.yaml", "--json").out)["rows"]
    few = json.loads(command("report", "named.yaml", "--where", "judge=able", "--json").out)["rows"]
    both = json.loads(command("report", "named.yaml", "--where", "valid", "--json").out)["rows"][0]
    assert both["valid"]["n"] == both["n"] and both["valid"]["asd"] == both["asd"]
    assert few == [row for row in every if row["judge"] == "Able"] and 0 < len(few) < len(every)
    sizes = [row["asd"]["value"] for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert command("compare", "named.yaml", "--contrast", "In turn - propaganda").code == 0
    output = json.loads(command("report", "named.yaml", "--group", "mechanism", "--json").out)
    groups = {line["mechanism"]: line for line in output["groups"]}
    assert groups["debate"]["rows"] == 4 and groups["propaganda"]["rows"] == 2
    asds = [row["asd"]["value"] for row in rows if row["rounds"]]
    assert groups["debate"]["asd"]["value"] == pytest.approx(sum(asds) / 4)
    assert "unknown dimension" in command("report", "named.yaml", "--group", "colour").err
    (place / "named.yaml").write_text(
        (place / "named.yaml").read_text().replace("2 rounds: In", "3 rounds: In")
    )
    assert "did you mean 'debate simultaneous" in command("plan", "named.yaml").err


def test_a_plan_takes_the_spread_of_a_judgement_table(place: Path, command: Command) -> None:
    lines = [*judged("debate strong", 0.4), *judged("consultancy strong", 0.1, seed=1)]
    pilot = table(place / "pilot.jsonl", lines)
    words = ("--contrast", "debate strong - consultancy strong", "--mde", "0.5", "--json")
    ran = command("plan", "small.yaml", "--pilot", pilot, *words)
    assert ran.code == 0, ran.err
    power = json.loads(ran.out)["power"]
    assert power["source"] == "pilot" and 0 < power["spread"]["between"] < 16


def test_a_plan_on_a_table_takes_the_dependence_that_the_table_has(place: Path) -> None:
    """Four questions of a text that are judged alike are worth one; otherwise, four."""
    rng = random.Random(0)
    shifts, values = [rng.gauss(0.2, 0.1) for _ in range(160)], {"A": 1, "B": -1}

    def lines(alike: bool) -> list[dict[str, Any]]:
        return [
            {"id": f"q{n}", "values": values, "worlds": {"A": right, "B": {"A": 0.5, "B": 0.5}}}
            | {"group": f"text {n // 4}", "setting": f"s{setting}"}
            for setting in (0, 1)
            for n in range(160)
            for shift in [setting * shifts[n // 4 if alike else n]]
            for right in [{"A": 0.5 + shift, "B": 0.5 - shift}]
        ]

    apart, alike = (
        table_spread(table(place / f"{flag}.jsonl", lines(flag)), ("s1", "s0"), "probability")
        for flag in (False, True)
    )
    assert apart[1:] == alike[1:] == (160, 4.0)
    # Under these values the setting moves the ASD of a question by as much as it is `far`.
    assert apart[0].between == pytest.approx(statistics.variance(shifts))
    assert apart[0].design_effect < 1.5 < 3 < alike[0].design_effect < 5
    needed = [questions_needed(spread, 0.05, size=size) for spread, _, size in (apart, alike)]
    assert 2.5 < needed[1] / needed[0] < 6


def test_settings_that_never_differ_have_no_spread_and_no_design_effect(place: Path) -> None:
    same = {"values": {"A": 1, "B": -1}, "worlds": {side: {"A": 0.8, "B": 0.2} for side in "AB"}}
    lines = [
        {"id": n, "setting": setting, "judge": f"j{n % 3}", **same}
        for n in range(6)
        for setting in ("s0", "s1")
    ]
    spread, questions, _ = table_spread(table(place / "t.jsonl", lines), ("s1", "s0"), "brier")
    assert (spread.between, spread.design_effect, questions) == (0, 1, 6)


async def test_asd_is_one_number_everywhere(place: Path, command: Command) -> None:
    """Four answers, and a judge who hears nothing: 0 in Python, in a report and of a table."""
    graded = problem(0, (1, -1, -1, -1))
    naive = NaiveJudge(JUDGE)

    async def deaf(call: Call) -> Reply:
        return Reply("A: 25%\nB: 25%\nC: 25%\nD: 25%", call=call.address)

    assert await naive.agent_score_difference(graded, deaf) == pytest.approx(0)
    grid = sweep(naive, problems=[graded])
    records = [outcome_of(cell, await attempt(cell, deaf)) for cell in grid.cells()]
    (row,) = collect(grid, records).rows
    assert row.asd is not None and row.asd.value == pytest.approx(0)
    quarter = dict.fromkeys("ABCD", 0.25)
    values = dict(zip("ABCD", graded.values, strict=True))
    line = {"id": "q", "values": values, "worlds": dict.fromkeys("ABCD", quarter)}
    ran = command("measure", "judgements", table(place / "deaf.jsonl", [line]), "--json")
    assert [row["asd"]["value"] for row in json.loads(ran.out)["rows"]] == pytest.approx([0] * 3)
