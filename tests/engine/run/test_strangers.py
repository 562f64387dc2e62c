"""Files from strangers: sweeps, stores, `.env` and links; and the origins of replies."""

import re
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from oversight.cache.errors import StoreError
from oversight.engine.errors import RunFolderError, UsageError
from oversight.engine.extensions.mock import MockServer
from oversight.engine.extensions.planning.preflight import examine
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.directory import Directory
from oversight.engine.models.router import Router
from oversight.engine.providers.catalogue import same_model
from oversight.engine.providers.keys import settings_of
from oversight.engine.providers.settings import environment
from oversight.engine.run.folders import read_manifest
from oversight.engine.run.reader import read_sources, source_lines
from oversight.engine.run.record.tables import RunTables
from oversight.engine.run.settings import open_store, store_name
from oversight.engine.stop import StopToken
from oversight.engine.sweep.document import Document
from tests.batches import BatchBench
from tests.desk import Desk
from tests.run_folders import FORMS

PASSWORDS = (
    "postgresql://me:PW@h/db", "POSTGRESQL://me:PW@h/db", "Postgres://me:PW@h/db",
    " postgresql://me:PW@h/db", "\tpostgresql://me:PW@h/db ", "postgresql+psycopg://me:PW@h/db",
    "postgresql://h/db?password=PW", "postgresql://h/db?user=me&sslpassword=PW",
    "host=h user=me password=PW", "dbname = db password = 'PW'", "mysql://me:PW@h/db",
)  # fmt: skip


@pytest.mark.parametrize("url", PASSWORDS)
def test_a_password_in_the_name_of_a_store_is_refused_in_every_spelling(url):
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises(Exception, match=r"pgpass|names no database") as error:
        open_store(store_name(url))
    assert "PW" not in str(error.value)


@pytest.mark.parametrize("url", ["postgresql://db.example/x", "postgresql://10.1.2.3/x"])
def test_nothing_goes_to_another_machine_in_the_clear(url, monkeypatch):
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    from oversight.engine.extensions.postgres.store import settings_for

    for name in ("PGSSLMODE", "PGCHANNELBINDING", "PGHOST"):
        monkeypatch.delenv(name, raising=False)

    def safety(url: str) -> dict[str, str]:
        return {k: v for k, v in settings_for(url).items() if k in ("sslmode", "channel_binding")}

    assert safety(url) == {"sslmode": "require", "channel_binding": "require"}
    for weak in ("disable", "allow", "prefer"):
        with pytest.raises(StoreError, match="in the clear"):
            safety(f"{url}?sslmode={weak}")
    assert safety(f"{url}?sslmode=verify-full") == {}
    for local in ("postgresql:///x", "postgresql://localhost/x", "postgresql://[::1]/x"):
        assert safety(local) == {}
    assert "sslmode" in safety("postgresql://localhost,10.1.2.3/x")


def prepare(folder: Path, providers: dict[str, dict[str, str]], roles: Sequence[tuple[str, str]]):
    directory = Directory(Document.parse("", "s.yaml"), {}, providers, (), environment(folder))
    Router(directory, roles, Accounting(listed()), StopToken())


