"""`view`, `export plot` and `measure probe` on the command line."""

import csv
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any, NamedTuple

import orjson
import pytest
from msgspec import structs

from oversight import plot
from oversight.cache.call import Ask, Call, Message, Request
from oversight.cache.store import MemoryStore
from oversight.engine.analysis.findings.chart import Chart
from oversight.engine.analysis.findings.finding import Part, figure, word
from oversight.engine.analysis.pictures.kinds import ALL_KINDS, Forest, caption, data_of, pictured
from oversight.engine.analysis.pictures.painting import draw, save
from oversight.engine.analysis.reports.family import verdicts
from oversight.engine.analysis.rows import read_rows
from oversight.engine.analysis.scoring.estimate import Estimate
from oversight.engine.errors import BudgetReached, UsageError
from oversight.engine.models.accounting.ledger import sum_usage
from oversight.engine.models.accounting.prices import PriceList, listed
from oversight.engine.run.loaded_sweep import load_sweep
from oversight.engine.run.probing import BeliefProbe, Probes, read_probes, run_probes
from oversight.engine.run.reader import Place, RunReader, origins
from oversight.engine.run.settings import AskSettings
from oversight.engine.stop import StopToken
from oversight.engine.views.cli.beside import ask_beside
from oversight.engine.views.pages.answer import compare_page
from oversight.engine.views.pages.findings import cost_page, shown_part
from oversight.engine.views.pages.guard import is_loopback
from oversight.engine.views.pages.links import PageQuery, ServerLinks, page_of
from oversight.engine.views.pages.overview import causes_part, overview_page
from oversight.engine.views.pages.site import telling
from oversight.engine.views.pages.transcript_view import read
from oversight.protocols.transcript import Failure, Transcript
from tests import world
from tests.command_line import run_in, within
from tests.engine.sweep_files import sweep_file
from tests.fakes import Scripted
from tests.pages.browser import served, unpacked
from tests.run_folders import FORMS, everything, note_paid, overwrite, with_failures


def figures(*words: str | Path, cwd: Path) -> list[list[str]]:
    """The lines of a picture's data, after the head."""
    told = within("export", "plot", *words, "--data", "-", cwd=cwd)
    assert told.code == 0, told.err
    return list(csv.reader(io.StringIO(told.out)))[1:]


@pytest.fixture(scope="module")
def site(small: Path, place: Path) -> Path:
    """A bundle of all readings of the run."""
    done = within("view", small, "--write", "site", "--transcripts", "40", cwd=place)
    assert done.code == 0 and "36 transcripts" in done.err, done.err
    return place / "site"


@pytest.mark.wire
def test_a_run_without_a_naive_judge_is_a_site_too(tmp_path: Path) -> None:
    sweep = (
        "name: alone\nproblems: {bundled: {name: arithmetic, limit: 2}}\nagents: sim/strong\n"
        "judges: sim/judge\nprotocols: [propaganda]\n"
    )
    assert run_in(tmp_path, "alone.yaml", sweep).code == 0
    done = within("view", "alone.yaml", "--write", "site", cwd=tmp_path)
    assert done.code == 0 and "2 transcripts" in done.err, done.err


@pytest.mark.wire
def test_that_models_were_simulated_stands_wherever_figures_do(small: Path, tmp_path: Path) -> None:
    told = "SIMULATED models: sim/"
    for form in FORMS:
        assert told in within("report", small, *form, "--notes", cwd=tmp_path).out, form
    assert told in within("export", "plot", small, "--data", "-", cwd=tmp_path).out
    assert within("view", small, "--write", "site", cwd=tmp_path).code == 0
    assert told in (tmp_path / "site" / "index.html").read_text()
    pytest.importorskip("matplotlib")
    for ending in ("svg", "pdf", "png"):
        assert within("export", "plot", small, "-o", f"asd.{ending}", cwd=tmp_path).code == 0
        assert told.encode() in (tmp_path / f"asd.{ending}").read_bytes(), ending


