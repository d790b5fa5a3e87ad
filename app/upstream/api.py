"""The APIs of model servers. Each has a package here with a body writer and a reply reader around the same
conversation and the same events, so that nothing else depends on which API a server speaks."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from app.chat.events import Fault
from app.chat.known_conversation import KnownConversation, gather, make_once
from app.chat.messages import NOTHING, ChatRequest, Tool
from app.chat.token_record import TokenRecord
from app.openai_messages.messages import WriteBeginning
from app.profiles import Profile
from app.upstream.causes import REASONING_REFUSED
from app.upstream.refusal_rules import FUNCTION_NAMES, RULES, VALUE_RULES, Rule
from app.upstream.refused_betas import Headers
from app.upstream.refused_names import find_given_names
from app.upstream.reply.reader import ReplyReader

ApiName: TypeAlias = Literal["chat_completions", "responses", "messages", "gemini"]
"""Each is also the name of its package, whose module `api` has its `API`."""

BuildBody: TypeAlias = Callable[[ChatRequest, str, Profile], tuple[dict[str, Any], list[str]]]
"""Builds a request's body from the request, the server's own name of the model and the profile. Returns a warning for
each option that is not sent as given. Raises InvalidInput with every violation."""


class Repair(Struct, frozen=True):
    """A change of bodies for those servers and models of an API that refuse what others take."""

    refused: re.Pattern[str]
    """In the message of the refusal."""
    change: Callable[[dict[str, Any]], dict[str, Any] | None]
    """Returns the changed body; None if there is nothing to change."""
    warning: str
    lasts: bool = True
    """Further bodies of the caller for the model need it, too."""
    keeps_reasoning: bool = False
    """It is tried before opaque reasoning that a server cannot verify is left out."""

    def find(self, fault: Fault) -> str | None:
        return "" if self.refused.search(fault.message) else None

    def apply(self, body: dict[str, Any], headers: Headers, named: str) -> tuple[dict[str, Any], Headers] | None:
        """Return the changed request, as `Rule` does; None if there is nothing to change."""
        changed = self.change(body)
        return None if changed is None else (changed, headers)

    def warn(self, named: str) -> str:
        return self.warning


class Api(Struct, frozen=True):
    """What differs between the APIs."""

    path: str
    """Below the `base_url`, which ends with `/v1` at most servers. With `make_path`, one that shows that the server has
    the API."""
    build: BuildBody
    make_reader: Callable[[str], ReplyReader]
    """Makes the reader of one reply from the reply's id."""
    make_path: Callable[[str, bool], str] | None = None
    """Makes the path of a request for a reply, from the server's own name of the model and whether the reply is
    streamed; None: it is `path`, and the body says both."""
    list_path: str = "/models"
    """Of the list of the server's models."""
    read_listed: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """Returns a row of that list with the usual fields; None: it has them."""
    fields: frozenset[str] = frozenset()
    """The fields that a body is known to have, at the makers of the API."""
    own_fields: frozenset[str] = frozenset()
    """The fields at any depth whose values are the client's own: arguments, results and schemas."""
    conversation: str = "messages"
    """The field of the body with the messages."""
    has_types: bool = True
    """What an entry or a block is, its `type` says; else the names of its fields do."""
    options: str | None = None
    """The field of the body with the options of sampling, if they have a field of their own."""
    system: str | None = None
    """The field of the body with the system's text, if it has a field of its own."""
    compact_path: str | None = None
    """Where a server makes a compaction of a conversation."""
    compacted: frozenset[str] = frozenset()
    """The fields of a body that such a request may have."""
    count_path: str | None = None
    """Of requests for the number of a request's input tokens."""
    counted: frozenset[str] | None = None
    """The fields of a body that such a request may have; None: all but those that are in `not_counted`."""
    not_counted: frozenset[str] = frozenset()
    make_count: "Callable[[str, Mapping[str, Any]], tuple[str, dict[str, Any]]] | None" = None
    """Makes the path and the body of such a request from the server's own name of the model and the body for a reply,
    instead of the three above."""
    counted_name: str = "input_tokens"
    """The field of the answer that has the number."""
    make_embedding: "Callable[[str, str, Mapping[str, Any]], tuple[str, dict[str, Any]]] | None" = None
    """Makes the path and the body of a request for embeddings in this API from the server's own name of the model, and
    the method and the body of a client of the API. None: its servers are asked as all others."""
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    """Before the key in that header."""
    headers: Mapping[str, str] = NOTHING
    """Sent with each request; the upstream's own `headers` replace them."""
    build_own: BuildBody | None = None
    """Builds a body from `ChatRequest.source`."""
    write_own_beginning: WriteBeginning | None = None
    """Writes the beginning of a conversation from the client's own entries. `build_own` then takes requests with such
    a beginning. None: each request is written as a whole."""
    build_passed: BuildBody | None = None
    """Builds a body from `ChatRequest.passed`."""
    make_passing_reader: Callable[[str], ReplyReader] | None = None
    """Makes a reader whose events include the server's own (`Passed`)."""
    make_scored_reader: Callable[[TokenRecord, str], ReplyReader] | None = None
    """Makes a reader that records the log probabilities of the reply's tokens; None if replies have none."""
    make_scored_passing_reader: Callable[[TokenRecord, str], ReplyReader] | None = None
    """The same with the server's own events."""
    list_headers: Callable[[Profile], tuple[tuple[bytes, bytes], ...]] | None = None
    """Returns the headers that what a profile adds to a body needs."""
    strip_reasoning: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None
    """Returns a body without the opaque reasoning that its server has refused; None if it has none."""
    repairs: Mapping[str, Repair] = {}
    """Changes that are made once a server has refused a body, and then of all bodies for that model, by name."""
    needs_max_tokens: bool = False
    """Each body has a limit of output tokens: the profile's `default_max_tokens`, where the request has none."""
    write_beginning: WriteBeginning | None = None
    """Writes the beginning of a conversation. `build` then takes requests with such a beginning."""
    needs_v1: bool = False
    """Servers document the `base_url` without `/v1`, so that it is added."""
    default_path: str = ""
    """The path of a `base_url` that has none."""
    kind: str = "openai_compatible"
    """The kind of a server of which only the API is given."""
    other_ending: tuple[str, ApiName] | None = None
    """How a `base_url` ends at which the same servers have another API, and that API."""

    def complete_base_url(self, base_url: str) -> str:
        """Return the URL to which the paths of the API are appended."""
        if self.default_path and not base_url.partition("://")[2].partition("/")[2]:
            return base_url.rstrip("/") + self.default_path
        return f"{base_url}/v1" if self.needs_v1 and not base_url.endswith("/v1") else base_url

    def find_path(self, model: str, *, streams: bool) -> str:
        """Return the path of a request for a reply."""
        return self.path if self.make_path is None else self.make_path(model, streams)

    def make_count_request(self, model: str, body: bytes) -> tuple[str, bytes] | None:
        """Return the path and the body of a request for the number of input tokens of a body for a reply; None if the
        API has none."""
        if self.make_count is None and self.count_path is None:
            return None
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        if self.make_count is not None:
            path, made = self.make_count(model, fields)
            return path, msgspec.json.encode(made)
        assert self.count_path is not None
        counted = fields.keys() - self.not_counted if self.counted is None else self.counted
        kept = {name: value for name, value in fields.items() if name in counted}
        return self.count_path, msgspec.json.encode(kept)

    def make_headers(self, api_key: str | None, auth: Literal["bearer"] | None = None) -> dict[str, str]:
        """Return the headers with the key; `auth` says where the key is, if that is not the API's own place."""
        if not api_key:
            return dict(self.headers)
        bearer = auth == "bearer"
        name, prefix = ("authorization", "Bearer ") if bearer else (self.key_header, self.key_prefix)
        return {name: prefix + api_key, **self.headers}


