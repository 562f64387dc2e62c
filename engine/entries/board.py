"""The board: static pages from verified entries and from studies, that open from a folder.

A row of an entry ranks below every row that is better for sure under the same score: by Holm's
correction over all differences of ASD, taken as independent, which rows on the same problems are
not; then it errs towards ties.
"""

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from markupsafe import Markup, escape

from ...protocols.scoring.estimate import Estimate
from ...protocols.scoring.judgements import Judgements
from ...protocols.scoring.unpaired import scored
from ..display.finding import span
from ..display.quantity import signed
from ..errors import EngineError, UsageError
from ..pages.site import write_bundle
from ..reports.report import SCORE_NAMES
from ..reports.scored import by_setting, ways_of
from ..runs.reader import RunReader
from ..simulation.model import PREFIX
from ..studies.draft import INFO
from ..studies.scoring import is_study, study_judgements
from ..system.files import replace_file
from .entry import CARDS, FIGURES
from .verifying import Verified, verify

LEVEL = 0.05
READINGS = 20
"""Problems of each entry whose transcripts are laid out: the most telling ones."""
MARKER = ".oversight-board"
SCORES = ("brier", "log", "accuracy")

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;
color:#1b1b1b;background:#fff}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;margin:1rem 0}
caption{text-align:left;font-weight:600;padding:.4rem 0}
th,td{padding:.35rem .7rem;border-bottom:1px solid #ccc;text-align:left;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.badge{display:inline-block;border:1px solid #555;border-radius:.6rem;padding:0 .5rem;
margin:0 .2rem .2rem 0;font-size:.85rem}
a{color:#0645ad}
@media(prefers-color-scheme:dark){body{background:#161616;color:#eee}a{color:#8ab4f8}
th,td{border-color:#444}.badge{border-color:#aaa}}
"""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A row of the board under one score."""

    track: str
    score: str
    name: str
    by: str
    n: int
    asd: Estimate
    lift: Estimate | None
    doubts: str
    badges: tuple[str, ...]
    link: str
    """Address of the transcripts behind it; empty if there are none."""


def write_board(folders: Sequence[Path], to: Path) -> list[str]:
    """Write the board into a folder; the entries that were left out, and why. UsageError for a
    folder that is no board."""
    if to.exists() and not (to / MARKER).exists():
        raise UsageError(f"{to} is there, and no board: name another folder with -o")
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    replace_file(to / MARKER, [b""])
    left_out: list[str] = []
    rows: list[BoardRow] = []
    for number, folder in enumerate(folders, 1):
        if is_study(folder):
            rows += _of_study(folder)
            continue
        with TemporaryDirectory(prefix="oversight-board") as at:
            opened = Path(at) / "run"
            try:
                found = verify(folder, opened)
            except EngineError as exc:
                left_out.append(f"{folder}: {exc}")
                continue
            if found.wrong:
                left_out.append(f"{folder}: {found.wrong[0]}")
                continue
            rows += _of_entry(found, folder, f"{number}", to, opened)
    replace_file(to / "index.html", [_page(rows, left_out).encode()])
    return left_out


def _of_entry(
    found: Verified, folder: Path, shelf: str, to: Path, opened: Path
) -> Iterator[BoardRow]:
    entry, run = found.entry, RunReader(opened)
    site = to / "entries" / shelf
    write_bundle(run, site, most=READINGS, calls=False)
    shutil.copytree(folder / CARDS, site / CARDS)
    figures = orjson.loads((folder / FIGURES).read_bytes())
    for score in (each for each in SCORES if each in figures):
        for row in figures[score]["rows"]:
            if row["asd"] is None:
                continue
            doubts, kept = doubts_of(row)
            roles = " ".join((row["agent"], row["judge"]))
            badges = [badge for badge in found.badges if badge != "simulated" or PREFIX in roles]
            badges += ["judged by people"] * row["judge"].startswith("published ")
            badges += ["compliance over 90 %"] * kept
            yield BoardRow(
                entry.track or "open",
                score,
                " · ".join(filter(None, (row["protocol"], row["agent"], row["judge"]))),
                f"{entry.submitter}: {entry.name}",
                row["n"],
                Estimate.read(row["asd"]),
                Estimate.read(row["lift"]) if row["lift"] else None,
                doubts,
                tuple(badges),
                f"entries/{shelf}/index.html",
            )


def doubts_of(row: Mapping[str, Any]) -> tuple[str, bool]:
    """How many worlds of a row of a report failed or are in doubt, and whether at least 90 % of its
    problems have none. A row of single worlds has no bounds, which would tell."""
    bounds = row["bounds"] or {}
    if not bounds.get("n"):
        return f"{row['failed']} failed", False
    doubtful = bounds["doubtful"]
    told = f"{row['failed']} failed, {doubtful} in doubt" if doubtful else "none"
    return told, doubtful / bounds["n"] <= 0.1


def _of_study(folder: Path) -> Iterator[BoardRow]:
    every = Judgements.of(study_judgements(folder))
    ways = ways_of(every)
    about = orjson.loads((folder / INFO).read_bytes())
    for score in SCORES:
        for setting, its in by_setting(every).items():
            found = scored(its, score, ways=ways)
            if found is None or found.asd is None:
                continue
            gain = found.gain
            yield BoardRow(
                "people",
                score,
                setting,
                f"{about['name']} ({about['paper']}, {about['licence']})",
                found.n,
                found.asd.estimate(),
                gain.estimate() if gain else None,
                "none",
                ("published", "judged by people"),
                "",
            )


def rank_sets(figures: Sequence[Estimate], level: float = LEVEL) -> list[tuple[int, int]]:
    """Best and worst rank that each figure may have, all at once."""
    from scipy import stats

    pairs = []
    for n, one in enumerate(figures):
        for m, other in enumerate(figures[:n]):
            error = math.hypot(one.error or 0.0, other.error or 0.0)
            apart = one.value - other.value
            p = 1.0
            if error and one.error and other.error:
                degrees = min(one.degrees, other.degrees)
                p = float(2 * stats.t.sf(abs(apart) / error, max(degrees, 1)))
            pairs.append((p, n, m) if apart > 0 else (p, m, n))
    better: list[tuple[int, int]] = []
    for place, (p, best, worse) in enumerate(sorted(pairs)):
        if p > level / (len(pairs) - place):
            break
        better.append((best, worse))
    return [
        (1 + sum(w == n for _, w in better), len(figures) - sum(b == n for b, _ in better))
        for n in range(len(figures))
    ]


def _page(rows: Sequence[BoardRow], left_out: Sequence[str]) -> str:
    parts: list[Any] = [
        Markup("<h1>Board of oversight protocols</h1>"),
        Markup(
            "<p>ASD: agent score difference, higher is better for the truth. Brackets: 95 % "
            "intervals. Rank: the ranks that a row may have. Lift: over the naive judge; of "
            "people, over their own first belief. Figures follow from replies and code; a "
            "registration counts only if its digest was public before the first call.</p>"
        ),
    ]
    for track in dict.fromkeys(row.track for row in rows):
        parts.append(Markup("<h2>Track: {}</h2>").format(track))
        for score in SCORES:
            its = [row for row in rows if (row.track, row.score) == (track, score)]
            if its:
                parts.append(_table(track, score, its))
    if left_out:
        items = Markup("").join(Markup("<li>{}</li>").format(each) for each in left_out)
        parts.append(Markup("<h2>Left out: not verified</h2><ul>{}</ul>").format(items))
    body = Markup("\n").join(parts)
    head = Markup('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">')
    view = Markup('<meta name="viewport" content="width=device-width">')
    title = Markup("<title>Board of oversight protocols</title><style>{}</style></head>")
    page = head + view + title.format(Markup(STYLE))
    return str(page + Markup("<body><main>{}</main></body></html>\n").format(body))


def _table(track: str, score: str, rows: Sequence[BoardRow]) -> Markup:
    ranks = rank_sets([row.asd for row in rows])
    order = sorted(range(len(rows)), key=lambda n: (ranks[n], -rows[n].asd.value))
    lines = Markup("").join(_line(rows[n], ranks[n]) for n in order)
    heads = ("rank", "row", "by", "n", "ASD", "lift", "in doubt", "badges")
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(each) for each in heads)
    told = f"{track}, {SCORE_NAMES[score]}"
    return Markup(
        '<div class="wide" tabindex="0" role="region" aria-label="{}"><table><caption>{}</caption>'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(told, told, head, lines)


def _line(row: BoardRow, rank: tuple[int, int]) -> Markup:
    best, worst = rank
    ranks = str(best) if best == worst else f"{best} to {worst}"
    name: Any = escape(row.name)
    if row.link:
        name = Markup('<a href="{}">{}</a>').format(row.link, row.name)
    badges = Markup("").join(Markup('<span class="badge">{}</span>').format(b) for b in row.badges)
    return Markup(
        '<tr><td class="n">{}</td><td>{}</td><td>{}</td><td class="n">{}</td><td class="n">{}</td>'
        '<td class="n">{}</td><td>{}</td><td>{}</td></tr>\n'
    ).format(ranks, name, row.by, row.n, _figure(row.asd), _figure(row.lift), row.doubts, badges)


def _figure(of: Estimate | None) -> str:
    if of is None:
        return "–"
    return signed(of.value) + (f" {span(of.interval, 2)}" if of.interval else "")
