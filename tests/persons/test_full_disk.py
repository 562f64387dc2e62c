"""Where an answer cannot be written down, nobody is told that it is saved; people judge a run, from
consent to an export that scores, and one of them takes it all back.
"""

import asyncio
import re
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import orjson
import pytest

from oversight.engine.errors import RunFolderError
from oversight.engine.extensions.people.journal import (
    ConsentGiven,
    TaskAnswered,
    note,
    read_journal,
)
from oversight.engine.extensions.people.rating import RaterServer
from oversight.engine.run.events import EVENTS
from oversight.engine.run.reader import RunReader
from oversight.engine.views.pages.measures import measure_page
from oversight.engine.views.pages.routes import Asked, Served
from tests.command_line import Ran, run_in, running, within
from tests.persons.desks import judgement, what, work
from tests.persons.raters import ScriptedRater, percents
from tests.waiting import PATIENCE
from tests.world import shipment

pytestmark = pytest.mark.wire


async def test_an_answer_that_the_disk_refuses_is_told_so_and_taken_later(tmp_path, caplog):
    call = judgement(shipment(0).question, 0)
    async with work(tmp_path, raters=1) as at_work, aiohttp.ClientSession() as session:
        await at_work.put([call])
        server = RaterServer(at_work.desk)
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
            assert not at_work.waiting[call.address].done()
            journal.rmdir()
            aside.rename(journal)
            async with session.post(
                f"{rater.root}answer",
                data=b"--x",
                headers=await rater.headers() | {"Content-Type": "multipart/form-data; boundary=y"},
            ) as no_form:
                assert no_form.status == 400
            assert await rater.post("answer", fields) == (303, "/?said=saved")
            assert (await at_work.waiting[call.address]).outcome == "ok"
    assert [what(each) for each in read_journal(tmp_path)] == ["consent", "given", "answered"]


def test_a_line_that_fits_in_part_spoils_no_line_after_it(tmp_path):
    note(tmp_path, ConsentGiven("first", 1))
    with room(tmp_path / EVENTS, 10), pytest.raises(RunFolderError):
        note(tmp_path, ConsentGiven("second", 2))
    note(tmp_path, ConsentGiven("third", 3))
    assert [event.rater for event in read_journal(tmp_path)] == ["first", "third"]


@contextmanager
def room(file: Path, size: int) -> Iterator[None]:
    """Let this process write so many bytes more to a file, as where a disk is nearly full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


SWEEP = """\
name: study
problems: {bundled: {name: arithmetic, limit: 30}}
agents: sim/strong
judges: sim/judge
protocols: {consultancy: {turns: 2}}
"""


async def judge(place: Path, run: Path) -> Ran:
    """Three people judge 20 transcripts each."""
    words = ("human", "serve", run, "--raters", "3", "--port", "0", "--consent", "consent.txt")
    with running(*words, cwd=place) as server:
        server.until("send each link")
        links = re.findall(r"raters-\d  (http://\S+)", server.err)
        async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE):
            raters = [ScriptedRater(link, session) for link in links]
            assert "I agree to &lt;b&gt;this" in (await raters[0].get()).text
            assert await asyncio.gather(*(rater.work() for rater in raters)) == [20, 20, 20]
            await asyncio.to_thread(server.until, "until Ctrl-C")
            server.hear(signal.SIGINT)
            return await asyncio.to_thread(server.end)


def test_three_raters_judge_twenty_items_each_and_the_export_scores(tmp_path):
    (tmp_path / "consent.txt").write_text("I agree to <b>this</b>.")
    assert run_in(tmp_path, "sweep.yaml", SWEEP).code == 0
    run = next((tmp_path / "runs").glob("study-*"))
    assert asyncio.run(judge(tmp_path, run)).code == 0
    within("human", "export", run, "-o", "people.jsonl", cwd=tmp_path)
    lines = [orjson.loads(line) for line in (tmp_path / "people.jsonl").read_bytes().splitlines()]
    assert len(lines) == 60 and len({line["judge"] for line in lines}) == 3
    assert not any("raters-" in line["judge"] for line in lines)
    scored = within("measure", "judgements", "people.jsonl", cwd=tmp_path)
    assert scored.code == 0 and "60 judgements" in scored.out, scored.err
    page = measure_page(RunReader(run), Served(run.name), Asked(kind="people"))
    assert "The same transcripts before the judge of the run and before persons" in page

    gone = within("human", "withdraw", run, "raters-2", "--erase", cwd=tmp_path)
    assert gone.code == 0 and "deleted: 20 stored replies" in gone.err, gone.err
    within("human", "export", run, "-o", "people.jsonl", cwd=tmp_path)
    assert len((tmp_path / "people.jsonl").read_text().splitlines()) == 40
    left = [e for e in read_journal(run) if isinstance(e, TaskAnswered)]
    assert all(e.posted == {} and e.probs is None for e in left if e.rater == "raters-2")
    agreement = orjson.loads(within("measure", "people", run, "--json", cwd=tmp_path).out)
    assert [each["rater"] for each in agreement["standings"]] == ["raters-1", "raters-3"]
    assert "no rater 'nobody'" in within("human", "withdraw", run, "nobody", cwd=tmp_path).err
