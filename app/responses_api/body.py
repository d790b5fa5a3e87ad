"""Parses the body of `POST /v1/responses` into a request of `POST /v1/chat`.

The instructions become the first system message, and the items of an earlier response follow them; the caller's own
items come last. Tools and settings that items have count like those of the body. Errors and warnings name places in
the caller's body (`formats.responses.paths`).

Fields that say something to OpenAI's servers only are repeated in the Response and not sent. What the caller would
miss in the reply is refused. Any other unknown field is ignored with a warning, because clients add new ones monthly.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace
from pydantic import ConfigDict, ValidationError

from app.errors import InvalidInput, NotFound, ParleyError, PreviousResponseNotFound, Violation
from app.formats.base import ErrorWriter, Format, Options, ResponsesOptions
from app.formats.body import NOTHING_STORED, ParsedRequest, RejectedRequest, StoredItems, UnresolvedRequest
from app.formats.chat_body import ChatRequestBody, parse_messages
from app.formats.conversation import find_list_violations
from app.formats.json_object import parse_object
from app.formats.other_fields import NESTED_PARAMS, find_misspelt_fields, rename_fields
from app.formats.request_limits import RequestLimits, find_invalid_values, limit_warnings
from app.formats.responses import RESPONSES
from app.formats.responses.paths import PARAM_NAMES, rename_error_paths, rename_paths
from app.formats.responses.schema import COMPACTIONS, describe_unknown_item
from app.formats.responses.tools import OfferedTools, ToolSource, parse_tool_choice, parse_tools
from app.formats.seal import read_seal
from app.other_apis import read_response_format
from app.params import GenerateCfg
from app.validation.violations import describe_flag, describe_given, json_path, to_violations

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
    "conversation": "is not supported: send the items, or previous_response_id",
    "prompt": "is not supported: the gateway cannot read prompts stored at a provider",
    **NESTED_PARAMS,
}
_RENAMED = {"max_tokens", "max_completion_tokens", "function_choice", "tool_choice", "parallel_function_calls"}
_PASSED = set(GenerateCfg.model_fields) - {"extra_body", "stream_options", "response_format"} - _RENAMED
"""Parameters that have the same name here and in `generate_cfg`."""
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
_SUMMARIZE = """\
Write a summary of this conversation, from which another model will go on with it. It sees nothing else of it. Say:
- what the user wants, with every instruction and preference that still counts,
- what has been done and found out, with the names, paths, values and errors that are needed later,
- what was being done last, and what remains to be done.
Write the summary only."""
"""The question that stands for a `compaction_trigger`."""
_STORED = "previous_response_id"
"""The place of all stored items. What is wrong with their tools was said when they were sent."""
_LOGPROBS = "is not supported: Parley's replies carry no log probabilities"


class _ResponsesBody(ChatRequestBody):
    """The request as `POST /v1/chat` would have it, with the options of the reply."""

    reply_options: Options = Options()

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def options(self) -> Options:
        return self.reply_options


class ResponsesRequest(ParsedRequest, frozen=True):
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


def parse_responses_body(
    raw: bytes | bytearray, limits: RequestLimits
) -> ResponsesRequest | RejectedRequest | UnresolvedRequest[ResponsesRequest]:
    """Parse a request. It is rejected with BadRequest, or with InvalidInput that lists all violations."""
    try:
        body = parse_object(raw)
    except ParleyError as error:
        return RejectedRequest(error, RESPONSES.error)
    previous, given = body.get("previous_response_id"), body.get("input")
    items = tuple(_find_references(given))
    if isinstance(given, list) and len(given) > limits.max_messages:  # before anything is looked up
        too_many = Violation("input", f"more than {limits.max_messages} messages")
        return RejectedRequest(InvalidInput([too_many]), RESPONSES.error)
    if isinstance(previous, str) or items:
        response_id = previous if isinstance(previous, str) else None
        return UnresolvedRequest(response_id, items, lambda stored: _parse(body, limits, stored))
    return _parse(body, limits, NOTHING_STORED)


def _find_references(items: Any) -> Iterator[str]:
    """Yield the ids of the items that must be read from the store: references, and reasoning without its text."""
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            continue
        if _is_reference(item) or _is_empty_reasoning(item):
            yield item["id"]


def _is_reference(item: Json) -> bool:
    return item.get("type") == "item_reference" or (item.keys() == {"id"})


def _is_empty_reasoning(item: Json) -> bool:
    texts = (item.get(key) for key in ("content", "summary", "encrypted_content"))
    return item.get("type") == "reasoning" and not any(texts)


def _parse(body: Json, limits: RequestLimits, stored: StoredItems) -> ResponsesRequest | RejectedRequest:
    reader = _BodyReader(body, limits, stored)
    try:
        return reader.read()
    except ParleyError as error:
        return RejectedRequest(error, reader.format.error)


def make_format(options: ResponsesOptions) -> Format:
    """Return the format with errors and warnings that name places in this request's body."""

    def write_error(error: Json) -> Json:
        return RESPONSES.error(rename_error_paths(error, options))

    assert isinstance(RESPONSES.error, ErrorWriter)
    return replace(
        RESPONSES, error=replace(RESPONSES.error, body=write_error), warning=lambda text: rename_paths(text, options)
    )


