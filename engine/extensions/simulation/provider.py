"""The provider of simulated models, which cost nothing and whose expected scores are known.

A simulated speaker states the strength of its speech in the first word; a simulated judge adds up
the stated strengths and its own leaning to the truth, and answers in the format asked for. All
randomness comes from the call's address, so a reply is a function of the call, the model's
parameters and the truth: the same in every process, on every machine, in any order."""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial

from ....cache.call import Call
from ....cache.reply import Outcome, Reply, Token, ToolCall, Usage
from ....protocols.prompts.render import find_question, read_rules
from ....protocols.question import Problem
from ....protocols.settings import unknown
from ...errors import InvalidRequest, ModelNotFound
from ...providers.simulated import SimulatedModel, SimulatedModels, Simulation
from .model import PRESETS, SimModel, chance_of, share
from .simulated_call import GroundTruth, ParsedQuestion, SimulatedCall, system_of
from .speech import Contents, filled

VERSION = 1
"""Version of simulated replies; increment it if a model would answer the same call differently."""

REFUSAL = "I would rather not take part in this. (A simulated refusal.)"

CHARACTERS_A_TOKEN = 4
TOKENS_A_MESSAGE = 4

MAX_PARSED_QUESTIONS = 512
"""Maximum number of cached questions, about 10 KB each; few suffice, as cells come by problem."""


class SimProvider(SimulatedModels):
    """An `Ask` with the simulated models of one sweep, which know the truth of its questions.

    Raises: ModelNotFound for an undefined model, InvalidRequest for an unknown question."""

    def __init__(self, world: GroundTruth, models: Mapping[str, SimModel] = PRESETS) -> None:
        """models: by full name, `sim/NAME`."""
        self._models = dict(models)
        self._identities = {name: f"sim/{VERSION}/{model.digest}" for name, model in models.items()}
        self._scene = lru_cache(MAX_PARSED_QUESTIONS)(partial(ParsedQuestion, world=world))
        self._identity = lru_cache(MAX_PARSED_QUESTIONS)(self._new_identity)

    async def __call__(self, call: Call) -> Reply:
        """The reply, after the model's latency. Nothing is lost on cancellation."""
        latency = self._model(call.model).latency
        if latency:
            await asyncio.sleep(latency)
        return self.reply(call)

    def identity(self, call: Call) -> str:
        """Identity of the endpoint: the model's parameters, and the true answer to this question. A
        reply depends only on these and on the call. A reply stored under another identity is never
        served, and the truth of other questions does not change the identity."""
        return self._identity(call.request.model, system_of(call))

    def model_identity(self, model: str) -> str:
        """The part of the identity that all calls of a model share."""
        self._model(model)  # raises ModelNotFound
        return self._identities[model]

    def reply(self, call: Call) -> Reply:
        """The model's reply, without its latency."""
        model = self._model(call.model)
        chance = chance_of(call.address)
        # After a tool call, the model neither refuses nor calls a tool again.
        resumed = bool(call.messages) and call.messages[-1].role == "tool"
        if not resumed and share(chance.refusal) < model.refusal:
            return _finish(call, REFUSAL, refused=True)
        simulated = SimulatedCall(call, model, chance, self._scene_of)
        if call.tools and not resumed and share(chance.tool) < model.tool_use:
            return _finish(call, "", wish=simulated.wish())
        text, tokens = simulated.answer()
        return _finish(call, text, tokens)

    def _model(self, name: str) -> SimModel:
        try:
            return self._models[name]
        except KeyError:
            raise ModelNotFound(
                f"{unknown('simulated model', name, self._models)}, or describe it under `models:` "
                "in the sweep file"
            ) from None

    def _new_identity(self, model: str, system: str) -> str:
        try:
            place = self._scene_of(system).truth
        except InvalidRequest:
            place = None
        truth = "truth unknown" if place is None else f"true {place}"
        return f"{self.model_identity(model)}/{truth}"

    def _scene_of(self, system: str) -> ParsedQuestion:
        return self._scene(find_question(system), read_rules(system)[1])


def _finish(
    call: Call,
    text: str,
    tokens: tuple[Token, ...] = (),
    *,
    wish: ToolCall | None = None,
    refused: bool = False,
) -> Reply:
    """The reply, cut at stop texts and at max_tokens, with its usage."""
    outcome: Outcome = "refused" if refused else "ok"
    stop_reason = "refusal" if refused else "tool_calls" if wish else "stop"
    for mark in call.stop:
        text = text.partition(mark)[0]
    if len(text) > call.max_tokens * CHARACTERS_A_TOKEN:
        text = text[: call.max_tokens * CHARACTERS_A_TOKEN]
        stop_reason = "length"
        outcome = "refused" if refused else "truncated"
    if not text and not wish:
        outcome = "empty"
    written = len(text) + (len(wish.arguments) if wish else 0)
    return Reply(
        text,
        (wish,) if wish else (),
        outcome,
        stop_reason,
        tokens,
        Usage(_prompt_tokens(call), max(1, -(-written // CHARACTERS_A_TOKEN))),
        call.model,
        call=call.address,
    )


def _prompt_tokens(call: Call) -> int:
    characters = sum(len(message.text) for message in call.messages)
    characters += sum(len(tool.description) + len(tool.parameters) for tool in call.tools)
    return characters // CHARACTERS_A_TOKEN + TOKENS_A_MESSAGE * len(call.messages)


class Simulated(Simulation):
    kind = SimModel
    presets = PRESETS
    stand_in = SimModel(tool_use=0.6)
    casts = (
        stand_in,
        SimModel(persuasion=3.0, noise=2.0, honesty_gap=-2.0),
        SimModel(muddle=0.3, refusal=0.1, noise=1.0),
        SimModel(insight=-2.0, noise=1.5, tool_use=1.0),
    )

    def models(
        self, problems: Iterable[Problem], models: Mapping[str, SimulatedModel]
    ) -> SimProvider:
        sim_models = {name: model for name, model in models.items() if isinstance(model, SimModel)}
        return SimProvider(GroundTruth(problems), sim_models)

    def drawn(self, call: Call, salt: int) -> Reply | None:
        if not call.response_format:
            return None
        lot = chance_of(hashlib.sha256(f"{salt}{call.address}".encode()).hexdigest())
        text = f"Said by lot {lot.pick}."
        contents = Contents(text, share(lot.start), bool(lot.muddle & 1), lot.pick)
        return Reply(filled(call.response_format.schema, contents))


SIMULATION = Simulated()
