"""Code of a model has no effect but its result, which is no text of its own."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from oversight.cache.reply import ToolCall
from oversight.protocols.agents import python
from oversight.protocols.agents.tools import Allowance, Scene, use
from oversight.protocols.errors import ToolMissing
from oversight.protocols.transcript import ToolUse
from tests.fakes import CRATES
from tests.sessions import Session, sessions
from tests.tables import expressions

FILE = Path(__file__).with_name("python.md")


async def used(code: str, seconds: float | None = None) -> ToolUse:
    wish = ToolCall("1", "python", orjson.dumps({"code": code}).decode())
    with pytest.MonkeyPatch.context() as patch:
        if seconds is not None:
            patch.setattr(python, "SECONDS", seconds)
        return await use(Allowance(("python",), 2.0), wish, Scene(CRATES, None))


async def tried(code: str, seconds: float | None = None) -> list[str]:
    found = await used(code, seconds)
    shown = "" if found.failed else "code of the speaker"
    assert found == ToolUse("python", shown, found.result, 1.0)
    assert "right" not in found.result.partition("last line")[0]
    return [found.result]


def children() -> set[str]:
    """The processes that this one has started, by whichever thread."""
    found: set[str] = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # the thread has ended since it was listed
            found |= set((thread / "children").read_text().split())
    return found


@pytest.fixture(autouse=True)
def interpreter() -> None:
    pytest.importorskip("pydantic_monty", reason="pip install 'oversight-bench[tools]'")


@pytest.mark.wire
@sessions(FILE)
def test_code_finds_a_value_or_ends_without_effect(
    session: Session,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").touch()
    before = children()
    session.check(request, expressions({"tried": tried}))
    assert [each.name for each in tmp_path.iterdir()] == ["there"]
    assert children() <= before


@pytest.mark.wire
async def test_the_same_code_gives_the_same() -> None:
    """Clock, chance, hashes and addresses: no process knows another day or another number."""
    code = (
        "import random, time, datetime\n"
        "order = [ord(x) for x in {'d', 'b', 'c', 'a'}]\n"
        "now = datetime.datetime.now()\n"
        "[random.random(), random.Random().random(), time.time(), time.perf_counter(), now.year, "
        "order, hash('a'), id('x'), id([])]"
    )
    first, again = await asyncio.gather(used(code), used(code))
    assert first == again and not first.failed


@pytest.mark.wire
def test_a_cancelled_use_leaves_no_process() -> None:
    before = children()

    async def cut_short() -> None:
        task = asyncio.create_task(used("while True: pass", 0.5))
        while children() <= before:  # noqa: ASYNC110 - the kernel tells of no event
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cut_short())
    assert children() <= before


async def test_without_the_interpreter_no_code_runs_and_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(ToolMissing, match=r"pip install '(pydantic-|.*\[tools\])"):
        await used("1")
