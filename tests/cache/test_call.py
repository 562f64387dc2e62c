"""Calls: equal ones have one address, and any difference changes it. Replies: reasoning is
separated (`reasoning.md`), and invisible characters are removed."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from unicodedata import is_normalized, normalize

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oversight.cache.cached_attribute import cached_attribute, memoized
from oversight.cache.call import (
    Call,
    Message,
    Request,
    ResponseFormat,
    ToolSpec,
    value_address,
)
from oversight.cache.entry import new_entry, read_entry, read_reply, write_reply
from oversight.cache.errors import AddressError
from oversight.cache.normalize import MAX_MARKS, normalized
from oversight.cache.reasoning import TAGS, looks_like_thought
from oversight.cache.reply import Outcome, Reply, Token, ToolCall
from tests.cache.asking import FULL, any_calls
from tests.conftest import examples
from tests.sessions import sessions
from tests.tables import expressions, printed

SMALL = Call(Request("m", (Message("user", "hi"),)))

PARTS = {
    Request: (FULL.request, lambda part: structs.replace(FULL, request=part)),
    Message: (FULL.messages[1], lambda part: FULL.changed(messages=(part,))),
    ToolCall: (
        FULL.messages[1].tool_calls[0],
        lambda part: FULL.changed(messages=(Message("assistant", "", (part,)),)),
    ),
    ToolSpec: (FULL.tools[0], lambda part: FULL.changed(tools=(part,))),
    ResponseFormat: (FULL.response_format, lambda part: FULL.changed(response_format=part)),
}
"""Everything that a call is made of: one of it, and a call that holds it."""


def another(value: object) -> object:
    match value:
        case str() if value.startswith("{"):
            return '{"other":1}'
        case str():
            return f"{value}x"
        case tuple():
            return value[1:]
        case int() | float():
            return value / 2 if isinstance(value, float) else value + 1
        case None:  # thinking_tokens, which FULL leaves out
            return 1024
        case _:
            return None


@pytest.mark.parametrize(
    ("part", "field"), [(part, name) for part in PARTS for name in part.__struct_fields__]
)
def test_every_field_of_every_part_moves_the_address(part, field):
    part_value, holder = PARTS[part]
    changed = structs.replace(part_value, **{field: another(getattr(part_value, field))})
    assert changed != part_value and holder(changed).address != holder(part_value).address


def refused(**changed: object) -> str:
    """The place and the fault of a call that has no address, and of its request as a value."""
    call, faults = SMALL.changed(**changed), list[AddressError]()
    for address in (lambda: call.address, lambda: value_address(call.request)):
        with pytest.raises(AddressError) as fault:
            address()
        faults.append(fault.value)
    assert faults[0].field == faults[1].field
    return str(faults[0])


@given(any_calls, any_calls)
def test_addresses_are_equal_exactly_when_calls_are(one, other):
    for address in (lambda call: call.address, value_address):
        assert (address(one) == address(other)) == (one == other)
        assert address(one) == address(one.changed())
        assert len(address(one)) == 64 and set(address(one)) <= set("0123456789abcdef")


@dataclass(frozen=True)
class Plain:
    size: float


@dataclass(frozen=True)
class Fancy:
    size: float


COMPUTED: list[object] = []


@dataclass(frozen=True)
class Word:
    text: str

    @cached_attribute
    def length(self) -> int:
        COMPUTED.append(self.text)
        return len(self.text)

    @memoized
    def times(self, count: int, *, after: str = "") -> str:
        COMPUTED.append((count, after))
        if count < 0:
            raise ValueError(count)
        return self.text * count + after


HARMONY = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}"


def read(text: str, outcome: Outcome = "ok", opaque: object = "", wish: bool = False) -> str:
    """How a reply ended, what it says, and what was thought."""
    calls = (ToolCall("t", "calculator", "{}"),) * wish
    reply = Reply(text, calls, outcome, opaque=opaque and orjson.dumps(opaque).decode())
    return f"{reply.outcome} {reply.text!r}, thought {reply.reasoning!r}"


def scored(text: str, *texts: str, reasoning: str = "") -> str:
    """The tokens that are left of those with logprobs."""
    reply = Reply(text, logprobs=tokens(*texts), reasoning=reasoning)
    return " | ".join(token.text for token in reply.logprobs) or "none"


@sessions(*(Path(__file__).with_name(name) for name in ("reasoning.md", "call.md")))
def test_calls_and_reasoning_follow_from_plain_values(session, request):
    names = dict(globals())
    shown = expressions if session.file.stem == "call" else printed
    session.check(request, shown(names), names)


OTHERS = ("analysis", "assistantfinal", "<ANSWER>", "</answer>", "<|message|>", "İ")
pieces = st.sampled_from([*TAGS.either, *OTHERS, "`", " ", "\n", "a", "It is (A).", "<|return|>"])


@examples(8)
@given(st.lists(pieces, max_size=12).map("".join), st.sampled_from(["", "a"]))
def test_split_reply_stays_equal_in_a_store(text, reasoning):
    reply = Reply(text, reasoning=reasoning)
    assert read_reply("", write_reply(reply), "") == reply
    assert not reply.text.lstrip().startswith(TAGS.either)


RECORDED = [
    orjson.loads(line)
    for line in Path(__file__).with_name("reasoning_replies.jsonl").read_bytes().splitlines()
]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: str(recorded["id"]))
def test_each_recorded_reply_is_split_into_thoughts_and_speech(recorded):
    reply = Reply(recorded["text"])
    assert reply.text.strip() in (recorded["speech"], *recorded.get("also", ()))
    assert "doubtful" in recorded or (reply.reasoning or None) == recorded["reasoning"]
    assert "doubtful" in recorded or reply.outcome == recorded.get("outcome", "ok")
    looks = recorded["looks_like_thought"]
    assert looks_like_thought(reply.text) in (looks, recorded.get("also_looks", looks))


def test_each_form_of_thoughts_has_a_recorded_reply():
    texts = "\n".join(recorded["text"] for recorded in RECORDED)
    forms = tomllib.loads(files("oversight.cache").joinpath("thoughts.toml").read_text("utf-8"))
    tags = [tag for kind in ("tags", "words", "speech") for pair in forms[kind] for tag in pair]
    assert [tag for tag in (*tags, *forms["ends"]) if tag not in texts] == []


def test_a_reply_stored_before_is_split_when_it_is_read():
    record = new_entry("k", FULL, Reply("d"), "here/v1", 0)
    for text, outcome in (("<think>a</think>d", "ok"), ("<think>a", "truncated")):
        written = orjson.dumps({"text": text, "outcome": "ok"})
        older = type(record)(
            *(record.key, record.form, "ok", 0, record.identity, record.model),
            *(len(written), written, record.call_size, record.call_part),
        )
        read = read_entry("k", older.to_bytes()).reply()
        assert (read.reasoning, read.outcome) == ("a", outcome)
        assert older.imported().outcome == outcome


def tokens(*texts: str) -> tuple[Token, ...]:
    return tuple(Token(text, -0.1) for text in texts)


@given(st.text() | st.text("\u0301\u0344\u0f73\ufb2a", min_size=MAX_MARKS))
def test_normalized_text_is_nfc_and_normalizing_is_idempotent(text):
    once, hidden = normalized(text)
    assert is_normalized("NFC", once) and normalized(once) == (once, 0)
    assert hidden or once == normalize("NFC", text)
