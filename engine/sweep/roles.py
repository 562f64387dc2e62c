"""Agents, judges and protocols built from settings, with every list of settings an axis.

Also the requests to real models in the words of a sweep file, and whether they accept them."""

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

import orjson

from ...cache.call import Call, Request
from ...protocols.agents.agent import Agent, Speaker
from ...protocols.catalogue import JUDGES, PROTOCOLS
from ...protocols.datasets.catalogue import quotes_passages
from ...protocols.judges.case import Shot
from ...protocols.judges.judge import Judge
from ...protocols.prompts.prompt_set import PromptError, PromptSet, default_prompts
from ...protocols.protocol import Protocol
from ...protocols.settings import PARAMETERS, Count, CountFromZero, check_ranges, unknown
from ..errors import UsageError
from ..providers.capabilities import Endpoint, missing_abilities, takes_temperature, thinking_effort
from ..providers.catalogue import entry, provider_of
from ..providers.simulated import PREFIX, simulation
from ..system.process import AGENTS_GROUP, JUDGES_GROUP, PROTOCOLS_GROUP
from .document import Document, Faults, Node, checked_value, fields_of, made_of, required_of
from .loading import class_named, shots

RoleSettings: TypeAlias = dict[str, Any]
CALL_SETTINGS = ("temperature", "max_tokens", "top_logprobs", *PARAMETERS)
"""Settings of roles that are passed on to their calls, and validated there."""

TEMPERATURES = ("temperature", "best_of_temperature")
AUTO = "auto"
"""The default temperature: ours if the model accepts the parameter, otherwise the model's own."""

MakeSpeaker: TypeAlias = Callable[[Judge], Speaker]
"""A speaker for a given judge: best-of-N selects with the judge of its row."""


@dataclass(frozen=True)
class AgentSettings:
    """Settings of an agent: of `Agent`, and of the speakers that wrap it."""

    best_of: Count = 1
    """Number of drafts of every speech, of which the judge picks one."""
    best_of_temperature: float | None = 0.8
    selection: Judge | None = None
    """Picks among drafts; None: the judge of the row."""
    side_check: Agent | None = None
    """Agent that reads whether each speech argues for its side; None: no check."""
    side_check_retries: CountFromZero = 1
    """Maximum number of drafts that a side check sends back."""
    side_check_candor: bool = False
    """Whether a side check also reads if a speech says itself that its answer is wrong."""

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.best_of_temperature is not None and not 0 <= self.best_of_temperature <= 2:
            raise ValueError(
                f"best_of_temperature: {self.best_of_temperature} is not between 0 and 2"
            )


def agents(node: Node) -> list[MakeSpeaker]:
    """Every agent of an `agents` section or of a protocol's role: a mapping, or a list of them."""
    speakers: list[MakeSpeaker] = []
    types_ = fields_of(Agent, AgentSettings)
    faults = Faults()
    for role in _roles(node):
        with faults.noted():
            settings = role.settings()
            if kind := settings.pop("kind", None):
                speakers += _speakers_from_elsewhere(role, kind, settings)
                continue
            for point in _points(role, settings, types_, needs=("model",)):
                speakers.append(_speaker(role, point))
    faults.raise_if_any()
    return speakers


def _speakers_from_elsewhere(
    node: Node, kind: Node, settings: Mapping[str, Node]
) -> Iterator[MakeSpeaker]:
    """Agents of a user-defined class, with the settings of that class."""
    for name in _values(kind, str):
        kind_node = kind.child(name, name)
        cls = class_named(kind_node, {}, Speaker, AGENTS_GROUP, "kind of agent", "kinds of agents")
        for point in _points(node, settings, fields_of(cls), needs=required_of(cls)):
            _check_calls(node, point)
            yield partial(lambda speaker, judge: speaker, made_of(node, cls, point))


def judges(node: Node) -> list[Judge]:
    """Every judge of a `judges` section or of a protocol's role. `kind` selects the elicitation."""
    listed: list[Judge] = []
    faults = Faults()
    for role in _roles(node):
        settings = role.settings()
        kinds = settings.pop("kind", role.child("kind", "stated"))
        window = settings.pop("window", None)
        for kind in _values(kinds, str):
            with faults.noted():
                kind_node = kinds.child(kind, kind)
                cls = class_named(
                    kind_node, JUDGES, Judge, JUDGES_GROUP, "kind of judge", "kinds of judges"
                )
                types_ = fields_of(cls) | {"window": dict}
                for point in _points(role, settings, types_, needs=required_of(cls)):
                    _check_calls(role, point)
                    if "temperature" in types_:
                        base = point if "model" in point else vars(point["member"].base_agent)
                        point = _tempered(node.document, point, base)
                    judge = made_of(role, cls, point)
                    listed += [judge] if window is None else _windowed(judge, window)
    faults.raise_if_any()
    return listed


