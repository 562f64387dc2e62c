"""Addresses and keys of real models, from the environment and the sweep file.

A file that came with a sweep must not decide alone where a key is sent, or whose replies are stored
as a vendor's; this is checked here."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from ..errors import UsageError
from .catalogue import entry, provider_names, provider_of
from .settings import CONNECTIONS, DEADLINE, Api, Environment, Settings

NONE = ("", "")


def require_keys(uses: Sequence[tuple[str, str]], environment: Mapping[str, str]) -> None:
    """Raise UsageError, with the models that need them, if keys are missing. Sends nothing. uses:
    (model, role) of every model of the sweep, such as ("openai/gpt-4o", "agent and judge")."""
    missing: dict[str, list[str]] = {}
    affected = ""
    for model, role in uses:
        if variable := missing_key(model, environment):
            missing.setdefault(variable, []).append(f"{model} ({role})")
            affected += role
    if not missing:
        return
    lines = [
        f"{name} is not set; needed by {', '.join(users)}{_meant(name, environment)}"
        for name, users in missing.items()
    ]
    others = [
        f"--set {seat}s.model=ollama/llama3.1:8b" for seat in ("agent", "judge") if seat in affected
    ]
    instead = f", or name other models: {' '.join(others)}" if others else ""
    lines.append(f"  put it in the environment or in .env{instead}")
    raise UsageError("\n".join(lines))


def _meant(name: str, environment: Mapping[str, str]) -> str:
    """A similar variable that is set: `OPENAI_KEY` for `OPENAI_API_KEY`."""
    keys = [
        variable
        for variable, value in environment.items()
        if value and variable != name and ("KEY" in variable.upper() or "TOKEN" in variable.upper())
    ]
    near = get_close_matches(name, keys, 1, 0.75)
    return f"; {near[0]} is set: was that meant?" if near else ""


def missing_key(model: str, environment: Mapping[str, str]) -> str:
    """The environment variable of a model's key if it is needed and not set; else empty."""
    row = entry(provider_of(model))
    needed = row.key_variable and row.key_needed
    return row.key_variable if needed and not _key(row.key_variable, environment) else ""