@pytest.mark.wire
def test_a_bundle_replaces_a_bundle_and_nothing_else(
    site: Path, small: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    refused = within("view", small, "--write", mine, cwd=tmp_path)
    assert refused.code == 2 and "thesis.tex" in refused.err
    assert (mine / "thesis.tex").read_text() == "years of work"
    copy = Path(copytree(site, tmp_path / "site"))
    done = within("view", small, "--write", copy, "--transcripts", "5", cwd=tmp_path)
    assert done.code == 0 and "5 transcripts" in done.err, done.err
    pages = "".join(map(unpacked, copy.glob("row-*.html")))
    assert pages.count('<section class="reading"') == 5


@pytest.mark.wire
def test_equal_runs_give_equal_bundles(site: Path, small: Path, tmp_path: Path) -> None:
    within("view", small, "--write", tmp_path / "again", "--transcripts", "40", cwd=tmp_path)
    assert everything(tmp_path / "again") == {
        name.replace(str(site), str(tmp_path / "again")): bytes
        for name, bytes in everything(site).items()
    }


def test_failed_cells_come_first_are_counted_by_cause_and_read_up_to_the_fault(
    small: Path, tmp_path: Path
) -> None:
    mine = Path(copytree(small, tmp_path / small.name))
    places = {*range(0, 60, 5)}
    with_failures(mine, "unreadable", places)
    with RunReader(mine) as run:
        debated = next(n for n, row in enumerate(run.sweep.rows) if row.mechanism == "debate")
        at = run.worlds(Place(debated, 5))[0]
        cell = run.cells([at])[at]
    _, second, *_ = cell.calls
    refused = structs.replace(cell, outcome=Failure("refused", "no", call=second.address))
    overwrite(mine, [refused])
    with RunReader(mine) as run:
        taken = telling(run, 9)
        failed = [place for place in taken if not {*places, at}.isdisjoint(run.worlds(place))]
        causes = causes_part(run, read_rows(run), ServerLinks("a")).lines
        (spoken,) = read(run, Place(debated, 5)).worlds[0].turns
    assert len(taken) == 9 and len(failed) >= 3
    assert [(each.count, each.share) for each in causes] == [(12, 12 / 13), (1, 1 / 13)]
    assert spoken.turn.text == cell.calls[0].text.strip()


@pytest.mark.wire
def test_view_says_where_it_is_and_names_a_port_that_is_taken(small: Path) -> None:
    with served(small) as address:
        port = re.fullmatch(rf"http://127\.0\.0\.1:(\d+)/run/{small.name}", address)
        assert port
        again = within("view", small, "--port", port[1], "--no-open", cwd=small.parent)
    assert again.code == 2 and f"--port {port[1]}" in again.err
    with served(small, "--host", "0.0.0.0") as address:
        assert re.fullmatch(rf"http://[^/]+/run/{small.name}\?token=\S+", address)


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("[::1]", True),
     ("0.0.0.0", False), ("10.0.0.3", False), ("localhost.evil.example", False)],
)  # fmt: skip
def test_loopback_addresses_are_recognised(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.wire
def test_the_first_page_is_there_before_models_and_figures_are_loaded() -> None:
    code = (
        "import sys; import oversight.engine.views.pages.server;"
        "import oversight.engine.views.cli.commands.view;"
        "print([name for name in ('numpy', 'oversight.engine.models.router',"
        " 'oversight.engine.analysis.reports.results') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


@pytest.fixture(scope="module")
def opened(small: Path) -> Iterator[RunReader]:
    with RunReader(small) as run:
        yield run


def test_a_cell_stands_in_the_reading_that_is_found_for_it(opened: RunReader) -> None:
    for at in range(len(opened.sweep)):
        place, side = opened.where(at)
        assert opened.worlds(place)[side] == at


@pytest.mark.parametrize("kind", ["asd", "lift", "worlds", "jse", "calibration", "frontier"])
def test_every_kind_has_its_figures_and_a_figure(kind: str, opened: RunReader) -> None:
    pytest.importorskip("matplotlib")
    picture = pictured(opened, kind)
    assert draw(picture, "paper").axes[0].has_data()
    head, *rows = csv.reader(io.StringIO(data_of(picture)))
    assert len(rows) > 1 and all(len(row) == len(head) for row in rows)


def test_a_forest_has_the_figures_of_the_report(small: Path, place: Path) -> None:
    rows = figures(small, cwd=place)
    report = orjson.loads(within("report", small, "--json", cwd=place).out)["rows"]
    for row, its in zip(rows, report, strict=True):
        assert row[:4] == [its["protocol"], its["agent"], its["judge"], str(its["n"])]
        assert [float(value) for value in row[4:7]] == list(its["asd"].values())[:3]


@pytest.mark.campaign
@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_equal_runs_give_equal_pictures_with_their_fonts(
    ending: str, opened: RunReader, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    one, other = (tmp_path / f"{n}.{ending}" for n in range(2))
    words = ("export", "plot", opened.folder, "--kind", "worlds", "-o", one)
    done = within(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    picture = pictured(opened, "worlds")
    about = "; ".join([opened.manifest.identity[:12], *origins(opened.sweep, opened.folder)])
    save(draw(picture), other, about)
    assert one.with_suffix(".txt").read_text() == caption(opened, picture) + "\n"
    assert one.read_bytes() == other.read_bytes()
    if ending == "pdf":
        assert b"/FontFile2" in one.read_bytes()


def test_intervals_are_drawn_unless_a_picture_is_crowded(opened: RunReader) -> None:
    pytest.importorskip("matplotlib")
    picture = pictured(opened, "frontier")
    assert isinstance(picture, Chart)
    assert "95% CI (CR3 t" in caption(opened, picture)
    first = picture.series[0]
    every = (point for series in picture.series for point in series.points)
    uneven = tuple(replace(each, y=each.interval[0]) for each in every if each.interval)
    alone = replace(picture, series=(replace(first, points=uneven),))
    (bars,) = draw(alone, "column", "").axes[0].containers
    ends = [tuple(bar[:, 1]) for bar in bars.lines[2][-1].get_segments()]
    assert ends == [pytest.approx(each.interval) for each in uneven]
    crowded = replace(picture, series=(replace(first, points=first.points * 21),))
    assert "CI" not in caption(opened, crowded)
    forest = pictured(opened, "asd")
    assert isinstance(forest, Forest) and "95% CI (CR3 t" in caption(opened, forest)
    lifts = pictured(opened, "lift")
    assert isinstance(lifts, Forest) and not any("naive" in line.protocol for line in lifts.lines)
    assert "over problems or groups of them" in caption(opened, pictured(opened, "calibration"))
    conservative = caption(opened, pictured(opened, "asd", interval="conservative"))
    assert "95% CI (CR3 t; conservative: interval asked for) over problems" in conservative
    few = tuple(replace(lifts.lines[0], estimate=Estimate(0.5, n)) for n in (6, 12))
    assert "n = 6 to 12 problems." in caption(opened, replace(lifts, lines=few))


def test_a_plot_draws_one_column_and_nothing_for_a_line_without_it() -> None:
    class Line(NamedTuple):
        name: str
        lift: Estimate | None
        asd: Estimate

    asd, lift = Estimate(0.5, 9), Estimate(-0.2, 9)
    columns = [word("row", "name"), figure("lift", "lift"), figure("ASD", "asd")]
    part = Part("", "Rows", columns, [Line("naive judge", None, asd), Line("debate", lift, asd)])
    shown = shown_part(part, {})
    assert shown.drawn == "lift" and [line.drawn for line in shown.lines] == [None, lift]


def test_the_overview_has_naive_judges_and_the_worst_rows_that_argue(
    opened: RunReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oversight.engine.views.pages.overview.run_page", lambda *_, **told: told)
    told: Any = overview_page(opened, ServerLinks("a"), PageQuery())
    rows = read_rows(opened).results("brier").rows
    naive = {its.row.judge: its.asd.value for its in rows if its.row.naive and its.asd}
    groups = {line.cells[0].text: line.members for line in told["rows"].lines}
    drawn = [line.baseline for line in groups["debate"]]
    assert drawn == pytest.approx([naive[its.row.judge] for its in rows if its.row.naive])
    argued = [n for n, its in enumerate(rows) if not its.row.naive]
    lowest = read_rows(opened).asd_by_problem("brier")[:, argued].mean(axis=1).min()
    assert told["parts"][0].lines[0].cells[2].text == f"{lowest:+.2f}".replace("-", "−")


def test_the_whole_run_has_a_price_where_each_of_its_models_has_one(
    opened: RunReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    price = listed().need("openai/gpt-4o-mini")
    for models, known in ((opened.sweep.models, True), (["sim/judge"], False)):
        monkeypatch.setattr(RunReader, "prices", PriceList(dict.fromkeys(models, price)))
        whole = re.search(r"The whole run: [^<]*", cost_page(opened, ServerLinks("a"), PageQuery()))
        assert whole and ("at list prices" in whole[0]) is known


def test_an_answer_counts_every_contrast_and_lists_both_ends(
    opened: RunReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def page() -> tuple[str, list[float]]:
        shown = compare_page(opened, ServerLinks("a"), PageQuery(first="debate", second="sim"))
        differences = re.findall(r">([+−]?\d\.\d+) <small", shown.partition("<tbody>")[2])
        return shown, [float(each.replace("−", "-")) for each in differences]

    _, every = page()
    assert len(every) > 2
    monkeypatch.setattr("oversight.engine.analysis.comparison.MOST_CONTRASTS", 2)
    cut, listed = page()
    assert listed == [max(every), min(every)]
    assert f"of {len(every)} contrasts" in cut


def test_a_frontier_tells_its_judges_apart(opened: RunReader) -> None:
    picture = pictured(opened, "frontier")
    assert isinstance(picture, Chart)
    names = [series.name for series in picture.series]
    assert len(set(names)) == len(names)
    assert {name.partition(" · ")[2] for name in names} == {"sim/judge stated", "sim/weak logprob"}


def test_a_page_says_in_words_what_a_rare_error_could_reverse(opened: RunReader) -> None:
    pair = PageQuery(first="debate sim/strong", second="consultancy sim/strong")
    told = "With 6 problems, one rare error could reverse "
    assert f"{told}any of these signs." in compare_page(opened, ServerLinks("a"), pair)
    # No row is decided, but groups of rows are.
    assert not any(each.decided for each in verdicts(read_rows(opened).results("brier")).contrasts)
    assert told in overview_page(opened, ServerLinks("a"), PageQuery())


def test_a_picture_that_cannot_be_drawn_names_its_needs(small: Path, place: Path) -> None:
    told = within("export", "plot", small, "--kind", "trend", "--data", "-", cwd=place)
    assert told.code == 2 and "three agents" in told.err, told.err
    with pytest.raises(UsageError, match=ALL_KINDS[0]):
        plot(small, "pie")
    with pytest.raises(UsageError, match="no row"):
        plot(small, protocol="nobody")


def test_reader_show_and_report_tell_one_asd_of_four_answers(tmp_path: Path) -> None:
    answers = [{"text": f"It is {n}.", "value": 1 if n == 4 else -1} for n in (4, 5, 6, 7)]
    line = {"id": "sum", "question": "What is 2 + 2?", "answers": answers}
    (tmp_path / "four.jsonl").write_bytes(orjson.dumps(line))
    sweep = (
        "name: four\nproblems: {file: four.jsonl}\nagents: {model: sim/strong, best_of: 3}\n"
        "judges: sim/judge\nprotocols: {propaganda: }\n"
    )
    assert run_in(tmp_path, "four.yaml", sweep).code == 0
    folder = next((tmp_path / "runs").glob("four-*"))
    (row,) = orjson.loads(within("report", folder, "--json", cwd=tmp_path).out)["rows"]
    with RunReader(folder) as run:
        read_page = page_of("reading")(run, ServerLinks("four"), PageQuery())
        one = read(run, Place(0, 0))
    assert len(one.worlds) == 4 and one.asd == pytest.approx(row["asd"]["value"])
    for drafts in (each.turns[0].drafts for each in one.worlds):
        assert max(drafts, key=lambda each: each.rating or 0.0).chosen and len(drafts) == 3
    told = f"{one.asd:+.2f}"
    assert told.replace("-", "−") in read_page
    assert told in within("show", folder, "sum", cwd=tmp_path).out


def test_a_run_compared_with_itself_has_no_difference(small: Path, place: Path) -> None:
    rows = figures(small, small, "--kind", "compare", cwd=place)
    assert rows and all(float(row[4]) == 0 and float(row[9]) == 1 for row in rows)


PROBE = ("--protocol", "debate", "--limit", "2", "--store", "store")


@pytest.fixture(scope="module")
def probed(small: Path, place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the run, with the beliefs of a judge after each turn of two debates."""
    mine = Path(copytree(place, tmp_path_factory.mktemp("probed") / "place"))
    run = Path("runs", small.name)
    before = within("report", run, "--json", cwd=mine).out
    told = within("measure", "probe", run, *PROBE, "--dry-run", cwd=mine)
    assert "16 questions about 8 cells" in told.out
    first = within("measure", "probe", run, *PROBE, cwd=mine)
    assert first.code == 0 and "16 new beliefs, 16 in" in first.err, first.err
    assert within("report", run, "--json", cwd=mine).out == before, "it leaves the score alone"
    return mine / run


def test_a_probe_asks_after_each_turn_once(probed: Path) -> None:
    beliefs = read_probes(probed)
    assert len(beliefs) == 8
    for points in beliefs.values():
        assert [turns for turns, _ in points] == [0, 1]
        assert all(0 <= p <= 1 for _, p in points)
    again = within("measure", "probe", probed, *PROBE, cwd=probed.parents[1])
    assert "0 new beliefs, 16 in" in again.err


async def test_a_probe_is_asked_in_the_draw_of_its_cell(tmp_path: Path) -> None:
    cells = world.sweep(problems=1, draws=2).cells()
    probes = [BeliefProbe(cell, Transcript(cell.problem.question)) for cell in cells]
    ask = Scripted(lambda call: "A: 80%\nB: 20%")
    await run_probes(probes, ask, Probes(tmp_path), lanes=1, stop_token=StopToken(), added=None)
    assert [call.draw for call in ask.calls] == [(probe.cell.draw,) for probe in probes]


def test_the_cap_of_a_probe_counts_what_earlier_ones_have_paid(tmp_path: Path) -> None:
    sweep = "judges: openai/gpt-4o-mini\nprotocols: naive_judge\n"
    nowhere = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    loaded = load_sweep(sweep_file(sweep), nowhere)
    paid = replace(sum_usage(()), dollars=2.0)
    note_paid(tmp_path, {"openai/gpt-4o-mini": paid})
    call = Call(Request("openai/gpt-4o-mini", (Message("user", "?"),)), (0,))

    async def asked(ask: Ask, later: object) -> None:
        with pytest.raises(BudgetReached):
            await ask(call)

    ask_beside(loaded, tmp_path, MemoryStore(), asked, AskSettings(max_cost=1.0))


def test_probe_that_was_torn_off_is_made_again_from_the_store(probed: Path) -> None:
    within("measure", "probe", probed, *PROBE, cwd=probed.parents[1])
    file = probed / "events.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    again = within("measure", "probe", probed, *PROBE, cwd=probed.parents[1])
    assert "1 new belief, 16 in" in again.err
    assert sorted(file.read_bytes().splitlines()) == sorted(whole.splitlines())