class _BodyReader:
    def __init__(self, body: Json, limits: RequestLimits, stored: StoredItems) -> None:
        renamed = rename_fields(body, _OTHER_NAMES)
        self._body = renamed.body
        self._renamed = renamed
        self._limits = limits
        self._stored = stored
        self._violations: list[Violation] = []
        self._warnings: list[str] = renamed.list_warnings()
        self._context = self._read_context()
        self._items = self._read_items()
        self._system = self._read_instructions()
        self._tools = self._read_tools()
        self._compacts = self._check_trigger()
        self._options = ResponsesOptions(
            reads_settings=True,
            first_item=len(self._system) + len(self._context),
            has_instructions=bool(self._system),
            param_names=self._find_param_names(),
            tool_paths=tuple(self._tools.paths),
        )
        self.format = make_format(self._options)

    def read(self) -> ResponsesRequest:
        """Return the request. Raises InvalidInput with every violation."""
        body = self._body
        params = self._read_params()
        self._find_unknown_fields()
        chat_body = {
            "model": self._read_model(),
            "messages": [*self._system, *self._context, *self._list_own_messages()],
            "format": "responses",
            "functions": self._tools.functions or None,
            "generate_cfg": params,
            "stream": body.get("stream") is True or body.get("background") is True,
            "metadata": body.get("metadata"),
            "cache": body.get("cache"),
            "cancel_on_disconnect": body.get("background") is not True,
            "reply_options": Options(responses=self._options),
        }
        parsed = None
        if not chat_body["messages"] and not self._violations:
            self._refuse("input", "must not be empty: send a text or a list of items")
        if chat_body["messages"]:
            parsed = self._parse_chat(chat_body)
        if self._violations or parsed is None:
            raise self._renamed.restore(InvalidInput(self._violations))
        store = body.get("store") is not False
        input_items = [*self._context, *self._items]
        return ResponsesRequest(
            settings=parsed.settings,
            reply_format=self.format,
            request=parsed.request,
            warnings=limit_warnings([*self._warnings, *parsed.warnings]),
            options=Options(responses=self._make_options(store)),
            input_items=input_items,
            context_length=len(self._context),
            input_bytes=len(msgspec.json.encode(input_items)) if store else 0,
            store=store,
            background=body.get("background") is True,
            streamed=body.get("stream") is True,
        )

    def _find_param_names(self) -> dict[str, str]:
        """Return the caller's names of parameters whose names are not the usual ones."""
        body = self._body
        names = {"max_input_tokens": "truncation"} if body.get("truncation") == "disabled" else {}
        if body.get("enable_thinking") is None:
            names["enable_thinking"] = "reasoning.effort"
        if "max_output_tokens" in self._renamed.names:
            names["max_tokens"] = self._renamed.names["max_output_tokens"]
        return names | {key: key for key in PARAM_NAMES if key in _PASSED and body.get(key) is not None}

    def _refuse(self, path: str, message: str) -> None:
        self._violations.append(Violation(path, message))

    def _parse_chat(self, chat_body: Json) -> ParsedRequest | None:
        given = {key: value for key, value in chat_body.items() if value is not None}
        try:
            return parse_messages(_ResponsesBody.model_validate(given), self._limits)
        except ValidationError as error:
            self._violations += to_violations(error, given, schema=ChatRequestBody)
            self._violations += find_list_violations(given, RESPONSES, self._limits)
        except InvalidInput as error:
            self._violations += error.violations
        return None

    def _make_options(self, store: bool) -> ResponsesOptions:
        body = self._body
        fields = {key: body[key] for key in _ECHOED if body.get(key) is not None}
        reasoning, text = _as_object(body.get("reasoning")), _as_object(body.get("text"))
        fields["reasoning"] = {"effort": None, "summary": None} | reasoning
        fields["text"] = {"format": {"type": "text"}} | {key: text[key] for key in text if text[key] is not None}
        fields |= {"store": store, "background": body.get("background") is True}
        return replace(
            self._options,
            fields=fields,
            summary=bool(reasoning.get("summary") or reasoning.get("generate_summary")),
            sealed=not store or "reasoning.encrypted_content" in (body.get("include") or ()),
            custom=tuple(sorted(self._tools.custom)),
            namespaces=self._tools.namespaces,
            client_search=self._tools.client_search,
            compacts=self._compacts,
        )

    # The parts of the body.

    def _read_model(self) -> str | None:
        model = self._body.get("model")
        if model is None or model == "":
            self._refuse("model", "is required: a name of GET /v1/models" if model is None else "must not be empty")
            return None
        if not isinstance(model, str):
            self._refuse("model", f"must be a string{describe_given(model)}")
            return None
        return model

    def _read_instructions(self) -> list[Any]:
        text = self._body.get("instructions")
        if text is not None and not isinstance(text, str):
            self._refuse("instructions", "must be a string")
        return [{"type": "message", "role": "system", "content": text}] if isinstance(text, str) and text else []

    def _read_context(self) -> list[Any]:
        id_ = self._body.get("previous_response_id")
        if id_ is None:
            return []
        if not isinstance(id_, str):
            self._refuse("previous_response_id", "must be a string")
            return []
        items = self._stored.responses.get(id_)
        if items is None:
            raise PreviousResponseNotFound(
                f"there is no response {id_!r} that can be continued: it expired, was deleted, failed, was not stored,"
                " or belongs to another caller; send the whole conversation",
                "previous_response_id",
            )
        return _drop_summarized(items)

    def _read_items(self) -> list[Any]:
        given = self._body.get("input")
        if isinstance(given, str):
            return [{"type": "message", "role": "user", "content": given}] if given else []
        if given is None:
            if not self._body.get("instructions") and self._body.get("previous_response_id") is None:
                self._refuse("input", f"is required{self._suggest_input()}")
            return []
        if not isinstance(given, list):
            self._refuse("input", f"must be a string or a list of items{describe_given(given)}")
            return []
        return [self._resolve_item(item, number) for number, item in enumerate(given)]

    def _suggest_input(self) -> str:
        other = next((key for key in ("messages", "prompt", "conversation") if self._body.get(key)), None)
        hint = f": here the conversation is `input`, not `{other}`" if other else ": a text or a list of items"
        return f"{hint} (POST /v1/chat/completions takes `messages`)" if other == "messages" else hint

    def _resolve_item(self, item: Any, number: int) -> Any:
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            return item
        if _is_reference(item):
            if item["id"] not in self._stored.items:
                raise NotFound(describe_unknown_item(item["id"]), f"input[{number}].id")
            return self._stored.items[item["id"]]
        return self._stored.items.get(item["id"], item) if _is_empty_reasoning(item) else item

    def _list_own_messages(self) -> list[Any]:
        """Return the caller's items; in the place of a trigger, the question for a summary."""
        if not self._compacts:
            return self._items
        return [*self._items[:-1], {"type": "message", "role": "user", "content": _SUMMARIZE}]

    def _check_trigger(self) -> bool:
        """Return whether the caller wants a summary of the conversation instead of a reply."""
        triggers = [number for number, item in enumerate(self._items) if _has_type(item, "compaction_trigger")]
        for number in triggers:
            if number < len(self._items) - 1:
                self._refuse(f"input[{number}]", "a compaction_trigger must be the last item")
        if triggers and not self._context and len(self._items) == 1:
            self._refuse("input", "has nothing that could be summarized")
        return bool(triggers)

    def _read_tools(self) -> OfferedTools:
        tools = self._body.get("tools")
        if not isinstance(tools, list | None):
            hint = ": put it into a list" if isinstance(tools, dict) else ""
            self._refuse("tools", f"must be a list of tools{describe_given(tools)}{hint}")
            return OfferedTools()
        stored = _find_tool_sources(self._context, _STORED, stored=True)
        own = _find_tool_sources(self._items, "input", stored=False)
        found = parse_tools([ToolSource("tools", tools or []), *stored, *own])
        self._violations += (one for one in found.violations if not one.path.startswith(_STORED))
        self._violations += find_invalid_values(tools, "tools", self._limits.max_nesting)
        self._warnings += (text for text in found.warnings if not text.startswith(_STORED))
        return self._choose_tools(found)

    def _choose_tools(self, tools: OfferedTools) -> OfferedTools:
        """Leave only the tools that `tool_choice` allows."""
        allowed = parse_tool_choice(self._body.get("tool_choice"), tools).allowed
        if allowed is None:
            return tools
        kept = [
            (function, path)
            for function, path in zip(tools.functions, tools.paths, strict=True)
            if function["function"]["name"] in allowed
        ]
        return replace(tools, functions=[one for one, _ in kept], paths=[path for _, path in kept])

    def _read_params(self) -> Json:
        body = self._body
        params = {key: body[key] for key in body if key in _PASSED}
        if body.get("max_output_tokens") is not None:
            params["max_tokens"] = body["max_output_tokens"]
        choice = parse_tool_choice(body.get("tool_choice"), self._tools)
        self._violations += choice.violations
        if self._compacts and self._tools.functions:
            params["function_choice"] = "none"
        elif choice.value is not None:
            params["function_choice"] = choice.value
        if not self._tools.functions:
            params.pop("parallel_tool_calls", None)
        self._read_reasoning(params)
        self._read_text(params)
        self._check_flags()
        if body.get("truncation") == "disabled":
            params["max_input_tokens"] = 0
        if body.get("chat_template_kwargs") is not None:
            params["extra_body"] = {"chat_template_kwargs": body["chat_template_kwargs"]}
        return params

    def _read_reasoning(self, params: Json) -> None:
        reasoning = self._body.get("reasoning")
        if not isinstance(reasoning, dict | None):
            self._refuse("reasoning", 'must be an object, such as {"effort": "low"}')
            return
        fields = reasoning or {}
        self._warn_unknown(fields, "reasoning", {"effort", "summary", "generate_summary", "context", "mode"})
        path, effort = "reasoning", fields.get("effort")
        for place, update in self._find_updates("reasoning"):
            self._warn_unknown(update, place, {"effort"})
            if "effort" in update:
                path, effort = place, update["effort"]
        if not isinstance(effort, str | None):
            self._refuse(f"{path}.effort", "must be a string")
        elif effort == "none":
            params["enable_thinking"] = False
        elif effort is not None:
            params["reasoning_effort"] = effort

    def _find_updates(self, key: str) -> Iterator[tuple[str, Json]]:
        """Yield the settings `key` of each `configuration_update`, with its path."""
        for path, item in self._list_items():
            if _has_type(item, "configuration_update") and isinstance(item.get(key), dict):
                yield f"{path}.{key}", item[key]

    def _list_items(self) -> Iterator[tuple[str, Any]]:
        """Yield all items of the conversation, each with its path."""
        yield from ((_STORED, item) for item in self._context)
        yield from ((f"input[{number}]", item) for number, item in enumerate(self._items))

    def _read_text(self, params: Json) -> None:
        text = self._body.get("text")
        if not isinstance(text, dict | None):
            self._refuse("text", 'must be an object, such as {"format": {"type": "json_object"}}')
            return
        fields = text or {}
        self._warn_unknown(fields, "text", {"format", "verbosity"})
        path, format_ = "text", fields.get("format")
        for place, update in self._find_updates("text"):
            self._warn_unknown(update, place, {"format"})
            if "format" in update:
                path, format_ = place, update["format"]
        place = f"{path}.format"
        if format_ is None and self._body.get("response_format") is not None:
            format_, place = self._body["response_format"], "response_format"
        response_format = self._read_format(format_, place)
        if response_format is not None and not self._compacts:
            params["response_format"] = response_format

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
        for key in ("store", "stream", "background", "parallel_tool_calls"):
            if not isinstance(body.get(key), bool | None):
                self._refuse(key, describe_flag(body[key]))
        if body.get("truncation") not in (None, "auto", "disabled"):
            self._refuse("truncation", "must be auto or disabled")
        if body.get("top_logprobs"):
            self._refuse("top_logprobs", _LOGPROBS)
        include = body.get("include")
        if not isinstance(include, list | None) or not all(isinstance(one, str) for one in include or ()):
            self._refuse("include", "must be a list of strings")
        elif "message.output_text.logprobs" in (include or ()):
            self._refuse("include", f"message.output_text.logprobs {_LOGPROBS}")
        if body.get("background") is True and body.get("store") is False:
            self._refuse("background", "needs store: the response is read later")
        for key, message in _REFUSED.items():
            if body.get(key) is not None:
                self._refuse(key, message)

    def _find_unknown_fields(self) -> None:
        body = self._body
        unknown = [key for key in body if key not in (*_KNOWN, *_INSTEAD, *_REFUSED) and body[key] is not None]
        self._violations += find_misspelt_fields(unknown, [sorted(_KNOWN | _OTHER_NAMES.keys())], body)
        self._warn_unknown(body, "", _KNOWN | _REFUSED.keys())

    def _warn_unknown(self, fields: Json, path: str, known: "set[str] | frozenset[str]") -> None:
        unknown = (key for key in fields if key not in known and fields[key] is not None)
        hints = _INSTEAD if not path else {}
        self._warnings += (
            f"{json_path([key], path)} is not known here and was ignored"
            + (f": its name here is {hints[key]}" if key in hints else "")
            for key in unknown
        )


