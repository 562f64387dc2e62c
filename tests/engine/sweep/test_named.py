"""Settings of providers and models that mean nothing, or cannot work, are told with the remedy."""

import pytest

from oversight.engine.errors import UsageError
from oversight.engine.run.loaded_sweep import LoadedSweep, load_sweep
from oversight.engine.views.api.session import asking
from tests.engine.sweep_files import sweep_file

TEXT = """\
agents: openai/gpt-4o-mini
judges: compatible/lab/smollm2-135m
protocols: propaganda
"""
AT = "{compatible/lab: {base_url: http://127.0.0.1:9/v1}}"


def ready(more: str, *flags: str, **variables: str) -> LoadedSweep:
    return load_sweep(sweep_file(TEXT + more, *flags), variables)


def refused(more: str, *flags: str, **variables: str) -> str:
    with pytest.raises(UsageError) as fault:
        ready(more, *flags, **variables)
    return str(fault.value)


def test_a_flag_may_replace_a_model_whose_limits_the_file_sets():
    text = f"providers: {AT}\nmodels: {{openai/gpt-4o-mini: {{requests: 5}}}}"
    other = ("agents=openai/gpt-4o",)
    assert "openai/gpt-4o" in ready(text, *other).sweep.models
    assert "no such model in this sweep" in refused(text, "models.openai/gpt4={}", *other)


def test_the_hosts_that_a_router_may_choose_are_part_of_who_answers():
    at = {"COMPATIBLE_LAB_BASE_URL": "http://127.0.0.1:9/v1"}

    def identity(settings: str) -> str:
        more = f"providers: {{openrouter: {settings}}}"
        return ready(more, **at).models.settings("openrouter").identity

    assert identity("{}") == "openrouter chat.completions v1"
    pinned = identity("{order: [deepinfra]}")
    assert '"order":["deepinfra"],"allow_fallbacks":false' in pinned
    assert identity("{order: [deepinfra, together]}") != pinned
    sent = ready("providers: {openrouter: {data_collection: deny}}", **at).models
    assert sent.settings("openrouter").extra == (
        '{"provider":{"require_parameters":true,"data_collection":"deny"}}'
    )


def test_an_address_that_is_missing_or_wrong_in_the_environment_names_who_needs_it():
    assert refused("") == (
        "s.yaml:2: judges: compatible/lab has no address; set providers.compatible/lab.base_url in "
        "the sweep file, or COMPATIBLE_LAB_BASE_URL in the environment or in .env"
    )
    assert refused("", COMPATIBLE_LAB_BASE_URL="http://[::1").startswith(
        "s.yaml:2: judges: compatible/lab: COMPATIBLE_LAB_BASE_URL 'http://[::1' is no address: "
    )


async def test_python_is_told_the_same_as_a_file():
    with pytest.raises(UsageError, match=r"Python: providers.opnai: no such provider"):
        async with asking(providers={"opnai": {}}):
            pass
    with pytest.raises(UsageError, match=r"Python: models.gpt-4o: 'gpt-4o': no such provider"):
        async with asking(models={"gpt-4o": {"requests": 5}}):
            pass


def test_a_run_that_was_made_with_such_settings_can_still_be_looked_into(command, finished):
    folder = finished.folder
    with (folder / "sweep.yaml").open("a") as file:
        file.write("models: {smollm2-135m: {concurrency: 4}}\nproviders: {opnai: {}}\n")
    assert command("report", folder).code == 0
    assert command("run", folder / "sweep.yaml").code == 2
