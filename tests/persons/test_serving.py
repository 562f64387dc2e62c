"""People at the pages of a real process: nothing is lost, and nothing is revealed."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any, NamedTuple

import aiohttp
import orjson
import pytest

from oversight.engine.extensions.people.journal import (
    BeliefBefore,
    TaskAnswered,
    TaskGiven,
    read_journal,
)
from oversight.engine.extensions.people.rating import RaterServer
from oversight.engine.extensions.people.results import rater_agreement
from oversight.engine.run.events import EVENTS
from oversight.engine.run.reader import RunReader
from oversight.engine.run.record.database import TAKEN_BACK
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.record.values import LeftOut
from oversight.engine.run.replay import open_run
from oversight.engine.views.pages.findings import measure_page
from oversight.engine.views.pages.links import PageQuery, ServerLinks
from oversight.protocols.datasets.jsonl import jsonl
from oversight.protocols.question import Problem
from tests.command_line import Ran, Running, run_in, running, within
from tests.persons.queues import event_kind, judgement, work, worlds
from tests.persons.raters import Page, ScriptedRater, percents
from tests.run_folders import moved, recorded
from tests.waiting import PATIENCE
from tests.world import shipment

pytestmark = pytest.mark.wire

FINISHED = """\
name: hidden-name
problems: {bundled: {name: arithmetic, limit: 20}}
agents: sim/strong
judges: sim/judge
protocols: {consultancy: {turns: 2}}
"""
LIVE = """\
name: live
problems: {bundled: {name: arithmetic, limit: 3}}
agents: person/experts
judges: {kind: stated, model: person/lay}
protocols: {naive_judge: , debate: {rounds: 1}}
"""


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as client:
        yield client


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a run of 40 worlds, whose judge is a model."""
    place = tmp_path_factory.mktemp("finished")
    ran = run_in(place, "finished.yaml", FINISHED)
    assert ran.code == 0, ran.err
    return place


@pytest.fixture
def finished(original: Path, tmp_path: Path) -> Path:
    return copied(original, tmp_path)


def copied(original: Path, place: Path) -> Path:
    """A copy of the run and its store."""
    copytree(original, place, dirs_exist_ok=True)
    run = next((place / "runs").glob("hidden-name-*"))
    moved(run, original, place)
    return run


class Judged(NamedTuple):
    """A run whose transcripts two scripted raters have judged, all of them."""

    run: Path
    report: str
    """Before they began, as JSON."""
    raters: list[ScriptedRater]
    server: Ran
    """The end of the server, with its output."""


