"""Addresses of a run's models in a form that travels to other machines, without keys."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ..errors import UsageError
from ..providers.catalogue import entry, provider_of
from ..providers.keys import missing_key
from ..providers.settings import Environment, environment
from ..providers.simulated import PREFIX
from .directory import Directory

Endpoint: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...]]
"""Address, identity in the store, and options."""


@dataclass(frozen=True)
class Reached:
    """Addresses and identities of the machine that starts a run, valid for all its workers."""

    variables: Mapping[str, str]
    """Environment variables with addresses, regions and the like."""
    beside: Collection[str]
    """Variables that come from `.env`: keys of a worker's environment are not sent to them."""
    endpoints: Mapping[str, Endpoint]
    """By model."""

    @classmethod
    def here(cls, models: Directory, names: Collection[str]) -> "Reached":
        """Addresses and identities of this machine. names: the models of the sweep."""
        real = [name for name in names if not name.startswith(PREFIX)]
        rows = [entry(provider) for provider in {provider_of(name) for name in real}]
        names_of = {row.base_url_variable for row in rows}
        names_of |= {variable for row in rows for _, variable, _ in row.options}
        present = environment(Path())
        variables = {name: present[name] for name in names_of if present.get(name)}
        endpoints = {name: _endpoint(models, name) for name in real}
        return cls(variables, present.beside & variables.keys(), endpoints)

    def environment(self) -> Environment:
        """The environment of this machine, with missing variables filled in."""
        present = environment(Path())
        lacking = {name: value for name, value in self.variables.items() if not present.get(name)}
        merged = Environment(present | lacking)
        merged.beside = (present.beside - lacking.keys()) | lacking.keys() & {*self.beside}
        return merged

    def check(self, models: Directory, variables: Environment) -> None:
        """Raise UsageError if this machine lacks a key, or reaches a model with other settings."""
        missing = sorted({missing_key(name, variables) for name in self.endpoints} - {""})
        if missing:
            raise UsageError(
                f"has no {' and no '.join(missing)}: set it in the environment of the workers "
                "there; keys do not travel"
            )
        for name, endpoint in self.endpoints.items():
            if (actual := _endpoint(models, name)) != endpoint:
                source = models.settings_of(name).address_from or "the default"
                raise UsageError(
                    f"reaches {name} by {_shown(actual)} ({source}), but the machine that started "
                    f"the run by {_shown(endpoint)}: unset it there, or use the same setting"
                )


def _endpoint(models: Directory, name: str) -> Endpoint:
    settings = models.settings_of(name)
    return settings.base_url, settings.identity, settings.options


def _shown(endpoint: Endpoint) -> str:
    url, identity, options = endpoint
    return ", ".join((url, identity, *(f"{name} {value}" for name, value in options if value)))