_NAMED = ": "
REASONING_LEFT_OUT = (
    "the model server refused the reasoning of earlier turns, which it cannot verify: the request was sent without it"
)


class Repaired(Struct, frozen=True):
    """A request that is sent once more, without what the server has refused, and the warning that says so."""

    data: bytes
    headers: Headers
    warning: str
    name: str = ""
    """That of the repair, if further requests of the caller for the model need it, too; behind a colon is what the
    server named."""


def _list_repairs(api: Api) -> dict[str, Repair | Rule]:
    """Return all repairs of an API in the order in which they are tried."""
    return {**VALUE_RULES, **api.repairs, **RULES}


def apply_repairs(api: Api, body: bytes, headers: Headers, names: Iterable[str]) -> tuple[bytes, Headers, list[str]]:
    """Return a body and headers with the repairs that their model is known to need, and the warnings."""
    given, warnings = msgspec.json.decode(body), list[str]()
    changed = given
    for name in names:
        kind, _, named = name.partition(_NAMED)
        repair = _list_repairs(api)[kind]
        repaired = repair.apply(changed, headers, named)
        if repaired is not None:
            changed, headers = repaired
            warnings.append(repair.warn(named))
    return (body if changed is given else msgspec.json.encode(changed)), headers, warnings


def repair_refused(api: Api, body: bytes, fault: Fault, headers: Headers = ()) -> Repaired | None:
    """Return the request that is sent instead of a refused one: with one of the API's repairs, or by one of the rules
    for all APIs, or without opaque reasoning that the server cannot verify, that of another account, another model or
    another prefix. None if none of them is why it was refused."""
    cannot_verify = fault.cause == REASONING_REFUSED.word
    if not cannot_verify and fault.code != "invalid_request":
        return None
    for kind, repair in _list_repairs(api).items():
        is_tried = not cannot_verify or (isinstance(repair, Repair) and repair.keeps_reasoning)
        named = repair.find(fault) if is_tried else None
        if named is None:
            continue
        given: dict[str, Any] = msgspec.json.decode(body)
        repaired = repair.apply(given, headers, named)
        if repaired is not None:
            changed, left = repaired
            data = body if changed is given else msgspec.json.encode(changed)
            name = f"{kind}{_NAMED}{named}" if named else kind
            return Repaired(data, left, repair.warn(named), name if repair.lasts else "")
    stripped = api.strip_reasoning(msgspec.json.decode(body)) if cannot_verify and api.strip_reasoning else None
    return None if stripped is None else Repaired(msgspec.json.encode(stripped), headers, REASONING_LEFT_OUT)


