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
    data = within("export", "plot", *words, "--data", "-", cwd=cwd)
    assert data.code == 0, data.err
    return list(csv.reader(io.StringIO(data.out)))[1:]


@pytest.fixture(scope="module")
def site(small: Path, place: Path) -> Path:
    """A bundle of all readings of the run."""
    written = within("view", small, "--write", "site", "--transcripts", "40", cwd=place)
    assert written.code == 0 and "36 transcripts" in written.err, written.err
    return place / "site"


@pytest.mark.wire
def test_a_run_without_a_naive_judge_is_a_site_too(tmp_path: Path) -> None:
    sweep = (
        "name: alone\nproblems: {bundled: {name: arithmetic, limit: 2}}\nagents: sim/strong\n"
        "judges: sim/judge\nprotocols: [propaganda]\n"
    )
    assert run_in(tmp_path, "alone.yaml", sweep).code == 0
    written = within("view", "alone.yaml", "--write", "site", cwd=tmp_path)
    assert written.code == 0 and "2 transcripts" in written.err, written.err


@pytest.mark.wire
def test_outputs_with_figures_say_that_models_are_simulated(small: Path, tmp_path: Path) -> None:
    warning = "SIMULATED models: sim/"
    for form in FORMS:
        assert warning in within("report", small, *form, "--notes", cwd=tmp_path).out, form
    assert warning in within("export", "plot", small, "--data", "-", cwd=tmp_path).out
    assert within("view", small, "--write", "site", cwd=tmp_path).code == 0
    assert warning in (tmp_path / "site" / "index.html").read_text()
    pytest.importorskip("matplotlib")
    for ending in ("svg", "pdf", "png"):
        assert within("export", "plot", small, "-o", f"asd.{ending}", cwd=tmp_path).code == 0
        assert warning.encode() in (tmp_path / f"asd.{ending}").read_bytes(), ending


