"""What the mechanisms of a sweep guarantee against the best liar, as they claim it themselves."""

from collections.abc import Iterable, Mapping

from ...protocols.claims import Claim
from ...protocols.protocol import Protocol


def guarantees(protocols: Iterable[Protocol]) -> dict[str, tuple[Claim, ...]]:
    """The claims of each protocol, by the name of its rows; none of one that claims nothing."""
    return {protocol.name: protocol.claims for protocol in protocols if protocol.claims}


def guarantee_lines(found: Mapping[str, tuple[Claim, ...]]) -> list[str]:
    """One line for each claim, and one for all rows without a guarantee."""
    unguarded = [name for name, claims in found.items() if all(each.gain >= 1 for each in claims)]
    lines = [
        f"{name}: {claim}"
        for name, claims in found.items()
        if name not in unguarded
        for claim in claims
    ]
    if unguarded:
        lines.append(
            f"no guarantee against a liar, whose case the judge decides: {'; '.join(unguarded)}"
        )
    return lines