def _windowed(judge: Judge, window: Node) -> Iterator[Judge]:
    """The judge with each window of the setting; `null` is the judge itself."""
    from ...protocols.judges.windowed import Windowed

    types_ = {name: kind for name, kind in fields_of(Windowed).items() if name != "member"}
    for part in _different(window):
        if part.value is None:
            yield judge
            continue
        for point in _points(part, part.settings(), types_, needs=("steps",)):
            yield made_of(part, Windowed, {"member": judge, **point})


def protocols(
    node: Node,
    agents: Iterable[MakeSpeaker],
    judges: Iterable[Judge],
    sets: Sequence[PromptSet] = (),
    skipped: list[str] | None = None,
) -> Iterator[Protocol]:
    """Every protocol of a `protocols` section with every agent, every judge and every prompt set.
    The section is a mapping from kinds to settings, or a list of such mappings and of bare kinds.
    skipped: list that collects notes on rows left out; with None, such rows are errors."""
    seats, benches = list(agents), list(judges)
    words = list(sets) or [default_prompts()]
    faults = Faults()
    for one in _kinds(node):
        with faults.noted():
            yield from _rows_of(one, seats, benches, words, skipped)
    faults.raise_if_any()


def words_of(node: Node) -> PromptSet:
    """The default prompts, with the words of the protocols that a `protocols` section names; what
    else is wrong with the section is said where its rows are made."""
    words, classes = default_prompts(), list[tuple[Node, type[Protocol]]]()
    with suppress(UsageError):
        for one in _kinds(node):
            with suppress(UsageError):
                classes.append((one, _protocol(one)))
    for one, kind in classes:
        try:
            words = kind.with_its_words(words)
        except PromptError as exc:
            raise one.fault(f"{kind.__name__}: {exc}") from None
    return words


def _protocol(one: Node) -> type[Protocol]:
    return class_named(one, PROTOCOLS, Protocol, PROTOCOLS_GROUP, "protocol", "protocols")


def _rows_of(
    one: Node,
    seats: Sequence[MakeSpeaker],
    benches: Sequence[Judge],
    words: Sequence[PromptSet],
    skipped: list[str] | None,
) -> Iterator[Protocol]:
    """Every row of one entry of the section."""
    kind, settings = one.name, one.settings()
    cls = _protocol(one)
    types_ = fields_of(cls)
    takes_agent = "agent" in types_
    for role in ("agent", "judge", "prompts"):
        if role in settings:
            section = f"{role.rstrip('s')}s"
            raise settings[role].fault(f"is set for all protocols at once, under '{section}'")
    if takes_agent and not seats:
        raise one.fault(f"{kind} needs agents; add a section 'agents'")
    types_ = {name: kind for name, kind in types_.items() if name not in SWEEP_AXES}
    judges_asked = benches
    if "judge" in cls.ignores and len(benches) > 1:
        why = f"{kind} asks no judge, so its rows would be equal"
        if skipped is None:
            raise one.fault(why, "put it into another sweep, or write `grid: skip`")
        skipped.append(f"{one.document.place(one.key)}: {why}; one of them is run")
        judges_asked = benches[:1]
    for point in _points(one, settings, types_, needs=()):
        for make, judge, prompts in product(seats if takes_agent else [None], judges_asked, words):
            roles: RoleSettings = {"judge": judge, "prompts": _used(prompts, cls)}
            if make is not None:
                roles["agent"] = make(judge)
            # A nested role is a function of the judge by now, not yet a speaker.
            seated = {k: v(judge) if callable(v) else v for k, v in point.items()}
            settings_ = seated | roles
            if "temperature" in types_:
                settings_ = _tempered(one.document, settings_, vars(judge.base_agent))
            try:
                yield made_of(one, cls, settings_)
            except UsageError as exc:
                if skipped is None:
                    raise
                skipped.append(str(exc))


