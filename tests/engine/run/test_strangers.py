"""Files from strangers: sweeps, stores, `.env` and links; and the origins of replies."""

import re
from collections.abc import Mapping
from pathlib import Path

import orjson
import pytest

from oversight.engine.extensions.mock import MockServer
from oversight.engine.extensions.planning.preflight import examine
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.directory import Directory
from oversight.engine.models.router import Router
from oversight.engine.providers.keys import settings_of
from oversight.engine.providers.settings import environment
from oversight.engine.run.folders import read_manifest
from oversight.engine.run.reader import read_sources, source_lines
from oversight.engine.run.record.tables import RunTables
from oversight.engine.stop import StopToken
from oversight.engine.sweep.document import Document
from tests.batches import BatchBench
from tests.desk import Desk
from tests.run_folders import FORMS
from tests.sessions import sessions
from tests.tables import expressions

NAMES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "CLOUDSDK_AUTH_ACCESS_TOKEN")


def variables(file: str, **exported: str) -> Mapping[str, str]:
    """Variables of a `.env` file, and the user's own."""
    Path(".env").write_text(file)
    with pytest.MonkeyPatch.context() as patch:
        for name in NAMES:
            patch.delenv(name, raising=False)
        for name, value in exported.items():
            patch.setenv(name, value)
        return environment(Path())


def prepared(given: Mapping[str, str], model: str = "openai/gpt-4o", **provider: str) -> str:
    """Prepares a run of the model; provider: settings of the sweep file."""
    providers = {model.rpartition("/")[0]: provider} if provider else {}
    directory = Directory(Document.parse("", "s.yaml"), {}, providers, (), given)
    return type(Router(directory, [(model, "agent")], Accounting(listed()), StopToken())).__name__


def safety(url: str) -> dict[str, str]:
    """Settings of a connection that concern its safety."""
    from oversight.engine.extensions.postgres.store import settings_for

    return {k: v for k, v in settings_for(url).items() if k in ("sslmode", "channel_binding")}


def linked(place: str) -> None:
    """Reads a run folder in which this is a link to a folder outside."""
    file = Path("run", place)
    file.parent.mkdir(parents=True, exist_ok=True)
    Path("run/run.db").write_bytes(b"{}")
    file.symlink_to("../..")
    try:
        read_manifest(Path("run"))
    finally:
        file.unlink()


@sessions(Path(__file__).with_name("strangers.md"))
def test_files_of_strangers_send_no_key_or_password(session, request, tmp_path, monkeypatch):
    if "postgresql" in session.text:
        pytest.importorskip("psycopg", reason="psycopg is not installed")
    monkeypatch.chdir(tmp_path)
    for name in ("PGSSLMODE", "PGCHANNELBINDING", "PGHOST"):
        monkeypatch.delenv(name, raising=False)
    names = dict(globals())
    session.check(request, expressions(names), names)


@pytest.mark.wire
async def test_doctor_sends_no_key_to_an_address_in_a_file_next_to_the_sweep(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    async with MockServer() as server:
        (tmp_path / ".env").write_text(f"OPENAI_BASE_URL={server.url}/v1\n")
        variables = environment(tmp_path)
        checks = await examine(
            ["openai/gpt-4o"], lambda name, api: settings_of(name, variables, api=api), variables
        )
        assert not server.counts().get("requests")
    assert [check.fine for check in checks] == [True, False] and "not sent there" in checks[-1].text


@pytest.mark.wire
async def test_a_run_says_which_model_answered_and_what_share_comes_from_elsewhere(tmp_path):
    """And what each call cost."""
    bench = BatchBench(tmp_path)
    async with bench.server() as server:
        went = await bench.run(server)
    sources = read_sources(went.folder)
    assert {source.origin.split()[0] for source in sources} == {"batch"}
    assert sum(source.replies for source in sources) == went.account.stored
    assert not any(source.elsewhere for source in sources)
    lines = source_lines(sources)
    assert len(lines) == 2 and all("12 of 12" in line and server.url in line for line in lines)
    with RunTables.open(went.folder) as tables:
        paid = {call.address: call.cost.dollars for cell in tables.cells() for call in cell.calls}
    assert sum(paid.values()) == pytest.approx(went.account.dollars)


@pytest.mark.wire
def test_imported_replies_and_other_models_are_named_by_run_report_and_list(tmp_path):
    desk = Desk(tmp_path, problems=1)
    with desk.server({}) as url:
        assert desk.sit_here().code == 0
        for words in FORMS:
            assert f"live {url}" in desk.here("report", "run", *words).out
        assert desk.here("view", "run", "--write", "site").code == 0
        assert f"live {url}" in (tmp_path / "site" / "index.html").read_text()
        assert stored_origins(desk, "store") == {f"live {url}", f"live {url}/v1"}
        exported = desk.here("cache", "export", "--all", "-o", "gift.oversight", "--store", "store")
        assert exported.code == 0, exported.err
        assert desk.here("cache", "import", "gift.oversight", "--store", "other").code == 0
        words = ["run", "sweep.yaml", "--limit", "1", "--run-folder", "again", "--store", "other"]
        again = desk.here(*words)
        assert again.code == 0, again.err
    for output in (again.err, desk.here("report", "again").out):
        matches = re.findall(
            r"(\d+) of (\d+) replies came from a different address: (\d+) imported", output
        )
        assert len(matches) == 3 and all(a == b == c for a, b, c in matches), output
    assert stored_origins(desk, "other") == {"imported"}


def stored_origins(desk: Desk, store: str) -> set[str]:
    lines = desk.here("cache", "list", "--json", "--limit", "0", "--store", store).out.splitlines()
    return {orjson.loads(line)["origin"] for line in lines}