def find_renamed(body: bytes, names: Iterable[str]) -> dict[str, str]:
    """Return the functions that these repairs of a body give another name: the given name by that which is sent."""
    rules = [named for kind, _, named in (name.partition(_NAMED) for name in names) if kind == FUNCTION_NAMES]
    return find_given_names(msgspec.json.decode(body), rules) if rules else {}


@cache
def find_api(name: ApiName) -> Api:
    """Return an API. Its package is imported when it is first needed: most gateways use only one of them."""
    return cast(Api, import_module(f"app.upstream.{name}.api").API)


def list_entries(
    entries: Sequence[Any], convert: Callable[[Any], Any], rule: Any, known: KnownConversation | None
) -> list[Any]:
    """Return the entries of a client's own conversation as they are sent: what `convert` returns for each of them, by
    this rule, without those for which it is None. Those of a conversation that is known are `msgspec.Raw`, of which
    each may have several entries."""

    def read(start: int, end: int) -> tuple[Any, ...]:
        converted = [one for one in map(convert, entries[start:end]) if one is not None]
        if known is None or not converted:
            return tuple(converted)
        return (msgspec.Raw(msgspec.json.encode(converted)[1:-1]),)

    return list(gather((list_entries, rule), read, entries, known, ()))


def encode_tools(body: dict[str, Any], known: KnownConversation | None) -> None:
    """Encode the tools of a client's own body; those of a conversation that is known are encoded once."""
    tools = body.get("tools")
    if known is not None and isinstance(tools, list):
        body["tools"] = make_once(encode_tools, lambda: msgspec.Raw(msgspec.json.encode(tools)), tools, known)


WriteTool: TypeAlias = Callable[[Tool], dict[str, Any]]
"""Writes a function as the API has it."""


def write_tools(tools: Sequence[Tool], write: Callable[[Tool], Any], known: KnownConversation | None) -> Any:
    """Return what `write` returns for each tool. Those of a conversation that is known are written once, as one
    `msgspec.Raw`."""
    if known is None:
        return [write(tool) for tool in tools]
    return make_once(write, lambda: msgspec.Raw(msgspec.json.encode([write(tool) for tool in tools])), tools, known)


_APPENDED = ("tools", "include")
"""The lists of a body that `extra_body` adds to."""


def merge_extra(name: str, ours: Any, given: Any) -> Any:
    """Return a field of a body with what `extra_body` has of it. Tools, which may be the server's own, stand behind the
    functions. An object is merged key by key, so that a chat template's option does not undo the thinking switch.
    Anything else replaces the gateway's own value."""
    if name in _APPENDED and isinstance(ours, list) and isinstance(given, list):
        return ours + [item for item in given if item not in ours]
    return {**ours, **given} if isinstance(ours, dict) and isinstance(given, dict) else given


def should_stream(request: ChatRequest, profile: Profile) -> bool:
    """Whether the server is to stream its reply."""
    return profile.stream == "always" or (profile.stream == "as_asked" and request.stream)


def limit_temperature(temperature: float, profile: Profile, path: str) -> tuple[float, list[str]]:
    """Return the temperature that the server takes, and a warning if that is another one. `path` is its place."""
    most = profile.max_temperature
    if most is None or temperature <= most:
        return temperature, []
    text = f"{path} was lowered from {temperature:g} to {most:g}, the maximum of this model's server"
    return int(most) if most == int(most) else most, [text]


def is_deterministic(body: Mapping[str, Any], profile: Profile, api: Api | None = None) -> bool:
    """Whether the body asks for the same reply each time: by temperature 0 or by a seed."""
    if api is not None and api.options is not None:
        body = body.get(api.options) or NOTHING
    temperature = body.get(profile.renamed.get("temperature", "temperature"))
    seed = body.get(profile.renamed.get("seed", "seed"))
    return seed is not None or (temperature is not None and temperature is not False and temperature == 0)
