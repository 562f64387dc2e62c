"""Calls that rows of a grid have in common, pair by pair, for docs/protocols.md, with reasons."""

import asyncio
from dataclasses import dataclass
from typing import Any

from oversight.protocols.agents.agent import Agent
from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.drafting import BestOf
from oversight.protocols.judges.logprob import LogprobJudge
from oversight.protocols.judges.stated import StatedJudge
from tests.world import calls, plain

JUDGE, AGENT = StatedJudge("sim/quiet"), Agent("sim/quiet")
LONGER = "the verdicts"


@dataclass(frozen=True, slots=True)
class Pair:
    one: str
    settings: dict[str, Any]
    others: dict[str, Any]
    why: str
    other: str = ""
    """The mechanism of the second row, if it is another."""
    told: str = ""
    """How the two differ, where the settings do not say it."""

    @property
    def name(self) -> str:
        if self.told:
            return f"`{self.one}`, {self.told}"
        if self.other:
            return f"`{self.one}` and `{self.other}`"
        differ = [
            f"`{key}: {_short(self.settings[key])}` and `{_short(value)}`"
            for key, value in self.others.items()
            if self.settings[key] != value
        ]
        return f"`{self.one}`, {', '.join(differ)}"


def _short(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def pair(one: str, why: str, **values: tuple[Any, Any]) -> Pair:
    """Two rows of one mechanism that differ in these settings."""
    first = {key: value for key, (value, _) in values.items()}
    return Pair(one, first, {key: value for key, (_, value) in values.items()}, why)


AUX = "the helpers' side, told to readers"
PAIRS = (
    pair("debate", LONGER, rounds=(2, 4)),
    pair(
        "debate",
        "all but the openings",
        simultaneous=(True, False),
    ),
    pair("debate", "all: the rules say how long it lasts", horizon=("untold", "told")),
    pair("interactive_debate", LONGER, rounds=(2, 4)),
    pair("consultancy", LONGER, turns=(2, 4)),
    pair(
        "consultancy",
        "all: later turns hear different turns",
        first=("client", "consultant"),
    ),
    pair("double_consultancy", LONGER, turns=(2, 4)),
    pair("cross_examination", LONGER, challenges=(1, 2)),
    pair("critique", "the verdicts", rebuttal=(False, True)),
    pair(
        "critique",
        "further critiques, and the verdict",
        critiques=(3, 5),
    ),
    pair("critique", AUX, aux=("honest", "sided")),
    pair("critique", AUX, aux=("honest", "adversarial")),
    pair("proposer_critic", AUX, aux=("sided", "adversarial")),
    pair("market_making", LONGER, rounds=(2, 4), epsilon=(0, 0)),
    pair(
        "adversarial_propaganda",
        "further speeches",
        rounds=(2, 4),
        epsilon=(0, 0),
    ),
    pair("amplification", "the answers", steered=(0, 1)),
    pair("amplification", AUX, aux=("honest", "sided")),
    pair("amplification", "the answers", depth=(1, 2)),
    pair("recursive_reward_modelling", AUX, aux=("honest", "adversarial")),
    pair("recursive_reward_modelling", "a further candidate", candidates=(2, 3)),
    pair("recursive_reward_modelling", "the assessments read narrower ones", depth=(1, 2)),
    pair("debate_feedback", LONGER, rounds=(1, 2)),
    pair("debate_feedback", AUX, aux=("honest", "adversarial")),
    pair("debate_feedback", "the author, told to participants", own=(False, True)),
    pair("doubly_efficient_debate", "all: the prover must know the cap", steps=(6, 8)),
    pair(
        "doubly_efficient_debate",
        "the opponent is told whether it may pass",
        opponent_is=("adversarial", "honest"),
    ),
    pair("prover_estimator_debate", "the verdicts, on another leaf", depth=(1, 2)),
    pair("prover_estimator_debate", AUX, aux=("honest", "sided")),
    Pair("debate", {"rounds": 1}, {"pool": 2}, "further drafts", "debate_game"),
    Pair("debate", {}, {}, "the jury's draws", "weak_to_strong"),
    Pair("debate", {}, {}, "all: the rules say that the judge will ask", "interactive_debate"),
    Pair("debate", {}, {}, "all: a side is chosen", "open_debate"),
    Pair(
        "consultancy",
        {},
        {},
        "the verdict",
        "double_consultancy",
    ),
    Pair("open_trust", {}, {}, "the debate: the choice is the same call", "open_debate"),
    Pair(
        "propaganda",
        {},
        {"agent": BestOf(4, AGENT, JUDGE)},
        "further drafts and ratings",
        told="`best_of: 1` and `4`",
    ),
    Pair(
        "debate",
        {},
        {"agent": BestOf(4, AGENT, JUDGE)},
        "further drafts and ratings, and later turns",
        told="`best_of: 1` and `4`",
    ),
    Pair(
        "debate",
        {},
        {"judge": LogprobJudge("sim/quiet")},
        "the verdict",
        told="a `stated` judge and a `logprob` one",
    ),
    Pair(
        "debate",
        {},
        {"agent": Agent("sim/quiet", tools=("calculator",))},
        "all: tools are in the call",
        told="`tools: none` and `calculator`",
    ),
    Pair(
        "prover_estimator_debate",
        {},
        {"agent": Agent("sim/quiet", tools=("calculator",))},
        "nothing: a form offers no tools",
        told="`tools: none` and `calculator`",
    ),
    Pair(
        "debate",
        {},
        {"agent": Agent("sim/quiet", words=100)},
        "all: the limit is in the prompt",
        told="`words: 150` and `100`",
    ),
)


def shared() -> str:
    """Pairs of rows, and the calls that they share, as Markdown."""
    lines = []
    for each in PAIRS:
        one, other = counts(each)
        mine, theirs = len(one), len(other)
        lines.append(f"- {each.name}: {len(one & other)} of {mine} and {theirs}; {each.why}")
    return "\n".join(lines)


def counts(each: Pair) -> tuple[set[str], set[str]]:
    """The different calls of each row, in both worlds of a problem."""
    rows = (
        plain(PROTOCOLS[each.one], **each.settings),
        plain(
            PROTOCOLS[each.other or each.one],
            **{**each.settings, **each.others} if not each.other else each.others,
        ),
    )
    one, other = (set[str]().union(*asyncio.run(calls(row))) for row in rows)
    return one, other
