"""The raters of a run: pseudonyms, and the secret keys of their links."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from ...errors import RunFolderError
from ...providers.catalogue import entry, provider_of
from ...system.files import read_bounded, replace_file, unwritable
from .task import short_digest

PANEL = "panel.json"
PERSON = "person/"
"""Prefix of the names of models that are persons."""


@dataclass(frozen=True, slots=True)
class Rater:
    name: str
    """Pseudonym: the panel and a number. Nothing else about a person is stored."""
    panel: str
    """NAME of `person/NAME`, whose calls this rater answers."""
    key: str = field(repr=False)
    """Secret key of this rater's link."""

    def ticket(self, task: str) -> str:
        """What this rater's pages call a task. Only the server can make one: the key is in it."""
        return short_digest(f"{self.key} {task}")


def panels_of(models: Iterable[str]) -> tuple[str, ...]:
    """The names of the panels that a sweep's models are, in their order."""
    return tuple(
        model.removeprefix(PERSON)
        for model in models
        if model.startswith(PERSON) and entry(provider_of(model)).origin == "person"
    )


def seated_raters(folder: Path, panels: Iterable[str], count: int) -> tuple[Rater, ...]:
    """`count` raters a panel, those that the folder knows already first; what is new is kept.

    A rater whom the folder knows stays one: links that were sent go on opening. RunFolderError.
    """
    known = {rater.name: rater for rater in read_raters(folder)}
    for panel in panels:
        for number in range(1, count + 1):
            name = f"{panel}-{number}"
            known.setdefault(name, Rater(name, panel, secrets.token_urlsafe(18)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise unwritable(folder, exc) from exc
    raters = tuple(known.values())
    listed = orjson.dumps(raters, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    # Private: a key lets others answer as the rater.
    replace_file(folder / PANEL, [listed], mode=0o600)
    return raters


def read_raters(folder: Path) -> tuple[Rater, ...]:
    """The raters that a `persons` folder knows; none where there is no panel."""
    file = folder / PANEL
    try:
        return tuple(Rater(**fields) for fields in orjson.loads(read_bounded(file)))
    except FileNotFoundError:
        return ()
    except (orjson.JSONDecodeError, TypeError) as exc:
        raise RunFolderError(f"{file}: is no list of raters ({exc}); put a backup there") from exc
