"""Recording a cell: the cost and origin of each call, in an order that no speed changes."""

from datetime import date
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

from msgspec.structs import replace

from oversight.cache.call import Call, Exchange, Message, Request
from oversight.cache.reply import Reply, Usage
from oversight.engine.models.accounting.prices import Price, PriceList
from oversight.engine.run.record.capture import Capture
from oversight.engine.run.record.values import LeftOut
from oversight.protocols.judges.judge import ParsedReply
from oversight.protocols.transcript import Verdict
from tests.sessions import sessions
from tests.tables import expressions
from tests.world import sweep

GRID = sweep(problems=3, draws=2)
CELL = [*GRID.cells()][-1]
QUESTION = CELL.problem.question
SPEECH = Request("openai/m", (Message("user", "Speak."),), temperature=0.0, stop=("\n",))
USAGE = Usage(1000, 200, 300, 100)


def capture(paid: set[str]) -> Capture:
    """Of run `run`. The models of openai have 600 fresh tokens for $2 a million, 300 read ones for
    $0.50, 100 written ones for $3, and 200 that come out for $8: $0.00325 a call."""
    models = SimpleNamespace(
        identity=lambda call: f"{call.model} here",
        origin=lambda call: "" if call.model.startswith("sim/") else "live A",
    )
    rates = Price(2, 8, 0.5, 3, 0.25, date.min, "")
    prices = PriceList({"openai/m": rates, "openai/x": None, "person/ann": None})
    return Capture(GRID, models, prices, paid, "run")  # type: ignore[arg-type]


def cost(model: str, origin: str, new: bool = False) -> tuple[object, ...]:
    """(origin, dollars, way, whether from elsewhere, whether it has a time) of a reply."""
    call = Call(replace(SPEECH, model=model), (1,))
    paid = {call.address, "another"} if new else {"another"}
    reply = Reply("Yes.", usage=USAGE, served_model="m-1", stop_reason="stop", origin=origin)
    note, cells = Exchange(("speak", "Debater A", 2), call, reply), capture(paid)
    (recorded,) = cells.cell(CELL, LeftOut("x"), [note]).calls
    cost = recorded.cost
    assert (cost.identity, cost.served, cost.stop_reason) == (f"{model} here", "m-1", "stop")
    assert (recorded.role, recorded.seat, recorded.heard) == note.part and cost.usage == USAGE
    assert recorded.settings == (
        '{"temperature":0.0,"max_tokens":1024,"stop":["\\n"],"top_logprobs":0}'
    )
    assert paid == {"another"}, "a reply that the next cell finds was not paid again"
    # The same reply in another cell keeps its cost; another reply to the call has its own.
    assert cells.cell(CELL, LeftOut("x"), [note]).calls == (recorded,)
    (other,) = cells.cell(CELL, LeftOut("x"), [replace(note, reply=Reply("No."))]).calls
    assert (other.text, other.cost.output_tokens, recorded.text) == ("No.", 0, "Yes.")
    return cost.origin, cost.dollars, cost.came, cost.elsewhere, cost.at is not None


def beliefs(outcome: Verdict, *readings: ParsedReply) -> list[object]:
    """The recorded judgements of the readings of a cell."""
    recorded = capture(set()).cell(CELL, outcome, [*readings, readings[0]])
    about = (recorded.row, recorded.problem, recorded.side, recorded.draw, recorded.outcome)
    assert about == (0, 2, 1, 1, outcome)
    return [*recorded.judgements]


@sessions(Path(__file__).with_name("capture.md"))
def test_cost_judgements_and_turns_of_a_cell_are_recorded(session, request):
    names = dict(globals())
    session.check(request, expressions(names), names)


def test_calls_are_in_an_order_that_no_speed_changes():
    longer = replace(SPEECH, messages=(*SPEECH.messages, Message("tool", "4")))
    asked = [
        ("z", "Debater A", 0, SPEECH, (1, 0)), ("rate", "Judge", 1, SPEECH, (1,)),
        ("speak", "Debater A", 1, SPEECH, (1, 2)), ("speak", "Debater B", 1, SPEECH, (0, 9)),
        ("speak", "Debater B", 1, SPEECH, (1, 3)), ("speak", "Debater B", 1, longer, (1, 3)),
        ("a", "Debater A", 2, SPEECH, (1, 4)),
    ]  # fmt: skip
    notes = [Exchange(part[:3], Call(*part[3:]), Reply("x")) for part in asked]
    again = replace(notes[1], part=("speak", "Judge", 3))  # an equal call, later
    for some in [*permutations(notes)][::97]:
        calls = capture(set()).cell(CELL, LeftOut("x"), [again, *some]).calls
        assert [(call.role, call.seat, call.heard) for call in calls] == [one[:3] for one in asked]
        assert [call.address for call in calls] == [note.call.address for note in notes]