def _used(prompts: PromptSet, kind: type[Protocol]) -> PromptSet | None:
    """The part of a set that a protocol reads; None if nothing of it was changed."""
    part = prompts.only(kind.sections)
    changed = part.changed_blocks
    if "agent" not in fields_of(kind):
        changed = tuple(n for n in changed if n == "agent.graded" or not n.startswith("agent."))
    return part if changed else None


SWEEP_AXES = ("agent", "judge", "prompts")
"""Fields of protocols that are axes of the whole sweep."""


def _speaker(node: Node, point: RoleSettings) -> MakeSpeaker:
    around, within = fields_of(AgentSettings), fields_of(Agent)
    checker: MakeSpeaker | None = point.pop("side_check", None)
    _check_calls(node, point)
    point = _tempered(node.document, point, point, "temperature", "best_of_temperature")
    seat = made_of(node, AgentSettings, {k: v for k, v in point.items() if k in around})
    plain = made_of(node, Agent, {k: v for k, v in point.items() if k in within})

    if seat.side_check_candor and checker is None:
        raise node.fault("side_check_candor: nobody checks", "name an agent as side_check")
    quotes_by_default = "quotes" not in point and _quoted(node)

    def make(judge: Judge) -> Speaker:
        quoting = replace(plain, quotes=not judge.reads_passage)
        speaker: Speaker = (agent := quoting if quotes_by_default else plain)
        if seat.best_of <= 1 and checker is None:
            return speaker
        from ...protocols.drafting import BestOf, SideCheck
        from ...protocols.judges.repeated import Redrawn

        # A judge that draws several verdicts still picks among drafts only once.
        picks = seat.selection or (judge.member if isinstance(judge, Redrawn) else judge)
        if seat.best_of > 1:
            speaker = BestOf(seat.best_of, agent, picks, seat.best_of_temperature)
        if checker is not None:
            reader = checker(judge).base_agent
            speaker = SideCheck(speaker, reader, seat.side_check_retries, seat.side_check_candor)
        return speaker

    return make


def _tempered(
    document: Document, point: RoleSettings, request_settings: Mapping[str, Any], *names: str
) -> RoleSettings:
    """`point` without `auto` temperatures, and with None for those that its model does not accept.
    request_settings: of its model. names: the settings to decide; by default `temperature`."""
    names = names or ("temperature",)
    settled = {name: value for name, value in point.items() if name not in names or value != AUTO}
    model = request_settings["model"]
    if model.startswith(PREFIX) or uses_temperature(request_settings, _reach(document, model)):
        return settled
    return dict.fromkeys(names) | settled


def _quoted(node: Node) -> bool:
    """Whether the sweep has problems whose passages agents quote by default."""
    problems = node.document.value.get("problems")
    sections = problems if isinstance(problems, dict) else {}
    return any(map(quotes_passages, sections))


def _check_calls(node: Node, point: RoleSettings) -> None:
    """UsageError for settings of a role that would make each of its calls invalid."""
    model = point.get("model")
    if model is None:
        return
    settings = {name: point[name] for name in CALL_SETTINGS if point.get(name, AUTO) != AUTO}
    made_of(node, Request, {"model": model, "messages": (), **settings})
    if not model.startswith(PREFIX):
        check_parameters(node, point)
        return
    by = simulation()
    names = {**(by.presets if by else {}), **Node.section(node.document, "models").settings()}
    if model not in names:
        fault = unknown("simulated model", model, names)
        raise node.child("model", model).fault(fault, "or describe it under 'models'")


def _roles(node: Node) -> Iterator[Node]:
    """Each role of a section: a mapping or a list of them; a bare text names a model."""
    for role in _different(node) if len(node.key) == 1 else node.alternatives():
        yield role.replaced({"model": role.value}) if isinstance(role.value, str) else role


def _kinds(node: Node) -> Iterator[Node]:
    """The settings of each protocol, in the node that its kind names."""
    for part in _different(node):
        if isinstance(part.value, str):
            yield part.child(part.value, {})
        else:
            yield from part.settings().values()


def _points(
    node: Node, settings: Mapping[str, Node], types_: Mapping[str, Any], needs: Iterable[str]
) -> Iterator[RoleSettings]:
    """Every combination of the alternatives given, each setting checked against its type."""
    for need in needs:
        if need not in settings:
            raise node.fault(f"has no {need!r}", f"settings: {', '.join(types_)}")
    axes: list[list[tuple[str, Any]]] = []
    faults = Faults()
    for name, setting in settings.items():
        with faults.noted():
            if name not in types_:
                raise setting.unknown(types_)
            if name == "extra_body":
                axes.append([(name, _json_object(part)) for part in _different(setting)])
                continue
            of_type = types_[name] | Literal["auto"] if name in TEMPERATURES else types_[name]
            axes.append([(name, value) for value in _values(setting, of_type)])
    faults.raise_if_any()
    for point in product(*axes):
        yield dict(point)


