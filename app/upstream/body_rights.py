"""Refuses what a caller's request may not choose in the body for a model server.

A server reads fields that the gateway knows nothing of, and all callers share the operator's account there. So each
body is looked through when it is built, whichever way its fields came into it:

- A caller who may not use all models chooses no other model, provider, address or credentials, and sends only fields
  that a server is known to have. Where a model has a price, no caller makes such a choice.
- What only the operator's account has (a conversation, a file, a vector store) is named by no caller.

`allowed_fields` of the model's profile names exceptions. What the operator's own settings put into a body stays.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from app.chat.known_conversation import KnownConversation, gather
from app.chat.known_names import recall_names
from app.chat.messages import CallerRights, ChatRequest
from app.errors import Forbidden
from app.params import ROUTING_CONTAINERS, SERVER_PARAMS, GenerateCfg, chooses_route, find_routing_params
from app.upstream.api import Api, ApiName, find_api
from app.validation.violations import json_path

_PARAMS = SERVER_PARAMS | frozenset(GenerateCfg.model_fields)
_ACCOUNT_NAMES = frozenset(
    {
        *("conversation", "prompt", "previous_response_id", "previous_interaction_id", "assistant_id", "thread_id"),
        *("container", "container_id", "vector_store_id", "vector_store_ids", "file_search_store_names"),
        *("file_id", "file_ids", "connector_id", "tunnel_id", "skill_id", "cached_content", "batch_id"),
        *("voice", "memory_store_id", "environment_id", "vault_ids", "workspace_id", "user_profile_id"),
        *(
            "rag_resources",
            "rag_corpora",
            "rag_corpus",
            "rag_file_ids",
            "datastore",
            "data_store",
            "engine",
            "file_uri",
        ),
        *("api_key_secret", "api_key_secret_version", "google_service_account_config", "service_account"),
    }
)
"""Fields that name something in the account with which the gateway calls a server: conversations, prompts, containers,
files, stores and connectors of OpenAI's Responses API (openai-python, types/responses), containers, skills and files of
Anthropic's Messages (platform.claude.com/docs/en/api/beta/messages/create), caches, stores, search
engines, secrets and accounts of Gemini and Vertex (google-genai, types.py: Tool, Retrieval, AuthConfig);
a voice with an id is one that the operator has made (openai-python, types/audio/speech_create_params)."""
_ACCOUNT = {name.replace("_", ""): name for name in _ACCOUNT_NAMES}
_HOLDERS = ROUTING_CONTAINERS | {"container", "environment"}
"""Fields at the top of a body in which such fields are, too."""
_CLIENT_TOOLS = frozenset(("function", "custom"))
"""The types of tools that the client runs. Their fields are names, texts and schemas of the client's own."""
_NAMESPACE = "namespace"
"""The type of a tool that has a list of others."""
_NAMES_OF_TOOLS = frozenset(("name", "function", "input_schema", "functionDeclarations"))
"""Fields of the client's tools that need no type."""
_TOOL_ADDRESSES = frozenset(("server_url", "headers"))
"""How a client's own server of tools is reached. Its URL is checked as every URL is."""
_TEXTS = frozenset(
    {
        *("arguments", "input", "input_schema", "parameters", "schema", "output_schema", "text"),
        *("annotations", "citations", "results", "outputs", "logs"),
    }
)
"""Fields with texts, schemas and arguments, and with what a server has written of its own work."""
_WRITTEN_BY_SERVER = re.compile(
    r".*(_call|_use|_citation|_path|_execution_output|_execution_result)|"
    r".*_execution_tool_result"
)
"""The types of items and blocks that a server has written: they repeat the ids of what it made. Clients send them back
with the conversation."""
_IN_STORE = re.compile(r"\s*(files/|gs://|https?://generativelanguage\.googleapis\.com[:/])", re.IGNORECASE)
"""How files begin that were uploaded with the operator's key. Other addresses are public."""
_Keys = tuple[str | int, ...]


