"""Search in transcripts: hits of a run on the server, and the texts that a site searches."""

import re
from dataclasses import dataclass

import orjson
from markupsafe import Markup, escape

from ...analysis.pairs import row_names
from ...errors import UsageError
from ...run.lookup import KeptTexts, Query, search
from ...run.reader import RunReader
from ...system.process import gc_relaxed
from .environment import packed
from .links import Links, PageQuery, turn_anchor
from .strip import run_page
from .transcript_view import TURNS_A_PAGE, TranscriptView

HITS_A_PAGE = 50

MAX_KEPT = 200_000_000
"""Maximum characters of texts that the server keeps in memory."""

PART = 1_000_000
"""Bytes of the texts of one file, about, before they are packed."""

MAX_TEXT = 60_000
"""Characters of one text that a site searches."""


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A text that holds the words, and where it was said first."""

    where: str
    speaker: str
    link: str
    snippet: Markup
    cells: int


def search_page(run: RunReader, links: Links, page_query: PageQuery, parts: int = 0) -> str:
    """The page of a search. parts: files of texts in a site, which searches by itself."""
    words, page = page_query.q, page_query.page
    fault, hits, count = "", list[ShownHit](), 0
    if words.strip():
        try:
            query = Query.read(words)
            with gc_relaxed():
                count, hits = _hits(run, links, query, page)
        except UsageError as exc:
            fault = str(exc)
    return run_page(
        "search",
        run,
        links,
        title=f"search in {run.name}",
        active_tab="search",
        words=words,
        fault=fault,
        hits=hits,
        count=count,
        number=page,
        pages=-(-count // HITS_A_PAGE),
        parts=parts,
    )


def _hits(run: RunReader, links: Links, query: Query, page: int) -> tuple[int, list[ShownHit]]:
    names = row_names(run.sweep.rows)
    matches = search(run.tables, query, range(len(run.sweep.rows)), _texts_of(run))
    hits = []
    for hit in matches[page * HITS_A_PAGE : (page + 1) * HITS_A_PAGE]:
        place, side = run.where(hit.place)
        problem = run.sweep.problems[place.problem]
        label = problem.question.answers[side].label
        turn = 0 if hit.turn is None else hit.turn + 1
        speaker = "judge" if not turn else f"turn {turn}"
        speaker += ", in private" if hit.source == "reasoning" else ""
        hits.append(
            ShownHit(
                f"{problem.id} · {names[place.row]}",
                f"world {label}, {speaker}",
                links.turn(place, label, turn, TURNS_A_PAGE),
                _marked(query, query.snippet(hit.text)),
                hit.cells,
            )
        )
    return len(matches), hits


_kept: list[tuple[object, KeptTexts | None]] = []
"""The texts of the run that was searched last."""


def _texts_of(run: RunReader) -> KeptTexts | None:
    """The texts of a run, which stay in memory until it changes or another run is searched."""
    stamp = run.folder, run.stamp
    last = _kept[:1]
    if not last or last[0][0] != stamp:
        last = _kept[:] = [(stamp, KeptTexts.read(run.tables, MAX_KEPT))]
    return last[0][1]


def _marked(query: Query, snippet: str) -> Markup:
    """A snippet with the words that were searched for marked."""
    words = "|".join(re.escape(part.rstrip("*")) for part in query.parts)
    parts = re.split(f"({words})", snippet, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part) if n % 2 else escape(part)
        for n, part in enumerate(parts)
    )


class SearchedTexts:
    """The texts of a site's transcripts, in files that its page of search loads.

    A page opened from disk may load only scripts of its folder. So each file is a call of a
    function with its texts, packed."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._lines: list[bytes] = []
        self._size = 0
        self._known: set[tuple[int, str]] = set()

    def add(self, one: TranscriptView, file: str) -> None:
        """Add the texts of a transcript. file: its page."""
        for world in one.worlds:
            texts = [(turn.number, turn.turn.speaker, turn.turn.text) for turn in world.turns]
            texts += [(0, "judge", judged.judgement.text) for judged in world.judged]
            calls = [(turn.number, turn.turn.speaker, turn.call_view) for turn in world.turns]
            calls += [(0, "judge", judged.call_view) for judged in world.judged]
            texts += [
                (number, f"{speaker}, in private", view.call.reasoning)
                for number, speaker, view in calls
                if view
            ]
            for number, speaker, text in texts:
                key = one.place.problem, text
                if not text.strip() or key in self._known:
                    continue
                self._known.add(key)
                label = world.answer.label
                where = f"{one.problem.id} · {one.row.shown} · world {label}, {speaker}"
                link = f"{file}.html#{turn_anchor(one.place, label, number)}"
                self._put(orjson.dumps([link, where, text[:MAX_TEXT]]))

    def _put(self, line: bytes) -> None:
        if self._size + len(line) > PART:
            self.close()
        self._lines.append(line)
        self._size += len(line) + 1

    def close(self) -> None:
        """Finish the file that is being filled."""
        if self._lines:
            number = len(self.files)
            lines = packed(b"[%b]" % b",".join(self._lines))
            self.files.append(f'searched({number},"{lines}")')
        self._lines, self._size = [], 0