@pytest.fixture(scope="module")
def judged(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    run = copied(original, tmp_path_factory.mktemp("judged"))
    cwd = run.parent.parent
    report = within("report", run, "--json", cwd=cwd).out
    (cwd / "consent.txt").write_text("I agree to <b>this</b>.")

    async def judge() -> Judged:
        async with aiohttp.ClientSession() as session:
            with served(run, cwd, "--consent", "consent.txt") as (server, links):
                raters = [ScriptedRater(link, session) for link in links]
                async with asyncio.timeout(PATIENCE):
                    assert "I agree to &lt;b&gt;this" in (await raters[0].get()).text
                    await asyncio.gather(*(rater.work() for rater in raters))
                return Judged(run, report, raters, await ended(server))

    return asyncio.run(judge())


@contextmanager
def served(
    target: Path | str, cwd: Path, *flags: str, **variables: str
) -> Iterator[tuple[Running, list[str]]]:
    """The server, and a link for each rater."""
    words = ("human", "serve", target, *(() if "--port" in flags else ("--port", "0")), *flags)
    with running(*words, cwd=cwd, **variables) as server:
        server.until(r"send each link to one person")
        yield server, re.findall(r"-\d+  (http://\S+\?token=\S+)", server.err)


async def ended(server: Running) -> Ran:
    """End a server whose work is done, as its owner does."""

    def end() -> Ran:
        if "until Ctrl-C" not in server.err:
            server.until("until Ctrl-C")
        server.hear(signal.SIGINT)
        return server.end()

    return await asyncio.to_thread(end)


def test_raters_judge_all_transcripts_and_the_score_of_the_run_stays(judged):
    finished, cwd = judged.run, judged.run.parent.parent
    assert judged.server.code == 0, judged.server.err
    assert "40 judgements of 40 transcripts" in judged.server.err
    events = list(read_journal(finished))
    answered = [e for e in events if isinstance(e, TaskAnswered)]
    problem_of = {e.task: e.problem for e in events if isinstance(e, TaskGiven)}
    for rater in ("raters-1", "raters-2"):
        copied = [event for event in answered if event.rater == rater]
        assert len(copied) == len({problem_of[event.task] for event in copied}) == 20
    truths = {
        p.question.text: p.question.answers[p.best].label for p in open_run(finished).sweep.problems
    }
    for rater in judged.raters:
        pages = [page for page in rater.answered if page.question in truths]
        speeches = [next(turn for turn in page.turns if "Consultant" in turn) for page in pages]
        argued = [re.findall(r"\(([AB])\)", speech)[0] for speech in speeches]
        true = [label == truths[page.question] for label, page in zip(argued, pages, strict=True)]
        assert (sum(true), len(true)) == (10, 20), "half of them argue for the truth"
    assert within("report", finished, "--json", cwd=cwd).out == judged.report
    status = orjson.loads(within("human", "status", finished, "--json", cwd=cwd).out)
    assert [rater["answered"] for rater in status] == [20, 20]
    figures = orjson.loads(within("measure", "people", finished, "--json", cwd=cwd).out)
    assert [rater["n"] for rater in figures["raters"]] == [20, 20]
    [beside] = figures["beside"]
    assert beside["transcripts"] == 40
    # All said 70 % for the first answer, whichever it is.
    share = sum(p.best == 0 for p in open_run(finished).sweep.problems) / 20
    assert beside["second_score"]["value"] == pytest.approx(share * -0.18 + (1 - share) * -0.98)
    again = within("human", "serve", finished, "--port", "0", cwd=cwd)
    assert "40 judgements of 40 transcripts" in again.err, "all come from the store"


def test_export_is_scored_and_lacks_withdrawn_answers(judged, tmp_path):
    run = copied(judged.run.parent.parent, tmp_path)

    def lines() -> list[Any]:
        within("human", "export", run, "-o", "people.jsonl", cwd=tmp_path)
        return list(map(orjson.loads, (tmp_path / "people.jsonl").read_bytes().splitlines()))

    exported = lines()
    assert len(exported) == 40 and len({line["judge"] for line in exported}) == 2
    assert not any("raters-" in line["judge"] for line in exported)
    scored = within("measure", "judgements", "people.jsonl", cwd=tmp_path)
    assert scored.code == 0 and "40 judgements" in scored.out, scored.err
    direct = within("measure", "judgements", run, cwd=tmp_path)
    assert direct.out == scored.out.replace("people.jsonl", str(run))
    page = measure_page(RunReader(run), ServerLinks(run.name), PageQuery(kind="people"))
    assert "The judge of the run and persons on the same transcripts" in page
    gone = within("human", "withdraw", run, "raters-2", "--erase", cwd=tmp_path)
    assert gone.code == 0 and "deleted: 20 stored replies" in gone.err, gone.err
    assert len(lines()) == 20
    events_left = [event for event in read_journal(run) if event.rater == "raters-2"]
    answers = [(e.posted, e.probs) for e in events_left if isinstance(e, TaskAnswered)]
    assert answers == [({}, None)] * 20
    assert {event.probs for event in events_left if isinstance(event, BeliefBefore)} == {()}
    agreement = orjson.loads(within("measure", "people", run, "--json", cwd=tmp_path).out)
    assert [rater["rater"] for rater in agreement["standings"]] == ["raters-1"]
    assert "unknown rater 'nobody'" in within("human", "withdraw", run, "nobody", cwd=tmp_path).err


async def test_saved_answers_survive_a_killed_server(finished, session):
    cwd = finished.parent.parent
    saved: list[tuple[str, str, dict[str, str]]] = []
    port = ""

    async def work(rater: ScriptedRater, name: str) -> None:
        """Send again until it is saved, as a page does, even if the server ends."""
        while True:
            try:
                await rater.post("begin", {})
                page = await rater.get()
                if "That was the last one" in page.text:
                    return
                if not page.is_task:
                    await rater.news()
                    continue
                # Every answer is different.
                how = percents(page, float(2 + len(saved) % 97))
                path = "believe" if page.is_before else "answer"
                fields = {"ticket": page.ticket, **how}
                while True:
                    try:
                        status, body = await rater.post(path, fields)
                    except aiohttp.ClientError:
                        await up.wait()
                        continue
                    if status != 503:
                        break
                    await asyncio.sleep(0.05)
                assert status == 303, body
                if not page.is_before:
                    saved.append((name, page.question, how))
                    progress.set()
            except (aiohttp.ClientError, TimeoutError):
                if over.is_set():
                    return
                await up.wait()

    up, over, progress = asyncio.Event(), asyncio.Event(), asyncio.Event()
    workers: list[asyncio.Task[None]] = []
    async with asyncio.timeout(PATIENCE):
        for goal in (7, 19, 41):
            with served(finished, cwd, *(("--port", port) if port else ())) as (server, links):
                port = re.findall(r":(\d+)/", links[0])[0]
                up.set()
                if not workers:
                    workers = [
                        asyncio.create_task(work(ScriptedRater(link, session), f"raters-{n}"))
                        for n, link in enumerate(links, 1)
                    ]
                while len(saved) < min(goal, 40):
                    progress.clear()
                    await progress.wait()
                if goal > 40:
                    over.set()
                    ran = await ended(server)
                    break
                up.clear()
                server.process.send_signal(signal.SIGKILL)
                await asyncio.to_thread(server.end)
        await asyncio.gather(*workers)
    assert ran.code == 0, ran.err
    answers = [e for e in read_journal(finished) if isinstance(e, TaskAnswered)]
    assert len(answers) == len({event.task for event in answers}) == len(saved) == 40
    for n, (rater, _, how) in enumerate(saved):
        assert any(event.rater == rater and event.posted == how for event in answers), n
    [beside] = (await asyncio.to_thread(rater_agreement, finished)).plain()["beside"]
    assert beside["transcripts"] == 40


def test_sweep_with_people_in_every_role_resumes_and_replays_to_the_byte(tmp_path):
    (tmp_path / "live.yaml").write_text(LIVE)

    def how(page: Page) -> dict[str, str]:
        return {"text": "I say (A) & <b>so</b>."} if 'name="text"' in page.text else percents(page)

    async def serve(most: int | None = None) -> Ran:
        """Serve raters to the end, or until each has answered `most` tasks."""
        # Both worlds of a debate, and no debate: three conversations about a problem.
        with served("live.yaml", tmp_path, "--raters", "3") as (server, links):
            async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE):
                raters = [ScriptedRater(link, session) for link in links]
                if most is None:
                    await asyncio.gather(*(rater.work(how) for rater in raters))
                else:
                    for rater in raters:
                        await rater.work(how, most)
                    server.hear(signal.SIGINT)
                    return await asyncio.to_thread(server.end)
            return await ended(server)

    def command(*words: str | Path) -> Ran:
        return within(*words, cwd=tmp_path, OVERSIGHT_STORE=str(tmp_path / "store"))

    assert asyncio.run(serve(most=1)).code == 130
    stopped = command("run", "live.yaml")
    assert stopped.code == 3
    assert "serve their pages with: oversight human serve live.yaml\n" in stopped.err
    ran = asyncio.run(serve())
    assert ran.code == 0, ran.err
    assert "person/lay" in ran.out
    run = next((tmp_path / "runs").glob("live-*"))
    assert not [*run.rglob("lock")], "a server that ends leaves no lock"
    outcomes = (run / "outcomes.jsonl").read_bytes()
    assert "outcomes are equal to the byte" in command("replay", run).err
    # With the store, no people are needed.
    elsewhere = command("run", "live.yaml", "--run-folder", "other")
    assert elsewhere.code == 0, elsewhere.err
    assert (tmp_path / "other" / "outcomes.jsonl").read_bytes() == outcomes
    assert "I say (A)" in command("show", run, "apples-and-crates", "--protocol", "debate").out
    exported = command("cache", "export", run, "-o", "replies.oversight")
    assert exported.code == 0, exported.err
    figures = orjson.loads(command("measure", "people", run, "--json").out)
    assert {rater["rater"] for rater in figures["standings"]} == {
        f"{panel}-{n}" for panel in ("experts", "lay") for n in (1, 2, 3)
    }
    # Erased answers cannot be read or packed again.
    answers = [e for e in read_journal(run) if isinstance(e, TaskAnswered)]
    theirs = {event.task for event in answers if event.rater == "lay-1"}
    gone = command("human", "withdraw", run, "lay-1", "--erase")
    assert gone.code == 0 and f"deleted: {len(theirs)} stored repl" in gone.err, gone.err
    with RunTables.open(run) as tables:
        cells = {cell.place: cell for cell in tables.cells()}
    assert {
        call.text for cell in cells.values() for call in cell.calls if call.address in theirs
    } == {TAKEN_BACK}
    events_left = recorded(run)
    answers = [place for place, cell in cells.items() if cell.outcome != LeftOut("withdrawn")]
    assert len(events_left) == len(answers) < len(outcomes.splitlines())
    assert command("export", "pack", run, "-o", "left.oversight").code == 0
    verified = command("export", "verify", "left.oversight")
    assert verified.code == 0, verified.out