class BodyCheck(Struct, frozen=True):
    """The check of the bodies of one request to one model."""

    rights: CallerRights | None
    model: str
    has_price: bool
    fields: Mapping[str, Any]
    """The caller's own fields that a server may be sent as they are."""
    path: str
    """The JSON path of those fields."""
    own: Api | None
    """The API whose body they are; None: they are parameters of another body."""
    known: KnownConversation | None

    def check(self, body: Mapping[str, Any], api: Api, allowed: Sequence[str]) -> None:
        """Check a body for a server of this API, whose profile allows the fields `allowed`.

        Raises Forbidden for what the caller may not choose; if the model has a price, no caller may choose another one.
        """
        rights = self.rights
        self.check_choices(api, allowed)
        if rights is not None and rights.restricted:
            sent = self.fields.keys() & body.keys()
            for name in sorted(sent.difference((self.own or api).fields, _PARAMS, allowed)):
                self._forbid((name,), "is not known to be a field of this API", "it may not use all models", name)
        if rights is not None:
            self._forbid_account(self._find_account(body), allowed)

    def check_account(self, fields: Mapping[str, Any], allowed: Sequence[str] = ()) -> None:
        """Check that fields of a request that is no conversation, at any depth, name nothing in the operator's account.
        Raises Forbidden."""
        if self.rights is not None:
            for name, value in fields.items():
                named = [((name,), name)] if _names_something(name, value) else []
                self._forbid_account([*named, *_find_names(value, (name,))], allowed)

    def _forbid_account(self, found: Iterable[tuple[_Keys, str]], allowed: Sequence[str]) -> None:
        for keys, name in found:
            if {_fold(name), _fold(str(keys[0]))}.isdisjoint(map(_fold, allowed)):
                what = "names something in the operator's account at the model's server"
                self._forbid(keys, what, "all callers share that", name)

    def check_choices(self, api: Api, allowed: Sequence[str] = ()) -> None:
        """Check that no field, sent or not, chooses a model, a provider or an address. Raises Forbidden."""
        if self.has_price or (self.rights is not None and self.rights.restricted):
            self._refuse_routes([keys for keys in self._find_routes(api) if keys[0] not in allowed])

    def _find_routes(self, api: Api) -> Iterator[_Keys]:
        """Yield what leads to each choice of a model, a provider or an address. A field that is not sent counts too,
        so that what a caller may send does not depend on the model's server."""
        known = (self.own or api).fields
        for name, value in self.fields.items():
            holds = name in ROUTING_CONTAINERS
            if (name not in known and chooses_route(name)) or (holds and isinstance(value, str)):
                yield (name,)
            elif holds or (name not in known and name not in _PARAMS):
                yield from ((name, *keys) for keys in find_routing_params(value))
        yield from _find_tool_routes(self.fields.get("tools"), ("tools",))
        yield from self._find_routes_in_conversation()

    def _find_routes_in_conversation(self) -> tuple[_Keys, ...]:
        """Return what leads to the choices in the tools that items of a conversation add."""
        entries, field = self._list_entries()

        def read(start: int, end: int) -> tuple[_Keys, ...]:
            places = (place for place in range(start, end) if isinstance(entries[place], dict))
            found = (_find_tool_routes(entries[place].get("tools"), (field, place, "tools")) for place in places)
            return tuple([keys for routes in found for keys in routes])

        return gather(_find_tool_routes, read, entries, self.known, ())

    def _list_entries(self) -> tuple[list[Any], str]:
        """Return the entries of the conversation, if the fields are a body with one, and the name of its field."""
        field = "" if self.own is None else self.own.conversation
        entries = self.fields.get(field)
        return entries if isinstance(entries, list) else [], field

    def _refuse_routes(self, found: Sequence[_Keys]) -> None:
        if not found:
            return
        path = json_path(found[0], self.path)
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        restricted = self.rights is not None and self.rights.restricted
        who = self.rights.caller if self.rights is not None and restricted else "a caller"
        why = (
            "it may not use all models"
            if restricted
            else f"the model {self.model!r} has a price, which holds only for its own"
        )
        raise Forbidden(
            f"{path}{more} chooses a model, a provider or an address, which {who} may not do, because {why}: leave it "
            "out. The gateway's operator can set it in `defaults` of the model",
            path,
        )

    def _forbid(self, keys: _Keys, what: str, why: str, name: str) -> None:
        assert self.rights is not None
        path = json_path(keys, self.path)
        raise Forbidden(
            f"{path} {what}, which {self.rights.caller} may not send, because {why}: leave it out. The gateway's "
            f"operator can add {name!r} to `allowed_fields` of the model's profile",
            path,
        )

    def _find_account(self, body: Mapping[str, Any]) -> Iterator[tuple[_Keys, str]]:
        """Yield what leads to each thing of the operator's account, and the field that names it."""
        texts = _TEXTS if self.own is None else _TEXTS | self.own.own_fields
        system = None if self.own is None else self.own.system
        for name, value in self.fields.items():
            if name not in body:
                continue
            if _names_something(name, value):
                yield (name,), name
            elif name in _HOLDERS or name == system:
                yield from _find_names(value, (name,), texts)
        for keys, tool in _list_server_tools(self.fields.get("tools"), ("tools",)):
            yield from _find_names(tool, keys, texts)
        yield from self._find_in_conversation(texts)

    def _find_in_conversation(self, texts: frozenset[str]) -> tuple[tuple[_Keys, str], ...]:
        entries, field = self._list_entries()
        has_types = self.own is not None and self.own.has_types

        def read(start: int, end: int) -> tuple[tuple[_Keys, str], ...]:
            places = range(start, end)
            found = (_find_names(entries[place], (field, place), texts, has_types=has_types) for place in places)
            return tuple([one for names in found for one in names])

        return gather(BodyCheck, read, entries, self.known, ())


