"""`oversight compare`: contrasts of rows and of runs, from real runs of simulated models."""

import csv
import io
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml

import oversight
from oversight.engine.analysis.compared import comparison_finding
from oversight.engine.analysis.comparison import BY_DEFAULT, compare_rows
from oversight.engine.analysis.pairs import rows_meant
from oversight.engine.analysis.pictures.kinds import compared
from oversight.engine.analysis.rows import read_rows
from oversight.engine.errors import UsageError
from oversight.engine.run.reader import RunReader
from oversight.protocols.datasets.jsonl import bundled
from tests.command_line import Command
from tests.engine.conftest import SWEEP
from tests.engine.kept_runs import Kept

GROUPED = SWEEP.replace("judges: sim/judge", "judges: {model: sim/judge, kind: [stated, logprob]}")

T_3 = 3.182446305284263
"""Quantile .975 of Student's t with 3 degrees of freedom."""

OTHER_JUDGE = SWEEP.replace("judges: sim/judge", "judges: sim/medium")


def test_a_run_does_not_differ_from_a_rerun_of_it(runs: Kept, command: Command) -> None:
    both = (runs(), runs(f"{SWEEP}# again\n"))
    output = json.loads(command("compare", *both, "--json").out)
    assert len(output["contrasts"]) == 5 and not output["notes"]
    for one in output["contrasts"]:
        assert (one["difference"]["value"], one["p"]) == (0, 1)
        assert one["flips"]["right_wrong"] == one["flips"]["wrong_right"] == 0


def test_another_judge_or_data_set_is_said_not_to_be_the_same_instrument(runs, command):
    first, second = (runs(), "sim/judge", 4), (runs(OTHER_JUDGE, "--limit", "3"), "sim/medium", 3)
    for (one, judge, n), (two, other, m) in ((first, second), (second, first)):
        text = command("compare", one, two).out
        assert f"the same instrument: judge {judge} stated in one, {other} stated in" in text
        assert f"3 problems are in both runs; {n} in the first, {m} in the second." in text


def test_pictures_and_pages_compare_two_runs_as_the_command_does(runs: Kept) -> None:
    a, b = runs(), runs(OTHER_JUDGE)
    tested = compare_rows(read_rows(a), read_rows(b)).contrasts
    with RunReader(a) as first, RunReader(b) as second:
        lines = compared(first, second, "brier").lines
    assert len(tested) == 5
    assert [(line.estimate, line.apart) for line in lines] == [
        (c.estimate, (*c.means, c.p_family)) for c in (e.contrast for e in tested)
    ]
    assert any(line.mean for line in lines)
    assert {line.judge for line in lines} == {"sim/judge stated − sim/medium stated"}


def test_a_comparison_fits_its_terminal_and_keeps_every_word(runs: Kept) -> None:
    finding = comparison_finding(compare_rows(read_rows(runs())), flips=True)
    names = {word for line in finding.parts[0].lines for word in line.contrast.first.split()}
    for width in (60, 80, 100, 200):
        text = finding.text("text", width)
        assert max(map(len, text.splitlines())) <= width
        assert names - {"·"} <= {*text.split()}, width


def test_two_words_compare_the_rows_with_the_same_agent_and_judge(runs: Kept, command: Command):
    run = runs()
    output = json.loads(command("compare", run, "--contrast", "Debate - consultancy", "--json").out)
    ends = [(one["first"][-6:], one["second"][-6:]) for one in output["contrasts"]]
    assert ends == [("strong", "strong"), ("m/weak", "m/weak")]
    rows = read_rows(run)
    assert rows_meant("debate weak", rows.sweep.rows, rows.names) == [2]
    with pytest.raises(UsageError, match=r"'debrief'; did you mean 'debate'\? choose from\n"):
        rows_meant("debrief", rows.sweep.rows, rows.names)
    run = runs(SWEEP.replace("judges: sim/judge", "judges: [sim/judge, sim/weak]"))
    text = command("compare", run, "--contrast", "naive weak - debate weak judge").out
    assert "second debate · sim/weak · sim/judge · n 4" in text and "for both" not in text


def test_groups_are_one_family(runs: Kept) -> None:
    run = runs(GROUPED)
    every = oversight.compare(run, group="mechanism")
    assert (len(every.contrasts), every.family) == (3, 3)
    assert "by mechanism" in str(every) and "pairs of rows" in str(every)
    based = oversight.compare(run, group="mechanism", baseline="naive judge")
    assert [one.contrast.second for one in based.contrasts] == ["naive judge"] * 2


