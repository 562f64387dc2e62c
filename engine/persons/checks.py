"""Attention items: tasks whose transcript says which answer to give.

An instructed response (Meade and Craig 2012, Psychological Methods 17): who reads the transcript
knows what to answer, and who does not can only guess.
"""

from oversight.cache.call import Request
from oversight.engine.persons.task import PersonTask
from oversight.protocols.judges import DistributionJudge
from oversight.protocols.judges.case import Case
from oversight.protocols.question import Answer, Question, randomness
from oversight.protocols.transcript import Transcript, Turn

PASSED = 0.8
"""The probability of the label asked for from which a rater has passed; 0.9 is what is asked."""

_QUESTION = Question(
    "Which answer does the speaker below ask for?",
    (Answer("A", "The first of the two."), Answer("B", "The second of the two.")),
)
_OPENINGS = (
    "Before we go on, one thing about this study.",
    "This turn is not about the question that you may expect.",
    "Transcripts can be long, and it is easy to skip one.",
    "Please read on to the end of this turn.",
)


def attention_task(model: str, seed: int, rater: str, number: int) -> tuple[PersonTask, int]:
    """The attention item `number` of a rater, and the place of the label that it asks for."""
    chance = randomness(seed, f"{rater} {number}", "attention")
    place, opening = chance.randrange(2), chance.choice(_OPENINGS)
    label = _QUESTION.answers[place].label
    said = f"{opening} To show that you have read this, give ({label}) 90 % or more."
    judge = DistributionJudge(model)
    floor = Transcript(_QUESTION).then(Turn("Speaker", said))
    call = judge.compose(judge.shown(Case(floor), range(2)))
    request: Request = call.request
    return PersonTask(type(call)(request, (number,))), place
