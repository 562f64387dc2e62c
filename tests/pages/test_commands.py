"""`view`, `bundle`, `plot` and `probe` on the command line."""

import csv
import io
import re
import zipfile
from pathlib import Path
from shutil import copytree

import orjson
import pytest

from oversight import plot
from oversight.engine.errors import UsageError
from oversight.engine.pictures.drawing import ALL_KINDS
from oversight.engine.runs.probing import read_probes
from tests.command_line import within
from tests.pages.browser import served


@pytest.fixture
def mine(small: Path, tmp_path: Path) -> Path:
    """A run folder that the test may write into."""
    return Path(copytree(small, tmp_path / small.name))


def said(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_a_bundle_replaces_a_bundle_and_nothing_else(small: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    refused = within("bundle", small, "-o", tmp_path / "mine", cwd=small.parent.parent)
    assert refused.code == 2 and "thesis.tex" in refused.err
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"
    site = tmp_path / "site"
    for readings in ("40", "5"):
        words = ("bundle", small, "-o", site, "--readings", readings, "--zip")
        done = within(*words, cwd=small.parent.parent)
        assert done.code == 0, done.err
        assert f"{readings if readings == '5' else 36} transcripts" in done.err
    with zipfile.ZipFile(tmp_path / "site.zip") as packed:
        assert {Path(name).name for name in packed.namelist()} == {p.name for p in site.iterdir()}


def test_equal_runs_give_equal_bundles(small: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        within("bundle", small, "-o", tmp_path / name, cwd=small.parent.parent)
    names = [p.name for p in (tmp_path / "a").iterdir()]
    assert names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_what_a_bundle_takes_first_is_what_failed(hard: Path, tmp_path: Path) -> None:
    within("bundle", hard, "-o", tmp_path / "s", "--readings", "30", cwd=hard.parent.parent)
    pages = [p.read_text() for p in (tmp_path / "s").glob("row-*.html") if "calls" not in p.name]
    readings = sum(page.count('<section class="reading"') for page in pages)
    failed = sum(page.count("<b>failed: ") for page in pages)
    assert readings == 30 and failed >= 10


@pytest.mark.wire
def test_view_says_where_it_is_and_ends_when_it_is_told(small: Path) -> None:
    with served(small) as address:
        assert re.fullmatch(rf"http://127\.0\.0\.1:\d+/run/{small.name}", address)


@pytest.mark.wire
def test_a_port_that_is_taken_is_named(small: Path) -> None:
    with served(small) as address:
        port = re.search(r":(\d+)/", address)
        assert port
        again = within("view", small, "--port", port[1], "--no-open", cwd=small.parent)
    assert again.code == 2 and f"--port {port[1]}" in again.err


DRAWN = (
    "asd", "lift", "worlds", "jse", "asd-jse", "calibration", "frontier", "heat", "ratings",
    "scaling", "pressure",
)  # fmt: skip


@pytest.mark.parametrize("kind", DRAWN)
def test_every_kind_has_its_figures_and_a_figure(kind: str, small: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = plot(small, kind, store=small.parent.parent / "store")
    file = tmp_path / "a.svg"
    figure.savefig(file)
    assert file.stat().st_size > 2_000
    words = ("plot", small, "--kind", kind, "--data", "-")
    told = within(*words, cwd=small.parent.parent)
    assert told.code == 0, told.err
    head, *rows = said(told.out)
    assert len(rows) > 1 and all(len(row) == len(head) for row in rows)


def test_ratings_of_a_picture_are_those_of_scaling(small: Path) -> None:
    words = ("plot", small, "--kind", "ratings", "--protocol", "debate", "--data", "-")
    _, *rows = said(within(*words, cwd=small.parent.parent).out)
    words = ("scaling", small, "--protocol", "debate", "--json")
    told = orjson.loads(within(*words, cwd=small.parent.parent).out)
    ratings = [each["rating"] for role in ("guards", "houdinis") for each in told[role]]
    assert [float(row[4]) for row in rows] == pytest.approx([r - 1000 for r in ratings])
    assert [bool(row[1]) for row in rows] == [False, False, True]


def test_the_figures_of_a_forest_are_those_of_the_report(small: Path) -> None:
    told = within("plot", small, "--data", "-", cwd=small.parent.parent)
    report = orjson.loads(within("report", small, "--json", cwd=small.parent.parent).out)
    head, *rows = said(told.out)
    for line, row in zip(rows, report["rows"], strict=True):
        assert line[:3] == [row["protocol"], row["agent"], row["judge"]]
        its = dict(zip(head, line, strict=True))
        assert float(its["mean"]) == row["asd"]["mean"]
        assert (float(its["low"]), float(its["high"])) == (row["asd"]["low"], row["asd"]["high"])


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_equal_runs_give_equal_pictures_with_their_fonts(
    ending: str, small: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    files = [tmp_path / f"{n}.{ending}" for n in range(2)]
    for file in files:
        done = within("plot", small, "-o", file, cwd=small.parent.parent)
        assert done.code == 0, done.err
    assert files[0].read_bytes() == files[1].read_bytes()
    if ending == "pdf":
        assert b"/FontFile2" in files[0].read_bytes()


def test_what_cannot_be_drawn_says_what_it_takes(small: Path, tmp_path: Path) -> None:
    for kind, mend in (("gap", "reads_passage"), ("trend", "three agents"), ("bestof", "differ")):
        told = within("plot", small, "--kind", kind, "--data", "-", cwd=small.parent.parent)
        assert told.code == 2 and mend in told.err, told.err
    with pytest.raises(UsageError, match=ALL_KINDS[0]):
        plot(small, "pie")
    with pytest.raises(UsageError, match="no row"):
        plot(small, protocol="nobody")


def test_a_run_compared_with_itself_has_no_difference(small: Path) -> None:
    words = ("plot", small, small, "--kind", "compare", "--data", "-")
    _, *rows = said(within(*words, cwd=small.parent.parent).out)
    assert rows and all(float(row[4]) == 0 and float(row[9]) == 1 for row in rows)


def test_a_probe_asks_after_each_turn_once_and_leaves_the_score_alone(mine: Path) -> None:
    place, store = mine.parent, mine.parent / "store"
    copytree(Path(read_store(mine)).expanduser(), store)
    before = within("report", mine, "--json", cwd=place).out
    words = ("probe", mine, "--protocol", "debate", "--problems", "2", "--store", store)
    assert "16 questions about 8 cells" in within(*words, "--dry-run", cwd=place).out
    first = within(*words, cwd=place)
    assert first.code == 0 and "16 new beliefs, 16 in" in first.err, first.err
    assert "0 new beliefs, 16 in" in within(*words, cwd=place).err
    assert within("report", mine, "--json", cwd=place).out == before
    beliefs = read_probes(mine)
    assert len(beliefs) == 8
    for points in beliefs.values():
        assert [turns for turns, _ in points] == [0, 1]
        assert all(0 <= p <= 1 for _, p in points)


def test_a_probe_that_was_torn_off_is_asked_again(mine: Path) -> None:
    place, store = mine.parent, mine.parent / "store"
    copytree(Path(read_store(mine)).expanduser(), store)
    words = ("probe", mine, "--protocol", "debate", "--problems", "2", "--store", store)
    within(*words, cwd=place)
    file = mine / "probes" / "probes.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert len(read_probes(mine)) == 8
    assert "1 new belief, 16 in" in within(*words, cwd=place).err
    assert sorted(file.read_bytes().splitlines()) == sorted(whole.splitlines())


def read_store(run: Path) -> str:
    store: str = orjson.loads((run / "manifest.json").read_bytes())["store"]
    return store
