"""GSM8K for tests: a sample of our own, and the published files, loaded once a session.

Those are looked for in the folder that OVERSIGHT_GSM8K names, or else beside the checkout.

And what tests of loaders write into files, and read off problems.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from oversight.protocols import Gsm8k, Problem
from oversight.protocols.datasets.leak import LeakageCheck, leakage_check
from oversight.protocols.errors import DatasetError

SAMPLE = Path(__file__).parents[1] / "samples" / "gsm8k"
BESIDE = Path(__file__).parents[4] / "shared" / "data" / "gsm8k"
PUBLISHED = Path(os.environ.get("OVERSIGHT_GSM8K") or BESIDE)

needs_published = pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="the published files are not here"
)


@cache
def loaded(settings: Gsm8k) -> tuple[Problem, ...]:
    return settings.load()


@cache
def gate(settings: Gsm8k) -> LeakageCheck:
    return leakage_check(loaded(settings))


def best(problem: Problem) -> str:
    return problem.question.answers[problem.best].text


def texts(problem: Problem) -> set[str]:
    return {answer.text for answer in problem.question.answers}


def refused(load: Callable[..., object], *arguments: object) -> DatasetError:
    with pytest.raises(DatasetError) as caught:
        load(*arguments)
    return caught.value
