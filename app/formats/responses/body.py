"""The body of `POST /v1/responses` and of its count of input tokens.

The instructions become the first system message, and the items of an earlier response follow them; the caller's own
items come last. Tools and settings that items have count like those of the body.

Fields that say something to OpenAI's servers only are repeated in the Response and not sent. What the caller would
miss in the reply is refused. Any other unknown field is ignored with a warning, because clients add new ones monthly.
"""

import math
import re
from collections.abc import Iterator, Mapping, Set
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, SkipValidation, ValidationError

from app.chat.known_conversation import KnownConversation, make_once
from app.chat.messages import ChatRequest, Message, RequestPaths, Source, Text
from app.errors import InvalidInput, ParleyError, Violation
from app.formats.base import SUMMARY_QUESTION, Options, ParsedMessages, ReplyMode, ResponsesOptions
from app.formats.body import (
    NOTHING_STORED,
    CacheChoice,
    ParsedRequest,
    RejectedRequest,
    ReplySettings,
    StoredConversation,
    StoredItems,
    UnresolvedRequest,
    find_user,
    keep_texts,
    select_native,
)
from app.formats.conversation import Metadata
from app.formats.json_object import list_repairs, parse_object
from app.formats.old_media import parse_lists
from app.formats.other_fields import NESTED_PARAMS, find_misspelt_fields, rename_fields, warn_of_unknown_fields
from app.formats.request_limits import RequestLimits, find_invalid_fields, find_long_lists, limit_warnings
from app.formats.request_memory import CallerMemory
from app.formats.responses import RESPONSES
from app.formats.responses.given_items import ItemReader, find_conversation, find_references
from app.formats.responses.parse import parse_items
from app.formats.responses.passed import make_passed_request
from app.formats.responses.schema import ResponsesItems
from app.formats.responses.special_items import find_special
from app.formats.responses.tools import (
    OfferedTools,
    ToolSource,
    choose_hosted,
    is_about_type,
    parse_tool_choice,
    parse_tools,
)
from app.formats.server_asks import list_function_paths, make_server_tools, settle_waiting_calls
from app.formats.sse import encode_json
from app.other_apis import read_response_format
from app.params import GenerateCfg
from app.validation.violations import describe_given, to_violations

Json = dict[str, Any]

_ECHOED = (
    *("instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls", "previous_response_id"),
    *(
        "reasoning",
        "service_tier",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
    ),
    *("user", "prompt_cache_key", "safety_identifier"),
)
"""The fields of the request that the Response repeats if they have a value."""
_SILENT = frozenset(
    {
        *("model", "input", "stream", "store", "background", "include", "stream_options", "client_metadata", "cache"),
        *("prompt_cache_retention", "prompt_cache_options", "conversation", "prompt", "chat_template_kwargs"),
    }
)
_REFUSED = {
    "prompt": "is not supported: the gateway cannot read prompts stored at a provider",
    **NESTED_PARAMS,
}
_RENAMED = {"max_tokens", "max_completion_tokens", "function_choice", "tool_choice", "parallel_function_calls"}
_PASSED = set(GenerateCfg.model_fields) - {"extra_body", "stream_options", "response_format"} - _RENAMED
"""Parameters that have the same name here and in `generate_cfg`."""
_NATIVE = frozenset(("temperature", "top_p", "parallel_tool_calls", "top_k", "min_p", "seed"))
"""Parameters of `generate_cfg` that are fields of the API, or of servers that speak it."""
_KNOWN = frozenset(_SILENT | set(_ECHOED) | _PASSED | {"response_format"})
_OTHER_NAMES = {
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "stop_sequences": "stop",
    "system": "instructions",
    "functions": "tools",
}
"""The names here of fields of chat completions and of Anthropic's Messages."""
_INSTEAD = {
    **_OTHER_NAMES,
    "messages": "input",
    "thinking": "reasoning.effort",
    "output_config": "text.format, or reasoning.effort",
    "function_call": "tool_choice",
}
"""What fields of other APIs that are ignored are here."""
_EXPECTED = _KNOWN | _INSTEAD.keys() | _REFUSED.keys()
"""No other field misspells one of them."""
_STORED = "previous_response_id"
"""The place of all stored items. What is wrong with their tools was said when they were sent."""
_OWN_LIST = re.compile(r"mcpl_[0-9a-f]{32}_[0-9]+")
"""The id that the gateway gives an item `mcp_list_tools`."""
_SOURCES = "web_search_call.action.sources"
_LOGPROBS = "message.output_text.logprobs"


