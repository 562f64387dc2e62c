"""A sweep through a proxy that nobody here wrote: LiteLLM, with replies of its own making.

Its own pins forbid this program's clients, so it lives in an environment of its own: the command is
found on PATH, or named by LITELLM.
"""

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from oversight.engine.errors import Malformed
from oversight.engine.models.accounting.ledger import UsageTotals, sum_usage
from oversight.engine.models.accounting.ledger_file import read_ledger
from oversight.engine.providers.answer_ids import FRESH_REPEATS
from tests.waiting import PATIENCE

pytestmark = pytest.mark.real

KEY = "sk-1f0c6de27ab94d5c8b3fa1e6c7d2905e"
"""The proxy starts with no weaker one; it opens nothing else."""

CONFIG = f"""\
model_list:
  - model_name: gpt-4.1
    litellm_params: &mock
      model: openai/gpt-4.1
      api_key: x
      mock_response: "The crates hold four.\\nA: 70%\\nB: 30%"
  - model_name: claude-haiku-4-5
    litellm_params: {{<<: *mock, model: anthropic/claude-haiku-4-5}}
general_settings: {{master_key: {KEY}}}
"""

SWEEP = """\
name: proxied
problems: {{bundled: {{name: arithmetic, limit: 2}}}}
agents: {{model: {agent}}}
judges: {{kind: stated, model: {judge}}}
protocols:
  naive_judge:
  debate: {{rounds: 1}}
  consultancy: {{turns: 2}}
providers:
  openai: {{base_url: {url}/v1, api: {api}}}
  anthropic: {{base_url: {url}}}
"""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = os.environ.get("LITELLM") or shutil.which("litellm")
    if program is None:
        pytest.skip("LiteLLM is not installed: pip install 'litellm[proxy]' in a venv of its own")
    folder = tmp_path_factory.mktemp("litellm")
    (folder / "config.yaml").write_text(CONFIG)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    flags = ["--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, *flags], cwd=folder, stdout=log, stderr=log)
        try:
            _wait(f"{url}/health/liveliness", process, folder / "log")
            yield url
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until it answers, which takes it some twenty seconds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the proxy did not start:\n{log.read_text(errors='replace')[-2000:]}")


def refused(account: UsageTotals) -> int:
    """Answers that were thrown away, since they had come before; there is no other fault."""
    assert {kind for _, kind, _ in account.faults} <= {Malformed.slug}
    return account.count("ambiguous")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)


@pytest.mark.parametrize(
    ("agent", "judge", "api"),
    [
        ("openai/gpt-4.1", "openai/gpt-4.1", "chat"),
        ("openai/gpt-4.1", "openai/gpt-4.1", "responses"),
        ("anthropic/claude-haiku-4-5", "anthropic/claude-haiku-4-5", "auto"),
        ("openai/gpt-4.1", "anthropic/claude-haiku-4-5", "auto"),
    ],
)
def test_a_sweep_runs_through_the_proxy_and_replays_to_the_byte(
    proxy, place, command, agent, judge, api
):
    sweep = SWEEP.format(agent=agent, judge=judge, api=api, url=proxy)
    (place / "proxied.yaml").write_text(sweep)
    ran = command("run", "proxied.yaml", "--run-folder", "run")
    assert ran.code == 0, ran.err + ran.out
    account = sum_usage(read_ledger(place / "run").values())
    assert account.stored > 0 and account.sent == account.stored + refused(account)
    # Its mock of Anthropic has one id and few words for all: until that shows, the same answer
    # twice may be a stale one, and is asked for again.
    assert refused(account) <= (FRESH_REPEATS - 1 if "anthropic" in judge else 0)
    outcomes = (place / "run" / "outcomes.jsonl").read_bytes()
    again = command("replay", "run")
    assert again.code == 0, again.err
    assert (place / "run" / "outcomes.jsonl").read_bytes() == outcomes


def test_a_checkup_finds_what_the_proxy_lacks(proxy, place, command):
    sweep = SWEEP.format(agent="openai/gpt-4.1", judge="openai/gpt-4.1", api="chat", url=proxy)
    (place / "proxied.yaml").write_text(sweep.replace("kind: stated", "kind: logprob"))
    ran = command("doctor", "proxied.yaml")
    assert ran.code == 1
    assert "✓ openai/gpt-4.1 answers in" in ran.out
    assert "✗ openai/gpt-4.1: logprobs: it answers without logprobs" in ran.out