def test_key_is_not_sent_to_an_address_from_a_file_next_to_the_sweep(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    file, roles = tmp_path / ".env", [("openai/gpt-4o", "agent")]
    file.write_text("OPENAI_BASE_URL=http://127.0.0.1:9/v1\n")
    with pytest.raises(UsageError, match=r"\.env: OPENAI_BASE_URL.*OPENAI_BASE_URL into your env"):
        prepare(tmp_path, {}, roles)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    prepare(tmp_path, {}, roles)
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    with file.open("a") as more:
        more.write("OPENAI_API_KEY=sk-of-that-address\n")
    prepare(tmp_path, {}, roles)


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


@pytest.mark.parametrize(("url", "variable", "allowed"), [
    ("http://lab.example:1/v1", "", False),
    ("http://lab.example:1/v1", "http://other.example:1/v1", False),
    ("http://lab.example:1/v1", "http://lab.example:1/v1", True),
    ("https://api.openai.com/v1", "", True),
])  # fmt: skip
def test_an_address_of_a_folder_is_asked_only_if_the_user_names_it(url, variable, allowed):
    variables = {"OPENAI_API_KEY": "sk-mine", "OPENAI_BASE_URL": variable}
    why = settings_of("openai", variables, base_url=url, foreign=True).refused
    assert allowed == (not why)
    assert allowed or (url in why and "--sweep FILE" in why and f"OPENAI_BASE_URL={url}" in why)


def test_credentials_of_this_machine_go_nowhere_that_only_a_file_sends_them(tmp_path, monkeypatch):
    monkeypatch.delenv("CLOUDSDK_AUTH_ACCESS_TOKEN", raising=False)
    (tmp_path / ".env").write_text(
        "CLOUD_ML_REGION=x\nANTHROPIC_VERTEX_PROJECT_ID=p\n"
        "ANTHROPIC_VERTEX_BASE_URL=http://127.0.0.1:9/v1\n"
    )
    assert "not sent there" in settings_of("vertex", environment(tmp_path)).refused
    (tmp_path / ".env").write_text("COMPATIBLE_LAB_BASE_URL=http://127.0.0.1:9/v1\n")
    assert not settings_of("compatible/lab", environment(tmp_path)).refused


@pytest.mark.parametrize(("model", "identity"), [
    ("openai/gpt-4o", "openai chat.completions v1"), ("openai/gpt-4o", "openai responses v1"),
    ("anthropic/claude-haiku-4-5", "anthropic messages 2023-06-01"),
    ("compatible/lab/x", "anthropic messages 2023-06-01"),
])  # fmt: skip
def test_a_sweep_file_alone_makes_no_address_a_vendors(tmp_path, monkeypatch, model, identity):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-mine")
    provider = model.rpartition("/")[0]
    providers = {provider: {"base_url": "http://127.0.0.1:9/v1", "identity": identity}}
    with pytest.raises(UsageError, match=r"identifies .*Leave out identity"):
        prepare(tmp_path, providers, [(model, "agent")])
    providers[provider]["identity"] = "a gateway"
    prepare(tmp_path, providers, [(model, "agent")])


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_key_goes_through_no_proxy_from_a_file_next_to_the_sweep(tmp_path, monkeypatch, variable):
    roles = [("openai/gpt-4o", "agent")]
    (tmp_path / ".env").write_text(f"{variable}=http://me:PW@127.0.0.1:9\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=rf"\.env: {variable} .*{variable} into your env") as error:
        prepare(tmp_path, {}, roles)
    assert "PW" not in str(error.value)
    # One that the user's own environment names is the user's.
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    prepare(tmp_path, {}, roles)


@pytest.mark.parametrize("place", ["outcomes.jsonl", "report", "report/report.json", "batches"])
def test_no_link_in_a_run_folder_is_followed(tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    run = tmp_path / "run"
    (run / place).parent.mkdir(parents=True)
    (run / "run.db").write_bytes(b"{}")
    (run / place).symlink_to(outside)
    with pytest.raises(RunFolderError, match="is a symbolic link"):
        read_manifest(run)


def test_other_models_are_reported_but_dated_snapshots_are_not():
    for served in ("gpt-4o-2024-08-06", "gpt-4o", "GPT-4o", "openai/gpt-4o"):
        assert same_model("gpt-4o", served)
    assert same_model("claude-haiku-4-5", "claude-haiku-4-5-20251001")
    assert same_model("claude-3-5-haiku-latest", "claude-3-5-haiku-20241022")
    assert not same_model("gpt-4o", "gpt-4o-mini") and not same_model("gpt-4o-mini", "gpt-4o")
    assert not same_model("gpt-4", "gpt-4o")


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
