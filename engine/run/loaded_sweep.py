"""Opening a sweep, and the run folder that is its own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs
from msgspec import field as struct_field
from msgspec.json import encode

from ...cache.store import Reader
from ..errors import RunFolderError, UsageError
from ..models.directory import Directory, base_url_of
from ..providers.settings import Api, environment
from ..stop import StopToken
from ..sweep.code import RowCode, combined, row_codes
from ..sweep.loading import problems_of, shots_files
from ..sweep.sweep import Sweep, service_tiers, tool_users
from ..sweep.sweepfile import SweepFile, check_names, check_use, read_sweep_file
from .folders import RUNS, Manifest, RunCode, is_run, listed, read_manifest, runs_of
from .run_folder import RunFolder
from .settings import RunSettings

if TYPE_CHECKING:
    from ..providers.provider import Provider

STARTED = "# started with: "
"""Begins the last line of a run's sweep file, where the file alone does not say all."""


class Started(Struct, frozen=True, omit_defaults=True):
    """The options with which a run was started."""

    overrides: tuple[str, ...] = struct_field(default=(), name="set")
    limit: int | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class LoadedSweep:
    """A sweep that is ready to be run or looked into; nothing was sent for it."""

    file: SweepFile
    sweep: Sweep
    models: Directory
    stop_token: StopToken
    answering: dict[str, "Provider"] = field(default_factory=dict)
    """By provider, what answers for its models in this process."""


def open_sweep(path: Path, overrides: Sequence[str] = (), limit: int | None = None) -> LoadedSweep:
    """UsageError names what in the file, or in the overrides, is wrong."""
    return load_sweep(read_sweep_file(path, overrides, limit))


def folder_of(sweep: Sweep, now: Mapping[str, RowCode] | None = None) -> Path:
    """The default run folder of a sweep: the newest of the same sweep and code, else the newest of
    the same sweep, else a new one. now: the code of its rows, by their addresses; None for any."""
    ours: list[Path] = []
    for folder in runs_of(sweep.name, f"{sweep.name}-"):
        code = read_manifest(folder).code_of(sweep)
        if code is None:
            continue
        if now is None or not code.changes(now, sweep.rows):
            return folder
        ours.append(folder)
    return ours[0] if ours else RUNS / f"{sweep.name}-{sweep.identity[:6]}"


def run_folder(
    loaded: LoadedSweep,
    settings: RunSettings,
    store: str,
    kept_in: Reader | None = None,
    *,
    replace_lost: bool = False,
) -> RunFolder:
    """Return the run folder of a sweep: an existing one of the same sweep, else a new one. store:
    its name. kept_in: the open store of a new run. replace_lost: as for `RunFolder`."""
    sweep, sweep_file = loaded.sweep, loaded.file.document
    now = row_codes(sweep.rows)
    folder = settings.folder or folder_of(sweep, now)
    if settings.allow_changed_code == "new folder" and is_run(folder):
        earlier = read_manifest(folder).code_of(sweep)
        if earlier is not None and earlier.changes(now, sweep.rows):
            folder = _free(folder)
    manifest = Manifest(
        sweep.identity,
        sweep.name,
        len(sweep),
        loaded.file.overrides,
        version("oversight-bench"),
        store,
        part=settings.part,
        apis=loaded.models.apis,
        prompts=sweep.prompts,
        prompt_sets={path: dict(blocks) for path, blocks in loaded.file.prompts.items()},
        data=loaded.file.data_notes,
        code=RunCode().adopting(now, now),
        store_id="" if kept_in is None else kept_in.id,
    )

    def resume(earlier: Manifest) -> Manifest:
        changes = earlier.code.changes(now, sweep.rows)
        if changes and settings.allow_changed_code is not True:
            rows = listed(changes.values(), "\n  ")
            raise RunFolderError(
                f"the code has changed since {folder} was run, in {len(changes)} of "
                f"{len(sweep.rows)} rows:\n  {rows}\n"
                "to run only the missing cells, with the changed code: --allow-changed-code "
                "(in Python: allow_changed_code=True)\n"
                f"to rerun these rows, and the rest from the store: --run-folder {_free(folder)}"
            )
        code = earlier.code.adopting(now, changes)
        return structs.replace(earlier, code=code)

    grid = replace(sweep, code=combined(now))
    providers = loaded.file.providers.items()
    pairs = (
        base_url_of(name, provider["base_url"])
        for name, provider in providers
        if "base_url" in provider
    )
    addresses = tuple(name for key, name in pairs if not sweep_file.is_foreign(key, name))
    text = _started_with(loaded.file, settings.part)
    shots = dict(shots_files(sweep_file.shots))
    return RunFolder(folder, manifest, text, grid, resume, replace_lost, addresses, shots)


def part_of(file: SweepFile, part: str) -> SweepFile:
    """Return a sweep of every Nth problem from the Kth on, for a part `K/N`. UsageError if the part
    is malformed or empty."""
    match = re.fullmatch(r"(\d+)/(\d+)", part)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"--part {part}: a part is written as 3/16, the third of sixteen")
    number, count = int(match[1]), int(match[2])
    if number > len(file.problems):
        raise UsageError(
            f"--part {part}: the sweep has {len(file.problems):,} problems, so that this part has "
            f"none; take {len(file.problems)} parts at most"
        )
    return replace(file, problems=file.problems[number - 1 :: count])


def _started_with(file: SweepFile, part: str) -> bytes:
    """The text of a sweep file; what else the run was started with, as a comment after it."""
    lines = file.document.text.splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(STARTED))
    options = Started(file.overrides, file.limit, part)
    if options == Started():
        return text.encode()
    return b"".join((text.rstrip().encode(), b"\n", STARTED.encode(), encode(options), b"\n"))


def _free(folder: Path) -> Path:
    number = 2
    while (other := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return other


def load_sweep(file: SweepFile, variables: Mapping[str, str] | None = None) -> LoadedSweep:
    """Return the sweep of a file. UsageError for settings without effect. variables: the
    environment, by name; None for the environment of the process and `.env`."""
    check_names(file.document, file.models, file.providers)
    ready = loaded(file, variables)
    check_use(file.document, file.models, file.providers, ready.sweep.models)
    return ready


def loaded(
    file: SweepFile,
    variables: Mapping[str, str] | None = None,
    apis: Mapping[str, Api] | None = None,
) -> LoadedSweep:
    """As `load_sweep`, without its check for settings without effect: runs made with such settings
    can be opened. apis: which endpoint answers for each model, if that is decided already."""
    stop_token = StopToken()
    problems = (*file.problems, *problems_of(file.protocols))
    if variables is None:
        variables = environment(Path())
    models = Directory(file.document, file.models, file.providers, problems, variables)
    draft = file.sweep({})
    models.tiers = service_tiers([row.protocol for row in draft.rows])
    if apis is None:
        models.choose_apis(draft.models, tool_users([row.protocol for row in draft.rows]))
    else:
        models.apis.update(apis)
    identities = {model: models.model_identity(model) for model in draft.models}
    return LoadedSweep(file, replace(draft, identities=identities), models, stop_token)
