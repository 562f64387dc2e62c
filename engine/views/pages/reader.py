"""The reader's pages: one reading, several in one file, and their calls."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from ....cache.call import Call, Message
from ....cache.reply import Reply
from ....protocols.settings import PARAMETERS
from ...run.probing import read_probes
from ...run.reader import Place, RunReader
from .environment import READER, packed, part
from .links import Asked, Links, NoPage, anchor, nth
from .reading import TURNS_A_PAGE, AskedCall, Reading, read
from .strip import run_page

MAX_CALLS_TEXT, MIN_CALL_TEXT = 180_000, 2_000
"""Bytes of markup that the texts of a page of calls may take together, and each in any case."""

JUDGE = "judge"
"""Role of the calls that verdicts are read from."""

MAX_JUDGE_TEXT = 100_000
"""Bytes of markup of a text that a judge read, on the page of all calls."""

PROBABLE_TOKENS = 50
"""Tokens of a reply whose log probabilities are shown."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Links from a reading to the ones beside it."""

    anchor: str
    base: str
    """Beginning of the anchors of its turns."""
    problem_page: str
    steps: tuple[tuple[str, str, str], ...]
    """(key, name, link)."""
    draws: int
    other_draws: tuple[tuple[int, str], ...]
    pages: tuple[tuple[str, str, bool], ...]


def neighbours(run: RunReader, links: Links, one: Reading) -> Neighbours:
    """The neighbours of a reading that have a page."""
    place, sweep = one.place, run.sweep

    def neighbour(rows: int, problems: int) -> str:
        row, problem = place.row + rows, place.problem + problems
        while 0 <= row < len(sweep.rows) and 0 <= problem < len(sweep.problems):
            if link := links.reading(Place(row, problem, place.draw)):
                return link
            row, problem = row + rows, problem + problems
        return ""

    return Neighbours(
        anchor(place, one.page),
        anchor(place),
        links.to("problem", problem=place.problem),
        (
            ("k", "‹ problem", neighbour(0, -1)),
            ("j", "problem ›", neighbour(0, 1)),
            ("h", "‹ row", neighbour(-1, 0)),
            ("l", "row ›", neighbour(1, 0)),
        ),
        sweep.draws,
        tuple(
            (draw, links.reading(Place(place.row, place.problem, draw)))
            for draw in range(sweep.draws)
            if draw != place.draw
        ),
        tuple(
            (f"{n * TURNS_A_PAGE + 1}–", links.reading(place, n), n == one.page)
            for n in range(one.pages)
        ),
    )


def reader_page(run: RunReader, links: Links, asked: Asked) -> str:
    """The page of one reading."""
    one = read(run, _place(run, asked), asked.score, asked.turns, read_probes(run.folder))
    return readers_page(
        run, links, [section(run, links, one)], f"{one.problem.id} · {one.row.shown}"
    )


def calls_page(run: RunReader, links: Links, asked: Asked) -> str:
    """Every request and reply of a reading, or one call in full."""
    place = _place(run, asked)
    one = read(run, place, asked.score, asked.turns, requests=True)
    if not any(each.address.startswith(asked.only) for each in one.asked) and asked.only:
        raise NoPage(f"no call of this reading has an address like {asked.only!r}")
    name = f"{one.problem.id} · {one.row.shown}"
    sections = [calls_section(one, links, only=asked.only)]
    return called_page(run, links, sections, name, links.reading(place))


def _place(run: RunReader, asked: Asked) -> Place:
    sweep = run.sweep
    return Place(
        nth(asked.row, len(sweep.rows), "row"),
        nth(asked.problem, len(sweep.problems), "problem"),
        nth(asked.draw, sweep.draws, "draw"),
    )


def section(run: RunReader, links: Links, one: Reading) -> Markup:
    """One reading, for a page that may hold several."""

    def call_link(address: str, whole: bool = False) -> str:
        return links.calls(one.place, address, whole)

    return part("readings", "reading", one, neighbours(run, links, one), call_link)


def readers_page(run: RunReader, links: Links, sections: list[Markup], title: str) -> str:
    """A page of several readings; the key j moves to the next one."""
    return run_page(
        "readers",
        run,
        links,
        title=title,
        here="transcripts",
        sheets=READER,
        texts=_texts(links, sections),
        many=len(sections) > 1,
    )


def calls_section(one: Reading, links: Links, back: str = "", only: str = "") -> Markup:
    """Every request and reply of a reading. only: beginning of the address of the one call to show,
    in full."""
    asked = [each for each in one.asked if each.address.startswith(only)]
    told = [(each, each.request.messages if each.request else ()) for each in asked]
    texts = sum(len(messages) for _, messages in told)
    share = max(MIN_CALL_TEXT, MAX_CALLS_TEXT // max(texts + len(asked), 1))

    def rooms(each: AskedCall) -> int | None:
        """Bytes of markup for each text of a call; None: as many as it has."""
        if only:
            return None
        if most := links.most("calls"):
            return most
        return MAX_JUDGE_TEXT if each.call.role == JUDGE else share

    def whole(each: AskedCall, messages: Sequence[Message]) -> str:
        """Link to the full text of a call that is cut here; empty for other calls."""
        most = rooms(each)
        if most is None or links.most("calls"):
            return ""
        said = [each.call.text, *(message.text for message in messages)]
        longest = max(len(escape(text)) for text in said)
        return links.calls(one.place, each.address, whole=True) if longest > most else ""

    return part(
        "asked", "all", one, told, anchor(one.place), back, rooms, settings, probabilities, whole
    )


def probabilities(reply: Reply) -> str:
    """The first tokens of a reply, a line each, with their log probabilities and the likeliest."""
    # One text for the page: as many small ones as tokens take longer to escape.
    return "".join(
        f"{token.text} {token.logprob:.3f}"
        + "".join(f"  {text} {p:.3f}" for text, p in token.top)
        + "\n"
        for token in reply.logprobs[:PROBABLE_TOKENS]
    )


def called_page(run: RunReader, links: Links, sections: list[Markup], name: str, back: str) -> str:
    """Requests and replies, in the order in which they were answered."""
    return run_page(
        "calls",
        run,
        links,
        title=f"requests and replies, {name}",
        here="transcripts",
        sheets=READER,
        name=name,
        texts=_texts(links, sections),
        back=back,
    )


def _texts(links: Links, sections: Sequence[Markup]) -> Markup:
    """Sections as they stand in a page; in one of a site packed, as worlds, drafts and requests
    repeat each other."""
    texts = Markup("").join(sections)
    if not links.shared:
        return texts
    return part("pieces", "packed", packed(texts.encode("utf-8", "replace")))


def settings(call: Call) -> str:
    """The parameters of a call, in a line."""
    told = [f"at most {call.max_tokens:,} tokens"]
    told += [f"temperature {call.temperature:g}"] if call.temperature is not None else []
    for name in PARAMETERS:
        if (value := getattr(call.request, name)) not in (None, (), ""):
            told.append(f"{name.replace('_', ' ')} {value}")
    told += [f"effort {call.effort}"] if call.effort else []
    told += [f"{call.top_logprobs} log probabilities"] if call.top_logprobs else []
    told += [f"tools {', '.join(tool.name for tool in call.tools)}"] if call.tools else []
    told += [f"form {call.response_format.name}"] if call.response_format else []
    told += [f"draw {'.'.join(map(str, call.draw))}"] if call.draw else []
    return " · ".join(told)
