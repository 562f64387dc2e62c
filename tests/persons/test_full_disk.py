"""Where an answer cannot be written down, nobody is told that it is saved."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from oversight.engine.errors import RunFolderError
from oversight.engine.extensions.people.journal import (
    ConsentGiven,
    RaterJournal,
    read_journal,
)
from oversight.engine.extensions.people.pages.rating import RaterServer
from oversight.engine.run.events import EVENTS
from tests.persons.desks import judgement, what, work
from tests.persons.raters import ScriptedRater, percents
from tests.shipments import shipment

pytestmark = pytest.mark.wire


async def test_an_answer_that_the_disk_refuses_is_told_so_and_taken_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
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
            status, said = await rater.post("answer", fields)
            assert status == 500
            assert "could not be written down" in said and str(tmp_path) not in said
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


def test_a_line_that_fits_in_part_spoils_no_line_after_it(tmp_path: Path) -> None:
    journal = RaterJournal(tmp_path)
    journal.append(ConsentGiven("first", 1))
    with room(tmp_path / EVENTS, 10), pytest.raises(RunFolderError):
        journal.append(ConsentGiven("second", 2))
    journal.append(ConsentGiven("third", 3))
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