def test_pages_of_raters_reveal_no_truth_world_or_model(judged):
    finished = judged.run
    sent = b"\n".join(body for rater in judged.raters for body in rater.sent).lower()
    assert len(sent) > 1_000_000
    hidden = ["sim/", "person/", "raters-", "hidden-name", str(finished).lower(), "consultancy"]
    hidden += [problem.id for problem in open_run(finished).sweep.problems]
    hidden += [event.task for event in read_journal(finished) if isinstance(event, TaskGiven)]
    assert [word for word in hidden if word.encode() in sent] == []


async def test_pages_do_not_depend_on_which_answer_is_right(tmp_path, session):
    sent: list[dict[str, str]] = []
    for name, sign in (("a", 1.0), ("b", -1.0)):
        cwd = tmp_path / name
        cwd.mkdir()
        problems = [
            Problem(p.id, p.question, tuple(sign * v for v in p.values))
            for p in map(shipment, range(6))
        ]
        (cwd / "problems.jsonl").write_bytes(b"".join(jsonl(problems)))
        (cwd / "one.yaml").write_text(
            "problems: {file: problems.jsonl}\njudges: {kind: distribution, model: person/lay}\n"
            "protocols: naive_judge\n"
        )
        with served("one.yaml", cwd, "--raters", "1") as (server, links):
            rater = ScriptedRater(links[0], session)
            async with asyncio.timeout(PATIENCE):
                assert await rater.work() == 6
            await ended(server)
        # The ticket differs by study, and the counts by moment.
        pages = {
            page.question: re.sub(
                r'value="\w{16}"|\d+ (answered|waiting)[^<]*| open>', "", page.text
            )
            for page in rater.answered
        }
        assert len(pages) == 6
        sent.append(pages)
    assert sent[0] == sent[1]


