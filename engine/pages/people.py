"""The page of the people who judged a run: how far they are, how they agree, how good they are."""

from ..decisions.rater_tables import agreement_finding, standings_finding
from ..decisions.raters import rater_agreement, rater_standings
from ..errors import EngineError
from ..persons.journal import JOURNAL, PERSONS
from ..runs.reader import RunReader
from .addresses import Addresses
from .provenance import run_page


def has_people(run: RunReader) -> bool:
    """Whether anybody was asked."""
    return (run.folder / PERSONS / JOURNAL).is_file()


def people_page(run: RunReader, links: Addresses) -> str:
    """The page, from the raters' journal alone; what cannot be told is said in its place."""
    tables, said = [], []
    if not has_people(run):
        said = [f"Nobody has judged this run: oversight human serve {run.folder}"]
    else:
        tables += standings_finding(rater_standings(run.folder)).tables()
        try:
            tables += agreement_finding(rater_agreement(run.folder)).tables()
        except EngineError as exc:
            said = [str(exc)]
    return run_page(
        "people", run, links, title=f"people of {run.name}", here="people", tables=tables, said=said
    )
