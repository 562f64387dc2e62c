"""Persons at pages of a real process: nothing is lost, and nothing is told that must not be."""

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
from oversight.engine.run.opened import open_run
from oversight.engine.run.reader import RunReader
from oversight.engine.run.record.database import TAKEN_BACK
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.record.values import NotRun
from oversight.engine.views.pages.findings import measure_page
from oversight.engine.views.pages.links import Asked, ServerLinks
from oversight.protocols.datasets.jsonl import jsonl
from oversight.protocols.question import Problem
from tests.command_line import Ran, Running, run_in, running, within
from tests.persons.queues import judgement, what, work, worlds
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
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a run of 40 worlds, whose judge is a model."""
    place = tmp_path_factory.mktemp("finished")
    ran = run_in(place, "finished.yaml", FINISHED)
    assert ran.code == 0, ran.err
    return place


@pytest.fixture
def finished(original: Path, tmp_path: Path) -> Path:
    return own(original, tmp_path)


def own(original: Path, place: Path) -> Path:
    """The run, with a store that is the test's own."""
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
    told: Ran
    """What the server said to the end."""


@pytest.fixture(scope="module")
def judged(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    run = own(original, tmp_path_factory.mktemp("judged"))
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
    what: Path | str, cwd: Path, *flags: str, **variables: str
) -> Iterator[tuple[Running, list[str]]]:
    """The server, and a link for each rater."""
    words = ("human", "serve", what, *(() if "--port" in flags else ("--port", "0")), *flags)
    with running(*words, cwd=cwd, **variables) as server:
        server.until(r"send each link to one person")
        yield server, re.findall(r"-\d+  (http://\S+\?token=\S+)", server.err)


async def ended(server: Running) -> Ran:
    """The end of a server whose work is done, by its owner."""

    def end() -> Ran:
        if "until Ctrl-C" not in server.err:
            server.until("until Ctrl-C")
        server.hear(signal.SIGINT)
        return server.end()

    return await asyncio.to_thread(end)


def test_two_raters_judge_forty_transcripts_of_a_run_and_its_score_stays(judged):
    finished, cwd = judged.run, judged.run.parent.parent
    assert judged.told.code == 0, judged.told.err
    assert "40 judgements of 40 transcripts" in judged.told.err
    events = list(read_journal(finished))
    answered = [e for e in events if isinstance(e, TaskAnswered)]
    problem_of = {e.task: e.problem for e in events if isinstance(e, TaskGiven)}
    for rater in ("raters-1", "raters-2"):
        own = [each for each in answered if each.rater == rater]
        assert len(own) == len({problem_of[each.task] for each in own}) == 20
    truths = {
        p.question.text: p.question.answers[p.best].label for p in open_run(finished).sweep.problems
    }
    for rater in judged.raters:
        pages = [page for page in rater.answered if page.question in truths]
        speeches = [next(said for said in page.said if "Consultant" in said) for page in pages]
        argued = [re.findall(r"\(([AB])\)", speech)[0] for speech in speeches]
        true = [label == truths[page.question] for label, page in zip(argued, pages, strict=True)]
        assert (sum(true), len(true)) == (10, 20), "as many truths as lies"
    assert within("report", finished, "--json", cwd=cwd).out == judged.report
    status = orjson.loads(within("human", "status", finished, "--json", cwd=cwd).out)
    assert [each["answered"] for each in status] == [20, 20]
    figures = orjson.loads(within("measure", "people", finished, "--json", cwd=cwd).out)
    assert [each["n"] for each in figures["raters"]] == [20, 20]
    [beside] = figures["beside"]
    assert beside["transcripts"] == 40
    # All said 70 % for the first answer, whichever it is.
    share = sum(p.best == 0 for p in open_run(finished).sweep.problems) / 20
    assert beside["second_score"]["value"] == pytest.approx(share * -0.18 + (1 - share) * -0.98)
    again = within("human", "serve", finished, "--port", "0", cwd=cwd)
    assert "40 judgements of 40 transcripts" in again.err, "all of them come from the store"


def test_the_export_scores_and_what_a_rater_takes_back_is_in_it_no_more(judged, tmp_path):
    run = own(judged.run.parent.parent, tmp_path)

    def lines() -> list[Any]:
        within("human", "export", run, "-o", "people.jsonl", cwd=tmp_path)
        return [
            orjson.loads(each) for each in (tmp_path / "people.jsonl").read_bytes().splitlines()
        ]

    exported = lines()
    assert len(exported) == 40 and len({line["judge"] for line in exported}) == 2
    assert not any("raters-" in line["judge"] for line in exported)
    scored = within("measure", "judgements", "people.jsonl", cwd=tmp_path)
    assert scored.code == 0 and "40 judgements" in scored.out, scored.err
    direct = within("measure", "judgements", run, cwd=tmp_path)
    assert direct.out == scored.out.replace("people.jsonl", str(run))
    page = measure_page(RunReader(run), ServerLinks(run.name), Asked(kind="people"))
    assert "The judge of the run and persons on the same transcripts" in page
    gone = within("human", "withdraw", run, "raters-2", "--erase", cwd=tmp_path)
    assert gone.code == 0 and "deleted: 20 stored replies" in gone.err, gone.err
    assert len(lines()) == 20
    left = [event for event in read_journal(run) if event.rater == "raters-2"]
    answers = [(e.posted, e.probs) for e in left if isinstance(e, TaskAnswered)]
    assert answers == [({}, None)] * 20
    assert {event.probs for event in left if isinstance(event, BeliefBefore)} == {()}
    agreement = orjson.loads(within("measure", "people", run, "--json", cwd=tmp_path).out)
    assert [each["rater"] for each in agreement["standings"]] == ["raters-1"]
    assert "unknown rater 'nobody'" in within("human", "withdraw", run, "nobody", cwd=tmp_path).err


