"""What the core is given: the simulated models, and those that stand in for real ones."""

import hashlib
from collections.abc import Iterable, Mapping

import orjson

from ....cache.call import Call
from ....cache.reply import Reply
from ....protocols.question import Problem
from ...providers.simulated import SimulatedModel, Simulation
from .model import PRESETS, SimModel, chance_of, share
from .provider import SimProvider
from .question import GroundTruth


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
        known = {name: model for name, model in models.items() if isinstance(model, SimModel)}
        return SimProvider(GroundTruth(problems), known)

    def drawn(self, call: Call, salt: int) -> Reply | None:
        if not call.response_format:
            return None
        from .form import Contents, fill_form

        lot = chance_of(hashlib.sha256(f"{salt}{call.address}".encode()).hexdigest())
        said = f"Said by lot {lot.pick}."
        contents = Contents(said, share(lot.start), bool(lot.muddle & 1), lot.pick)
        form = fill_form(orjson.loads(call.response_format.schema), contents)
        return Reply(orjson.dumps(form).decode())


SIMULATION = Simulated()
