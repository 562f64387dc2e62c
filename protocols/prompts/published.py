"""Prompts of published studies, read from the user's checkout of their code.

Their prompts are whole messages, with the question, the passage and the transcript inside; ours
are blocks, around which those are laid out. So a reader keeps the lines of prose of a message,
drops those that lay something out or ask for a form, and replaces their placeholders and marks by
ours. Where a study has no prompt, that of the default set stays; rules that all seats read are
empty, since in these studies each seat reads its own.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import yaml
from pydantic import BaseModel, ValidationError

from .prompt_set import PromptError

_LED_IN = re.compile(r":\s*\Z")


@dataclass(frozen=True, slots=True)
class Published:
    """Where a study keeps its prompts, and how they are read."""

    folder: str
    """The folder of the files in a checkout."""
    files: Mapping[str, str]
    """The file of each block."""
    read: Callable[[str, str], str]
    """The block, from its file's text and the seat's title. ValueError if it has none."""
    own: Mapping[str, str]
    """Blocks that the study has no file for, and that must not be those of the default set."""

    def blocks(self, checkout: Path) -> dict[str, str]:
        """The text of every block. PromptError names the file that is missing or wrong."""
        texts = dict(self.own)
        for block, name in self.files.items():
            file = checkout / self.folder / name
            try:
                texts[block] = self.read(file.read_text(encoding="utf-8"), TITLES.get(block, ""))
            except OSError as exc:
                raise PromptError(
                    f"{file} cannot be read: {exc.strerror}; the folder is that of a checkout"
                ) from exc
            except (ValueError, yaml.YAMLError) as exc:
                raise PromptError(f"{file} is not laid out as it was: {exc}") from exc
        return texts


TITLES: Mapping[str, str] = MappingProxyType(
    {
        "debate.debater": "Debater {label}",
        "propaganda.advocate": "Advocate {label}",
        "consultancy.consultant": "Consultant {label}",
    }
)
"""Title of a seat with a side, as all others call it."""


class _Message(BaseModel):
    role: str
    content: str


class _Prompts(BaseModel):
    messages: list[_Message]
    partials: dict[str, str] = {}


class _Config(BaseModel):
    prompts: _Prompts


_KHAN_LAYOUT = re.compile(
    r"<(?:QUESTION|STORY|TRANSCRIPT|ANSWER_A|ANSWER_B|ANSWER_CORRECT|ANSWER_INCORRECT|"
    r"ANSWER_OPPOSING|TRANSCRIPT_MESSAGE|FEW_SHOT_MESSAGE)>|^\s*</?(?:story|transcript)>\s*$"
)
_KHAN_FORM = re.compile(r"[^.\n]*<(?:A\|B|WORD_LIMIT)>[^.\n]*\.?\"?\.?")
"""A sentence that asks for a form or for a length: those are ours to ask for."""

_KHAN_MARKS: Mapping[str, str] = MappingProxyType(
    {
        "thinking>": "private>",
        "argument>": "speech>",
        "question>": "speech>",
        "v_quote>": "verified>",
        "u_quote>": "unverified>",
        ' "<QUESTION>"': "",
        "<NAME_A>": "Debater A",
        "<NAME_B>": "Debater B",
        "<ANSWER_DEFENDING>": "({label})",
    }
)

_KHAN_ROUNDS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "<NEW_ARGUMENT_REQUEST>": (
            ("opening_argument_request", "In your first speech:"),
            ("nth_argument_request", "In later speeches:"),
        ),
        "<THINKING_ADVICE>": (
            ("first_round_thinking", "In your first speech:"),
            ("second_round_thinking", "In your second speech:"),
            ("nth_round_thinking", "After that:"),
        ),
    }
)
"""Advice that differs from speech to speech: all of it is given, with the speech it is for."""


def read_khan(text: str, title: str) -> str:
    """A block from one of the YAML files of ucl-dark/llm_debate (Khan et al. 2024)."""
    try:
        prompts = _Config.model_validate(yaml.safe_load(text)).prompts
    except ValidationError as exc:
        where = ".".join(map(str, exc.errors()[0]["loc"]))
        raise ValueError(f"{where}: {exc.errors()[0]['msg']}") from exc
    parts = [_your_side(title)] if title else []
    for place, message in enumerate(prompts.messages):
        answered = prompts.messages[place + 1 : place + 2]
        # An exchange in which the model only confirms its task has no words of its own.
        if message.role == "assistant" or (answered and answered[0].role == "assistant"):
            continue
        said = message.content
        for name, rounds in _KHAN_ROUNDS.items():
            advice = "\n".join(
                f"{when}\n{prompts.partials[part].strip()}"
                for part, when in rounds
                if part in prompts.partials
            )
            said = said.replace(name, advice)
        for mark, ours in _KHAN_MARKS.items():
            said = said.replace(mark, ours)
        parts.append(_words(said.replace("<NAME>", title), _KHAN_LAYOUT, _KHAN_FORM))
    return "\n\n".join(parts)


_JINJA_LAYOUT = re.compile(r"\{[{%]|^\s*</?\w+>\s*$")
_JINJA_LENGTH = re.compile(r"[^.\n]*\{\{\s*MAX_WORDS\s*\}\}[^.\n]*\.?")


def read_solib(text: str, title: str) -> str:
    """A block from one of SOlib's Jinja templates (Sudhir et al. 2025)."""
    words = _words(text, _JINJA_LAYOUT, _JINJA_LENGTH)
    return f"{_your_side(title)}\n\n{words}" if title else words


