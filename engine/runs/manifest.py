"""The manifest of a run folder: what the run is, and which sweep belongs to it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from ..errors import RunFolderError
from ..providers.capabilities import Api
from ..system.files import read_bounded, refuse_links_within, replace_file

FORMAT = 1
"""Version of the run folder's layout."""

MANIFEST_FILE = "manifest.json"

MAX_MANIFEST = 2**26
"""Bytes of a manifest at most."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Enough to know whether a sweep belongs to a run folder, and to open the sweep again."""

    identity: str
    """The sweep's: oversight.engine.sweeps.sweep.Sweep.identity."""
    name: str
    cells: int
    overrides: tuple[str, ...]
    """The `--set` flags that the run was started with, as written."""
    version: str
    """The version of this program with which the run was started."""
    store: str
    """Path of the store; empty for a run that kept none."""
    replies: int = 0
    """How many replies the store held when the run last stopped; fewer than that is a loss."""
    format: int = FORMAT
    store_id: str = ""
    """The id of that store, wherever it is; empty in a run that has noted none yet."""
    part: str = ""
    """Which part of a larger sweep this is, as `3/16`; empty for a whole one."""
    apis: Mapping[str, Api] = field(default_factory=dict)
    """By model, which of OpenAI's two endpoints answers for it, where there are two."""
    refreshed_since: int = 0
    """When the run began to refresh its replies, in seconds since 1970; 0 if it never did."""
    sweep_folder: str = ""
    """Where the sweep file lay, from the run folder, in a sweep that names code by files."""
    prompts: str = ""
    """12 hex digits of all words that the seats of the run read."""
    prompt_sets: dict[str, dict[str, str]] = field(default_factory=dict)
    """By path, as the sweep names them: the blocks of the prompt sets that were read from files."""


def write_manifest(folder: Path, manifest: Manifest) -> None:
    told = asdict(manifest)
    if not manifest.sweep_folder:
        # Most sweeps name no files, and versions that do not know of it can open their runs.
        del told["sweep_folder"]
    replace_file(folder / MANIFEST_FILE, [orjson.dumps(told, option=orjson.OPT_INDENT_2)])


def read_manifest(folder: Path) -> Manifest:
    """RunFolderError, with the next step, if `folder` is no run folder of a version we read."""
    file = folder / MANIFEST_FILE
    try:
        refuse_links_within(folder)
        told = orjson.loads(read_bounded(file, MAX_MANIFEST))
    except FileNotFoundError:
        raise RunFolderError(f"{folder} is no run folder: it has no {MANIFEST_FILE}") from None
    except (OSError, orjson.JSONDecodeError) as exc:
        raise RunFolderError(f"{file}: cannot be read: {exc}") from exc
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise RunFolderError(f"{file}: this version reads run folders of format {FORMAT} only")
    try:
        return Manifest(**{**told, "overrides": tuple(told["overrides"])})
    except (KeyError, TypeError) as exc:
        raise RunFolderError(f"{file}: is damaged: {exc}") from exc
