"""A model that writes for a data set: it is shown texts, and fills in a form."""

from dataclasses import dataclass, fields

from ...cache.call import Call, Message, Request, ResponseFormat
from ..prompts.escape import escape_tags
from ..prompts.forms import fields_of
from ..prompts.prompt_set import default_prompts
from ..prompts.render import Instructions
from ..prompts.words import Words
from ..settings import require_positive
from .known import Known


@dataclass(frozen=True, slots=True)
class Writer:
    """The model, and how it is sampled."""

    model: str
    temperature: float | None = None
    """None leaves it to the provider."""
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        numbers = [each.name for each in fields(self) if each.type is int]
        require_positive(self, *numbers)

    def asked(self, shown: str, told: str, form: ResponseFormat) -> Call:
        """The call that shows a text and asks for a form."""
        return Call(
            Request(
                self.model,
                (Message("system", shown), Message("user", told)),
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                response_format=form,
            )
        )


def instructions(told: str, form: ResponseFormat) -> str:
    """What is to be done, with the fields of the form that is to be filled in."""
    asked = default_prompts().fill("agent.form", fields=fields_of(form))
    return Instructions(form.name, Words(told), asked=asked).text()


def shown_question(known: Known) -> list[str]:
    """The passage of a question, if it has one, and its text, as tags."""
    passage = [f"<passage>\n{escape_tags(known.passage)}\n</passage>"] if known.passage else []
    return [*passage, f"<question>\n{escape_tags(known.text)}\n</question>"]