async def test_requests_without_link_or_from_other_origins_change_nothing(tmp_path, session):
    async with work(tmp_path) as at_work, (server := RaterServer(at_work.queue)).serving(0) as root:
        await at_work.put(worlds(2))
        first, second = (ScriptedRater(link, session) for _, link in server.links(root))
        for path in ("", "events"):
            assert (await session.get(f"{root}{path}")).status == 403
        await first.post("begin", {})
        page = await first.get()
        fields = {"ticket": page.ticket, **percents(page)}
        cookies = await first.headers()
        guessed = cookies["Cookie"].replace(first.token, "guessed")
        for headers in (
            {"Cookie": cookies["Cookie"]},
            {"Cookie": cookies["Cookie"], "Origin": "http://evil.example"},
            {"Cookie": cookies["Cookie"], "Origin": "null"},
            {"Cookie": guessed, "Origin": root.rstrip("/")},
            {**cookies, "Host": "evil.example"},
        ):
            answer = await session.post(f"{root}answer", data=fields, headers=headers)
            assert answer.status in (403, 421), headers
        assert (await session.put(f"{root}answer", headers=cookies)).status == 405
        await second.post("begin", {})
        assert (await second.post("answer", fields))[0] == 409
        assert (await second.post("answer", {**fields, "ticket": "0" * 16}))[0] == 409
        assert (await first.post("answer", {"ticket": page.ticket, "p0": "70"}))[0] == 422
        twice = await asyncio.gather(first.post("answer", fields), first.post("answer", fields))
        assert twice == [(303, "/?said=saved")] * 2
        assert (await first.post("answer", {**fields, "p0": "30", "p1": "70"}))[0] == 409
        answer = await session.get(f"{root}?token={first.token}", allow_redirects=False)
        assert answer.status == 303 and answer.headers["Location"] == "/"
        assert "HttpOnly" in answer.headers["Set-Cookie"]
        assert "SameSite=Lax" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize("host", ["study.example", None])