def _your_side(title: str) -> str:
    return f"You are {title}. Your answer is ({{label}})."


def _words(text: str, layout: re.Pattern[str], form: re.Pattern[str]) -> str:
    """The lines of prose, without those that lead in a line of layout."""
    kept = "\n".join(_kept(form.sub("", text).splitlines(), layout))
    if not kept.strip():
        raise ValueError("it has no words")
    return re.sub(r"\n{3,}", "\n\n", kept).strip()


def _kept(lines: list[str], layout: re.Pattern[str]) -> Iterator[str]:
    for place, line in enumerate(lines):
        following = next((each for each in lines[place + 1 :] if each.strip()), "")
        leads_in = _LED_IN.search(line) and layout.search(following)
        if not layout.search(line) and not leads_in:
            yield line.strip()


def _bare(*sections: str) -> dict[str, str]:
    return {f"{section}.rules": "" for section in sections}


PUBLISHED: Mapping[str, Published] = MappingProxyType(
    {
        "llm_debate": Published(
            "core/config/experiment",
            {
                "debate.debater": "debaters/v1.yaml",
                "debate.judge": "judge/debate/default.yaml",
                "interactive_debate.questioner": "judge/debate/intermediary.yaml",
                "consultancy.consultant": "consultants/v1.yaml",
                "consultancy.client": "judge/consultancy/intermediary.yaml",
                "consultancy.judge": "judge/consultancy/default.yaml",
                "naive_judge.judge": "judge/baselines/blind.yaml",
            },
            read_khan,
            _bare("debate", "interactive_debate", "consultancy", "naive_judge"),
        ),
        "solib": Published(
            "solib/prompts",
            {
                "debate.debater": "debate/qa_agent_system.jinja",
                "propaganda.advocate": "qa_agent/qa_agent_system.jinja",
                "consultancy.consultant": "consultancy/consultant_system.jinja",
                "consultancy.client": "consultancy/client_system.jinja",
                "judge.distribution": "judges/just_ask_both_judge.jinja",
            },
            read_solib,
            _bare("debate", "propaganda", "consultancy", "naive_judge")
            | {
                f"{section}.judge": "You are the judge."
                for section in ("debate", "propaganda", "consultancy", "naive_judge")
            },
        ),
    }
)
"""Every study whose prompts can be read, by the name that a sweep file uses."""
