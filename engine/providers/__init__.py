"""Everything between one call and one HTTP exchange."""

from oversight.engine.providers.capabilities import Abilities, Lack, abilities, missing_abilities
from oversight.engine.providers.catalogue import PROVIDERS, Entry, connect, provider_of
from oversight.engine.providers.keys import environment, require_keys, settings_of
from oversight.engine.providers.limit_headers import Allowance, HeaderLimits
from oversight.engine.providers.provider import Hear, HttpProvider, Provider
from oversight.engine.providers.settings import Settings

__all__ = [
    "PROVIDERS",
    "Abilities",
    "Allowance",
    "Entry",
    "HeaderLimits",
    "Hear",
    "HttpProvider",
    "Lack",
    "Provider",
    "Settings",
    "abilities",
    "connect",
    "environment",
    "missing_abilities",
    "provider_of",
    "require_keys",
    "settings_of",
]
