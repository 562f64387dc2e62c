"""The provider of persons while no pages are served: only stored replies can be used."""

from ...cache.call import Call
from ...cache.reply import Reply
from ..errors import ProviderDown
from .provider import Provider


class AbsentPersons(Provider):
    """Halts at the first call. `oversight human serve` replaces it while it serves pages."""

    async def __call__(self, call: Call) -> Reply:
        raise ProviderDown(
            f"{call.model}: persons answer in the browser; go on with oversight human serve SWEEP"
        )

    async def close(self) -> None:
        """Nothing to release."""
