"""Persons where nobody serves them pages: what is stored of them answers, and nothing else can."""

from oversight.cache.call import Call
from oversight.cache.reply import Reply
from oversight.engine.errors import ProviderDown
from oversight.engine.providers.provider import Provider


class AbsentPersons(Provider):
    """Halts at the first call: `oversight human serve` puts a desk in its place."""

    async def __call__(self, call: Call) -> Reply:
        raise ProviderDown(
            f"{call.model}: persons answer in the browser; go on with oversight human serve SWEEP"
        )

    async def close(self) -> None:
        """There is nothing to release."""
