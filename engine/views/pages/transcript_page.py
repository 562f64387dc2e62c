"""The reader's pages: one reading, several in one file, and their calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise

import numpy as np
from markupsafe import Markup, escape

from ....cache.call import Call, Message
from ....cache.reply import Reply
from ....protocols.settings import PARAMETERS
from ...analysis.findings.finding import Column, Part, change, number, word
from ...analysis.reports.aggregate import OPEN_TRUST
from ...analysis.reports.groups import DIMENSIONS, value_of
from ...analysis.rows import RunRows, read_rows
from ...analysis.scoring.inference import Flags, Floats, Places
from ...run.probing import best_mass, read_probes
from ...run.reader import Place, RunReader
from ...run.reader_notes import ReaderNotes, read_notes
from .environment import READER, packed, part
from .findings import Linked, shown_part
from .links import Links, NoPage, PageQuery, anchor, nth, one_of, parts, place_of
from .overview import KINDS_OF_ROWS, row_facts
from .strip import run_page
from .transcript_view import TURNS_A_PAGE, CallView, TranscriptView, probe_advice, read

KINDS = {
    "failed": "a world has no verdict",
    "liar won": "a wrong answer was argued for, and the judge found it likelier than not",
    "truth lost": "the right answer was argued for, and the judge found it no likelier than not",
    "wrong verdict": "in some world, the judge did not find the right answer likelier",
    "imputed": "a world without a verdict is scored as the agent's worst case",
    "not measured": "no world has a verdict, or some have not ended: it is not in n",
    "doubt": "a speaker refused, conceded, left its side, was cut off or spoofed marks",
    "changed sides": "P(true) crossed 50% between two turns",
    "noted": "somebody wrote a note on it",
}
"""The tags of a transcript."""


ORDERS = {
    "worst": "worst first",
    "best": "best first",
    "change": "largest change",
    "sweep": "as in the sweep",
}
FURTHER_KINDS = ("imputed", "not measured", "changed sides", "noted")


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """One transcript: a problem under a row, in all of its worlds."""

    problem: str
    row: str
    draw: int
    asd: float | None
    truth: float | None
    """P(the right answer) where it is argued."""
    lie: float | None
    """P(the wrong answer that is argued), the highest."""
    tag: str
    links: dict[str, str | Linked]


class Transcripts:
    """Every reading of a run, as arrays: row, problem, draw, ASD, and whether it is of a kind."""

    def __init__(self, run: RunReader, completed: RunRows, score: str) -> None:
        sweep = run.sweep
        rows, problems, draws = len(sweep.rows), len(sweep.problems), sweep.draws
        self.problems = np.repeat(np.arange(problems), draws * rows)
        self.draws = np.tile(np.repeat(np.arange(draws), rows), problems)
        self.rows = np.tile(np.arange(rows), problems * draws)
        values = completed.asd_by_problem(score)
        self.asd: Floats = values[self.problems, self.rows]
        size = draws * rows
        count = len(self.rows)
        self.kinds = {name: np.zeros(count, dtype=bool) for name in KINDS}
        self.there, self.ended = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        """Whether any of its worlds has an end, and all of them."""
        self.truth, self.lie = np.full(count, np.nan), np.full(count, np.nan)
        for number_, problem in enumerate(sweep.problems):
            span, at = sweep.span(number_), slice(number_ * size, (number_ + 1) * size)
            answers = len(problem.values)
            probs = completed.table.probs[span.start : span.stop, :answers].reshape(
                size, answers, answers
            )
            argued = np.diagonal(probs, axis1=1, axis2=2)
            good = np.array(problem.values) == max(problem.values)
            ended = completed.table.ended[span.start : span.stop].reshape(size, answers)
            self.there[at], self.ended[at] = ended.any(axis=1), ended.all(axis=1)
            self.truth[at] = np.fmin.reduce(argued[:, good], axis=1)
            self.lie[at] = np.fmax.reduce(argued[:, ~good], axis=1, initial=np.nan)
        with np.errstate(invalid="ignore"):
            self.kinds["liar won"] = self.lie > 0.5
            self.kinds["truth lost"] = self.truth <= 0.5
        self.kinds["not measured"] = np.isnan(self.asd)
        cells, first = completed.table.cells, np.arange(problems) * size
        for row in range(rows):
            wrong = completed.table.counted_right(row) < 1
            at_draw = first[cells.problem[wrong]] + cells.draw[wrong] * rows + row
            self.kinds["wrong verdict"][at_draw] = True
            judged = completed.table.judgements(row)
            if judged.imputed is not None:
                imputed = judged.question[judged.imputed.any(axis=1)]
                self.kinds["imputed"].reshape(problems, draws, rows)[imputed, :, row] = True
        for cell in completed.table.failed:
            self.kinds["failed"][self._of(run, cell, size)] = True
        for cell in completed.table.marked:
            self.kinds["doubt"][self._of(run, cell, size)] = True
        self.change = np.full(count, np.nan)
        """Largest change of P(a best answer) by one turn, where it is known."""
        self.probed = False
        for at_cell, path in read_probes(run.folder).items():
            if not 0 <= at_cell < len(sweep):
                continue
            verdict = completed.table.probs[at_cell]
            problem = sweep.problems[sweep.problem_at(at_cell)]
            if np.isnan(verdict[0]):
                continue
            self.probed, reading = True, self._of(run, at_cell, size)
            masses = [p for _, p in path]
            masses.append(best_mass(verdict[: len(problem.values)].tolist(), problem))
            changes = [abs(b - a) for a, b in pairwise(masses)]
            largest = max(changes, default=np.nan)
            self.change[reading] = np.fmax(self.change[reading], largest)
            self.kinds["changed sides"][reading] |= min(masses) <= 0.5 < max(masses)
        for _, noted in read_notes(run).notes:
            if noted:
                self.kinds["noted"][noted.problem * size + noted.draw * rows + noted.row] = True
        by_design = [row.naive or row.is_a(OPEN_TRUST) for row in sweep.rows]
        self.by_design = np.array(by_design, dtype=bool)[self.rows]
        """Transcripts of rows in which nobody argues, or whose end nobody judges."""

    def _of(self, run: RunReader, cell: int, size: int) -> int:
        place, _ = run.where(cell)
        return place.problem * size + place.draw * len(run.sweep.rows) + place.row

    def place(self, at: int) -> Place:
        """Place of the reading with this number."""
        return Place(int(self.rows[at]), int(self.problems[at]), int(self.draws[at]))

    def tag(self, at: int, all: bool) -> str:
        """all: every kind, by which the list of a site is filtered."""
        names = [name for name, kind in self.kinds.items() if kind[at]]
        # The first of the kinds that are seen in a verdict, and what people and probes found.
        return ", ".join(names[:1] + [name for name in names[1:] if all or name in FURTHER_KINDS])

    def grouped(self, run: RunReader, query: PageQuery) -> Flags:
        """The readings whose row is in the group that is asked for."""
        one_of(query.by, DIMENSIONS, "group")
        kind = query.by in KINDS_OF_ROWS
        rows = [
            value_of(row, query.by) == query.group and (kind or not row.naive)
            for row in run.sweep.rows
        ]
        return np.array(rows)[self.rows]

    def chosen(
        self, run: RunReader, names: tuple[str, ...], query: PageQuery, fits: Flags
    ) -> Places:
        """Numbers of the readings of `fits` that are meant, in order."""
        if query.show:
            fits = fits & self.kinds[query.show]
        for word_ in query.words.lower().split():
            in_row = np.array([word_ in name.lower() for name in names])
            in_problem = np.array([word_ in problem.id.lower() for problem in run.sweep.problems])
            fits = fits & (in_row[self.rows] | in_problem[self.problems])
        numbers = np.flatnonzero(fits)
        if query.order == "sweep":
            return numbers
        if query.order == "change":
            return numbers[np.argsort(-self.change[numbers], kind="stable")]
        sign = -1 if query.order == "best" else 1
        # Transcripts without an ASD follow, and rows without arguments come last.
        return numbers[np.lexsort((sign * self.asd[numbers], self.by_design[numbers]))]


def row_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """The transcripts of one row, under its figures."""
    return transcripts_page(run, links, query, nth(query.row, len(run.sweep.rows), "row"))


def transcripts_page(run: RunReader, links: Links, query: PageQuery, row: int | None = None) -> str:
    """The list of all rows, or of one."""
    if query.show:
        one_of(query.show, KINDS, "kind")
    completed = read_rows(run)
    names, every = completed.names, Transcripts(run, completed, query.score)
    every.kinds["noted"] &= links.shows_notes
    fits = every.there if row is None else every.there & (every.rows == row)
    if query.group:
        fits = fits & every.grouped(run, query)
    chosen = every.chosen(run, names, query, fits)
    empty = not len(chosen) and bool(fits.any())
    if empty:
        chosen = every.chosen(run, names, PageQuery(order=query.order), fits)
    most, asks = links.most("transcripts"), bool(links.form("transcripts"))
    if asks:
        listed = chosen[query.page * most : (query.page + 1) * most].tolist()
    else:
        available = (at for at in chosen.tolist() if links.reading(every.place(at)))
        listed = list(islice(available, most))
    lines = [_line(run, links, every, names, at, row is None) for at in listed]
    columns: list[Column] = [word("problem", "problem"), word("stands out", "tag")]
    if row is None:
        columns.insert(1, word("row", "row"))
    if run.sweep.draws > 1:
        columns.append(number("draw", "draw"))
    columns += [
        change("ASD", "asd", 2),
        number("P(truth) where it is argued", "truth", ".2f"),
        number("P(lie) where it is argued", "lie", ".2f"),
    ]
    return run_page(
        "transcripts",
        run,
        links,
        title=names[row] if row is not None else f"transcripts of {run.name}",
        active_tab="transcripts",
        row=None if row is None else run.sweep.rows[row],
        name="" if row is None else names[row],
        facts=[] if row is None else row_facts(run, row, query.score),
        part=shown_part(Part("list", "Transcripts", columns, lines), {}),
        count=len(chosen) if asks else len(lines),
        all=int(fits.sum()),
        kinds=KINDS,
        orders=ORDERS if every.probed else {n: text for n, text in ORDERS.items() if n != "change"},
        counts={name: int((kind & fits).sum()) for name, kind in every.kinds.items()},
        query=query,
        empty=empty,
        pages=-(-len(chosen) // most) if asks else 1,
        page="transcripts" if row is None else "row",
    )


def _line(
    run: RunReader, links: Links, every: Transcripts, names: tuple[str, ...], at: int, of_all: bool
) -> TranscriptLine:
    place = every.place(at)
    to: dict[str, str | Linked] = {"problem": links.reading(place)}
    asks = bool(links.form("transcripts"))
    if of_all and asks:
        to["row"] = links.to("row", row=place.row)
    figures = (float(column[at]) for column in (every.asd, every.truth, every.lie))
    asd, truth, lie = (None if value != value else value for value in figures)
    id = run.sweep.problems[place.problem].id
    return TranscriptLine(
        id, names[place.row], place.draw, asd, truth, lie, every.tag(at, not asks), to
    )


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
    """Links from a reading to its neighbours."""

    anchor: str
    base: str
    """Beginning of the anchors of its turns."""
    problem_page: str
    steps: tuple[tuple[str, str, str], ...]
    """(key, name, link)."""
    draws: int
    other_draws: tuple[tuple[int, str], ...]
    pages: tuple[tuple[str, str, bool], ...]
    other_view: str
    """Link to the same worlds in one column each, or back; empty without such a page."""


def neighbours(run: RunReader, links: Links, one: TranscriptView) -> Neighbours:
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
        links.to("reading", **parts(place), turns=one.page, apart=int(one.single))
        if one.alike and links.form("transcripts")
        else "",
    )


def reader_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """The page of one reading."""
    probes = read_probes(run.folder)
    apart = bool(query.apart)
    one = read(run, place_of(run, query), query.score, query.turns, probes, apart=apart)
    sections = [section(run, links, one, read_notes(run))]
    return readers_page(run, links, sections, f"{one.problem.id} · {one.row.shown}")


def calls_page(run: RunReader, links: Links, query: PageQuery) -> str:
    """Every request and reply of a reading, or one call in full."""
    place = place_of(run, query)
    one = read(run, place, query.score, query.turns, requests=True)
    if not any(call.address.startswith(query.only) for call in one.calls) and query.only:
        raise NoPage(f"no call of this reading has an address like {query.only!r}")
    name = f"{one.problem.id} · {one.row.shown}"
    sections = [calls_section(one, links, only=query.only)]
    return called_page(run, links, sections, name, links.reading(place))


def section(run: RunReader, links: Links, one: TranscriptView, notes: ReaderNotes) -> Markup:
    """One reading, for a page that may hold several. notes: of the whole run."""
    call_link = partial(links.calls, one.place)
    around, advice = neighbours(run, links, one), probe_advice(run, one)
    own = notes.at(one.place) if links.shows_notes else []
    return part("readings", "reading", one, around, call_link, advice, own, links.notes)


def readers_page(run: RunReader, links: Links, sections: list[Markup], title: str) -> str:
    """A page of several readings; the key j moves to the next one."""
    return run_page(
        "readers",
        run,
        links,
        title=title,
        active_tab="transcripts",
        sheets=READER,
        texts=_texts(links, sections),
        many=len(sections) > 1,
    )


def calls_section(one: TranscriptView, links: Links, back: str = "", only: str = "") -> Markup:
    """Requests and replies of a reading. only: start of the one call's address to show in full."""
    views = [view for view in one.calls if view.address.startswith(only)]
    calls = [(view, view.request.messages if view.request else ()) for view in views]
    texts = sum(len(messages) for _, messages in calls)
    share = max(MIN_CALL_TEXT, MAX_CALLS_TEXT // max(texts + len(calls), 1))

    def rooms(view: CallView) -> int | None:
        """Bytes of markup for each text of a call; None: as many as it has."""
        if only:
            return None
        if most := links.most("calls"):
            return most
        return MAX_JUDGE_TEXT if view.call.role == JUDGE else share

    def link(view: CallView, messages: Sequence[Message]) -> str:
        """Link to the full text of a call that is cut here; empty for other calls."""
        most = rooms(view)
        if most is None or links.most("calls"):
            return ""
        texts = [view.call.text, *(message.text for message in messages)]
        longest = max(len(escape(text)) for text in texts)
        return links.calls(one.place, view.address, full=True) if longest > most else ""

    return part(
        "requests", "all", one, calls, anchor(one.place), back, rooms, settings, probabilities, link
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
        active_tab="transcripts",
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
    texts = [f"at most {call.max_tokens:,} tokens"]
    texts += [f"temperature {call.temperature:g}"] if call.temperature is not None else []
    for name in PARAMETERS:
        if (value := getattr(call.request, name)) not in (None, (), ""):
            texts.append(f"{name.replace('_', ' ')} {value}")
    texts += [f"effort {call.effort}"] if call.effort else []
    texts += [f"{call.top_logprobs} log probabilities"] if call.top_logprobs else []
    texts += [f"tools {', '.join(tool.name for tool in call.tools)}"] if call.tools else []
    texts += [f"form {call.response_format.name}"] if call.response_format else []
    texts += [f"draw {'.'.join(map(str, call.draw))}"] if call.draw else []
    return " · ".join(texts)
