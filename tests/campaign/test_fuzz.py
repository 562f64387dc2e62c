"""What comes from outside, mangled in every way: replies of both wires, and sweep files."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from oversight.cache.reply import Reply
from oversight.engine.errors import EngineError, UsageError
from oversight.engine.providers.anthropic_wire import AnthropicWire
from oversight.engine.providers.openai_wire import OpenAIWire
from oversight.engine.providers.wire import Wire
from oversight.engine.runs.loaded_sweep import open_sweep
from oversight.protocols.errors import ProtocolError
from tests.conftest import Campaign
from tests.engine.providers.test_reply_fuzz import COMPLETION, MESSAGE, places, sound

STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**63 - 1, 1e308, "", "stop", "\ud800", "\x00", [], {}, [[]]),
    *([{}], {"type": "text"}, {"type": "tool_use", "input": []}, "x" * 5000, [None] * 50),
)
PIECES = (b"NaN", b"Infinity", b"-1e999", b"\xff\xfe", b"\\ud800", b"[" * 3000, b"{", b"}", b",")
STATUSES = (200, 200, 200, 200, 201, 204, 301, 400, 401, 402, 403, 404, 413, 429, 500, 503, 529)
HEADERS = (
    {},
    {"retry-after": "1e999"},
    {"retry-after": "-5", "date": "yesterday"},
    {"retry-after-ms": "nan", "content-type": "text/html"},
)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("wire", "good"),
    [(OpenAIWire(), COMPLETION), (AnthropicWire(), MESSAGE)],
    ids=["openai", "anthropic"],
)
def test_a_mangled_answer_is_a_reply_or_an_error_of_ours(
    wire: Wire, good: dict[str, Any], campaign: Campaign
) -> None:
    chance = random.Random(campaign.seed)
    ends: dict[str, int] = {}
    for number in range(campaign.size(2000, 50_000)):
        body = mangled(good, chance)
        status, headers = chance.choice(STATUSES), chance.choice(HEADERS)
        try:
            reply = wire.reply(status, headers, body)
        except EngineError as exc:
            end = type(exc).__name__
            assert str(exc)
            assert len(str(exc)) < 4000
        except BaseException:
            print(f"number {number}: {status} {headers} {body[:2000]!r}")
            raise
        else:
            assert isinstance(reply, Reply)
            sound(reply)
            end = reply.outcome
        ends[end] = ends.get(end, 0) + 1
    print(ends)
    assert len(ends) > 5


def mangled(good: dict[str, Any], chance: random.Random) -> bytes:
    """A valid body with parts replaced or left out, and perhaps with bytes changed as well."""
    tree = orjson.loads(orjson.dumps(good))
    for _ in range(chance.randrange(4)):
        *path, last = chance.choice(places(tree) or [()]) or ("model",)
        within: Any = tree
        for key in path:
            within = within[key]
        if chance.random() < 0.3 and last in (within if isinstance(within, dict) else ()):
            del within[last]
        else:
            within[last] = copy.deepcopy(chance.choice(STRANGE))
    body = bytearray(json.dumps(tree).encode("utf-8", "surrogatepass"))
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        at = chance.randrange(len(body) + 1)
        match chance.randrange(4):
            case 0:
                body[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del body[at:]
            case 2:
                body[at:at] = chance.choice(PIECES)
            case 3:
                del body[at : at + chance.randrange(20)]
    return bytes(body)


STARTER = Path(__file__).parents[2] / "engine" / "data" / "starter.yaml"
VALUES = (
    *("~", "[]", "{}", "-1", "0", "1e400", ".nan", ".inf", "''", '"\\0"', "yes", "2026-01-01"),
    *("[[[]]]", "{a: {b: c}}", "!!python/object:os.system x", "*alias", "&a b", "? x", "|", "- -"),
    *("sim/nobody", "openai/", "/", "../../etc/passwd", "9" * 400, "0x10", "\t", "\u202e", "{{}}"),
)


@pytest.mark.campaign
def test_a_mangled_sweep_file_is_read_or_told_what_is_wrong_with_it(
    campaign: Campaign, tmp_path: Path
) -> None:
    chance = random.Random(campaign.seed)
    good = STARTER.read_text(encoding="utf-8")
    read = refused = 0
    for number in range(campaign.size(100, 2000)):
        text = _mangled_text(good, chance)
        path = tmp_path / "sweep.yaml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            open_sweep(path, limit=2)
            read += 1
        except (UsageError, ProtocolError, EngineError) as exc:
            assert str(exc)
            refused += 1
        except BaseException:
            print(f"number {number}:\n{text}")
            raise
    print(f"{read} read, {refused} refused")
    assert read
    assert refused


def _mangled_text(text: str, chance: random.Random) -> str:
    lines = text.splitlines()
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(lines))
        head, colon, _ = lines[at].partition(":")
        match chance.randrange(6):
            case 0:
                lines[at] = f"{head}{colon} {chance.choice(VALUES)}"
            case 1:
                del lines[at]
            case 2:
                lines.insert(at, lines[chance.randrange(len(lines))])
            case 3:
                lines[at] = " " * chance.randrange(8) + lines[at].lstrip()
            case 4:
                cut = chance.randrange(len(lines[at]) + 1)
                odd = chance.choice(("\x00", "\u2028", "{", "]", '"', "'", "#", "%", "@", "\ud800"))
                lines[at] = lines[at][:cut] + odd + lines[at][cut:]
            case 5:
                lines[at] = f"{chance.choice(VALUES)}: {chance.choice(VALUES)}"
        lines = lines or [""]
    return "\n".join(lines)
