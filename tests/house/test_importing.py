"""Importing does nothing: no file, no setting read, no client loaded before it is needed."""

import asyncio
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from oversight.cache.cache import Cache
from oversight.cache.disk import DiskStore
from oversight.engine.run.loaded_sweep import open_sweep
from tests.command_line import calls
from tests.fakes import Scripted, run_cells
from tests.house.weight import ROOMS, ROOT

pytestmark = pytest.mark.wire
FILES = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
SLOW = ("scipy", "openai", "anthropic", "torch")
HEAVY = (*SLOW, "httpx", "httpx2", "aiohttp")
EXTRAS = {
    "oversight.engine.extensions.cluster.session": "ray",
    "oversight.engine.extensions.inspect.logs": "inspect_ai",
}
"""Modules that say at once what they lack -> the package that they need."""


def run(code: str) -> str:
    """Return the output of a fresh interpreter."""
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return process.stdout


READS = """
import importlib, os, sys
from collections.abc import MutableMapping

class Watched(MutableMapping):
    def __init__(self, inner): self.inner, self.read = inner, []
    def __getitem__(self, name):
        frame = sys._getframe(1)
        while frame.f_code.co_filename.startswith("<frozen") or "_environ" in frame.f_code.co_name:
            frame = frame.f_back
        self.read.append((frame.f_code.co_filename, name))
        return self.inner[name]
    def __setitem__(self, name, value): self.inner[name] = value
    def __delitem__(self, name): del self.inner[name]
    def __iter__(self): return iter(self.inner)
    def __len__(self): return len(self.inner)

os.environ = Watched(os.environ)
for name in LIGHT: importlib.import_module(name)
loaded = [name for name in HEAVY if name in sys.modules]
for name in NAMES: importlib.import_module(name)
read = [file for file, name in os.environ.read if file.startswith(ROOT) and "/.venv/" not in file]
print([loaded, read])
"""


def test_importing_every_module_makes_no_file_reads_no_setting_and_loads_no_client(tmp_path):
    names = [
        ".".join(("oversight", *file.relative_to(ROOT).with_suffix("").parts))
        for file in FILES
        if "__" not in file.name
    ]
    names = [name for name in names if name not in EXTRAS or find_spec(EXTRAS[name])]
    # HTTP clients are imported with the first call; downloads are a separate command.
    light = [n for n in names if ".providers." not in n and not n.endswith("datasets.download")]
    code = f"import os, sys; os.chdir({str(tmp_path)!r}); sys.path.insert(0, {str(ROOT)!r})\n"
    code += f"LIGHT, NAMES, HEAVY, ROOT = {light!r}, {names!r}, {SLOW!r}, {str(ROOT)!r}\n{READS}"
    assert run(code) == "[[], []]\n" and os.listdir(tmp_path) == []


AGAIN = """
import sys
met = []
sys.addaudithook(lambda event, args: met.append(args) if event == "socket.connect" else None)
from oversight.engine.views.cli.group import main
sys.argv = ["oversight", "run", "real.yaml", "--store", "store"]
try: main()
except SystemExit as left: code = int(left.code)
print([code, met, [name for name in HEAVY if name in sys.modules]])
"""


def test_run_that_the_store_answers_loads_no_client_and_connects_to_nobody(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    (tmp_path / "real.yaml").write_text(
        "problems: {bundled: {name: arithmetic, limit: 2}}\n"
        "agents: openai/gpt-6-sol\njudges: openai/gpt-6-luna\nprotocols: [naive_judge, debate]\n"
    )
    opened, store = open_sweep(tmp_path / "real.yaml"), DiskStore(tmp_path / "store")

    async def paid() -> None:
        models = Scripted(lambda call: "A: 70%\nB: 30%")
        cache = Cache(store, models, identity=opened.models.identity)
        await run_cells(
            opened.sweep.cells(), cache, lambda cell, outcome: None, lanes=9,
            stop_token=opened.stop_token,
        )  # fmt: skip
        await cache.close()

    asyncio.run(paid())
    store.close()
    # The package of public prices imports httpx2, and opens no connection.
    clients = [name for name in HEAVY if name != "httpx2"]
    code = f"import sys;sys.path.insert(0, {str(ROOT)!r})\n" + AGAIN.replace("HEAVY", repr(clients))
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "8 of 8 cells" in process.stderr and calls(process.stderr).new == 0
    assert process.stdout.splitlines()[-1] == "[0, [], []]", process.stderr


def test_help_is_shown_without_loading_what_runs_sweeps():
    code = (
        "import sys; sys.argv = ['oversight', '--help']\n"
        "from oversight.engine.views.cli.group import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([n for n in ('numpy', 'pydantic', 'yaml', 'sqlite3', 'diskcache', 'rich.live', "
        "'aiohttp', 'openai', 'anthropic') if n in sys.modules])"
    )
    assert run(code).splitlines()[-1] == "[]"
