"""Peers: other programs that make calls, each in its own virtual environment."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from platformdirs import user_cache_path

from tools.bench.client import Client

INSTALLED = user_cache_path("oversight-bench") / "peers"
"""Where the environments lie. Each is made once for its versions; removing them costs only time."""
READY = "ready"
"""The file that an environment gets last."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Its packages and workloads; `clients/with_<name>.py` drives it."""

    version: str
    packages: tuple[str, ...]
    """As pip is told them, with `{version}`."""
    workloads: tuple[str, ...]


PEERS: dict[str, Peer] = {
    "openai": Peer("3.52.0", ("openai=={version}",), ("calls", "debates")),
    "litellm": Peer("1.106.0", ("litellm=={version}",), ("calls", "debates")),
    "inspect_ai": Peer(
        "0.3.285", ("inspect-ai=={version}", "openai==3.52.0"), ("calls", "debates")
    ),
    "lm_eval": Peer("0.4.13", ("lm_eval[api]=={version}",), ("calls",)),
    "curator": Peer("0.1.31", ("bespokelabs-curator=={version}",), ("calls",)),
}


def installed(against: str, folder: Path = INSTALLED) -> tuple[tuple[Client, tuple[str, ...]], ...]:
    """Those named, each with the workloads that it can do; one that pip cannot install has a fault.

    against: names with commas between them; `name=PATH` takes a peer from its source tree there.
    UsageError for a name not in `PEERS`, and for a PATH that is not a folder."""
    named = dict(_named(each.strip()) for each in against.split(",") if each.strip())
    return tuple(
        (_client(name, tree, folder), PEERS[name].workloads) for name, tree in named.items()
    )


def _named(told: str) -> tuple[str, Path | None]:
    name, given, path = told.partition("=")
    if name not in PEERS:
        raise click.UsageError(f"unknown peer {name!r}: choose from {', '.join(PEERS)}")
    if given and not Path(path).is_dir():
        raise click.UsageError(f"{told}: no folder {path!r}; its source tree is required")
    return name, Path(path).resolve() if given else None


def _client(name: str, tree: Path | None, folder: Path) -> Client:
    peer = PEERS[name]
    told = ("--editable", str(tree)) if tree else peer.packages
    title = f"{name}, from {tree.name}/" if tree else f"{name} {peer.version[:10]}"
    arguments = [each.replace("{version}", peer.version) for each in told]
    fingerprint = hashlib.sha256("\n".join([sys.version, *arguments]).encode()).hexdigest()
    place = folder / f"{name}-{fingerprint[:12]}"
    python = place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    fault = "" if (place / READY).exists() else _install(title, place, python, arguments)
    return Client(title, f"with_{name}.py", str(python), fault=fault)


def _install(title: str, place: Path, python: Path, arguments: Sequence[str]) -> str:
    """Make an environment with pip's arguments. Return why it failed, or an empty text."""
    click.echo(f"· installing {title} into {place}", err=True)
    shutil.rmtree(place, ignore_errors=True)
    # The pip that is here: giving each environment its own takes seconds.
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    quiet = ["--quiet", "--disable-pip-version-check"]
    venv = [sys.executable, "-m", "venv", "--without-pip", str(place)]
    for command in (venv, [*pip, *quiet, *arguments]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"not installed: {_reason(done.stderr or done.stdout)}"
    (place / READY).touch()
    return ""


def _reason(told: str) -> str:
    """The errors among what pip and git said, lists of all versions cut; else the last words."""
    lines = [line.strip() for line in told.strip().splitlines()] or ["no word of why"]
    errors = [line for line in lines if line.startswith(("ERROR:", "fatal:"))] or lines[-1:]
    return " ".join(f"{line[:200]}…" if len(line) > 200 else line for line in errors)