async def test_nothing_saved_is_lost_when_the_server_is_killed(finished, session):
    cwd = finished.parent.parent
    saved: list[tuple[str, str, dict[str, str]]] = []
    port = ""

    async def work(rater: ScriptedRater, name: str) -> None:
        """As a page does: send again until it is saved, whatever becomes of the server."""
        while True:
            try:
                await rater.post("begin", {})
                page = await rater.get()
                if "That was the last one" in page.text:
                    return
                if not page.is_task:
                    await rater.news()
                    continue
                # What every one of the answers is tells them apart.
                how = percents(page, float(2 + len(saved) % 97))
                path = "believe" if page.is_before else "answer"
                fields = {"ticket": page.ticket, **how}
                while True:
                    try:
                        status, said = await rater.post(path, fields)
                    except aiohttp.ClientError:
                        await up.wait()
                        continue
                    if status != 503:
                        break
                    await asyncio.sleep(0.05)
                assert status == 303, said
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
            flags = ("--port", port) if port else ()
            with served(finished, cwd, *flags) as (server, links):
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
                    told = await ended(server)
                    break
                up.clear()
                server.process.send_signal(signal.SIGKILL)
                await asyncio.to_thread(server.end)
        await asyncio.gather(*workers)
    assert told.code == 0, told.err
    kept = [e for e in read_journal(finished) if isinstance(e, TaskAnswered)]
    assert len(kept) == len({each.task for each in kept}) == len(saved) == 40
    for n, (rater, _, how) in enumerate(saved):
        assert any(each.rater == rater and each.posted == how for each in kept), n
    [beside] = (await asyncio.to_thread(rater_agreement, finished)).plain()["beside"]
    assert beside["transcripts"] == 40


def test_a_sweep_with_persons_in_every_seat_resumes_and_replays_to_the_byte(tmp_path):
    (tmp_path / "live.yaml").write_text(LIVE)

    def how(page: Page) -> dict[str, str]:
        return {"text": "I say (A) & <b>so</b>."} if 'name="text"' in page.text else percents(page)

    async def serve(most: int | None = None) -> Ran:
        """Raters at their pages; to the end, or until each has answered so many."""
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
    told = asyncio.run(serve())
    assert told.code == 0, told.err
    assert "person/lay" in told.out
    run = next((tmp_path / "runs").glob("live-*"))
    assert not [*run.rglob("lock")], "who ends leaves no lock behind"
    outcomes = (run / "outcomes.jsonl").read_bytes()
    assert "outcomes are equal to the byte" in command("replay", run).err
    # Who has the store needs no persons any more.
    elsewhere = command("run", "live.yaml", "--run-folder", "other")
    assert elsewhere.code == 0, elsewhere.err
    assert (tmp_path / "other" / "outcomes.jsonl").read_bytes() == outcomes
    assert "I say (A)" in command("show", run, "apples-and-crates", "--protocol", "debate").out
    exported = command("cache", "export", run, "-o", "replies.oversight")
    assert exported.code == 0, exported.err
    figures = orjson.loads(command("measure", "people", run, "--json").out)
    assert {each["rater"] for each in figures["standings"]} == {
        f"{panel}-{n}" for panel in ("experts", "lay") for n in (1, 2, 3)
    }
    # What a person takes back is in no place from which it could be read or packed again.
    answers = [e for e in read_journal(run) if isinstance(e, TaskAnswered)]
    theirs = {each.task for each in answers if each.rater == "lay-1"}
    gone = command("human", "withdraw", run, "lay-1", "--erase")
    assert gone.code == 0 and f"deleted: {len(theirs)} stored repl" in gone.err, gone.err
    with RunTables.open(run) as tables:
        cells = {cell.place: cell for cell in tables.cells()}
    assert {
        call.text for cell in cells.values() for call in cell.calls if call.address in theirs
    } == {TAKEN_BACK}
    left = recorded(run)
    kept = [place for place, cell in cells.items() if cell.outcome != NotRun("withdrawn")]
    assert len(left) == len(kept) < len(outcomes.splitlines())
    assert command("export", "pack", run, "-o", "left.oversight").code == 0
    verified = command("export", "verify", "left.oversight")
    assert verified.code == 0, verified.out


