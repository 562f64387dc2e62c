"""Forms, and what simulated models fill in: `forms.md`."""

from pathlib import Path

import orjson

from oversight.cache.call import ResponseFormat
from oversight.engine.extensions.simulation import SimModel
from oversight.engine.extensions.simulation.form import Contents, fill_form, form_kind
from oversight.protocols.drafting.side_check import side_form
from oversight.protocols.mechanisms.baselines import choice_form
from oversight.protocols.prompts.forms import NUMBER, Form, probabilities_form
from tests.fakes import CRATES
from tests.sessions import sessions
from tests.tables import expressions


def kind(form: ResponseFormat) -> str:
    return form_kind(orjson.loads(form.schema), ("B", "A"))


def fill(schema: object) -> str:
    found = fill_form(schema, Contents("First this. Then that? And so on! No more.", 0.8, True, 11))
    return orjson.dumps(found).decode()


NAMES = {
    each.__name__: each
    for each in (
        kind, fill, form_kind, fill_form, probabilities_form, choice_form, side_form, Form,
        Contents, SimModel,
    )
} | {"CRATES": CRATES, "NUMBER": NUMBER}  # fmt: skip


@sessions(Path(__file__).with_name("forms.md"))
def test_forms_are_known_by_their_shape_and_filled_as_the_model_believes(session, request):
    session.check(request, expressions(NAMES))
