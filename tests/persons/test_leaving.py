"""People judge a run, from consent to an export that scores; one of them takes it all back."""

import asyncio
import re
import signal
from pathlib import Path

import aiohttp
import orjson
import pytest

from oversight.engine.extensions.people.journal import TaskAnswered, read_journal
from oversight.engine.run.reader import RunReader
from oversight.engine.views.pages.addresses import Served
from oversight.engine.views.pages.measures import measure_page
from oversight.engine.views.pages.routes import Asked
from tests.command_line import Ran, run_in, running, within
from tests.persons.raters import ScriptedRater
from tests.waiting import PATIENCE

pytestmark = pytest.mark.wire

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


def test_three_raters_judge_twenty_items_each_and_the_export_scores(tmp_path: Path) -> None:
    (tmp_path / "consent.txt").write_text("I agree to <b>this</b>.")
    assert run_in(tmp_path, "sweep.yaml", SWEEP).code == 0
    run = next((tmp_path / "runs").glob("study-*"))
    assert asyncio.run(judge(tmp_path, run)).code == 0
    within("human", "export", run, "-o", "people.jsonl", cwd=tmp_path)
    lines = [orjson.loads(line) for line in (tmp_path / "people.jsonl").read_bytes().splitlines()]
    assert len(lines) == 60 and len({line["judge"] for line in lines}) == 3
    assert not any("raters-" in line["judge"] for line in lines)
    scored = within("study", "score", "people.jsonl", cwd=tmp_path)
    assert scored.code == 0 and "60 judgements" in scored.out, scored.err
    page = measure_page(RunReader(run), Served(run.name), Asked(kind="people"))
    assert "The same transcripts before persons and before the judge" in page

    gone = within("human", "withdraw", run, "raters-2", "--erase", cwd=tmp_path)
    assert gone.code == 0 and "deleted: 20 stored replies" in gone.err, gone.err
    within("human", "export", run, "-o", "people.jsonl", cwd=tmp_path)
    assert len((tmp_path / "people.jsonl").read_text().splitlines()) == 40
    left = [e for e in read_journal(run / "persons") if isinstance(e, TaskAnswered)]
    assert all(e.posted == {} and e.probs is None for e in left if e.rater == "raters-2")
    agreement = orjson.loads(within("human", "agreement", run, "--json", cwd=tmp_path).out)
    assert [each["rater"] for each in agreement["raters"]] == ["raters-1", "raters-3"]
    assert "no rater 'nobody'" in within("human", "withdraw", run, "nobody", cwd=tmp_path).err
