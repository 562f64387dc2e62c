"""Folders and packs from elsewhere are data: no command runs their code, connects to an address
that they name, changes a file outside of them, or waits for a pipe in them."""

import faulthandler
import json
import os
import shutil
import signal
import sqlite3
import struct
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from operator import eq
from pathlib import Path
from stat import S_ISFIFO
from typing import TypeAlias

import pytest

from oversight.engine.extensions.batches.journal import Batch, BatchJournal
from oversight.engine.extensions.mock.process import serving
from oversight.engine.views.cli.exit_codes import ExitCode
from tests import starting
from tests.command_line import ROOT, Ran, environment, within
from tests.engine.views.cli.test_options import COMMANDS
from tests.own_protocol import STEEL
from tests.run_folders import noted

SWEEP = """\
name: planted
problems: {bundled: {name: arithmetic, limit: 2}}
agents: sim/strong
judges: {kind: stated, model: openai/gpt-6-luna, effort: none}
protocols: [naive_judge, propaganda]
"""
Plant: TypeAlias = Callable[[Path, Path], object]
"""Makes something of a run folder. The other folder is the reader's own, with a file `victim`."""

MINE = SWEEP.replace("planted", "mine").replace("openai/gpt-6-luna, effort: none", "sim/judge")
JUDGED = {"id": "1", "values": {"A": 1, "B": -1}, "judge": "j", "verdict": {"A": 0.8, "B": 0.2}}
TEXTS = {
    "steel.py": STEEL,
    "persons/panel.json": json.dumps([{"name": "raters-1", "panel": "raters", "key": "k"}]),
    "judged.jsonl": json.dumps(JUDGED) + "\n",
    "scores.csv": "question,score\n1,1\n2,0\n3,1\n",
    "data.jsonl": (ROOT / "protocols/data/arithmetic.jsonl").read_text(),
    "tasks.jsonl": '{"id": "t", "question": "What is 1 + 1?", "answer": "2"}\n',
    ".env": "HTTP_PROXY=http://127.0.0.1:9\nOPENAI_BASE_URL=http://127.0.0.1:9/v1\n",
}

ASKED: dict[str, tuple[str, ...]] = {
    "cache batches": ("RUN", "RUN --cancel"),
    "cache export": ("RUN -o out.oversight", "--all -o out.oversight --store RUN/kept"),
    "cache import": ("RUN/kept", "RUN/run.oversight"),
    "cache list": ("--store RUN/kept", "--store RUN/replies"),
    "cache prune": ("--store RUN/kept --model none --yes", "--store RUN/kept --damaged --yes"),
    "cache rebuild": ("RUN",),
    "cache show": ("0 --store RUN/kept",),
    "cache verify": ("--store RUN/kept", "--store RUN/kept --recover"),
    "compare": ("RUN RUN", "RUN runs/good"),
    "dataset check": ("file --set path=RUN/data.jsonl",),
    "dataset fetch": ("no-such-set",),
    "dataset propose": ("RUN/tasks.jsonl --agent sim/strong -o made.jsonl",),
    "demo": ("--run-folder RUN",),
    "doctor": ("mine.yaml",),
    "export inspect": ("RUN -o logs",),
    "export open": ("RUN/run.oversight -o opened",),
    "export pack": ("RUN -o out.oversight",),
    "export plot": ("RUN --data -",),
    "export tables": ("RUN --format jsonl",),
    "export verify": ("RUN/run.oversight",),
    "human export": ("RUN -o people.jsonl",),
    "human serve": ("RUN --port 0 --raters 3",),
    "human status": ("RUN",),
    "human withdraw": ("RUN raters-1 --erase",),
    "init": ("new.yaml",),
    "measure calibration": ("RUN",),
    "measure coverage": ("RUN",),
    "measure monitoring": ("RUN",),
    "measure proposals": ("RUN",),
    "measure frontier": ("RUN",),
    "measure judgements": ("RUN/judged.jsonl",),
    "measure people": ("RUN",),
    "measure probe": ("RUN",),
    "measure scores": ("RUN/scores.csv",),
    "measure sides": ("RUN",),
    "measure worlds": ("RUN",),
    "plan": ("mine.yaml", "mine.yaml --pilot RUN"),
    "replay": ("RUN", "RUN/sweep.yaml"),
    "report": ("RUN", "RUN/sweep.yaml", "RUN runs/good", "RUN/run.oversight"),
    "run": ("mine.yaml --run-folder RUN", "mine.yaml --run-folder runs/new"),
    "show": ("RUN", "RUN --search nats"),
    "status": ("", "RUN"),
    "try": ("mine.py:Steelman",),
    "view": ("RUN --write site", "RUN --no-open --port 0", "runs --no-open --port 0"),
}
"""The words of each command about a run folder, RUN, that came from elsewhere."""