_QUESTION = {"type": "message", "role": "user", "content": SUMMARY_QUESTION}
"""What a `compaction_trigger` asks of the model."""


class _SettingItem(NamedTuple):
    path: str
    item: Json
    stored: bool


class ResponsesBody(BaseModel):
    """A request of OpenAI's Responses API. Unknown fields are ignored with a warning."""

    model_config = ConfigDict(extra="allow", strict=True, use_attribute_docstrings=True)

    model: str = Field(min_length=1, max_length=512)
    input: SkipValidation[str | ResponsesItems | None] = None
    """The user's message, or items; needed unless `previous_response_id` is given."""
    instructions: str | None = None
    """The system message of this request."""
    previous_response_id: str | None = None
    """Continue this stored response."""
    store: bool | None = True
    """Keep the response, to be read, continued and streamed again."""
    background: bool | None = False
    """Answer at once, and go on without the client."""
    stream: bool | None = False
    parallel_tool_calls: bool | None = None
    max_tool_calls: Annotated[int | None, Field(ge=1, lt=2**63)] = None
    """How many tools the gateway runs at most. Further calls are answered with an error."""
    metadata: Metadata = None
    cache: CacheChoice = None
    """An extension of Parley: how to use the cache."""


_TYPED = ResponsesBody.model_fields.keys() | _PASSED | {"max_output_tokens"}
_CALLER_FIELDS = ("prompt_cache_key", "safety_identifier", "user")


def _find_session(extra: Mapping[str, Any]) -> str | None:
    """Return what the client calls the conversation."""
    return next((value for name in ("prompt_cache_key", "user") if isinstance(value := extra.get(name), str)), None)


class ResponsesRequest(ParsedRequest, frozen=True, kw_only=True):
    """A valid request of `POST /v1/responses`."""

    input_items: list[Any]
    """All items that the model sees, those of earlier responses first."""
    context_length: int
    """How many of them are from earlier responses."""
    input_bytes: int
    """The size of all items as JSON; 0 if the response is not to be stored."""
    store: bool
    background: bool
    streamed: bool
    """The client of the request reads the events as they come."""
    conversation: StoredConversation | None = None
    """The conversation to which the input and the output are added."""


def parse_responses_body(
    raw: bytes | bytearray, limits: RequestLimits, memory: CallerMemory | None = None
) -> ResponsesRequest | RejectedRequest | UnresolvedRequest[ResponsesRequest]:
    """Parse a request. It is rejected with BadRequest, or with InvalidInput that lists all violations."""
    try:
        body = parse_object(raw, memory)
    except ParleyError as error:
        return RejectedRequest(error, RESPONSES.error)
    known = None if memory is None else memory.conversation
    previous, conversation, given = body.get("previous_response_id"), find_conversation(body), body.get("input")
    items = tuple(find_references(given))
    if isinstance(given, list) and len(given) > limits.max_messages:  # before anything is looked up
        too_many = Violation("input", f"more than {limits.max_messages} messages")
        return RejectedRequest(InvalidInput([too_many]), RESPONSES.error)
    if isinstance(previous, str) or items or conversation is not None:
        response_id = previous if isinstance(previous, str) else None
        return UnresolvedRequest(
            response_id,
            items,
            lambda stored: parse_body(body, limits, stored, known),
            conversation,
            find_user(body),
            body.get("metadata"),
        )
    return parse_body(body, limits, NOTHING_STORED, known)


def parse_body(
    body: Json, limits: RequestLimits, stored: StoredItems, known: KnownConversation | None
) -> ResponsesRequest | RejectedRequest:
    """Parse a body of which `stored` has what it refers to."""
    reader = _BodyReader(body, limits, stored, known)
    try:
        return reader.read()
    except ParleyError as error:
        return RejectedRequest(error, RESPONSES.error, reader.pass_refused(error))


