"""Calls: equal ones have one address, and any difference changes it. Replies: reasoning is
separated (`reasoning.md`), and invisible characters are removed."""

import math
import pickle
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

from oversight.cache.cached_attribute import MAX_RESULTS, cached_attribute, memoized
from oversight.cache.call import (
    Call,
    Message,
    Request,
    ResponseFormat,
    ToolSpec,
    store_key,
    value_address,
    with_repeat,
)
from oversight.cache.entry import new_entry, read_entry, read_reply, write_reply
from oversight.cache.errors import AddressError
from oversight.cache.normalize import MAX_MARKS, normalized
from oversight.cache.reasoning import TAGS, Tags, looks_like_thought
from oversight.cache.reply import Outcome, Reply, Token, ToolCall
from tests.cache.asking import FIRST, FULL, any_calls
from tests.conftest import examples
from tests.sessions import sessions
from tests.tables import printed

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


# A change empties all users' stores: raise SCHEMA, and say so in the changelog.
def test_addresses_are_those_that_stores_were_filled_with():
    assert SMALL.address == "3d885474658cd5ad7a5228955bbcb3de3abec5eb0fc467f0206ad8e8a5f011e2"
    assert FIRST.address == "00995c3ebf8fa3b90b2f989e7920e63ab0ff6468c5db1ea3c0734f43d9b56ae2"
    assert FULL.address == "f4a6531733e66e5c0fd558dc300059aeee6e54ce505b30d4777a60c732af9217"
    value = value_address(Message("user", "hi"))
    assert value == "3cedd99478123b453ef04deedd03562d727039ffeb6aab578a3d704988158a47"
    assert store_key(SMALL.address, "openai/v1") == SMALL.address + ".3602ff45eae03103"


def test_equal_numbers_have_one_address():
    zeros = [SMALL.changed(temperature=zero) for zero in (0, 0.0, -0.0)]
    assert len({call.address for call in zeros}) == 1
    assert SMALL.changed(top_p=1).address == SMALL.changed(top_p=1.0).address
    assert zeros[0].address != SMALL.address, "left to the provider is not zero"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["temperature", "top_p"])
def test_a_number_that_is_not_finite_is_refused_by_name(field, number):
    with pytest.raises(AddressError, match=f"^{field}: .*not a finite number") as refusal:
        SMALL.changed(**{field: number})
    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("place", "call"),
    [
        ("model", SMALL.changed(model="m\ud800")),
        ("messages[0].text", SMALL.changed(messages=(Message("user", "ab\udfff"),))),
        ("stop[1]", SMALL.changed(stop=("", "\ud800"))),
        ("tools[0].description", SMALL.changed(tools=(ToolSpec("a", "\ud800", "{}"),))),
        ("response_format.schema", SMALL.changed(response_format=ResponseFormat("a", "\ud800"))),
        (
            "messages[0].tool_calls[0].arguments",
            SMALL.changed(messages=(Message("user", "", (ToolCall("", "", "\ud800"),)),)),
        ),
    ],
)
def test_a_lone_surrogate_is_refused_by_its_place(place, call):
    with pytest.raises(AddressError, match="lone surrogate") as refusal:
        assert not call.address
    assert refusal.value.field == place
    with pytest.raises(AddressError) as refusal:
        value_address(call.request)
    assert refusal.value.field == place


@given(any_calls, any_calls)
def test_addresses_are_equal_exactly_when_calls_are(one, other):
    for address in (lambda call: call.address, value_address):
        assert (address(one) == address(other)) == (one == other)
        assert address(one) == address(one.changed())
        assert len(address(one)) == 64 and set(address(one)) <= set("0123456789abcdef")


def test_draws_of_different_layers_do_not_collide():
    calls_made: list[Call] = []

    def ask(call):
        calls_made.append(call)

    with_repeat(with_repeat(ask, 1), 2)(SMALL)
    with_repeat(with_repeat(ask, 2), 1)(SMALL)
    with_repeat(ask, 1)(SMALL)
    assert [call.draw for call in calls_made] == [(1, 2), (2, 1), (1,)]
    assert len({call.address for call in calls_made}) == 3


@dataclass(frozen=True)
class Plain:
    size: float


@dataclass(frozen=True)
class Fancy:
    size: float


