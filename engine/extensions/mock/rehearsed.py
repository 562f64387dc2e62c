"""A sweep before a local mock server, without keys.

Wires, transports, limits and retries are those of a real run. The answers come over HTTP from
simulated models in another process. Store and run folder are temporary.
"""

from dataclasses import replace

from ...providers.catalogue import entry, provider_of
from ...providers.simulated import PREFIX
from ...run.dry_run import stand_ins
from ...run.loaded_sweep import LoadedSweep, load_sweep
from ...sweep.sweepfile import SweepFile
from .answers import Responder, simulated

REHEARSAL_KEY = "rehearsal"
"""Dummy value of every key, region and project."""

REHEARSAL_DEADLINE = 60.0
"""Deadline of one request, in seconds, unless the sweep file sets it. No profile's replies take as
long, and with the usual deadline a stalled request would delay the end by ten minutes."""


def actors(loaded: LoadedSweep) -> Responder:
    """A responder with a simulated model for each model of a sweep, by its name on the wire."""

    def on_the_wire(model: str) -> str:
        real = not model.startswith(PREFIX)
        return model.removeprefix(f"{provider_of(model)}/") if real else model

    return simulated(stand_ins(loaded.sweep, loaded.models.simulated, alias=on_the_wire))


def staged(file: SweepFile, url: str) -> LoadedSweep:
    """The sweep with every provider at `url`, and dummy keys in place of the environment."""
    variables: dict[str, str] = {}
    providers = {}
    for provider in {provider_of(m) for m in file.sweep({}).models if not m.startswith(PREFIX)}:
        row = entry(provider)
        needed = [variable for _, variable, default in row.options if default == "!"]
        variables.update(dict.fromkeys(filter(None, [row.key_variable, *needed]), REHEARSAL_KEY))
        given = file.providers.get(provider, {})
        # A path for each provider, since the names of open-weight models do not tell their host.
        at = {"base_url": f"{url}/{provider}/v1"}
        providers[provider] = {"deadline": REHEARSAL_DEADLINE, **given, **at}
    return load_sweep(replace(file, providers=providers), variables)
