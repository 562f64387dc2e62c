"""Generating wrong answers or proposals for the questions of a file, and answers in one hand."""

from collections.abc import Sequence

from ...cache.cache import Cache
from ...cache.call import Call
from ...protocols.datasets.generation import Draft, Generator, picked
from ...protocols.datasets.known import Known
from ...protocols.datasets.proposing import Proposer, proposed
from ...protocols.datasets.rewriting import Rewriter
from ...protocols.prompts.forms import solution_form
from ...protocols.question import Answer, Problem
from .production import Production


class Generation(Production[Known, tuple[Draft, ...]]):
    """Wrong answers for questions: the usable drafts for each, at least one."""

    def __init__(self, questions: Sequence[Known], generator: Generator) -> None:
        super().__init__(questions)
        self.generator = generator

    @property
    def model(self) -> str:
        return self.generator.model

    def first_call(self) -> Call:
        return self.generator.compose(self.items[0], "", solution_form("string"))

    async def make(self, item: Known, cache: Cache) -> tuple[Draft, ...]:
        return await self.generator.write(item, cache)

    def problems(self, seed: int) -> tuple[Problem, ...]:
        """Those that have a wrong answer, in the order of their questions."""
        done = [known for known in self.items if known.id in self.made]
        return picked([(known, self.made[known.id]) for known in done], seed=seed)


class Proposing(Production[Known, tuple[Answer, ...]]):
    """What a model answers to questions, as proposals to accept or reject."""

    def __init__(self, questions: Sequence[Known], proposer: Proposer) -> None:
        super().__init__(questions)
        self.proposer = proposer

    @property
    def model(self) -> str:
        return self.proposer.model

    def first_call(self) -> Call:
        return self.proposer.compose(self.items[0])

    async def make(self, item: Known, cache: Cache) -> tuple[Answer, ...]:
        return await self.proposer.propose(item, cache)

    def problems(self, seed: int) -> tuple[Problem, ...]:
        """The graded proposals for the questions that have some, in their order."""
        done = [known for known in self.items if known.id in self.made]
        return proposed([(known, self.made[known.id]) for known in done], seed=seed)


class Rewriting(Production[Problem, Problem]):
    """Problems with all their answers rewritten by one model."""

    def __init__(self, problems: Sequence[Problem], rewriter: Rewriter) -> None:
        super().__init__(problems)
        self.rewriter = rewriter

    @property
    def model(self) -> str:
        return self.rewriter.model

    def first_call(self) -> Call:
        return self.rewriter.compose(self.items[0].question.answers[0])

    async def make(self, item: Problem, cache: Cache) -> Problem:
        return await self.rewriter.rewrite(item, cache)

    def problems(self, seed: int) -> tuple[Problem, ...]:
        """Those that were rewritten, in their order; nothing is drawn, so that no seed matters."""
        return tuple(self.made[problem.id] for problem in self.items if problem.id in self.made)
