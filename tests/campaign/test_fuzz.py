"""Sweep files, mangled in every way."""

import random

import pytest

from oversight.engine.errors import EngineError, UsageError
from oversight.engine.run.loaded_sweep import open_sweep
from oversight.protocols.errors import ProtocolError
from tests.command_line import ROOT

STARTER = ROOT / "engine" / "data" / "starter.yaml"
VALUES = (
    *("~", "[]", "{}", "-1", "0", "1e400", ".nan", ".inf", "''", '"\\0"', "yes", "2026-01-01"),
    *("[[[]]]", "{a: {b: c}}", "!!python/object:os.system x", "*alias", "&a b", "? x", "|", "- -"),
    *("sim/nobody", "openai/", "/", "../../etc/passwd", "9" * 400, "0x10", "\t", "\u202e", "{{}}"),
)


@pytest.mark.campaign
def test_a_mangled_sweep_file_is_read_or_refused_with_its_fault(campaign, tmp_path):
    chance, good = random.Random(campaign.seed), STARTER.read_text(encoding="utf-8")
    read = refused = 0
    for number in range(campaign.size(100, 2000)):
        text, path = _mangled_text(good, chance), tmp_path / "sweep.yaml"
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
    assert read and refused


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