class _BodyReader:
    def __init__(self, body: Json, limits: RequestLimits, stored: StoredItems, known: KnownConversation | None) -> None:
        renamed = rename_fields(body, _OTHER_NAMES)
        self._body = renamed.body
        self._limits = limits
        self._stored = stored
        self._items = ItemReader(self._body, stored)
        self._conversation = self._items.conversation
        self._context_path = _STORED if self._conversation is None else "conversation"
        self._known = known
        self._violations: list[Violation] = []
        self._foreign: list[Violation] = []
        """What only servers of other APIs refuse."""
        self._repairs = list_repairs(body)
        self._warnings: list[str] = [*self._repairs, *renamed.warnings]
        self._names = renamed.names
        """The caller's names of fields that another API has."""
        self._param_names = {
            "function_choice": "tool_choice",
            "max_tokens": renamed.names.get("max_output_tokens", "max_output_tokens"),
            "stop": renamed.names.get("stop", "stop"),
        }
        """The caller's paths of parameters."""
        self._tools_path = renamed.names.get("tools", "tools")

    def read(self) -> ResponsesRequest:
        """Return the request. Raises InvalidInput with every violation."""
        head = self._read_head()
        context, items = self._items.read_context(), self._items.read_items()
        self._violations += self._items.violations
        settings = [
            *(_find_settings(context, self._context_path, stored=True) if context else ()),
            *_find_settings(items, "input", stored=False),
        ]
        compacts = self._check_triggers(settings, context, items)
        tools = self._read_tools(settings)
        params = self._read_params(settings, tools, compacts)
        self._find_unknown_fields()
        parsed = self._parse_conversation(context, [*items[:-1], _QUESTION] if compacts else items, tools)
        self._violations += find_invalid_fields(self._body, self._names, _TYPED, self._limits.max_nesting)
        if self._violations or head is None:
            self._violations += self._foreign
            raise InvalidInput(self._violations)
        body = self._body
        background, streamed, store = head.background is True, head.stream is True, head.store is not False
        stream, input_items = streamed or background, [*context, *items]
        listed = _find_listed(input_items) if tools.asks else ()
        mode: ReplyMode = "delta" if stream else "whole"
        return ResponsesRequest(
            ReplySettings(
                head.model,
                stream,
                mode,
                unread_seconds=math.inf if background else 0.0,
                cache=head.cache,
                metadata=head.metadata,
                session=_find_session(head.model_extra or {}),
                user=find_user(body),
            ),
            RESPONSES,
            ChatRequest(
                model=head.model,
                messages=parsed.messages,
                tools=tools.tools,
                params=params,
                text_joiner=RESPONSES.text_joiner,
                policy=RESPONSES.policy,
                stream=stream,
                caller_fields={name: body[name] for name in _CALLER_FIELDS if isinstance(body.get(name), str)},
                paths=RequestPaths("", "", "input", self._param_names),
                reasoning_summary=_read_summary(self._body),
                source=None if listed else self._make_source(context, items, parsed, tools, params, compacts=compacts),
                server_tools=make_server_tools(
                    tools.asks,
                    parsed.approvals,
                    max_calls=head.max_tool_calls,
                    function_paths=list_function_paths(tools.tools, tools.paths),
                    hosted=None if compacts else tools.hosted,
                ),
            ),
            limit_warnings([*self._warnings, *parsed.warnings]),
            Options(
                logprobs=self._wants_logprobs(),
                responses=self._make_options(tools, listed, store=store, background=background, compacts=compacts),
            ),
            repairs=tuple(self._repairs),
            input_items=input_items,
            context_length=len(context),
            input_bytes=len(msgspec.json.encode(input_items)) if store else 0,
            store=store,
            background=background,
            streamed=streamed,
            conversation=self._stored.conversation if self._conversation is not None else None,
        )

    def _make_source(
        self,
        context: list[Any],
        items: list[Any],
        parsed: ParsedMessages,
        tools: OfferedTools,
        params: Mapping[str, Any],
        *,
        compacts: bool,
    ) -> Source:
        entries = [*context, *items] if context else items
        return Source(
            "responses",
            self._own_body(),
            entries,
            parsed.messages,
            tools.tools,
            select_native(params, self._body, _NATIVE),
            tools.name_places(self._tools_path),
            (self._context_path, "input"),
            offset=len(context),
            has_client_tools=bool(tools.custom or tools.namespaces or tools.client_search),
            has_own_calls=_lists_own_tools(entries),
            asks_summary=compacts,
            violations=tuple(self._foreign),
        )

    def _own_body(self) -> Json:
        """Return the body for model servers, which do not know the conversations of the gateway."""
        if self._stored.conversation is None:
            return self._body
        return {name: value for name, value in self._body.items() if name != "conversation"}

    def pass_refused(self, error: ParleyError) -> ResponsesRequest | None:
        """Return the request that was refused, for servers of this API that may know what the gateway does not; None if
        it could be sent to none."""
        body = self._own_body()
        self._violations = []
        try:
            context = [] if body.get("conversation") is not None else self._items.read_context()
            items = self._items.read_items()
        except ParleyError:
            return None
        if self._conversation is not None:
            if body.get("previous_response_id") is not None:
                return None
            body = {**body, "input": items} if self._stored.conversation is not None else body
        paths = RequestPaths("", "", "input", self._param_names)
        request = make_passed_request(body, [*context, *items], error, self._limits, paths)
        if request is None:
            return None
        background, streamed, store = body.get("background") is True, body.get("stream") is True, body.get("store")
        stores, input_items = store is not False, [*context, *items]
        return ResponsesRequest(
            ReplySettings(
                request.model,
                request.stream,
                "delta" if request.stream else "whole",
                unread_seconds=math.inf if background else 0.0,
                metadata=keep_texts(body.get("metadata")),
                user=find_user(body),
            ),
            RESPONSES,
            request,
            tuple(self._repairs),
            Options(
                responses=self._make_options(OfferedTools(), (), store=stores, background=background, compacts=False)
            ),
            repairs=tuple(self._repairs),
            input_items=input_items,
            context_length=len(context),
            input_bytes=len(msgspec.json.encode(input_items)) if stores else 0,
            store=stores,
            background=background,
            streamed=streamed,
        )

    def _refuse(self, path: str, message: str) -> None:
        self._violations.append(Violation(path, message))

    def _make_options(
        self, tools: OfferedTools, listed: tuple[str, ...], *, store: bool, background: bool, compacts: bool
    ) -> ResponsesOptions:
        body = self._body
        fields = {key: body[key] for key in _ECHOED if body.get(key) is not None}
        reasoning, text = _as_object(body.get("reasoning")), _as_object(body.get("text"))
        given = body.get("include")
        include = given if isinstance(given, list) else []
        fields["reasoning"] = {"effort": None, "summary": None} | reasoning
        fields["text"] = {"format": {"type": "text"}} | {key: text[key] for key in text if text[key] is not None}
        if isinstance(echoed := fields.get("tools"), list):
            # Three events of a stream have them.
            fields["tools"] = make_once("echoed tools", lambda: msgspec.Raw(encode_json(echoed)), echoed, self._known)
        fields |= {"store": store, "background": background}
        if self._conversation is not None:
            fields["conversation"] = {"id": self._conversation}
        return ResponsesOptions(
            fields,
            summary=bool(reasoning.get("summary") or reasoning.get("generate_summary")),
            sealed=not store or "reasoning.encrypted_content" in include,
            custom=tuple(sorted(tools.custom)),
            namespaces=tools.namespaces,
            client_search=tools.client_search,
            sources=_SOURCES in include,
            compacts=compacts,
            listed=listed,
        )

    # The parts of the body.

    def _read_head(self) -> ResponsesBody | None:
        given = {key: value for key, value in self._body.items() if value is not None}
        try:
            return ResponsesBody.model_validate(given)
        except ValidationError as error:
            self._violations += to_violations(error, given, schema=ResponsesBody, names=self._names)
            return None

    def _check_triggers(self, settings: list[_SettingItem], context: list[Any], items: list[Any]) -> bool:
        """Return whether the caller wants a summary of the conversation instead of a reply."""
        triggers = [one for one in settings if one.item["type"] == "compaction_trigger" and not one.stored]
        for one in triggers:
            if one.item is not items[-1]:
                self._refuse(one.path, "a compaction_trigger must be the last item")
        if triggers and not context and len(items) == 1:
            self._refuse("input", "has nothing that could be summarized")
        return bool(triggers)

    def _read_tools(self, settings: list[_SettingItem]) -> OfferedTools:
        tools = self._body.get("tools")
        if not isinstance(tools, list | None):
            hint = ": put it into a list" if isinstance(tools, dict) else ""
            self._refuse(self._tools_path, f"must be a list of tools{describe_given(tools)}{hint}")
            return OfferedTools()
        brought = (
            ToolSource(f"{one.path}.tools", one.item["tools"], one.item["type"] == "tool_search_output", one.stored)
            for one in settings
            if isinstance(one.item.get("tools"), list)
        )
        found = parse_tools([ToolSource(self._tools_path, tools or []), *brought])
        given = [one for one in found.violations if not one.path.startswith(self._context_path)]
        self._foreign += (one for one in given if is_about_type(one))
        self._violations += (one for one in given if not is_about_type(one))
        self._warnings += (text for text in found.warnings if not text.startswith(self._context_path))
        choice = parse_tool_choice(self._body.get("tool_choice"), found)
        allowed = choice.allowed
        if found.hosted is not None:
            found = replace(found, hosted=choose_hosted(self._body.get("tool_choice"), found, choice))
        if allowed is None:
            return found
        return replace(found, tools=tuple(tool for tool in found.tools if tool.name in allowed), asks=choice.asks)

    def _parse_conversation(self, context: list[Any], items: list[Any], tools: OfferedTools) -> ParsedMessages:
        instructions = self._body.get("instructions")
        system: tuple[Message, ...] = ()
        if isinstance(instructions, str) and instructions:
            system = (Message("system", (Text(instructions),), path="instructions"),)
        lists = {path: one for path, one in ((self._context_path, context), ("input", items)) if one}
        if not lists and not system and not self._violations:
            self._refuse("input", "must not be empty: send a text or a list of items")
        long = find_long_lists({"input": [*context, *items], self._tools_path: [*tools.tools]}, self._limits, "input")
        self._violations += long
        if long:
            return ParsedMessages(())
        parsed = parse_lists(lambda lists: parse_items(lists, settings_are_read=True), lists, RESPONSES.write_text)
        self._violations += parsed.violations
        messages = settle_waiting_calls(parsed, can_answer=bool(tools.asks or parsed.approvals))
        return replace(parsed, messages=(*system, *messages))

    def _read_params(self, settings: list[_SettingItem], tools: OfferedTools, compacts: bool) -> Mapping[str, Any]:
        body = self._body
        params = {key: body[key] for key in body if key in _PASSED}
        if body.get("max_output_tokens") is not None:
            params["max_tokens"] = body["max_output_tokens"]
        choice = parse_tool_choice(body.get("tool_choice"), tools)
        self._foreign += choice.violations
        if compacts and (tools.tools or tools.asks):
            params["function_choice"] = "none"
        elif choice.value is not None:
            params["function_choice"] = choice.value
        if not tools.tools and not tools.asks:
            params.pop("parallel_tool_calls", None)
        self._read_reasoning(params, settings)
        self._read_text(params, settings, compacts=compacts)
        self._check_flags()
        if body.get("truncation") == "disabled":
            params["max_input_tokens"], self._param_names["max_input_tokens"] = 0, "truncation"
        if body.get("chat_template_kwargs") is not None:
            params["extra_body"] = {"chat_template_kwargs": body["chat_template_kwargs"]}
        try:
            return GenerateCfg.model_validate(params).given_params() | self._read_logprobs()
        except ValidationError as error:
            self._violations += to_violations(error, params, schema=GenerateCfg, names=self._param_names)
            return {}

    def _read_logprobs(self) -> Json:
        if not self._wants_logprobs():
            return {}
        self._param_names["logprobs"] = "top_logprobs" if self._body.get("top_logprobs") else "include"
        top = self._body.get("top_logprobs")
        return {"logprobs": True} if top is None else {"logprobs": True, "top_logprobs": top}

    def _wants_logprobs(self) -> bool:
        include = self._body.get("include")
        return bool(self._body.get("top_logprobs")) or (isinstance(include, list) and _LOGPROBS in include)

    def _read_setting(
        self, settings: list[_SettingItem], name: str, field: str, known: Set[str], form: str
    ) -> tuple[str, Any]:
        """Return the path and the value of a field of an object: that of the last item which sets it, or the body's."""
        given = self._body.get(name)
        if not isinstance(given, dict | None):
            self._refuse(name, f"must be an object, such as {form}")
        fields = given if isinstance(given, dict) else {}
        if fields:
            self._warnings += warn_of_unknown_fields(fields, known, name)
        path, value = f"{name}.{field}", fields.get(field)
        for one in settings:
            update = one.item.get(name) if one.item["type"] == "configuration_update" else None
            if isinstance(update, dict):
                self._warnings += warn_of_unknown_fields(update, {field}, f"{one.path}.{name}")
                if field in update:
                    path, value = f"{one.path}.{name}.{field}", update[field]
        return path, value

    def _read_reasoning(self, params: Json, settings: list[_SettingItem]) -> None:
        known = {"effort", "summary", "generate_summary", "context", "mode"}
        path, effort = self._read_setting(settings, "reasoning", "effort", known, '{"effort": "low"}')
        if not isinstance(effort, str | None):
            self._refuse(path, "must be a string")
        elif effort == "none":
            params["enable_thinking"], self._param_names["enable_thinking"] = False, path
        elif effort is not None:
            params["reasoning_effort"], self._param_names["reasoning_effort"] = effort, path

    def _read_text(self, params: Json, settings: list[_SettingItem], *, compacts: bool) -> None:
        form = '{"format": {"type": "json_object"}}'
        path, format_ = self._read_setting(settings, "text", "format", {"format", "verbosity"}, form)
        if format_ is None and self._body.get("response_format") is not None:
            path, format_ = "response_format", self._body["response_format"]
        response_format = self._read_format(format_, path)
        if response_format is not None and not compacts:
            params["response_format"], self._param_names["response_format"] = response_format, path

    def _read_format(self, format_: Any, path: str) -> Json | None:
        if format_ is None:
            return None
        if not isinstance(format_, dict):
            self._refuse(path, 'must be an object, such as {"type": "json_object"}')
            return None
        try:
            read: Json = read_response_format(format_)
        except ValueError as error:
            self._refuse(path, str(error))
            return None
        if read["type"] not in ("text", "json_object", "json_schema"):
            self._refuse(f"{path}.type", f"must be one of text, json_object, json_schema, not {read['type'][:40]!r}")
        if read["type"] == "json_object":
            return {"type": "json_object"}
        return read if read["type"] == "json_schema" else None

    def _check_flags(self) -> None:
        body = self._body
        if body.get("truncation") not in (None, "auto", "disabled"):
            self._refuse("truncation", "must be auto or disabled")
        top = body.get("top_logprobs")
        if top is not None and (type(top) is not int or not 0 <= top <= 20):
            self._refuse("top_logprobs", f"must be an integer from 0 to 20{describe_given(top)}")
        include = body.get("include")
        if not isinstance(include, list | None) or not all(isinstance(one, str) for one in include or ()):
            self._refuse("include", "must be a list of strings")
        if body.get("background") is True and body.get("store") is False:
            self._refuse("background", "needs store: the response is read later")
        for key, message in _REFUSED.items():
            if body.get(key) is not None:
                self._refuse(key, message)

    def _find_unknown_fields(self) -> None:
        body = self._body
        unknown = [key for key in body if key not in _EXPECTED and body[key] is not None]
        if unknown:
            self._violations += find_misspelt_fields(unknown, [sorted(_KNOWN | _OTHER_NAMES.keys())], body)
        self._warnings += warn_of_unknown_fields(body, _KNOWN | _REFUSED.keys(), instead=_INSTEAD)


def _find_listed(items: list[Any]) -> tuple[str, ...]:
    """Return the labels of the servers whose tools the conversation lists already."""
    return tuple(
        item["server_label"]
        for item in (items[place] for place in find_special(items, "tool_list"))
        if not item.get("error") and isinstance(item.get("server_label"), str)
    )


def _lists_own_tools(items: list[Any]) -> bool:
    """Whether the conversation lists tools of this gateway: a model server knows neither the list nor the calls."""
    ids = [items[place].get("id") for place in find_special(items, "tool_list")]
    return any(isinstance(id_, str) and _OWN_LIST.fullmatch(id_) for id_ in ids)


def _find_settings(items: list[Any], path: str, *, stored: bool) -> Iterator[_SettingItem]:
    for number in find_special(items, "setting"):
        yield _SettingItem(f"{path}[{number}]", items[number], stored)


def _read_summary(body: Json) -> str | None:
    """Return the kind of summary of the reasoning that the caller asks for; `generate_summary` is its old name."""
    reasoning = _as_object(body.get("reasoning"))
    summary = reasoning.get("summary") or reasoning.get("generate_summary")
    return summary if isinstance(summary, str) else None


def _as_object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