REFUSED = (
    *("cache batches RUN --cancel", "measure probe", "measure sides", "cache rebuild", "demo"),
    *("dataset fetch", "run mine.yaml --run-folder RUN"),
    *("measure monitoring", "measure proposals"),
    *(() if find_spec("inspect_ai") else ("export inspect",)),
)
"""Beginnings of lines that are refused for any such folder."""
DONE = (ExitCode.DONE, ExitCode.INTERRUPTED)
WRITES = ("cache prune", "cache verify", "cache rebuild", "export tables", "demo", "human", "run")
"""Beginnings of lines that may change the folder itself."""


def journal(folder: Path, outside: Path, name: str = "run.db") -> None:
    """The journal of a database that names a file: SQLite deletes it once it has played that."""
    head = bytes.fromhex("d9d505f920a163d7")
    pages, victim = (folder / name).stat().st_size // 4096, str(outside / "victim").encode()
    start = (head + struct.pack(">5I", 0, 0, pages, 512, 4096)).ljust(512, b"\0")
    check = struct.pack(">2I", len(victim), sum(victim)) + head
    record = struct.pack(">I", 2**30 // 4096 + 1) + victim + check
    (folder / f"{name}-journal").write_bytes(start + record)


def journals(folder: Path, outside: Path) -> None:
    journal(folder, outside)
    for name in ("kept", "replies"):
        journal(folder / name, outside, "cache.db")


def log(folder: Path, outside: Path) -> None:
    shutil.copy(folder / "run.db", folder / "other.db")
    with closing(sqlite3.connect(folder / "other.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=wal")
        db.execute("UPDATE cells SET repeat = repeat")
        shutil.copy(folder / "other.db-wal", folder / "run.db-wal")


def named(folder: Path, outside: Path) -> None:
    """Code in the folder and outside, a store, and a database that is lost."""
    noted(folder, store="postgresql://127.0.0.1:9/x")
    (outside / "steel.py").write_text(STEEL)
    places = ("steel.py", outside / "steel.py", "../../../outside/steel.py")
    classes = "".join(f', "{place}:Steelman"' for place in places)
    sweep = folder / "sweep.yaml"
    sweep.write_text(sweep.read_text().replace(", propaganda", f", propaganda{classes}"))


def lost(folder: Path, outside: Path) -> None:
    named(folder, outside)
    (folder / "run.db").write_bytes((folder / "run.db").read_bytes()[:4096])


FILES = (
    "run.db kept/cache.db replies/cache.db run.oversight judged.jsonl",
    "run.db-journal kept/cache.db-journal replies/cache.db-journal",
    "run.db-wal run.db-shm kept/cache.db-wal replies/cache.db-wal",
    "lock",
    "sweep.yaml events.jsonl ledger",
    "outcomes.jsonl persons/panel.json persons/lock report/report.json "
    "data.jsonl .outcomes.jsonl.new .events.jsonl.new probes/lock batches/0123456789abcdef.calls",
)


def in_place_of(names: str, make: Callable[[Path, Path], object]) -> Plant:
    def plant(folder: Path, outside: Path) -> None:
        for name in names.split():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).unlink(missing_ok=True)
            make(folder / name, outside / "victim")

    return plant


PLANTS: dict[str, Plant] = {
    "nothing more": lambda folder, outside: None,
    "names": named,
    "names, and no database": lost,
    "journals": journals,
    "a log": log,
    **{f"pipes: {names:.25}": in_place_of(names, lambda at, _: os.mkfifo(at)) for names in FILES},
    **{f"links: {names:.25}": in_place_of(names, Path.symlink_to) for names in FILES[::2]},
}
LINES = [f"{command} {words}".strip() for command, every in ASKED.items() for words in every]


def kept(folder: Path) -> dict[str, object]:
    """The content of each file below a folder, and the kind of anything else, by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else path.lstat().st_mode
        for path in folder.rglob("*")
    }


def child(plant: str) -> None:
    """Give every command, in a copy of the working folder, and print what it did, a line each."""
    original, events = Path.cwd(), list[str]()

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
            events.append(f"{event} {args[1:]}")
        elif event == "socket.bind":
            signal.raise_signal(signal.SIGINT)
        elif event == "exec" and "steel.py" in str(getattr(args[0], "co_filename", "")):
            events.append(f"ran {args[0]}")
        elif event == "open" and isinstance(args[0], str) and isinstance(args[2], int):
            waits = not args[2] & (os.O_NONBLOCK | os.O_RDWR)
            if waits and os.path.lexists(args[0]) and S_ISFIFO(os.lstat(args[0]).st_mode):
                events.append(f"waits for {args[0]}")
                raise OSError(f"{args[0]} is a pipe")

    sys.addaudithook(hook)
    for number, line in enumerate(LINES):
        faulthandler.dump_traceback_later(120, exit=True)
        place = original.with_name(f"{original.name}-{number}")
        shutil.copytree(original, place)
        folder, outside = place / "runs/planted", place / "outside"
        PLANTS[plant](folder, outside)
        before = kept(outside), kept(folder)
        events.clear()
        os.chdir(place)
        store = {"OVERSIGHT_STORE": str(place / "store")}
        try:
            ran = within(*line.replace("RUN", "runs/planted").split(), cwd=place, **store)
        except BaseException:
            ran = Ran(-1, "", traceback.format_exc())
        after = kept(outside), kept(folder)
        row = json.dumps([line, *ran, events, *map(eq, before, after)])
        print(row, file=sys.__stdout__, flush=True)
        os.chdir(original)
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with two runs; one of them stands for a folder from elsewhere."""
    place = tmp_path_factory.mktemp("folders")
    for name, text in {"planted.yaml": SWEEP, "mine.yaml": MINE, "mine.py": STEEL}.items():
        (place / name).write_text(text)
    folder, settings = place / "runs/planted", {"OVERSIGHT_STORE": str(place / "store")}

    def done(*words: str, **variables: str) -> None:
        ran = within(*words, cwd=place, **settings, **variables)
        assert ran.code == 0, ran.err

    done("run", "mine.yaml", "--run-folder", "runs/good")
    with serving(["--sweep", str(place / "planted.yaml")]) as url:
        at = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": ""}
        address = f"providers: {{openai: {{base_url: {url}/v1}}}}\n"
        (place / "planted.yaml").write_text(SWEEP + address)
        done("run", "planted.yaml", "--run-folder", "runs/planted", **at)
    done("export", "pack", "runs/planted", "-o", "runs/planted/run.oversight")
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for name in ("kept", "replies"):
        shutil.copytree(place / "store", folder / name)
    journal = BatchJournal(folder)
    batch = Batch("0123456789abcdef", "openai/gpt-6-luna", 1, 0.0)
    journal.file(batch.mark).write_bytes(b"{}\n")
    journal.send(batch)
    journal.note(submitted=batch.mark, id="batch_1")
    (place / "outside").mkdir()
    (place / "outside/victim").write_text("three years of work\n" * 100)
    return place


def test_every_command_is_tested_with_a_foreign_folder():
    assert set(ASKED) == set(COMMANDS)


@pytest.mark.wire
@pytest.mark.parametrize("plant", PLANTS)
def test_foreign_folder_causes_no_code_call_change_or_wait(place, plant):
    code = f"from tests.engine.views.cli.test_folders import child; child({plant!r})"
    # Another machine, which made none of the runs.
    homes = {"HOME": str(place / "home"), "XDG_DATA_HOME": str(place / "home")}
    variables = environment({"OPENAI_API_KEY": "sk-canary-of-the-reader-0001"} | homes)
    process = starting.run([sys.executable, "-c", code], cwd=place, env=variables)
    rows = [json.loads(line) for line in process.stdout.splitlines()]
    assert [line for line, *_ in rows] == LINES, process.stderr
    wrong = []
    for line, code, out, err, events, outside_is_as_before, folder_is_as_before in rows:
        faults = {
            "events": not events,
            "outside": outside_is_as_before,
            "folder": folder_is_as_before or line.startswith(WRITES),
            "exit": code in {*ExitCode},
            "refused": plant != "nothing more" or (code in DONE) != line.startswith(REFUSED),
            "other run": "runs/good" in out or line != "status",
        }
        wrong += [
            (fault, line, code, events, out[-300:], err[-2000:])
            for fault, fine in faults.items()
            if not fine
        ]
    assert wrong == []
