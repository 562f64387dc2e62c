"""Everything between one call and one HTTP exchange."""

from .capabilities import Abilities, Unsupported, abilities, missing_abilities
from .catalogue import PROVIDERS, Entry, connect, provider_of
from .keys import environment, require_keys, settings_of
from .limit_headers import Allowance, HeaderLimits
from .provider import HttpProvider, OnLimits, Provider
from .settings import Settings

__all__ = [
    "PROVIDERS",
    "Abilities",
    "Allowance",
    "Entry",
    "HeaderLimits",
    "HttpProvider",
    "OnLimits",
    "Provider",
    "Settings",
    "Unsupported",
    "abilities",
    "connect",
    "environment",
    "missing_abilities",
    "provider_of",
    "require_keys",
    "settings_of",
]