@pytest.mark.wire
def test_site_replaces_only_an_earlier_site(site: Path, small: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    refused = within("view", small, "--write", mine, cwd=tmp_path)
    assert refused.code == 2 and "thesis.tex" in refused.err
    assert (mine / "thesis.tex").read_text() == "years of work"
    copy = Path(copytree(site, tmp_path / "site"))
    written = within("view", small, "--write", copy, "--transcripts", "5", cwd=tmp_path)
    assert written.code == 0 and "5 transcripts" in written.err, written.err
    assert "".join(map(unpacked, copy.glob("row-*.html"))).count('<section class="reading"') == 5


@pytest.mark.wire
def test_equal_runs_give_equal_sites(site: Path, small: Path, tmp_path: Path) -> None:
    within("view", small, "--write", tmp_path / "again", "--transcripts", "40", cwd=tmp_path)
    assert everything(tmp_path / "again") == {
        name.replace(str(site), str(tmp_path / "again")): bytes
        for name, bytes in everything(site).items()
    }


def test_failed_cells_are_listed_first_and_counted_by_cause(small: Path, tmp_path: Path) -> None:
    mine, places = Path(copytree(small, tmp_path / small.name)), {*range(0, 60, 5)}
    with_failures(mine, "unreadable", places)
    with RunReader(mine) as run:
        debated = next(n for n, row in enumerate(run.sweep.rows) if row.mechanism == "debate")
        at = run.worlds(Place(debated, 5))[0]
        cell = run.cells([at])[at]
    _, second, *_ = cell.calls
    overwrite(mine, [structs.replace(cell, outcome=Failure("refused", "no", call=second.address))])
    with RunReader(mine) as run:
        chosen = telling(run, 9)
        failed = [place for place in chosen if not {*places, at}.isdisjoint(run.worlds(place))]
        causes = causes_part(run, read_rows(run), ServerLinks("a")).lines
        (spoken,) = read(run, Place(debated, 5)).worlds[0].turns
    assert len(chosen) == 9 and len(failed) >= 3 and [cause.count for cause in causes] == [12, 1]
    assert spoken.turn.text == cell.calls[0].text.strip()


@pytest.mark.wire
def test_view_prints_its_address_and_names_a_port_in_use(small: Path) -> None:
    with served(small) as address:
        port = re.fullmatch(rf"http://127\.0\.0\.1:(\d+)/run/{small.name}", address)
        assert port
        again = within("view", small, "--port", port[1], "--no-open", cwd=small.parent)
    assert again.code == 2 and f"--port {port[1]}" in again.err
    with served(small, "--host", "0.0.0.0") as address:
        assert re.fullmatch(rf"http://[^/]+/run/{small.name}\?token=\S+", address)


@pytest.mark.wire
def test_server_starts_without_importing_models_and_figures() -> None:
    code = (
        "import sys; import oversight.engine.views.pages.server;"
        "import oversight.engine.views.cli.commands.view;"
        "print([name for name in ('numpy', 'oversight.engine.models.router',"
        " 'oversight.engine.analysis.reports.results') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.fixture(scope="module")
def opened(small: Path) -> Iterator[RunReader]:
    with RunReader(small) as run:
        yield run


def test_cell_is_in_the_transcript_found_for_it(opened: RunReader) -> None:
    for at in range(len(opened.sweep)):
        place, side = opened.where(at)
        assert opened.worlds(place)[side] == at


@pytest.mark.parametrize(
    "kind", ["asd", "lift", "worlds", "jse", "calibration", "frontier", "coverage"]
)
def test_every_kind_of_picture_has_data_and_is_drawn(kind: str, opened: RunReader) -> None:
    pytest.importorskip("matplotlib")
    picture = pictured(opened, kind)
    assert draw(picture, "paper").axes[0].has_data()
    head, *rows = csv.reader(io.StringIO(data_of(picture)))
    assert len(rows) > 1 and all(len(row) == len(head) for row in rows)


def test_forest_has_the_figures_of_the_report(small: Path, place: Path) -> None:
    rows = figures(small, cwd=place)
    report = orjson.loads(within("report", small, "--json", cwd=place).out)["rows"]
    for row, result in zip(rows, report, strict=True):
        assert row[:4] == [result["protocol"], result["agent"], result["judge"], str(result["n"])]
        assert [float(value) for value in row[4:7]] == list(result["asd"].values())[:3]


@pytest.mark.campaign
@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_equal_runs_give_equal_pictures_with_their_fonts(ending, opened, tmp_path):
    pytest.importorskip("matplotlib")
    one, other = (tmp_path / f"{n}.{ending}" for n in range(2))
    words = ("export", "plot", opened.folder, "--kind", "worlds", "-o", one)
    plotted = within(*words, cwd=tmp_path)
    assert plotted.code == 0, plotted.err
    picture = pictured(opened, "worlds")
    about = "; ".join([opened.manifest.identity[:12], *origins(opened.sweep, opened.folder)])
    save(draw(picture), other, about)
    assert one.with_suffix(".txt").read_text() == caption(opened, picture) + "\n"
    assert one.read_bytes() == other.read_bytes()
    if ending == "pdf":
        assert b"/FontFile2" in one.read_bytes()


def test_intervals_are_drawn_unless_the_picture_is_crowded(opened: RunReader) -> None:
    pytest.importorskip("matplotlib")
    picture = pictured(opened, "frontier")
    assert isinstance(picture, Chart) and "95% CI (CR3 t" in caption(opened, picture)
    first = picture.series[0]
    every = (point for series in picture.series for point in series.points)
    uneven = tuple(replace(dot, y=dot.interval[0]) for dot in every if dot.interval)
    alone = replace(picture, series=(replace(first, points=uneven),))
    (bars,) = draw(alone, "column", "").axes[0].containers
    ends = [tuple(bar[:, 1]) for bar in bars.lines[2][-1].get_segments()]
    assert ends == [pytest.approx(dot.interval) for dot in uneven]
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


def test_plot_draws_one_column_and_skips_lines_without_it() -> None:
    class Line(NamedTuple):
        name: str
        lift: Estimate | None
        asd: Estimate

    asd, lift = Estimate(0.5, 9), Estimate(-0.2, 9)
    columns = [word("row", "name"), figure("lift", "lift"), figure("ASD", "asd")]
    part = Part("", "Rows", columns, [Line("naive judge", None, asd), Line("debate", lift, asd)])
    table = shown_part(part, {})
    assert table.drawn == "lift" and [line.drawn for line in table.lines] == [None, lift]


def test_overview_has_naive_judges_and_the_worst_arguing_rows(opened, monkeypatch):
    monkeypatch.setattr("oversight.engine.views.pages.overview.run_page", lambda *_, **page: page)
    values: Any = overview_page(opened, ServerLinks("a"), PageQuery())
    rows = read_rows(opened).results("brier").rows
    naive = {row.row.judge: row.asd.value for row in rows if row.row.naive and row.asd}
    groups = {line.cells[0].text: line.members for line in values["rows"].lines}
    drawn = [line.baseline for line in groups["debate"]]
    assert drawn == pytest.approx([naive[row.row.judge] for row in rows if row.row.naive])
    argued = [n for n, row in enumerate(rows) if not row.row.naive]
    lowest = read_rows(opened).asd_by_problem("brier")[:, argued].mean(axis=1).min()
    assert values["parts"][0].lines[0].cells[2].text == f"{lowest:+.2f}".replace("-", "−")


def test_run_has_a_price_only_if_all_its_models_have_one(opened, monkeypatch):
    price = listed().need("openai/gpt-4o-mini")
    for models, priced in ((opened.sweep.models, True), (["sim/judge"], False)):
        monkeypatch.setattr(RunReader, "prices", PriceList(dict.fromkeys(models, price)))
        match = re.search(r"The whole run: [^<]*", cost_page(opened, ServerLinks("a"), PageQuery()))
        assert match and ("at list prices" in match[0]) is priced


def test_answer_counts_all_contrasts_and_lists_both_ends(opened, monkeypatch):
    def page() -> tuple[str, list[float]]:
        html = compare_page(opened, ServerLinks("a"), PageQuery(first="debate", second="sim"))
        differences = re.findall(r">([+−]?\d\.\d+) <small", html.partition("<tbody>")[2])
        return html, [float(text.replace("−", "-")) for text in differences]

    _, every = page()
    assert len(every) > 2
    monkeypatch.setattr("oversight.engine.analysis.compared.MOST_CONTRASTS", 2)
    cut, listed = page()
    assert listed == [max(every), min(every)] and f"of {len(every)} contrasts" in cut


def test_a_frontier_tells_its_judges_apart(opened: RunReader) -> None:
    picture = pictured(opened, "frontier")
    assert isinstance(picture, Chart)
    names = [series.name for series in picture.series]
    assert len(set(names)) == len(names)
    assert {name.partition(" · ")[2] for name in names} == {"sim/judge stated", "sim/weak logprob"}


def test_page_names_results_that_one_error_could_reverse(opened: RunReader) -> None:
    pair = PageQuery(first="debate sim/strong", second="consultancy sim/strong")
    warning = "With 6 problems, one rare error could reverse "
    assert f"{warning}any of these signs." in compare_page(opened, ServerLinks("a"), pair)
    # No row is decided, but groups of rows are.
    assert not any(c.decided for c in verdicts(read_rows(opened).results("brier")).contrasts)
    assert warning in overview_page(opened, ServerLinks("a"), PageQuery())


def test_unsuitable_picture_is_refused_with_its_needs(small: Path, place: Path) -> None:
    refused = within("export", "plot", small, "--kind", "trend", "--data", "-", cwd=place)
    assert refused.code == 2 and "three agents" in refused.err, refused.err
    with pytest.raises(UsageError, match=ALL_KINDS[0]):
        plot(small, "pie")
    with pytest.raises(UsageError, match="no row"):
        plot(small, protocol="nobody")


def test_page_show_and_report_agree_on_the_asd_of_four_answers(tmp_path: Path) -> None:
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
    for drafts in (w.turns[0].drafts for w in one.worlds):
        assert max(drafts, key=lambda draft: draft.rating or 0.0).chosen and len(drafts) == 3
    asd = f"{one.asd:+.2f}"
    assert asd.replace("-", "−") in read_page
    assert asd in within("show", folder, "sum", cwd=tmp_path).out


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
    planned = within("measure", "probe", run, *PROBE, "--dry-run", cwd=mine)
    assert "16 questions about 8 cells" in planned.out
    first = within("measure", "probe", run, *PROBE, cwd=mine)
    assert first.code == 0 and "16 new beliefs, 16 in" in first.err, first.err
    assert within("report", run, "--json", cwd=mine).out == before, "it leaves the score alone"
    return mine / run


def test_probe_asks_once_after_each_turn(probed: Path) -> None:
    beliefs = read_probes(probed)
    assert len(beliefs) == 8
    for points in beliefs.values():
        assert [turns for turns, _ in points] == [0, 1] and all(0 <= p <= 1 for _, p in points)
    again = within("measure", "probe", probed, *PROBE, cwd=probed.parents[1])
    assert "0 new beliefs, 16 in" in again.err


async def test_probe_uses_the_draw_of_its_cell(tmp_path: Path) -> None:
    cells = world.sweep(problems=1, draws=2).cells()
    probes = [BeliefProbe(cell, Transcript(cell.problem.question)) for cell in cells]
    ask = Scripted(lambda call: "A: 80%\nB: 20%")
    await run_probes(probes, ask, Probes(tmp_path), lanes=1, stop_token=StopToken(), added=None)
    assert [call.draw for call in ask.calls] == [(probe.cell.draw,) for probe in probes]


def test_cost_limit_of_a_probe_counts_earlier_probes(tmp_path: Path) -> None:
    sweep = "judges: openai/gpt-4o-mini\nprotocols: naive_judge\n"
    nowhere = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    loaded = load_sweep(sweep_file(sweep), nowhere)
    note_paid(tmp_path, {"openai/gpt-4o-mini": replace(sum_usage(()), dollars=2.0)})
    call = Call(Request("openai/gpt-4o-mini", (Message("user", "?"),)), (0,))

    async def asked(ask: Ask, later: object) -> None:
        with pytest.raises(BudgetReached):
            await ask(call)

    ask_beside(loaded, tmp_path, MemoryStore(), asked, AskSettings(max_cost=1.0))


def test_truncated_probe_file_is_restored_from_the_store(probed: Path) -> None:
    within("measure", "probe", probed, *PROBE, cwd=probed.parents[1])
    file = probed / "events.jsonl"
    complete = file.read_bytes()
    file.write_bytes(complete[:-20])
    again = within("measure", "probe", probed, *PROBE, cwd=probed.parents[1])
    assert "1 new belief, 16 in" in again.err
    assert sorted(file.read_bytes().splitlines()) == sorted(complete.splitlines())