def settings_of(
    provider: str,
    environment: Mapping[str, str],
    *,
    base_url: str = "",
    identity: str = "",
    deadline: float = DEADLINE,
    connections: int = CONNECTIONS,
    version: str = "",
    foreign: bool = False,
    api: Api = "chat",
    models: tuple[tuple[str, str], ...] = (),
) -> Settings:
    """Connection settings of a provider, from the sweep file and the environment.

    base_url, identity, version: from the sweep file; empty for the environment's or the default.
    foreign: whether the base_url comes from a run folder. Then nothing is sent to it, unless the
    environment has the same one. api: the OpenAI endpoint. models: (name, underlying model), see
    `Settings`. The vendor's identity is used at the vendor's address only, so replies of a
    rehearsal or proxy are never mixed with the vendor's, unless the sweep file sets that identity.
    A self-hosted server is identified by its name, so its address may change. Raises UsageError for
    missing settings; `require_keys` reports missing keys."""
    row = entry(provider)
    options = {
        name: environment.get(variable, "") or default for name, variable, default in row.options
    }
    if version and "version" not in options:
        raise UsageError(f"{provider} has no API version to set, but {version!r} is given")
    if version:
        options["version"] = version
    variable_url = environment.get(row.base_url_variable, "")
    if foreign and base_url == variable_url:
        base_url = ""
    moved = base_url or variable_url
    wanting = ("!",) if moved else ("!", "?")
    missing = [variable for name, variable, _ in row.options if options[name] in wanting]
    if missing:
        raise UsageError(f"{provider} needs {' and '.join(missing)} in the environment or in .env")
    default_url = row.base_url.format(**options)
    url = moved or default_url
    if not url:
        raise UsageError(
            f"{provider} has no address; set providers.{provider}.base_url in the sweep file, or "
            f"{row.base_url_variable} in the environment or in .env"
        )
    url = _url(provider, url, "its base_url" if base_url else row.base_url_variable)
    vendors_own = bool(row.api) and url == default_url
    default_identity = row.api.format(**options)
    if not vendors_own:
        default_identity = provider if row.own else f"{url} {options.get('version', '')}".strip()
    beside = environment.beside if isinstance(environment, Environment) else frozenset()
    whence = "the sweep file" if base_url else row.base_url_variable if moved else ""
    key = _key(row.key_variable, environment)
    proxy, proxy_from = _proxy(url, environment)
    store_identity, refused = _of_api(identity, api) if identity else "", ""
    if store_identity and not vendors_own and (vendor := vendor_of(store_identity)):
        refused = (
            f"{provider}: the sweep file stores replies of {url} as {store_identity!r}, which "
            f"identifies {vendor}: later runs would take them for {vendor}'s. Leave out "
            "identity, or choose another"
        )
    if foreign and base_url and url != default_url:
        variable = f", or set {row.base_url_variable}={url}" * bool(row.base_url_variable)
        refused = (
            f"{provider}: only a run folder names {url}, so no key and no request goes there. "
            f"If it is yours, name it in your own sweep file and give that: --sweep FILE{variable}"
        )
    lead = next((name for name in (proxy_from, whence) if name in beside), "")
    # Without a key, clouds are asked with the credentials of this machine.
    outside = row.key_variable not in beside if key else bool(row.api) and not row.key_needed
    if lead and outside:
        # Without the proxy's address, which may hold a password.
        destination = url if lead == whence else f"a proxy on the way to {url}"
        refused = (
            f"{provider}: .env: {lead} names {destination}, but your key is not from that file, so "
            f"it is not sent there. Put the key of that address into the same file, or {lead} into "
            "your environment"
        )
    return Settings(
        provider,
        url,
        store_identity or _of_api(default_identity, api),
        vendors_own,
        key=key,
        address_from=f".env: {whence}" if whence in beside else whence,
        refused=refused,
        deadline=deadline,
        connections=connections,
        proxy=proxy,
        options=tuple(options.items()),
        api=api,
        models=models,
    )


def _of_api(identity: str, api: Api) -> str:
    """The identity for one of OpenAI's endpoints; unchanged for chat completions."""
    if api == "chat":
        return identity
    replaced = identity.replace("chat.completions", "responses")
    return replaced if replaced != identity else f"{identity} responses v1"


def _key(variable: str, environment: Mapping[str, str]) -> str:
    """The key, or an empty text. Errors never show it. Raises UsageError for a key with quotes, a
    scheme such as `Bearer`, or other foreign characters."""
    key = environment.get(variable, "").strip()
    if not key.isascii() or not key.isprintable() or set(key) & set("\"'`<>"):
        raise UsageError(
            f"{variable} holds a character that keys never have, such as a quote; set the bare key"
        )
    first, blank, _ = key.partition(" ")
    if blank:
        raise UsageError(
            f"{variable} starts with {first!r} and a space; set the bare key, without a prefix"
            if first.lower() in ("bearer", "basic", "token", "key", "apikey", "api-key")
            else f"{variable} contains a space; set the bare key"
        )
    name, equals, _ = key.partition("=")
    if equals and name.upper() == variable.upper():
        raise UsageError(f"{variable} repeats its name; set only the text after '{name}='")
    return key


def _url(provider: str, url: str, whence: str) -> str:
    if not url.isprintable() or " " in url:
        raise UsageError(f"{provider}: {whence} {url!r} has a character that no address has")
    try:
        return _address(provider, url, whence)
    except ValueError as exc:
        raise UsageError(f"{provider}: {whence} {url!r} is not an address: {exc}") from None


