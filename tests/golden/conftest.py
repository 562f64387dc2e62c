"""Copies of what is never made anew, and commands that run among them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from oversight.cache.disk import ReadOnlyStore
from tests.command_line import Command, within

Copied: TypeAlias = Callable[[Path, int], Path]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Copied]:
    """Makes a working folder with copies of a store and of run folders; the store holds as many
    replies afterwards, for nothing of this asks anybody anything."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERSIGHT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    held = []

    def copied(made: Path, replies: int) -> Path:
        shutil.copytree(made / "store", tmp_path / "store")
        shutil.copytree(made / "made", tmp_path / "runs")
        held.append(replies)
        return tmp_path

    yield copied
    with closing(ReadOnlyStore(tmp_path / "store")) as store:
        assert [len(store)] == held


@pytest.fixture
def command(folder: Path) -> Command:
    """Runs a command in this process, among the copies."""
    return partial(within, cwd=folder)