def test_the_class_of_a_value_is_part_of_its_address():
    assert value_address(Plain(1)) != value_address(Fancy(1))
    assert value_address(Plain(1)) == value_address(Plain(1.0))


@pytest.mark.parametrize(
    ("stranger", "message"),
    [
        *((bad, r"\[1\]: a \w+ has no address") for bad in (object(), len, [1], {}, b"", Plain)),
        *((Plain(bad), r"\[1\]\.size: .* no") for bad in (math.nan, math.inf, -math.inf)),
    ],
)
def test_values_without_stable_form_have_no_address(stranger, message):
    with pytest.raises(AddressError, match=f"^{message}"):
        value_address((Plain(1.0), stranger))


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


@pytest.fixture(autouse=True)
def nothing_computed() -> None:
    COMPUTED.clear()


def test_each_result_is_computed_once_for_the_same_arguments():
    word = Word("yes")
    for _ in range(2):
        results = word.length, word.times(1), word.times(2), word.times(2, after="!")
        assert results == (3, "yes", "yesyes", "yesyes!")
    assert COMPUTED == ["yes", (1, ""), (2, ""), (2, "!")]


def test_equal_values_cache_results_separately_and_outside_of_their_value():
    word, same = Word("yes"), Word("yes")
    assert word.times(1) == same.times(1) and COMPUTED == [(1, ""), (1, "")]
    assert (word, hash(word), repr(word)) == (Word("yes"), hash(Word("yes")), "Word(text='yes')")
    assert pickle.loads(pickle.dumps(word)) == word


def test_failed_computation_is_retried():
    for _ in range(2):
        with pytest.raises(ValueError, match="-1") as raised:
            Word("yes").times(-1)
        assert raised.value.__context__ is None
    assert len(COMPUTED) == 2


def test_number_of_cached_results_is_bounded():
    word = Word("yes")
    for count in range(MAX_RESULTS + 1):
        word.times(count)
    word.times(MAX_RESULTS)
    assert len(COMPUTED) == MAX_RESULTS + 1
    word.times(0)
    assert len(COMPUTED) == MAX_RESULTS + 2


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


@sessions(Path(__file__).with_name("reasoning.md"))
def test_reasoning_is_separated_from_text(session, request):
    session.check(request, printed(globals()))


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


def test_a_model_may_have_extra_tags():
    """A cut reply without them is all thoughts: the prompt of such a model opens them."""
    tags = Tags(("<plan>", "</plan>"))
    for outcome in ("ok", "truncated"):
        stored = Reply("<plan>a</plan>d", outcome=outcome)
        spoken = stored.split(tags)
        assert (stored.text, spoken.text, spoken.reasoning) == ("<plan>a</plan>d", "d", "a")
        assert spoken.split(tags) == spoken
    cut = Reply("Am I", outcome="truncated")
    assert (cut.text, cut.split(tags).text, cut.split(tags).reasoning) == ("Am I", "", "Am I")


def tokens(*texts: str) -> tuple[Token, ...]:
    return tuple(Token(text, -0.1) for text in texts)


def test_characters_that_nobody_sees_are_dropped_and_counted():
    hidden = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\u2066\u180e\u034f\ufe0f\U000e0041\u3164"
    assert normalized(f"<tu{hidden}rn>") == ("<turn>", len(hidden))
    assert normalized("e\u0301 and é") == ("é and é", 0) and normalized("plain") == ("plain", 0)


@given(st.text() | st.text("\u0301\u0344\u0f73\ufb2a", min_size=MAX_MARKS))
def test_normalized_text_is_nfc_and_normalizing_is_idempotent(text):
    once, hidden = normalized(text)
    assert is_normalized("NFC", once) and normalized(once) == (once, 0)
    assert hidden or once == normalize("NFC", text)


def test_long_runs_of_marks_are_cut():
    """Marks in this order would take minutes to sort."""
    text, hidden = normalized("e" + "\u0301\u0316" * 500_000)
    assert len(text) <= MAX_MARKS + 1 and hidden == 1_000_000 - MAX_MARKS


def test_a_reply_is_folded_wherever_it_comes_from():
    """Also for a store that others have filled; the call's address stays."""
    assert Reply("So\u200b it is.") == Reply("So it is.", hidden=1)
    stored = '{"text":"So\u200b it is."}'.encode()
    assert read_reply("key", stored, "address") == Reply("So it is.", call="address", hidden=1)