def _json_object(node: Node) -> str:
    """Return a mapping, or the text of a JSON object, as JSON for the body of a request."""
    if isinstance(node.value, str):
        return node.value
    if not isinstance(node.value, dict):
        raise node.fault(f"a mapping is expected, not {node.value!r}", "write {name: value}")
    return orjson.dumps(node.value, option=orjson.OPT_SORT_KEYS).decode()


def _values(node: Node, type_: Any) -> list[Any]:
    """The alternatives of one setting: a list is an axis, anything else a single value."""
    if node.value == []:
        raise node.fault("an empty list leaves nothing to run")
    if get_origin(type_) is tuple and _is(get_args(type_)[0], Judge):
        return [tuple(judges(node))]
    if get_origin(type_) is tuple and _is(get_args(type_)[0], Shot):
        return [shots(node)]
    nested = isinstance(node.value, list) and any(isinstance(part, list) for part in node.value)
    if get_origin(type_) is tuple and get_args(type_)[0] is float and not nested:
        # Numbers belong together; a list of names is an axis, since most tools are used alone.
        return [checked_value(node, type_)]
    return [value for part in _different(node) for value in _made(part, type_)]


def _different(node: Node) -> Iterator[Node]:
    """Each part of a list that is an axis. UsageError for one that stands there twice."""
    texts: list[str] = []
    for part in node.alternatives():
        if (written := repr(part.value)) in texts:
            raise part.fault(f"{part.value!r} is there twice", "leave one out")
        texts.append(written)
        yield part


def _made(node: Node, type_: Any) -> Sequence[Any]:
    """Return the values of one alternative: several if it is a role with axes."""
    if node.value is None and types.NoneType in get_args(type_):
        return [None]
    if _is(type_, Speaker):
        return agents(node)
    if _is(type_, Judge):
        return judges(node)
    return [checked_value(node, type_)]


def _is(type_: Any, role: type[Any]) -> bool:
    """Whether a field's type is that role, perhaps with None."""
    options = get_args(type_) if get_origin(type_) in (Union, types.UnionType) else (type_,)
    return any(isinstance(option, type) and issubclass(option, role) for option in options)


def uses_temperature(settings: Mapping[str, Any], reach: Endpoint) -> bool:
    """Return whether a model uses a temperature. settings: of its requests."""
    effort = thinking_effort(settings.get("effort", ""), settings.get("thinking_tokens"))
    return takes_temperature(settings["model"], effort, settings.get("top_p"), reach)


def check_parameters(node: Node, point: Mapping[str, Any]) -> None:
    """UsageError for a role whose model has no provider, or does not accept what is set."""
    model = point["model"]
    try:
        provider_of(model)
    except UsageError as exc:
        raise node.child("model", model).fault(str(exc)) from None
    parameters = {name: point[name] for name in PARAMETERS if name in point}
    if parameters:
        # Limits of tokens are checked once whole calls are known.
        most = {"effort": point.get("effort", ""), "max_tokens": 2**31}
        request = made_of(node, Request, {"model": model, "messages": (), **most, **parameters})
        for lack in missing_abilities(Call(request), _reach(node.document, model)):
            if lack.parameter in parameters:
                at = node.child(lack.parameter, parameters[lack.parameter])
                raise at.fault(f"{model}: {lack.reason}", lack.remedy)


def endpoint_of(
    model: str, model_settings: Mapping[str, Any], providers: Mapping[str, Any]
) -> Endpoint:
    """How a model is asked, as far as its supported parameters depend on it. own, providers: the
    settings of the model and of its provider."""
    settings, dated = {**model_settings, **providers}, entry(provider_of(model)).dated
    version = str(settings.get("version") or "") if dated else ""
    return Endpoint(version=version, is_model=str(settings.get("is") or ""))


def _reach(document: Document, model: str) -> Endpoint:
    settings: list[Mapping[str, Any]] = []
    for section, name in (("models", model), ("providers", provider_of(model))):
        entries = document.value.get(section)
        value = entries.get(name) if isinstance(entries, dict) else None
        settings.append(value if isinstance(value, dict) else {})
    return endpoint_of(model, *settings)
