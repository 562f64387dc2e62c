"""A market by script: for every mechanism in which prices are stated after each speech."""

from collections.abc import Callable

import orjson

from oversight.cache.call import Call
from tests.fakes import prompt


def priced(p: float) -> str:
    return orjson.dumps({"A": p, "B": 1 - p}).decode()


def trading(*prices: float, final: str = "A: 70%\nB: 30%") -> Callable[[Call], str]:
    """A market whose price for A after n speeches is prices[n]; the last one stays."""

    def answer(call: Call) -> str:
        asked = prompt(call)
        match asked.task:
            case "probabilities":
                return priced(prices[min(len(asked.speeches), len(prices) - 1)])
            case "percentages":
                return final
        return f"{asked.asks} after {asked.speeches}"

    return answer