def test_no_byte_that_a_rater_is_sent_tells_gold_world_or_model(judged):
    finished = judged.run
    sent = b"\n".join(body for rater in judged.raters for body in rater.sent).lower()
    assert len(sent) > 1_000_000
    hidden = ["sim/", "person/", "raters-", "hidden-name", str(finished).lower(), "consultancy"]
    hidden += [problem.id for problem in open_run(finished).sweep.problems]
    hidden += [each.task for each in read_journal(finished) if isinstance(each, TaskGiven)]
    assert [word for word in hidden if word.encode() in sent] == []


async def test_every_byte_is_the_same_where_the_other_answer_is_the_right_one(tmp_path, session):
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
        # What differs by study is the ticket; how many came before, by the moment.
        told = {
            page.question: re.sub(
                r'value="\w{16}"|\d+ (answered|waiting)[^<]*| open>', "", page.text
            )
            for page in rater.answered
        }
        assert len(told) == 6
        sent.append(told)
    assert sent[0] == sent[1]


async def test_who_has_no_link_and_who_comes_from_elsewhere_changes_nothing(tmp_path, session):
    async with work(tmp_path) as at_work, (server := RaterServer(at_work.queue)).serving(0) as root:
        await at_work.put(worlds(2))
        first, second = (ScriptedRater(link, session) for _, link in server.links(root))
        for path in ("", "events"):
            assert (await session.get(f"{root}{path}")).status == 403
        await first.post("begin", {})
        page = await first.get()
        fields = {"ticket": page.ticket, **percents(page)}
        known = await first.headers()
        guessed = known["Cookie"].replace(first.token, "guessed")
        for headers in (
            {"Cookie": known["Cookie"]},
            {"Cookie": known["Cookie"], "Origin": "http://evil.example"},
            {"Cookie": known["Cookie"], "Origin": "null"},
            {"Cookie": guessed, "Origin": root.rstrip("/")},
            {**known, "Host": "evil.example"},
        ):
            answer = await session.post(f"{root}answer", data=fields, headers=headers)
            assert answer.status in (403, 421), headers
        assert (await session.put(f"{root}answer", headers=known)).status == 405
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
async def test_raters_get_in_through_a_proxy_that_ends_tls(host, tmp_path, session):
    """host: the name that the proxy passes on; None: that of the server behind it."""
    url, passed = "https://study.example", {"Host": host} if host else {}
    async with work(tmp_path, raters=1) as at_work:
        server = RaterServer(at_work.queue, url=url)
        async with server.serving(0) as root:
            [(_, link)] = server.links(root)
            assert root == f"{url}/" and link.startswith(f"{url}/?token=")
            here = f"http://127.0.0.1:{server.port}/"
            got = await session.get(link.replace(root, here), headers=passed, allow_redirects=False)
            cookie = got.headers["Set-Cookie"]
            assert got.status == 303 and "Secure" in cookie
            known = {**passed, "Cookie": cookie.partition(";")[0]}
            for origin, status in ((url, 303), ("https://evil.example", 403)):
                headers = {**known, "Origin": origin}
                begun = await session.post(f"{here}begin", headers=headers, allow_redirects=False)
                assert begun.status == status


def test_two_processes_cannot_serve_one_run(finished):
    cwd = finished.parent.parent
    with served(finished, cwd):
        journal, panel = finished / "events.jsonl", finished / "persons/panel.json"
        # As a line is found while the first server is writing it.
        journal.write_bytes(b'{"what":"answ')
        seated = panel.read_bytes()
        told = within("human", "serve", finished, "--port", "0", "--raters", "9", cwd=cwd)
        assert journal.read_bytes() == b'{"what":"answ'
        assert panel.read_bytes() == seated
    assert told.code == 7
    assert "another process" in told.err


async def test_an_answer_that_is_not_saved_is_told_so_and_taken_later(tmp_path, session, caplog):
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
            journal.mkdir()  # what cannot be appended to, also by root
            for path in ("answer", "leave"):
                status, said = await rater.post(path, fields)
                assert status == 500, path
                assert "could not be saved" in said and str(tmp_path) not in said
            assert f"{journal} cannot be written" in caplog.text
            assert not any(each.done() for each in at_work.waiting.values())
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
            status, said = await rater.post("answer", fields)
            assert status == 503 and "As I see it." in said
            await again.put(calls)
            assert await rater.post("answer", fields) == (303, "/?said=saved")
            assert {(await each).outcome for each in again.waiting.values()} == {"ok"}
    assert [what(e) for e in read_journal(tmp_path)] == ["consent", *("given", "answered") * 2]


def test_no_batch_is_waited_for_while_people_are(tmp_path):
    batched = "models: {openai/gpt-4o: {batch: true}}\n"
    (tmp_path / "live.yaml").write_text(LIVE.replace("person/experts", "openai/gpt-4o") + batched)
    words = ("human", "serve", "live.yaml", "--raters", "3", "--port", "0")
    for asked in (words, (*words, "--batch")):
        told = within(*asked, cwd=tmp_path, OPENAI_API_KEY="sk-1")
        assert told.code == 2 and "batches cannot be used while people answer" in told.err, told.err
