"""The page of one debate: columns, beliefs, rendered text and notes."""

from collections.abc import Iterator
from json import dumps
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from oversight.engine.run.reader import Place, RunReader
from oversight.engine.views.pages.transcript_view import probe_advice, read
from tests.command_line import oversight
from tests.pages.browser import asked_by, faults_in, served, unpacked, violations
from tests.pages.conftest import ran

pytestmark = pytest.mark.browser
ANSWERS = ("the cook had mutinied", "the captain had a fever", "a signal was misread")
TRUTH = "the rudder chain had frozen"
QUESTION = "Why did the second boat turn back?"
FOUR = """\
name: four
problems: {file: {path: four.jsonl}}
agents: sim/strong
judges: sim/judge
protocols: {naive_judge: , debate: {rounds: 2}, consultancy: {turns: 2}}
"""
MARKED = """Is **this** right? <script>alert(1)</script> [a](javascript:alert(2))

- $\\frac{a}{b}$ and \\(x<y\\)

$$\\sum_{i=1}^n i^2$$

```js
alert(3)
```"""
"""Markdown, formulas, and text that tries to run."""
DEBATE, CONSULTANCY = "row/1/problem", "row/2/problem"


@pytest.fixture(scope="session")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with four answers. Debates and consultancies on its first problem are probed."""
    place = tmp_path_factory.mktemp("four")
    answers = [{"text": text, "value": -1.0} for text in ANSWERS] + [{"text": TRUTH, "value": 1.0}]
    texts = [QUESTION, QUESTION + " Tell it in *detail*." * 100, MARKED]
    lines = [{"id": f"q{n}", "question": text, "answers": answers} for n, text in enumerate(texts)]
    (place / "four.jsonl").write_text("\n".join(map(dumps, lines)))
    folder = ran(FOUR, place)
    probed = oversight("measure", "probe", folder, "--limit", "1", cwd=place)
    assert probed.code == 0, probed.err
    return folder


@pytest.fixture(scope="module")
def run(four: Path) -> Iterator[str]:
    with served(four.parent) as address:
        yield f"{address}run/{four.name}/"


def test_a_debate_of_four_answers_is_one_column(page: Any, run: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{run}{DEBATE}/0")
    assert page.locator("article").count() == 9, "eight speeches and one verdict"
    assert page.evaluate("document.documentElement.scrollHeight") <= 3_000
    assert (
        page.locator(".single > .turn").evaluate_all(
            "all => new Set(all.map(each => each.getBoundingClientRect().left)).size"
        )
        == 1
    )
    assert page.locator(".cards .true").count() == 2 and page.locator(".cards").count() == 1
    # Anchors of every world lead to the one article.
    page.goto(f"{run}{DEBATE}/0#r1-p0-d0-C3")
    assert page.locator("article:has(:target)").get_attribute("id") == "r1-p0-d0-A3"
    page.get_by_role("link", name="as separate worlds").click()
    assert page.locator(".worlds article").count() == 36
    page.get_by_role("link", name="in one column").click()
    assert page.locator("article").count() == 9
    page.goto(f"{run}{CONSULTANCY}/0")
    assert page.locator(".worlds").count() == 1 and page.locator(".single").count() == 0


def test_key_focuses_the_turn_that_moved_the_judge_most(page: Any, run: str, four: Path) -> None:
    page.goto(f"{run}{DEBATE}/0")
    bars = page.locator(".belief")
    assert bars.count() == 9 and page.locator(".moved").count() == 1
    changes = [float(text.replace("−", "-")) for text in bars.locator("b").all_inner_texts()]
    assert len(changes) == 8
    page.keyboard.press("b")
    largest = 1 + max(range(8), key=lambda n: abs(changes[n]))
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith(f"Turn {largest}, ")
    assert "in the order in which the judge reads them" in page.locator("main").inner_text()
    page.goto(f"{run}{CONSULTANCY}/0")
    assert page.locator(".worlds .common").count() == 1, "the question of the client"
    assert page.locator(".worlds .belief").count() == 5
    with RunReader(four) as reader:
        advice = probe_advice(reader, read(reader, Place(1, 1)))
    page.goto(f"{run}{DEBATE}/1")
    assert advice and advice[1] == "about 16 calls, simulated"
    assert page.locator("[data-copy^=oversight]").get_attribute("data-copy") == advice[0]
    assert not page.locator(".belief").count()


def test_narrow_page_keeps_the_answers_in_sight(page: Any, run: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{run}{DEBATE}/0")
    assert violations(page) == [] and page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("article").nth(6).scroll_into_view_if_needed()
    strip = page.locator(".brief")
    assert strip.bounding_box()["y"] < 100 and strip.inner_text().count(".") == 4
    assert "●" in strip.inner_text()


def test_long_question_is_folded_and_the_transcript_copied(page: Any, run: str) -> None:
    faults, addresses = faults_in(page), asked_by(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{run}{DEBATE}/1")
    assert page.locator(".question").bounding_box()["height"] < 200
    page.locator(".question summary").click()
    assert page.locator(".question p").is_visible()
    page.get_by_role("button", name="copy as Markdown").click()
    page.get_by_role("button", name="copied").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    speeches = page.locator("article.turn .text").all_text_contents()
    assert len(speeches) == 9 and all(speech in text for speech in speeches)
    assert text.startswith("# q1 ") and text.count("\n## ") == 9 and TRUTH in text
    assert faults == [] and all(url.startswith(run.partition("/run")[0]) for url in addresses[1:])


def test_markdown_and_formulas_are_rendered_and_a_key_shows_raw_text(page: Any, run: str) -> None:
    faults, alerts = faults_in(page), []
    page.on("dialog", lambda dialog: alerts.append(dialog.message) or dialog.dismiss())
    page.goto(f"{run}{DEBATE}/2")
    text, question = page.locator(".question .text"), page.locator(".question .rendered")
    assert question.is_visible() and not text.is_visible()
    assert question.locator("math").count() == 3 and question.locator("li").count() == 1
    assert page.locator("main :is(script, a[href^=javascript])").count() == 0
    assert violations(page) == []
    page.keyboard.press("v")
    assert text.is_visible() and not question.is_visible() and text.text_content() == MARKED
    page.reload()
    assert text.is_visible(), "the browser remembers the choice"
    page.keyboard.press("v")
    page.keyboard.press("d")
    assert text.is_visible(), "differences are shown in the raw text"
    assert faults == [] and alerts == []


def test_note_is_written_filtered_exported_and_removed(page, run, four, tmp_path):
    faults = faults_in(page)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{run}{DEBATE}/0#r1-p0-d0-A3")
    page.locator("article").nth(2).focus()
    page.keyboard.press("n")
    assert page.locator("#note [name=turn]").input_value() == "A3"
    assert violations(page) == []
    page.select_option("#note [name=kind]", "quote")
    page.fill("#note textarea", "so <b>well</b> said")
    page.get_by_role("button", name="Save").click()
    page.locator(".note-line").wait_for()
    page.reload()
    assert "A3: so <b>well</b> said" in page.locator(".note-line").inner_text()
    assert violations(page) == []
    page.goto(f"{run}transcripts?show=noted")
    assert page.locator("#list tbody tr").count() == 1
    listed = oversight("show", four, "--noted", cwd=tmp_path)
    assert "q0 · " in listed.out and "A3 · quote: so <b>well</b> said" in listed.out
    tables = oversight("export", "tables", four, "-o", "t", "--format", "csv", cwd=tmp_path)
    assert tables.code == 0 and "so <b>well</b> said" in (tmp_path / "t/notes.csv").read_text()
    for flags, count in (((), 1), (("--no-notes",), 0)):
        for old in tmp_path.glob("*.oversight"):
            old.unlink()
        assert oversight("view", four, "--write", "site", *flags, cwd=tmp_path).code == 0
        texts = "".join(unpacked(file) for file in (tmp_path / "site").glob("row-*.html"))
        assert texts.count('class="note-line"') == count and 'method="post"' not in texts
        packed = oversight("export", "pack", four, "-o", "p.oversight", *flags, cwd=tmp_path)
        assert packed.code == 0, packed.err
        assert ("run/notes.jsonl" in ZipFile(tmp_path / "p.oversight").namelist()) == bool(count)
    page.goto(f"{run}{DEBATE}/0")
    page.get_by_role("button", name="remove this note").click()
    page.locator(".note-line").wait_for(state="detached")
    assert faults == [] and "0 notes" in oversight("show", four, "--noted", cwd=tmp_path).err


def test_transcripts_are_ordered_by_the_largest_change(page: Any, run: str) -> None:
    page.goto(f"{run}transcripts")
    page.get_by_role("link", name="largest change").click()
    first = page.locator("#list tbody tr").first.inner_text()
    assert first.startswith("q0"), "only its debate and consultancy are probed"
    page.get_by_role("link", name="changed sides").click()
    assert 1 <= page.locator("#list tbody tr").count() <= 2


def test_show_prints_each_speech_of_a_shared_debate_once(four: Path, tmp_path: Path) -> None:
    printed = oversight("show", four, "q0", "--protocol", "debate", cwd=tmp_path).out
    with RunReader(four) as reader:
        speeches = [spoken.turn.text for spoken in read(reader, Place(1, 0)).worlds[0].turns]
    text = " ".join(printed.split())
    assert [text.count(speech) for speech in speeches] == [1] * 8
    assert text.count("agent score (brier)") == 4
