"""The charts of pages as pictures to keep, drawn as `oversight export plot` draws them."""

from pathlib import Path
from tempfile import TemporaryDirectory

from ...analysis.pictures.kinds import pictured
from ...analysis.pictures.painting import draw, save
from ...run.reader import RunReader, origins
from .findings import DRAWN
from .links import one_of

ENDINGS = ("svg", "pdf")


def figure_bytes(run: RunReader, kind: str, ending: str, score: str = "brier") -> bytes:
    """The picture. NoPage if unknown; UsageError without data for it, or without matplotlib."""
    one_of(kind, DRAWN, "figure")
    one_of(ending, ENDINGS, "format")
    picture = pictured(run, kind, score)
    figure = draw(picture, "paper")
    about = "; ".join(
        [run.manifest.identity[:12], *origins(run.sweep, run.folder, addresses=False)]
    )
    with TemporaryDirectory(prefix="figure-") as folder:
        file = Path(folder, f"figure.{ending}")
        save(figure, file, about, "paper")
        return file.read_bytes()