async def test_pages_work_behind_a_proxy_that_ends_tls(host, tmp_path, session):
    """host: the name that the proxy forwards; None: the name of the server behind it."""
    url, passed = "https://study.example", {"Host": host} if host else {}
    async with work(tmp_path, raters=1) as at_work:
        server = RaterServer(at_work.queue, url=url)
        async with server.serving(0) as root:
            [(_, link)] = server.links(root)
            assert root == f"{url}/" and link.startswith(f"{url}/?token=")
            base = f"http://127.0.0.1:{server.port}/"
            answer = await session.get(
                link.replace(root, base), headers=passed, allow_redirects=False
            )
            cookie = answer.headers["Set-Cookie"]
            assert answer.status == 303 and "Secure" in cookie
            cookies = {**passed, "Cookie": cookie.partition(";")[0]}
            for origin, status in ((url, 303), ("https://evil.example", 403)):
                response = await session.post(
                    f"{base}begin", headers={**cookies, "Origin": origin}, allow_redirects=False
                )
                assert response.status == status


def test_two_processes_cannot_serve_one_run(finished):
    cwd = finished.parent.parent
    with served(finished, cwd):
        journal, panel = finished / "events.jsonl", finished / "persons/panel.json"
        # A line that the first server is still writing.
        journal.write_bytes(b'{"what":"answ')
        seated = panel.read_bytes()
        ran = within("human", "serve", finished, "--port", "0", "--raters", "9", cwd=cwd)
        assert journal.read_bytes() == b'{"what":"answ' and panel.read_bytes() == seated
    assert ran.code == 7 and "another process" in ran.err


async def test_unsaved_answer_is_reported_and_accepted_later(tmp_path, session, caplog):
    calls = [judgement(shipment(n).question, 0) for n in range(2)]
    async with work(tmp_path, raters=1) as at_work:
        await at_work.put(calls)
        server = RaterServer(at_work.queue)
        async with server.serving(0) as root:
            [(_, link)] = server.links(root)
            rater = ScriptedRater(link, session)
            await rater.post("begin", {})
            page = await rater.get()
            fields = {"ticket": page.ticket, **percents(page)}
            journal, aside = tmp_path / EVENTS, tmp_path / "aside"
            journal.rename(aside)
            journal.mkdir()  # a folder cannot be appended to, even by root
            for path in ("answer", "leave"):
                status, body = await rater.post(path, fields)
                assert status == 500, path
                assert "could not be saved" in body and str(tmp_path) not in body
            assert f"{journal} cannot be written" in caplog.text
            assert not any(reply.done() for reply in at_work.waiting.values())
            journal.rmdir()
            aside.rename(journal)
            async with session.post(
                f"{rater.root}answer",
                data=b"--x",
                headers=await rater.headers() | {"Content-Type": "multipart/form-data; boundary=y"},
            ) as no_form:
                assert no_form.status == 400
            assert await rater.post("answer", fields) == (303, "/?said=saved")
            page = await rater.get()
    async with work(tmp_path, raters=1) as again:
        server = RaterServer(again.queue)
        async with server.serving(0) as root:
            rater = ScriptedRater(server.links(root)[0][1], session)
            # The page that was left open is sent before the run has come to this call again.
            fields = {"ticket": page.ticket, **percents(page), "reason": "As I see it."}
            status, body = await rater.post("answer", fields)
            assert status == 503 and "As I see it." in body
            await again.put(calls)
            assert await rater.post("answer", fields) == (303, "/?said=saved")
            assert {(await reply).outcome for reply in again.waiting.values()} == {"ok"}
    kinds = [event_kind(event) for event in read_journal(tmp_path)]
    assert kinds == ["consent", *("given", "answered") * 2]


def test_batches_are_refused_while_people_answer(tmp_path):
    batched = "models: {openai/gpt-4o: {batch: true}}\n"
    (tmp_path / "live.yaml").write_text(LIVE.replace("person/experts", "openai/gpt-4o") + batched)
    words = ("human", "serve", "live.yaml", "--raters", "3", "--port", "0")
    for command_line in (words, (*words, "--batch")):
        ran = within(*command_line, cwd=tmp_path, OPENAI_API_KEY="sk-1")
        assert ran.code == 2 and "batches cannot be used while people answer" in ran.err, ran.err
