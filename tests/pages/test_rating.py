"""Raters in a real browser: two at once, by keyboard, without scripts, and when the server dies."""

import re
import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oversight.cache.call import Call
from oversight.engine.extensions.people.journal import TaskAnswered, read_journal
from oversight.protocols.judges.case import Case
from oversight.protocols.judges.stated import DistributionJudge
from oversight.protocols.question import Answer, Question
from oversight.protocols.transcript import Quote, ToolUse, Transcript, Turn
from tests.command_line import running
from tests.pages.browser import asked_by, faults_in, opened, violations
from tests.pages.rated import TASKS, at_desk, begin, filled
from tests.pages.speaking import BIDI, LONG, MARKUP
from tests.persons.queues import MODEL, PLAIN, event_kind, judgement
from tests.world import shipment

pytestmark = pytest.mark.browser
AFTER = replace(PLAIN, before=True)


def answered(folder: Path) -> list[TaskAnswered]:
    return [event for event in read_journal(folder) if isinstance(event, TaskAnswered)]


def save(page: Any) -> None:
    page.get_by_role("button", name="Save").click()


def test_welcome_and_closing_pages_pass_axe(page: Any, tmp_path: Path) -> None:
    settings = replace(PLAIN, consent="I agree.")
    with at_desk(tmp_path, [TASKS["two answers"]], settings) as (desk, links):
        faults = faults_in(page)
        page.goto(links[0])
        assert "I agree." in page.inner_text("main") and "token" not in page.url
        assert violations(page) == []
        page.goto(links[0].rpartition("?")[0] + "leave")
        assert violations(page) == []
        page.set_viewport_size({"width": 320, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        page.get_by_role("button", name="Leave the study").click()
        page.get_by_text("You have left the study").wait_for()
        assert violations(page) == [] and faults == [] and desk.histories.of["raters-1"].withdrawn


@pytest.mark.parametrize("task", TASKS)
def test_every_task_passes_axe(task: str, page: Any, tmp_path: Path) -> None:
    with at_desk(tmp_path, [TASKS[task]], AFTER) as (_, links):
        faults = faults_in(page)
        page.goto(links[0])
        assert "token" not in page.url
        page.get_by_role("button", name="I agree: begin").click()
        page.locator("#task").wait_for()
        assert violations(page) == []
        if page.get_by_role("button", name="Show what was said").count():
            assert page.locator(".turn").count() == 0, "what is not to be read is not sent"
            filled(page)
            page.get_by_role("button", name="Show what was said").click()
            page.locator(".turn").first.wait_for()
            assert violations(page) == []
        page.set_viewport_size({"width": 320, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        filled(page)
        save(page)
        page.get_by_text("Your next task will appear here").wait_for()
        assert page.get_by_text("Saved.").is_visible() and faults == []


def test_refusal_and_end_pages_pass_axe(page: Any, tmp_path: Path) -> None:
    with at_desk(tmp_path, [TASKS["two answers"]]) as (desk, links):
        page.goto(links[0])
        assert violations(page) == []
        begin(page, links[0])
        page.evaluate("document.querySelectorAll('[required]').forEach(e => e.required = false)")
        save(page)
        page.get_by_role("alert").filter(has_text="give a percentage for (A)").wait_for()
        assert violations(page) == []
        page.evaluate("document.querySelector('[name=ticket]').value = '0000000000000000'")
        filled(page)
        save(page)
        page.get_by_text("This task is not yours").wait_for()
        assert violations(page) == []
        page.goto(links[0])
        filled(page)
        save(page)
        page.get_by_text("Your next task will appear here").wait_for()
        assert violations(page) == []
        desk.over = True
        page.goto(links[0])
        page.get_by_text("That was the last one").wait_for()
        assert violations(page) == []


def test_task_is_done_by_keys_alone(page: Any, tmp_path: Path) -> None:
    with at_desk(tmp_path, [TASKS["two answers"]]) as (_, links):
        begin(page, links[0])
        first, second = page.locator("#p0"), page.locator("#p1")
        assert first.input_value() == second.input_value() == "", "nothing is filled in"
        page.keyboard.press("t")
        assert page.evaluate("document.activeElement.className") == "turn"
        slider = page.locator(".slide").first
        while not slider.evaluate("each => each === document.activeElement"):
            page.keyboard.press("Tab")
        assert slider.get_attribute("aria-valuetext") == "not set"
        for key in ("ArrowRight", "ArrowRight", "PageUp", "ArrowLeft"):
            page.keyboard.press(key)
        assert (first.input_value(), second.input_value()) == ("61", "39")
        assert slider.get_attribute("aria-valuetext") == "61%"
        save = page.get_by_role("button", name="Save")
        while not save.evaluate("each => each === document.activeElement"):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.get_by_text("Saved.").wait_for()
    assert [answer.probs for answer in answered(tmp_path)] == [(0.61, 0.39)]


def test_percentages_of_several_answers_must_add_up(page: Any, tmp_path: Path) -> None:
    with at_desk(tmp_path, [TASKS["four answers"]]) as (_, links):
        begin(page, links[0])
        for n, value in enumerate(("10", "20", "30", "30")):
            page.locator(f"#p{n}").fill(value)
        assert page.locator("#sum").inner_text() == "In all: 90%"
        save(page)
        assert page.locator("#p0").evaluate("each => each.validationMessage") == (
            "The percentages add up to 90, not to 100."
        )
        page.locator("#p3").fill("40")
        save(page)
        page.get_by_text("Saved.").wait_for()


def test_two_raters_at_once_get_different_worlds(browser: Any, tmp_path: Path) -> None:
    question = shipment(0).question
    calls = [judgement(question, 0), judgement(question, 1)]
    with ExitStack() as windows, at_desk(tmp_path, calls, raters=2) as (_, links):
        pages = [windows.enter_context(opened(browser)) for _ in links[:2]]
        for page, link in zip(pages, links[:2], strict=True):
            begin(page, link)
        speeches = [page.locator(".turn .text").inner_text() for page in pages]
        assert sorted(speeches) == ["I say (A).", "I say (B)."]
        for page in pages:
            filled(page)
            # Twice, as an impatient hand does.
            page.get_by_role("button", name="Save").dblclick()
        for page in pages:
            page.get_by_text("Saved.").wait_for()
    assert sorted(answer.rater for answer in answered(tmp_path)) == ["raters-1", "raters-2"]


def test_every_task_works_without_scripts(browser: Any, tmp_path: Path) -> None:
    with (
        at_desk(tmp_path, [TASKS["two answers"]], replace(PLAIN, before=True)) as (_, links),
        opened(browser, java_script_enabled=False) as page,
    ):
        begin(page, links[0])
        for name in ("Show what was said", "Save"):
            page.locator("#p0").fill("80")
            page.locator("#p1").fill("20")
            page.get_by_role("button", name=name).click()
        page.get_by_text("Saved.").wait_for()
    kinds = [event_kind(event) for event in read_journal(tmp_path)]
    assert kinds == ["consent", "given", "before", "answered"]


def test_typed_answer_survives_a_reload_and_a_fraction_is_questioned(page, tmp_path):
    with at_desk(tmp_path, [TASKS["two answers"]]) as (_, links):
        begin(page, links[0])
        assert "<" not in page.locator(".asked").inner_text(), "no marks for models"
        page.locator(".slide").first.click()
        assert page.locator("#p0").input_value() == "50", "a click in the middle is an answer"
        page.locator("#p0").fill("62")
        page.get_by_text("Your reasons, if you like").click()
        page.locator("#reason").fill("The second step is off.")
        page.goto(links[0])
        assert page.locator("#p0").input_value() == "62"
        assert page.locator("#reason").input_value() == "The second step is off."
        page.locator("#p0").fill("0.7")
        assert page.locator("#sum").inner_text() == "Write percentages: 70 for 0.7."
        assert page.locator("#p1").input_value() == ""
        page.locator("#p1").fill("99.3")
        save(page)
        page.get_by_role("alert").filter(has_text="If you mean 70%, write 70").wait_for()
        page.get_by_role("checkbox", name="one percent or less").check()
        save(page)
        page.get_by_text("Saved.").wait_for()
        assert page.evaluate("Object.keys(localStorage).filter(k => k.startsWith('draft'))") == []
    assert [answer.probs for answer in answered(tmp_path)] == [pytest.approx((0.007, 0.993))]


def test_two_studies_share_a_host_and_foreign_links_work(page: Any, tmp_path: Path) -> None:
    with (
        at_desk(tmp_path / "a", [TASKS["two answers"]]) as (_, first),
        at_desk(tmp_path / "b", [TASKS["four answers"]]) as (_, second),
    ):
        begin(page, first[0])
        page.locator("#p0").fill("70")
        other = page.context.new_page()
        # A page elsewhere (another site: an address, not a name) with the link of the second study.
        other.set_content(f'<a href="{second[0].replace("127.0.0.1", "localhost")}">begin</a>')
        other.get_by_role("link").click()
        other.get_by_role("button", name="I agree: begin").click()
        other.locator("#p0").wait_for()
        save(page)
        page.get_by_text("Saved.").wait_for()
    assert [answer.probs for answer in answered(tmp_path / "a")] == [(0.7, 0.3)]


def test_rater_may_give_no_answer(page: Any, tmp_path: Path) -> None:
    with at_desk(tmp_path, [TASKS["a speech"]]) as (_, links):
        begin(page, links[0])
        page.get_by_text("I cannot answer this one").click()
        page.get_by_role("button", name="Give no answer").click()
        page.get_by_text("Saved as unanswered").wait_for()


def test_answer_sent_while_the_server_is_down_is_saved_later(page: Any, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(
        "problems: {bundled: {name: arithmetic, limit: 2}}\n"
        "judges: {kind: distribution, model: person/lay}\nprotocols: naive_judge\n"
    )
    words = ("human", "serve", "one.yaml", "--raters", "1")
    with running(*words, "--port", "0", cwd=tmp_path) as server:
        server.until("send each link")
        link = re.findall(r"http://\S+\?token=\S+", server.err)[0]
        begin(page, link)
        page.locator("#p0").fill("83")
        server.process.send_signal(signal.SIGKILL)
        server.end()
        save(page)
        page.get_by_text("No connection. Your answer is kept on this page").wait_for()
    with running(*words, "--port", re.findall(r":(\d+)/", link)[0], cwd=tmp_path) as server:
        server.until("send each link")
        page.get_by_text("Saved.").wait_for()
        page.locator("#p0").fill("17")
        save(page)
        page.get_by_text("That was the last one").wait_for()
        page.reload()
        assert "That was the last one" in page.inner_text("main"), "whoever looks again is told so"
        server.hear(signal.SIGINT)
        ended = server.end()
    assert ended.code == 0, ended.err
    run = next((tmp_path / "runs").glob("one-*"))
    assert [answer.posted["p0"] for answer in answered(run)] == ["83", "17"]


def test_hostile_transcripts_do_nothing(page: Any, tmp_path: Path) -> None:
    question = Question(f"Which? {MARKUP} {BIDI}", (Answer("A", MARKUP), Answer("B", BIDI, MARKUP)))
    tool = ToolUse("calc</p><script>window.broken=7</script>", MARKUP, BIDI)
    transcript = Transcript(question).then(
        Turn(MARKUP, MARKUP, question.answers[0], tools=(tool,), quotes=(Quote("found", True),)),
        Turn("Debater B", BIDI, question.answers[1]),
        Turn("Debater A", LONG, question.answers[0]),
    )
    judge = DistributionJudge(MODEL)
    call = Call(judge.compose(judge.shown(Case(transcript), range(2))).request, (0,))
    with at_desk(tmp_path, [call]) as (_, links):
        addresses = asked_by(page)
        begin(page, links[0])
        page.locator(".turn").first.wait_for()
        assert page.evaluate("window.broken") is None
        assert page.evaluate("getComputedStyle(document.body).display") != "none"
        root = links[0].partition("?")[0]
        assert all(url.startswith((root, "data:")) for url in addresses)
        html = page.content()
        for hidden in "\u202e\u2066\x1b\u2028":
            assert hidden not in html
        filled(page)
        save(page)
        page.get_by_text("Saved.").wait_for()
