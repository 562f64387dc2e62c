"""How the engine leaves Python and the system: collector, errors, open files."""

import errno
import gc
import os
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from oversight.cache.disk import DiskStore
from oversight.cache.portable import export_replies
from oversight.cache.store import MemoryStore
from oversight.engine import errors
from oversight.engine.errors import DiskFull
from oversight.engine.models.accounting.ledger_file import LEDGER_FILE, write_uncollected
from oversight.engine.run.events import EVENTS, add_event, sync_events
from oversight.engine.system.files import replace_file
from oversight.engine.system.process import YOUNG, gc_relaxed
from tests.sittings import Bench, Vendor


@pytest.mark.parametrize("fault", [None, RuntimeError])
def test_the_collector_rests_while_the_body_runs_and_is_as_it_was_afterwards(fault):
    gc.unfreeze()  # objects frozen after collection of the tests
    before = gc.get_threshold()
    with pytest.raises(fault) if fault else nullcontext(), gc_relaxed():
        assert gc.get_threshold()[0] == YOUNG > before[0] and gc.get_freeze_count()
        if fault:
            raise fault
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)


def test_failed_replacement_keeps_the_old_file_and_leaves_no_other(tmp_path):
    def parts() -> Iterator[bytes]:
        yield b"half"
        raise OSError(errno.ENOSPC, "no room")

    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(DiskFull):
        replace_file(tmp_path / "file", parts())
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"file": b"old"}


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (lambda folder, n: write_uncollected(folder, {"lab/m": (n, 1.0)}), LEDGER_FILE),
        (lambda folder, n: add_event(folder, "kind", n), EVENTS),
        (
            lambda folder, n: (add_event(folder, "kind", n, durable=False), sync_events(folder)),
            EVENTS,
        ),
        (lambda folder, n: replace_file(folder / "file", [b"new"]), "file"),
        (lambda folder, n: export_replies(MemoryStore(), [], folder / "replies"), "replies"),
    ],
    ids=["what is owed", "an event", "events at once", "a file", "exported replies"],
)
def test_durable_files_are_synced(write, name, tmp_path, monkeypatch):
    DiskStore(tmp_path).close()
    write(tmp_path, 1)
    synced: dict[int, int] = {}

    def sync(file: int) -> None:
        synced[os.fstat(file).st_ino] = os.fstat(file).st_size

    monkeypatch.setattr(os, "fsync", sync)
    write(tmp_path, 2)
    written = (tmp_path / name).stat()
    assert synced.get(written.st_ino) == written.st_size


def test_the_tree_of_errors_names_every_class():
    drawn = re.findall(r"^[│├└─ ]*([A-Z]\w+)(?:  |$)", errors.__doc__ or "", re.MULTILINE)
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    defined = {value.__name__ for value in classes if issubclass(value, BaseException)}
    assert sorted(drawn) == sorted(defined)


@pytest.mark.wire
@pytest.mark.parametrize(("provider", "files"), [
    ("compatible/lab", 64), pytest.param("compatible/lab", 256, marks=pytest.mark.nightly),
    pytest.param("openai", 64, marks=pytest.mark.nightly), ("openai", 256),
])  # fmt: skip
def test_with_few_open_files_nothing_that_was_answered_is_lost(tmp_path, files, provider):
    with Vendor(latency=1.0 if files == 256 else 0.2) as vendor:
        bench = bench_of(tmp_path, vendor.url, provider, (files, files))
        output = bench.complete()
    assert len(vendor.book) == len(set(vendor.prompts())) == len(bench.stored()) > 256
    assert re.search(r"each provider gets \d+ connections at most.*ulimit -n", output), output
    assert "Traceback" not in output


@pytest.mark.wire
@pytest.mark.parametrize("files", [24, 32])
def test_with_too_few_open_files_nothing_is_asked(tmp_path, files):
    with Vendor(latency=0.1) as vendor:
        refused = bench_of(tmp_path, vendor.url, "compatible/lab", (files, files)).start()
        assert refused.wait() == 2, refused.told
        assert f"may have {files} open files" in refused.told and "ulimit -n" in refused.told
        assert "Traceback" not in refused.told and vendor.book == []


@pytest.mark.wire
def test_a_soft_bound_is_raised(tmp_path):
    with Vendor(latency=0.3) as vendor:
        soft = bench_of(tmp_path, vendor.url, "compatible/lab", (64, 4096))
        assert "connections at most" not in soft.complete()
        assert vendor.server.counts()["connections"] > 100


def bench_of(folder: Path, url: str, provider: str, files: tuple[int, int]) -> Bench:
    """More than 256 calls that are ready at once."""
    bench = Bench(
        folder, url, problems=100 if files == (256, 256) else 60, lanes=256, concurrency=400,
        open_files=files,
    )  # fmt: skip
    if provider == "openai":
        text = bench.sweep.read_text().replace("identity: the lab, ", "")
        text = re.sub(r"compatible/lab/\w+", "openai/gpt-4o", text)
        text = text[: text.index("models:\n")].replace("compatible/lab", "openai")
        bench.sweep.write_text(text)
        bench.environment = {"OPENAI_API_KEY": "sk-0123456789abcdef"}
    return bench
