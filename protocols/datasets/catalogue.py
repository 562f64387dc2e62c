"""Loaders by their names in a sweep file.

problems: {gsm8k: {folder: data/gsm8k, limit: 100}}
problems: {bundled: arithmetic}"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from ..settings import LazyRegistry, unknown
from .loader import Loader

if TYPE_CHECKING:
    from .forms import Form

PUBLISHED = (
    "boolq", "gpqa", "logiqa", "mmlu", "mmlu_pro", "prontoqa", "quality", "solib", "supergpqa",
    "truthfulqa",
)  # fmt: skip
"""Published tables, as `protocols/data/forms.toml` has them."""

LOADERS: LazyRegistry[type[Loader]] = LazyRegistry(
    Loader,
    {
        **dict.fromkeys(PUBLISHED, "datasets.forms:Published"),
        "bundled": "datasets.jsonl:Bundled",
        "file": "datasets.forms:JsonLines",
        "gsm8k": "datasets.gsm8k:Gsm8k",
        "hf": "datasets.forms:Hub",
        "study": "datasets.study:Study",
        "trajectories": "datasets.trajectories:Trajectories",
    },
)


def loader(name: str, settings: object, kind: type[Loader] | None = None) -> Loader:
    """The loader called `name`, with these settings. ValueError names the setting that is wrong.
    settings: a mapping by name, or the value of the one setting without a default. kind: the class
    of a loader that is not in LOADERS."""
    if kind is None:
        if name not in LOADERS:
            raise ValueError(unknown("loader", name, sorted(LOADERS)))
        kind = LOADERS[name]
    names = settings_of(name, kind)
    needed = next((field.name for field in fields(kind) if field.default is MISSING), None)
    if settings is None and needed is None:
        settings = {}
    if not isinstance(settings, Mapping):
        if needed is None:
            raise ValueError(f"{name}: {settings!r} is not a mapping of settings")
        settings = {needed: settings}
    for key in settings:
        if key not in names:
            raise ValueError(f"{name}: {unknown('setting', str(key), sorted(names))}")
    if needed is not None and needed not in settings:
        raise ValueError(f"{name}.{needed}: missing; write {name}: {{{needed}: …}}")
    types = get_type_hints(kind)
    options: dict[str, Any] = {
        key: tuple(value) if get_origin(types[key]) is tuple and isinstance(value, list) else value
        for key, value in settings.items()
    }
    for key, value in options.items():
        try:
            TypeAdapter(types[key]).validate_python(value, strict=True)
        except ValidationError as exc:
            reason = exc.errors(include_url=False)[0]["msg"]
            raise ValueError(f"{name}.{key}: {value!r}: {reason}") from exc
    if form_of(name):
        options["form"] = name
    try:
        return kind(**options)
    except ValueError as exc:
        raise ValueError(f"{name}.{exc}") from exc


def form_of(name: str) -> "Form | None":
    """The published table that a loader is named after; None for another loader."""
    if name not in PUBLISHED:
        return None
    # Imported here: most sweeps name no published table.
    from .forms import published_forms

    return published_forms()[name]


def settings_of(name: str, kind: type[Loader]) -> list[str]:
    """The names of the settings of a loader."""
    names = [field.name for field in fields(kind)]
    if (form := form_of(name)) is None:
        return names
    unused = {"form", "subject", "hard", "raw"} - form.settings.keys()
    return [setting for setting in names if setting not in unused]


def quotes_passages(name: str) -> bool:
    """Whether agents quote the passages of a data set to a judge who cannot read them."""
    form = form_of(name)
    return form.quoted if form else name in LOADERS and LOADERS[name].quoted