def _address(provider: str, url: str, whence: str) -> str:
    """The normalized URL. ValueError if Python's URL parser raises it."""
    if provider == "ollama":
        # OLLAMA_HOST is also the address to bind to: it may be 0.0.0.0, without a scheme.
        url = url if "//" in url else f"http://{url}"
        parts = urlsplit(url.rstrip("/").removesuffix("/v1") + "/v1")
        host = parts.netloc
        if parts.hostname == "0.0.0.0":
            host = host.replace("0.0.0.0", "127.0.0.1", 1)
        if parts.port is None and parts.scheme == "http":
            host = f"{host.rstrip(':')}:11434"
        url = parts._replace(netloc=host).geturl()
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise UsageError(
            f"{provider}: {whence} {url!r} is not an http or https address; write http://HOST:PORT/v1"
        )
    if parts.username or parts.password:
        raise UsageError(f"{provider}: {whence} holds a password; keys have their own variables")
    if parts.query or parts.fragment:
        raise UsageError(
            f"{provider}: {whence} {url!r} goes on after its path; paths are appended to it, so "
            "end it before ? and #"
        )
    # Encoded as it will be sent; UnicodeError is a ValueError.
    parts.hostname.encode("idna")
    return url.rstrip("/")


def _proxy(url: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """The proxy for an address, and the variable that sets it; empty for none."""
    proxies = {
        name.lower().removesuffix("_proxy"): (value, name)
        for name, value in environment.items()
        if name.lower().endswith("_proxy")
    }
    parts = urlsplit(url)
    kind = next((kind for kind in (parts.scheme, "all") if proxies.get(kind, NONE)[0]), "")
    if not kind or _exempt(parts, proxies.get("no", NONE)[0]):
        return NONE
    proxy, variable = proxies[kind]
    return _proxy_url(proxy.strip(), variable, parts.hostname or ""), variable


def _proxy_url(proxy: str, variable: str, host: str) -> str:
    """The URL of a proxy; `HOST:PORT` means http. Errors hide its password. Raises UsageError for a
    SOCKS proxy and for text that is not an address."""
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(proxy)
        is_url = (
            bool(parts.hostname) and parts.port != 0 and proxy.isprintable() and " " not in proxy
        )
    except ValueError:
        is_url = False
    if is_url and parts.scheme in ("http", "https"):
        return proxy
    instead = f"set {variable}=http://HOST:PORT, or put {host} into NO_PROXY"
    if is_url and parts.scheme.startswith("socks"):
        raise UsageError(f"{variable} names a SOCKS proxy, which is not supported; {instead}")
    raise UsageError(f"{variable} is not the address of an http or https proxy; {instead}")


def _exempt(parts: SplitResult, no_proxy: str) -> bool:
    """Whether NO_PROXY exempts this server: by name, `HOST:PORT`, address or range. Entries are
    separated by commas or spaces. Ranges use the syntax of `ipaddress`: `10.0.0.0/8`."""
    # Public; only typeshed lacks it.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    entries = no_proxy.replace(",", " ").split()
    if proxy_bypass_environment(parts.netloc, {"no": ",".join(entries)}):
        return True
    try:
        server = ip_address(parts.hostname or "")
    except ValueError:
        return False
    for entry_text in entries:
        try:
            network = ip_network(entry_text.replace("[", "").replace("]", ""), strict=False)
        except ValueError:
            continue
        if server in network:
            return True
    return False


def addresses(settings: Iterable[Settings]) -> list[str]:
    """A line per provider with another address than its default."""
    return list(
        dict.fromkeys(
            f"{provider.provider} is asked at {provider.base_url} ({provider.address_from})"
            for provider in settings
            if provider.address_from and not provider.vendors_own
        )
    )


def vendor_of(identity: str) -> str:
    """The vendor whose endpoint has this identity; empty if none has."""
    for name in provider_names():
        row = entry(name)
        start = row.api.partition("{")[0]
        for api in (start, start.replace("chat.completions", "responses")):
            if api and row.origin == "new" and (identity + " ").startswith(api.rstrip() + " "):
                return name
    return ""
