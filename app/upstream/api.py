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
from app.upstream.refused_limits import lower_limits
from app.upstream.reply.reader import ReplyReader
from app.upstream.unknown_fields import drop_fields, find_unknown_fields

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
    switches: tuple[str, ...] = ()
    """Fields by which thinking is switched at many servers, while others refuse a request with an unknown field."""
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


REASONING_LEFT_OUT = (
    "the model server refused the reasoning of earlier turns, which it cannot verify: the request was sent without it"
)
_SWITCH_LEFT_OUT = (
    "the model server does not know the switch or the budget of thinking ({}): the request was sent without it. Set "
    "`thinking_switch` in the model's profile"
)
_UNKNOWN_LEFT_OUT = "the model server does not know {}: the request was sent without it"
_UNKNOWN = "unknown fields: "
"""With this begins the name of a repair that leaves out the fields that follow."""
_LIMIT_LOWERED = (
    "the model server has no room for as many output tokens as were asked for: the limit was lowered to what it takes. "
    "Set max_output_tokens in the model's profile"
)


class RepairedBody(Struct, frozen=True):
    """A body that is sent once more, without what the server has refused, and the warning that says so."""

    data: bytes
    warning: str
    name: str = ""
    """That of the repair, if further bodies of the caller for the model need it, too."""


def apply_repairs(api: Api, body: bytes, names: Iterable[str]) -> tuple[bytes, list[str]]:
    """Return a body with the repairs that its model is known to need, and their warnings."""
    changed, warnings = msgspec.json.decode(body), []
    for name in names:
        if name.startswith(_UNKNOWN):
            repaired, warning = _drop_unknown(changed, name.removeprefix(_UNKNOWN).split(" "))
        else:
            repaired, warning = api.repairs[name].change(changed), api.repairs[name].warning
        if repaired is not None:
            changed = repaired
            warnings.append(warning)
    return (msgspec.json.encode(changed) if warnings else body), warnings


def repair_refused(api: Api, body: bytes, fault: Fault) -> RepairedBody | None:
    """Return the body that is sent instead of a refused one: without opaque reasoning that the server cannot verify,
    that of another account, another model or another prefix, without a switch of thinking that it does not know, or
    with one of the API's repairs, or without fields that it does not know. None if that is not why it was refused."""
    cannot_verify = fault.cause == REASONING_REFUSED.word
    if not cannot_verify and fault.code != "invalid_request":
        return None
    for name, repair in api.repairs.items():
        if (cannot_verify and not repair.keeps_reasoning) or repair.refused.search(fault.message) is None:
            continue
        changed = repair.change(msgspec.json.decode(body))
        if changed is not None:
            return RepairedBody(msgspec.json.encode(changed), repair.warning, name if repair.lasts else "")
    if cannot_verify:
        stripped = None if api.strip_reasoning is None else api.strip_reasoning(msgspec.json.decode(body))
        return None if stripped is None else RepairedBody(msgspec.json.encode(stripped), REASONING_LEFT_OUT)
    if fault.detail and (lowered := _lower_limits(api, body, fault)) is not None:
        return lowered
    return _leave_out_switches(api, body, fault) or _leave_out_unknown(body, fault)


def _leave_out_switches(api: Api, body: bytes, fault: Fault) -> RepairedBody | None:
    if not any(name in fault.message for name in api.switches):
        return None
    given = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    switches = [name for name in api.switches if name in given]
    if not any(name in fault.message for name in switches):
        return None
    kept = {name: value for name, value in given.items() if name not in switches}
    return RepairedBody(msgspec.json.encode(kept), _SWITCH_LEFT_OUT.format(", ".join(switches)))


def _leave_out_unknown(body: bytes, fault: Fault) -> RepairedBody | None:
    fields = find_unknown_fields(fault.message)
    changed, warning = _drop_unknown(msgspec.json.decode(body), fields) if fields else (None, "")
    return None if changed is None else RepairedBody(msgspec.json.encode(changed), warning, _UNKNOWN + " ".join(fields))


def _drop_unknown(body: dict[str, Any], fields: Sequence[str]) -> tuple[dict[str, Any] | None, str]:
    names = ", ".join(dict.fromkeys([field.removeprefix("*.") for field in fields]))
    return drop_fields(body, fields), _UNKNOWN_LEFT_OUT.format(names)


def _lower_limits(api: Api, body: bytes, fault: Fault) -> RepairedBody | None:
    given = msgspec.json.decode(body)
    lowered = lower_limits(given if api.options is None else given.get(api.options) or NOTHING, fault)
    if lowered is None:
        return None
    changed = lowered if api.options is None else {**given, api.options: lowered}
    return RepairedBody(msgspec.json.encode(changed), _LIMIT_LOWERED)


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
