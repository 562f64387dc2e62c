"""What a file that came with a sweep may not decide alone: where a key goes, and whose replies are
stored as a vendor's."""

from collections.abc import Iterable, Mapping

from ..errors import UsageError
from .catalogue import entry, provider_names
from .environment import ALLOW_ADDRESS, VOUCH
from .settings import Settings


def require_trust(settings: Iterable[Settings], environment: Mapping[str, str]) -> None:
    """UsageError where a key would go to an address, or replies be stored under an identity, that
    only a file beside the sweep has named. Sends nothing."""
    for each in settings:
        name = each.provider
        where = f"{each.address_from} names {each.base_url}" if each.borrowed_key else ""
        if each.proxy_from:
            # Without the proxy's own address, which may hold a password.
            where = f"{each.proxy_from} names a proxy on the way to {each.base_url}"
        if where and name not in _named(environment, ALLOW_ADDRESS):
            raise UsageError(
                f"{name}: {where}, and your key is from outside that file: it is not sent there. "
                "Put the key of that address into the same file, or allow it with --allow-address "
                f"{name}"
            )
        vendor = None if each.vendors_own else vendor_of(each.identity)
        if each.identity_stated and vendor and name not in _named(environment, VOUCH):
            raise UsageError(
                f"{name}: the sweep file stores what {each.base_url} says as {each.identity!r}, "
                f"which is {vendor}'s own: later runs would take it for {vendor}'s replies. Leave "
                f"out identity, or choose another; if that address is a gateway to {vendor} that "
                f"you trust: --vouch {name}"
            )


def addresses(settings: Iterable[Settings]) -> list[str]:
    """A line for each provider that is not asked at its own address."""
    return list(
        dict.fromkeys(
            f"{each.provider} is asked at {each.base_url} ({each.address_from})"
            for each in settings
            if each.address_from and not each.vendors_own
        )
    )


def vendor_of(identity: str) -> str:
    """The vendor whose own endpoint has this identity; empty if none has."""
    for name in provider_names():
        row = entry(name)
        start = row.api.partition("{")[0]
        for own in (start, start.replace("chat.completions", "responses")):
            if own and not row.in_person and (identity + " ").startswith(own.rstrip() + " "):
                return name
    return ""


def _named(environment: Mapping[str, str], variable: str) -> list[str]:
    return [name.strip() for name in environment.get(variable, "").split(",")]
