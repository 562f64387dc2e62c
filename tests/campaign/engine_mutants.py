"""Plausible faults of the engine and of the cache; every one must die, as those of mechanisms."""

from tests.campaign.mutants import Mutant

ENGINE_MUTANTS: tuple[Mutant, ...] = ()