def test_every_format_has_every_contrast(runs: Kept, command: Command) -> None:
    run = runs()
    for format in ("text", "markdown", "latex"):
        out = command("compare", run, "--pairs", "all", "--format", format).out
        assert out.count("undecided") + out.count("better") + out.count("equivalent") >= 10
        assert "p (Holm): corrected for 10 comparisons: " in out.replace("\\", "")
    out = command("compare", run, "--pairs", "all", "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(out)))
    some = {"first", "difference.value", "bounds.low", "flips.right_wrong"}
    assert len(rows) == 10 and some < set(rows[0])


def test_python_compares_what_the_command_line_does(runs: Kept, command: Command) -> None:
    run = runs()
    for second, family in (("naive judge", 4), ("consultancy strong", 1)):
        words = f"debate strong - {second}"
        comparison = oversight.compare(run, contrasts=[words])
        twice = oversight.compare(run, contrasts=[words, f"{second} - debate strong", words])
        assert str(twice) == str(comparison), "a contrast is one, whichever row comes first"
        # Rows against their naive judges are one family, whichever of them are asked for.
        assert (len(comparison.contrasts), comparison.family) == (1, family)
        assert str(comparison) == command("compare", run, "--contrast", words).out.rstrip("\n")
        assert ("corrected for 4 comparisons" in comparison.multiplicity) == (family == 4)
    with pytest.raises(UsageError, match="baseline and --pairs are of one run"):
        oversight.compare(run, run, pairs="all")


def _on(place: Path, first: int, count: int, group: str = "") -> str:
    """`small.yaml` on some of the bundled problems. group: of all of them but the last two."""
    lines = [
        {
            "id": problem.id,
            "question": problem.question.text,
            "group": group if n < count - 2 else "",
            "answers": [
                {"label": answer.label, "text": answer.text, "value": value}
                for answer, value in zip(problem.question.answers, problem.values, strict=True)
            ],
        }
        for n, problem in enumerate(bundled("arithmetic")[first : first + count])
    ]
    file = place / f"{first}{group}.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return json.dumps(yaml.safe_load(SWEEP) | {"problems": {"file": {"path": str(file)}}})


def test_a_group_of_problems_that_decides_by_itself_is_told(place: Path, runs: Kept) -> None:
    swayed = []
    # Ten of twelve problems share a text; each other problem has little influence.
    for group in ("", "text"):
        run = read_rows(runs(_on(place, 0, 12, group)))
        comparison = compare_rows(run, None, replace(BY_DEFAULT, pairs="all"))
        swayed.append(any(one.swayed for one in comparison.contrasts))
        assert ("result by more than its standard error" in str(comparison)) == swayed[-1]
    assert swayed == [False, True]


def test_clusters_and_errors_of_a_run_are_the_requested_ones(place: Path, runs: Kept) -> None:
    run = read_rows(runs())
    grouped = {
        name: replace(mean, ways={"problem": np.resize(["a", "b"], mean.n)})
        for name, mean in run.asd("brier").items()
    }
    run._means["brier"] = {name: (mean, True) for name, mean in grouped.items()}
    others = replace(BY_DEFAULT, ways=("question",)), replace(BY_DEFAULT, error="cr1")
    tested = [compare_rows(run, None, how).contrasts[0] for how in (BY_DEFAULT, *others)]
    mean, alone, plain = (one.contrast.estimate for one in tested)
    n = len(next(iter(grouped.values())).questions)
    assert (mean.clusters, alone.clusters, plain.clusters) == (2, n, 2)
    assert (mean.method, plain.method) == ("CR3 t", "CR1 t")
    # Of clusters of one size the two errors are one.
    assert plain.guard is None and plain.error == pytest.approx(mean.error)
    with pytest.raises(UsageError, match="--cluster judge: for runs, choose group"):
        compare_rows(run, None, replace(BY_DEFAULT, ways=("judge",)))


def test_the_sweep_file_says_with_which_intervals_a_run_is_read(runs: Kept, command: Command):
    text = SWEEP.replace("limit: 4", "limit: 12")
    run = runs(text.replace("agents:", "interval: conservative\nagents:"))

    def kinds(*words: str) -> list[str | None]:
        """Kinds of intervals of differences, or of ASDs."""
        output = json.loads(command(words[0], run, *words[1:], "--json").out)
        rows, name = ("rows", "asd") if words[0] == "report" else ("contrasts", "difference")
        return [one[name]["interval"] for one in output[rows]]

    for name in ("report", "compare"):
        assert set(kinds(name)) == {"conservative"} and "t" in kinds(name, "--interval", "t")
    rows = read_rows(run)
    for betas, interval in 2 * [((1.0,), "t"), ((1.0,), "conservative"), ((2.0,), "t")]:
        read = rows.results("brier", betas, interval)
        assert (read.betas, read.interval) == (betas, interval)
        assert {row.asd and row.asd.plain()["interval"] for row in read.rows} >= {interval}
    plot = partial(command, "export", "plot", run, "--data", "-")
    assert plot().out == plot("--interval", "conservative").out != plot("--interval", "t").out
    note = "conservative: interval asked for"
    assert all(
        note in text
        for text in (str(oversight.compare(run)), command("report", run, "--notes").out)
    )
    for words in ("report --measures", "measure worlds", "measure calibration", "measure frontier"):
        assert '"interval": "t"' not in command(*words.split(), run, "--json").out
    assert note in command("measure", "worlds", run).out
    saved = json.loads((run / "report" / "report.json").read_text())["rows"]
    assert {row["asd"]["interval"] for row in saved} == {"conservative"}
    assert command("export", "tables", run, "--format", "csv", "--no-replies").code == 0
    line = next(csv.DictReader(io.StringIO((run / "frames" / "rows.csv").read_text())))
    assert float(line["asd_low"]) == saved[0]["asd"]["low"] < saved[0]["asd"]["t_low"]
    assert "conservative" not in {kind for kind in kinds("compare", "--error", "cr1")}
