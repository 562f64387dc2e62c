"""A run of the core alone: a sweep of debate, consultancy and naive judge on a scripted `Ask`.

`python -m tests.core_run` in an empty folder runs it, resumes it, reads it, and prints the imported
modules of the core. It knows no extension, so it passes without any of them."""

import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.__main__ import main
from oversight.engine.providers.provider import OnLimits, Provider
from oversight.engine.providers.settings import Settings
from oversight.engine.providers.vendors import PROVIDERS, Entry

SWEEP = """
problems: {bundled: {name: arithmetic, limit: 3}}
agents: scripted/agent
judges: scripted/judge
protocols: [naive_judge, consultancy, debate]
"""


class ScriptedProvider(Provider):
    """Agents say one sentence; judges are surer of A the longer the prompt is."""

    async def __call__(self, call: Call) -> Reply:
        if call.model.endswith("agent"):
            return Reply("I checked it twice, and it is right.", call=call.address)
        sure = 50 + sum(len(message.text) for message in call.messages) % 45
        return Reply(f"A: {sure}%\nB: {100 - sure}%", call=call.address)

    async def close(self) -> None:
        """Nothing to release."""


def _connect(settings: Settings, on_limits: OnLimits | None) -> Provider:
    return ScriptedProvider()


def oversight(*words: str) -> None:
    sys.argv = ["oversight", *words]
    try:
        main()
    except SystemExit as left:
        if left.code:
            raise


def run() -> None:
    PROVIDERS["scripted"] = Entry(_connect, base_url="http://127.0.0.1", key_needed=False)
    Path("core.yaml").write_text(SWEEP)
    for _ in range(2):
        oversight("run", "core.yaml", "--store", "store", "--run-folder", "run")
    for reading in ("report", "status", "compare"):
        oversight(reading, "run")
    oversight("show", "run", _first_problem())
    oversight("show", "run", "--search", "twice")
    oversight("replay", "run")
    oversight("view", "run", "--write", "site")
    oversight("--help")
    names = (name for name in sys.modules if name.startswith("oversight.engine.extensions."))
    print("extensions:", *sorted({re.split(r"\.", name)[3] for name in names}))


def _first_problem() -> str:
    with closing(sqlite3.connect("run/run.db")) as db:
        ((first,),) = db.execute("SELECT id FROM problems WHERE problem = 0")
    return str(first)


if __name__ == "__main__":
    run()