def make_body_check(request: ChatRequest, model: str, *, has_price: bool) -> BodyCheck | None:
    """Return the check of the bodies of a request, without what the model's defaults add to it; None if there is
    nothing to check."""
    if request.rights is None and not has_price:
        return None
    extra = request.params.get("extra_body") or {}
    given, body = request.source or request.passed, request.own_body
    fields = extra if body is None else {**extra, **body}
    path = request.paths.extra_body if given is None else ""
    own = None if given is None else find_api(cast(ApiName, given.api))
    return BodyCheck(request.rights, model, has_price, fields, path, own, request.known)


def _list_server_tools(tools: Any, keys: _Keys) -> Iterator[tuple[_Keys, Mapping[str, Any]]]:
    """Yield what leads to each tool that the server runs, with the tool, of a list to which `keys` lead. Those of
    Gemini have no type: their only field says which they are."""
    for place, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, dict):
            continue
        kind = tool.get("type", "custom" if not _NAMES_OF_TOOLS.isdisjoint(tool) else None)
        if kind == _NAMESPACE:
            yield from _list_server_tools(tool.get("tools"), (*keys, place, "tools"))
        elif not (isinstance(kind, str) and kind in _CLIENT_TOOLS):
            yield (*keys, place), tool


def _find_tool_routes(tools: Any, keys: _Keys) -> Iterator[_Keys]:
    """Yield what leads to each choice of a model, a provider or an address in tools that the server runs."""
    for place, tool in _list_server_tools(tools, keys):
        yield from ((*place, key) for key in tool if key not in _TOOL_ADDRESSES and chooses_route(key))


def _find_names(
    value: Any, keys: _Keys, texts: frozenset[str] = _TEXTS, *, has_types: bool = False
) -> list[tuple[_Keys, str]]:
    """Return what leads to each thing of the account in a value of any nesting, and the field that names it. `texts`
    are fields in which nothing is named. With `has_types`, what has the type of a server's own work names nothing."""
    found: list[tuple[_Keys, str]] = []
    waiting: list[tuple[_Keys, Any]] = [(keys, value)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, list):
            waiting += (((*place, index), inner) for index, inner in enumerate(one))
        elif isinstance(one, dict) and not (has_types and _is_written_by_server(one)):
            for name, inner in one.items():
                if _names_something(name, inner, one):
                    found.append(((*place, name), name))
                elif name not in texts and isinstance(inner, dict | list):
                    waiting.append(((*place, name), inner))
    return found


def _names_something(name: str, value: Any, holder: Mapping[str, Any] | None = None) -> bool:
    """Whether a field, in whichever spelling, names something of the account. A container that is made for the request,
    and a skill that the server's maker offers to all, are none."""
    known = _ACCOUNT.get(_fold(name))
    if known is None:
        return False
    if known == "container" and isinstance(value, dict):
        skills = value.get("skills")
        own = [skill for skill in skills if _is_own_skill(skill)] if isinstance(skills, list) else skills
        return bool(value.get("id") or own or value.get("file_ids"))
    if known == "voice":  # a text is the name of one that all have
        return isinstance(value, dict) and bool(value.get("id"))
    if known == "skill_id" and holder is not None:
        return _is_own_skill(holder)
    if known == "file_uri":
        return isinstance(value, str) and _IN_STORE.match(value) is not None
    if known == "engine":  # of a search in the account; elsewhere it is one of a public kind
        return isinstance(value, str) and value.startswith("projects/")
    return value not in (None, "", [], {})


@recall_names
def _fold(name: str) -> str:
    """Return one spelling of a name: servers read `cached_content` and `cachedContent`."""
    return name.replace("_", "").replace("-", "").lower()


def _is_own_skill(skill: Any) -> bool:
    return not (isinstance(skill, dict) and skill.get("type") == "anthropic")


def _is_written_by_server(entry: Mapping[str, Any]) -> bool:
    """Whether an entry or a block repeats a server's own work. What has a role is a message, whatever type it names."""
    kind = entry.get("type")
    return isinstance(kind, str) and "role" not in entry and _matches_written(kind)


@recall_names
def _matches_written(kind: str) -> bool:
    return _WRITTEN_BY_SERVER.fullmatch(kind) is not None
