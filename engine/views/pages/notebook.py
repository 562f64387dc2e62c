"""Pages in a notebook, each in a sandboxed frame that cannot reach the notebook."""

from dataclasses import dataclass, field

from markupsafe import escape

from ...run.reader import Place, RunReader
from .overview import overview_page
from .reader import reader_page
from .routes import Addresses, Asked


@dataclass(frozen=True, slots=True)
class NotebookPage:
    """A result that a notebook shows as a page, and a terminal as text."""

    text: str
    html: str = field(repr=False)
    """A whole page."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return framed(self.html)


def framed(page: str, height: int = 620) -> str:
    """A page in a frame, sandboxed because models wrote its texts and the notebook has a kernel."""
    return (
        f'<iframe sandbox="allow-scripts" width="100%" height="{height}" '
        f'srcdoc="{escape(page)}"></iframe>'
    )


def overview_of(run: RunReader, score: str) -> str:
    """The overview of a run as a standalone page."""
    return overview_page(run, Addresses(), Asked(score=score))


def reading_of(run: RunReader, score: str, place: Place) -> str:
    """One reading of a run as a standalone page. Raises what `read` raises."""
    with run:
        asked = Asked(place.row, place.problem, place.draw, score=score)
        return reader_page(run, Addresses(), asked)