def _has_type(item: Any, kind: str) -> bool:
    return isinstance(item, dict) and item.get("type") == kind


def _find_tool_sources(items: list[Any], path: str, *, stored: bool) -> Iterator[ToolSource]:
    """Yield the tools that items bring."""
    for number, item in enumerate(items):
        found = _has_type(item, "tool_search_output")
        if (found or _has_type(item, "additional_tools")) and isinstance(item.get("tools"), list):
            yield ToolSource(f"{path}[{number}].tools", item["tools"], found, stored)


def _drop_summarized(items: list[Any]) -> list[Any]:
    """Return the items of an earlier response without those that its last summary stands for. Instructions, tools and
    settings stay."""
    last = max((number for number, item in enumerate(items) if _is_summary(item)), default=0)
    return [item for item in items[:last] if _outlives_summary(item)] + items[last:]


def _is_summary(item: Any) -> bool:
    if not isinstance(item, dict) or item.get("type") not in COMPACTIONS:
        return False
    seal = item.get("encrypted_content")
    return isinstance(seal, str) and read_seal(seal) is not None


def _outlives_summary(item: Any) -> bool:
    kept = _has_type(item, "additional_tools") or _has_type(item, "configuration_update")
    return kept or (isinstance(item, dict) and item.get("role") in ("system", "developer"))


def _as_object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
