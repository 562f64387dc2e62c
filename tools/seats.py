"""Diagrams of the seats of every mechanism, from the calls of one world: docs/pictures/seats.

A column has the seats that speak at once; an arrow leads to the seats that speak next."""

import asyncio
from itertools import pairwise
from pathlib import Path

from oversight.cache.call import Call, Exchange
from oversight.cache.reply import Reply
from oversight.engine.run.lanes import attempt_noted
from oversight.engine.sweep.sweep import Sweep, report_rows
from oversight.protocols.catalogue import PROTOCOLS
from oversight.protocols.protocol import Protocol
from tests.world import plain, shipment, simulated

PICTURES = Path(__file__).parents[1] / "docs" / "pictures" / "seats"
STYLE = (
    "text{fill:#1c2126}.b{fill:#fff;stroke:#59626b}.A{stroke:#0067a5;stroke-width:2}"
    ".B{stroke:#a84300;stroke-width:2}.J{fill:#dcdfe0}.l{stroke:#59626b;fill:none}"
    ".s{fill:#59626b;font-size:11px}@media (prefers-color-scheme:dark){text{fill:#e6e8e9}"
    ".b{fill:#1b1f23;stroke:#a2abb3}.A{stroke:#6fb4ea}.B{stroke:#f0a065}.J{fill:#343b41}"
    ".l{stroke:#a2abb3}.s{fill:#a2abb3}}"
)
WIDTH, GAP, HEIGHT, STEP, TOP = 134, 26, 24, 30, 34
NAMES = {"speak": "speech", "judge": "belief", "probabilities": "price", "ask": "question"}
NAMES |= {"assess": "assessment", "discuss": "discussion", "pick": "choice", "subclaims": "split"}
"""Names of the replies of a role, where they are not the role's."""

Column = tuple[str, dict[str, int]]
"""The name of the replies, and how often each seat is asked."""


def columns(protocol: Protocol) -> list[Column]:
    """The seats in the order in which they are asked, those that do not wait for each other
    together."""
    problem = shipment(0)
    provider, found = simulated([problem]), list[tuple[tuple[str, int], dict[str, int]]]()

    async def ask(call: Call) -> Reply:
        return await provider(call)

    cell = next(iter(Sweep("s", (problem,), report_rows([protocol])).cells()))
    _, notes = asyncio.run(attempt_noted(cell, ask))
    for role, seat, heard in (note.part for note in notes if isinstance(note, Exchange)):
        # A call at once with others may be noted after the first call that waits for those.
        seats = next((seats for key, seats in found[-2:] if key == (role, heard)), None)
        if seats is None:
            found.append(((role, heard), seats := {}))
        seats[seat] = seats.get(seat, 0) + 1
    steps = [(NAMES.get(role, role), seats) for (role, _), seats in found]
    role, seats = steps[-1]
    return [*steps[:-1], ("verdict" if role == "belief" else role, seats)]


def looped(steps: list[Column]) -> list[tuple[list[Column], int]]:
    """The columns in blocks, each with how often it is repeated."""
    blocks, at = list[tuple[list[Column], int]](), 0
    while at < len(steps):
        length, times = 1, 1
        for size in range(1, (len(steps) - at) // 2 + 1):
            count = 1
            while steps[at : at + size] == steps[at + count * size : at + (count + 1) * size]:
                count += 1
            if count > 1 and count * size > length * times:
                length, times = size, count
        blocks.append((steps[at : at + length], times))
        at += length * times
    return blocks


def described(blocks: list[tuple[list[Column], int]]) -> str:
    """The text alternative: replies and their seats, in their order."""
    steps = []
    for block, times in blocks:
        text = "; ".join(f"{role}: {_seats(seats, ', ')}" for role, seats in block)
        steps.append(f"{times} times ({text})" if times > 1 else text)
    return "; ".join(steps)


def _seats(seats: dict[str, int], between: str) -> str:
    return between.join(f"{seat} ×{n}" if n > 1 else seat for seat, n in seats.items())


def diagram(name: str, blocks: list[tuple[list[Column], int]]) -> str:
    """The picture, as SVG."""
    steps = [step for block, _ in blocks for step in block]
    tallest = max(len(seats) for _, seats in steps)
    width, height = len(steps) * (WIDTH + GAP) - GAP + 16, TOP + tallest * STEP + 12
    middle, parts, x = TOP + tallest * STEP / 2 - 3, list[str](), 8
    for block, times in blocks:
        if times > 1:
            wide = len(block) * (WIDTH + GAP) - GAP + 12
            frame = f'x="{x - 6}" y="3" width="{wide}" height="{height - 6}" rx="8"'
            parts.append(f'<rect class="l" stroke-dasharray="4 3" {frame}/>')
            parts.append(f'<text x="{x + wide - 14}" y="18" text-anchor="end">{times}×</text>')
        for role, seats in block:
            parts.append(f'<text class="s" x="{x}" y="{TOP - 8}">{role}</text>')
            y = middle - len(seats) * STEP / 2 + 3
            for seat, n in seats.items():
                kind = "J" if seat == "Judge" else seat[-1] if seat[-2:] in (" A", " B") else ""
                box = f'x="{x}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="6"'
                parts.append(f'<rect class="b {kind}" {box}/>')
                label = _seats({seat: n}, "")
                parts.append(f'<text x="{x + 7}" y="{y + 16:g}">{label}</text>')
                y += STEP
            x += WIDTH + GAP
    for n, _ in enumerate(pairwise(steps), start=1):
        end = 8 + n * (WIDTH + GAP) - 4
        parts.append(f'<path class="l" d="M{end - GAP + 8} {middle:g}H{end}m-5 -4l5 4l-5 4"/>')
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d"'
    text = f'<title id="t">Seats of {name}</title><desc id="d">{described(blocks)}</desc>'
    style = f'font-family="system-ui, sans-serif" font-size="13">{text}<style>{STYLE}</style>'
    return "\n".join([f"{head} {style}", *parts, "</svg>\n"])


def blocks_of(name: str) -> list[tuple[list[Column], int]]:
    return looped(columns(plain(PROTOCOLS[name])))
