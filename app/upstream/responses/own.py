"""The body for a Responses server from that of a client of the same API: `app.upstream.own_body`."""

import re
from collections.abc import Mapping, Sequence
from operator import is_, or_
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from app.chat.messages import ChatRequest, Media, Source, WrittenMessages, is_sealed
from app.errors import InvalidInput, Violation
from app.openai_messages import content_parts
from app.openai_messages.grouping import group_beginning, group_messages
from app.openai_messages.groups import MessageGroup
from app.openai_messages.messages import shorten_call_id
from app.params import GenerateCfg
from app.profiles import Profile
from app.upstream.own_body import (
    ORPHAN,
    Block,
    OwnConversation,
    OwnTools,
    add_orphans,
    add_tools,
    choose_written,
    encode_own_tools,
    find_units,
    name_tool,
    patch,
    renames_calls,
    split_added_tools,
    split_violations,
    warn_of_unsent,
    write_own_tools,
)
from app.upstream.request_options import NO_PARAMETER
from app.upstream.responses.conversation import NOTHING_WRITTEN, Written, join_texts, write_groups
from app.upstream.responses.items import ENCRYPTED, LOGPROBS, VENDOR_ITEMS, complete_thought, strip_input_id
from app.upstream.responses.request import RequestOptions, write_tool

Json = dict[str, Any]
_encode = msgspec.json.Encoder().encode

_NATIVE = ("temperature", "top_p", "tool_choice", "parallel_tool_calls", "max_output_tokens", "top_k", "min_p", "seed")
EXTENSIONS = frozenset(GenerateCfg.model_fields).difference(_NATIVE) | {
    *("cache", "previous_response_id", "background", "chat_template_kwargs")
}
"""Fields of a body that are the gateway's own: parameters that the API does not have, the use of the cache, and what
names stored responses."""
_VENDOR_FIELDS = frozenset(
    ("client_metadata", "prompt_cache_options", "prompt_cache_retention", "context_management", "max_tool_calls")
)
"""Fields that only OpenAI's servers know."""
_CLIENT_ITEMS = frozenset(
    ("custom_tool_call", "custom_tool_call_output", "tool_search_call", "tool_search_output", "additional_tools")
)
_VENDOR_ITEM_FIELDS: Mapping[str, frozenset[str]] = {
    "message": frozenset(("extra_content",)),
    "function_call": frozenset(("caller",)),
    "function_call_output": frozenset(("name", "namespace", "caller")),
}
_CLIENT_TOOLS = frozenset(("custom", "namespace", "tool_search"))
_OWN_SEARCH = re.compile(r"ws_[0-9a-f]{32}_[0-9]+")
"""The id that the gateway gives a search which it has run."""
_SERVER_ITEMS = ("mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response")
_PREFIXES: Mapping[str, tuple[str, ...]] = {
    "message": ("msg_",),
    "function_call": ("fc_",),
    "function_call_output": ("fc_", "fco_"),
    "custom_tool_call": ("ctc_",),
    "custom_tool_call_output": ("ctc_", "ctco_"),
}
"""How the ids begin that servers of this API give ("Expected an ID that begins with 'msg'")."""
_OWN_LIST = re.compile(r"mcpl_[0-9a-f]{32}_[0-9]+")
"""The id that the gateway gives an item `mcp_list_tools`."""
_NOT_SENT = (
    "reasoning of earlier turns was not sent, because the model server stores nothing and these items have no "
    f"encrypted_content: set encrypted_reasoning in the model's profile, or send include: [{ENCRYPTED!r}]"
)
_BECOME_FUNCTIONS = "custom tools, namespaces and searches for tools become functions: the server knows only those"


def build_own(request: ChatRequest, model: str, profile: Profile) -> tuple[Json, list[str]]:
    """Return the body, and a warning for each part that is not sent as given. `request.source` must be set.

    Raises InvalidInput with every violation.
    """
    assert request.source is not None
    source = request.source
    conversation = _write_conversation(request, source, profile)
    takes_all = profile.takes == "all"
    lacking = [name for name in source.body if name in profile.lacks]
    vendor = [] if takes_all else [name for name in source.body if name in _VENDOR_FIELDS]
    left_out = {*EXTENSIONS, *lacking, *vendor}
    own = {name: value for name, value in source.body.items() if name not in left_out}
    if request.stream or "stream" in own:
        own["stream"] = request.stream and profile.stream != "never"
    request, added = split_added_tools(request)
    as_read = replace(request, params=source.params, tools=source.tools)
    base, now = _write_options(as_read, profile.neutral), _write_options(request, profile)
    violations = split_violations(now.violations, base.violations, takes_all=takes_all)
    if violations:
        raise InvalidInput(violations)
    tools, tool_warnings = _write_tools(own.pop("tools", None), request, source, profile, base.body, now.body)
    body = patch(own, base.body, now.body) | {"model": model, "store": False}
    included = body.get("include")
    if isinstance(included, list) and LOGPROBS in included and "logprobs" in profile.lacks:
        body["include"] = [name for name in body["include"] if name != LOGPROBS]
    if profile.encrypted_reasoning and isinstance(include := body.get("include") or [], list):
        body["include"] = include if ENCRYPTED in include else [*include, ENCRYPTED]
    is_text = isinstance(source.body.get("input"), str) and not source.offset
    if not is_text or conversation.items is not source.entries:
        body["input"] = conversation.items
    if request.before is not None:
        body["input"] = [msgspec.Raw(request.before.written), *conversation.items]
    if conversation.instructions is None:
        body.pop("instructions", None)
    else:
        body["instructions"] = conversation.instructions
    if tools := add_tools(tools, added):
        body["tools"] = tools
    elif source.body.get("tools") or profile.takes != "all":
        body.pop("tool_choice", None)
    warnings = warn_of_unsent(vendor) + [f"{name} was not sent: {NO_PARAMETER}" for name in lacking]
    warnings += [text for text in now.warnings if text not in base.warnings]
    return body, [*conversation.warnings, *tool_warnings, *warnings]


def _write_options(request: ChatRequest, profile: Profile) -> RequestOptions:
    options = RequestOptions(request, profile, name_tool)
    options.write()
    options.add_extra_body()
    return options


def write_own_beginning(request: ChatRequest, profile: Profile) -> WrittenMessages | None:
    """Write messages from the client's own items: `WriteBeginning`."""
    assert request.source is not None
    grouped = group_beginning(request.messages, request.calls_before)
    if grouped is None or content_parts.find_violations(request.messages, profile):
        return None
    writer = _OwnWriter(request, request.source, profile)
    writer.write(grouped[0])
    if writer.warnings:
        return None
    state = Written(
        None if writer.system_is_own else writer.instructions,
        writer.count,
        is_own=writer.system_is_own,
        loses_thoughts=writer.loses_thoughts,
    )
    return WrittenMessages(writer.items, grouped[1], state)


class _Conversation(NamedTuple):
    instructions: Any
    items: Sequence[Any]
    warnings: list[str]


def _write_conversation(request: ChatRequest, source: Source, profile: Profile) -> _Conversation:
    """Return the instructions and the items after the beginning. Raises InvalidInput."""
    groups, violations = group_messages(request.messages, request.calls_before)
    violations += content_parts.find_violations(request.messages, profile)
    if violations and profile.takes != "all":
        raise InvalidInput(violations)
    writer = _OwnWriter(request, source, profile, violations)
    writer.write(add_orphans(source, groups, request.messages) if violations else groups)
    is_same = len(writer.items) == len(source.entries) and all(map(is_, writer.items, source.entries))
    warnings = [*writer.warnings, _NOT_SENT] if writer.loses_thoughts else writer.warnings
    return _Conversation(writer.instructions, source.entries if is_same else writer.items, warnings)


class _OwnWriter(OwnConversation):
    def __init__(
        self, request: ChatRequest, source: Source, profile: Profile, violations: Sequence[Violation] = ()
    ) -> None:
        super().__init__(request, source, profile, violations)
        self._before: Written = NOTHING_WRITTEN if request.before is None else request.before.state
        self.items: list[Any] = []
        self.instructions: Any = self._before.instructions
        self.system_is_own = self._before.is_own
        self.loses_thoughts = self._before.loses_thoughts

    @property
    def count(self) -> int:
        """How many items there are, with those of the beginning."""
        return self._before.count + len(self.items)

    def write(self, groups: Sequence[MessageGroup]) -> None:
        system = self._write_instructions(groups) if self._request.before is None else []
        if self._request.before is not None and self.system_is_own:
            self.instructions = self._source.body.get("instructions")
        for block in self._divide(groups, system):
            self._add_block(block)

    def _write_instructions(self, groups: Sequence[MessageGroup]) -> Sequence[MessageGroup]:
        """Write the instructions; return the groups that are part of them."""
        system = self._find_system(groups)
        joiner = self._request.text_joiner
        written = joiner.join(join_texts(group.texts, joiner) for group in system) if system else None
        self.instructions = self._source.body.get("instructions") if self.system_is_own else written
        return system

    def _add_block(self, block: Block) -> None:
        if any(group.role == ORPHAN for group in block.groups):
            self._add_untranslated(block)
            return
        if not block.is_kept or renames_calls(block.groups):
            self._add_now(block, block.groups)
            return
        unsent = self._source.unsent
        takes = [
            self._takes(entry) and number not in unsent
            for number, entry in zip(block.numbers, block.entries, strict=True)
        ]
        without = [
            self._has_no_translation(entry) and number not in unsent
            for number, entry in zip(block.numbers, block.entries, strict=True)
        ]
        if all(map(or_, takes, without)) and not any(map(self._is_concerned, block.groups)):
            self._warn_of_unsent(block.entries, takes)
            self._add_own([entry for entry, taken in zip(block.entries, takes, strict=True) if taken])
            return
        base = write_groups(block.groups, self._request.text_joiner, self._profile.neutral, self.count)
        now = write_groups(block.groups, self._request.text_joiner, self._profile, self.count)
        merged = self._merge(block.entries, takes, base.items, now.items)
        if merged is None:
            self._add_now(block, block.groups)
            return
        self._warn_of_unsent(block.entries, takes)
        self.warnings += now.warnings
        self._add_own(merged)

    @override
    def _add_own(self, entries: Sequence[Any]) -> None:
        self.items += [_complete_item(entry, self._profile) for entry in entries]

    def _add_now(self, block: Block, groups: Sequence[MessageGroup]) -> None:
        """Add what the block is now."""
        now = write_groups(groups, self._request.text_joiner, self._profile, self.count)
        self.warnings += now.warnings
        self.warnings += self._source.list_losses(block.numbers)
        self._warn_of_unsent(block.entries, [self._takes(entry) for entry in block.entries])
        self._find_lost_thoughts(block.entries, now.items)
        self.items += [item for item in now.items if self._takes(item)]

    def _warn_of_unsent(self, entries: Sequence[Any], takes: Sequence[bool]) -> None:
        kinds = {
            str(entry.get("type"))
            for entry, taken in zip(entries, takes, strict=True)
            if not taken and entry.get("type") in _LEFT_OUT and not is_sealed(entry.get("encrypted_content"))
        }
        if self._profile.takes != "all":
            self.warnings += warn_of_unsent(f"an item of type {kind}" for kind in sorted(kinds))

    def _find_lost_thoughts(self, entries: Sequence[Any], now: Sequence[Any]) -> None:
        """Notice reasoning with an id that the server would not find."""
        given = [entry for entry in entries if isinstance(entry, dict) and entry.get("type") == "reasoning"]
        sent = sum(item.get("type") == "reasoning" for item in now)
        lost = any("id" in entry and not entry.get("encrypted_content") for entry in given)
        self.loses_thoughts = self.loses_thoughts or (lost and sent < len(given))

    def _is_concerned(self, group: MessageGroup) -> bool:
        """Whether a rule of the profile is about something in these messages, so that both translations must be
        compared."""
        profile = self._profile
        if not profile.tool_media and any(type(one) is Media for _, result in group.results for one in result.content):
            return True
        return any(shorten_call_id(call.id, profile) != call.id for call in group.calls)

    @override
    def _takes(self, entry: Any) -> bool:
        """Whether the server takes an item as it is."""
        if not isinstance(entry, dict):
            return True
        kind = entry.get("type", "message")
        if is_sealed(entry.get("encrypted_content")):
            return False
        if kind in _SERVER_ITEMS and self._source.has_own_calls:
            return False
        if kind == "web_search_call" and _OWN_SEARCH.fullmatch(str(entry.get("id"))):
            return False  # this gateway ran it
        if kind == "reasoning" and not entry.get("encrypted_content") and self._profile.replay_reasoning != "item_text":
            return False  # the server would look it up by its id, and nothing is stored there
        if _has_image_object(entry):
            return False
        is_client = kind in _CLIENT_ITEMS or (kind == "function_call" and entry.get("namespace") is not None)
        if not self._profile.client_tools and (is_client or kind == "agent_message"):
            return False
        if self._profile.takes == "all" or is_client:
            return True
        if not _is_complete(entry, kind):
            return False
        fields = _VENDOR_ITEM_FIELDS.get(kind, ())
        return kind not in VENDOR_ITEMS and not any(entry.get(name) is not None for name in fields)

    def _has_no_translation(self, entry: Any) -> bool:
        """Whether nothing of an item that the server does not take is sent in its place."""
        kind = entry.get("type") if isinstance(entry, dict) else None
        is_own = (kind in _SERVER_ITEMS and self._source.has_own_calls) or (
            kind == "web_search_call" and _OWN_SEARCH.fullmatch(str(entry.get("id"))) is not None
        )
        return kind in _LEFT_OUT and not is_own and not is_sealed(entry.get("encrypted_content"))

    def _merge(
        self, entries: Sequence[Any], takes: Sequence[bool], base: Sequence[Any], now: Sequence[Any]
    ) -> list[Any] | None:
        """Return the client's own items with those replaced in which the translations differ, or which the server does
        not take; None if it is not clear which item became which."""
        if len(entries) != len(base) or not all(map(_is_written_as, entries, base)):
            return None
        stays = [taken and _has_fields(entry, item) for entry, item, taken in zip(entries, base, takes, strict=True)]
        keys = [_encode(item) if taken else b"" for item, taken in zip(base, stays, strict=True)]
        out: list[Any] = []
        for kept, first, last, start, end in find_units(keys, [_encode(item) for item in now]):
            if kept:
                out += entries[first:last]
                continue
            self._find_lost_thoughts(entries[first:last], now[start:end])
            out += [item for item in now[start:end] if self._takes(item)]
        return out


_LEFT_OUT = VENDOR_ITEMS.difference(
    ("mcp_call", "shell_call", "shell_call_output", "local_shell_call", "local_shell_call_output", "agent_message")
    + ("apply_patch_call", "apply_patch_call_output", "mcp_approval_request", "configuration_update")
)
"""The items of which no translation has anything."""


def _is_written_as(entry: Any, item: Mapping[str, Any]) -> bool:
    """Whether an item of a translation is what became of a client's item."""
    kind, written = entry.get("type", "message"), item.get("type", "message")
    return bool(kind == written and (kind != "message" or entry.get("role") in (item.get("role"), "developer")))


def _has_fields(entry: Any, item: Mapping[str, Any]) -> bool:
    """Whether a client's item has the opaque fields of its translation, which may be from a seal before it."""
    return all(item.get(name) is None or entry.get(name) == item[name] for name in ("namespace", "caller"))


def _has_image_object(entry: Json) -> bool:
    """Whether an image has the object of chat completions for its URL: no server of the API takes one."""
    parts = entry.get("content", entry.get("output"))
    return isinstance(parts, list) and any(
        isinstance(part, dict) and isinstance(part.get("image_url"), dict) for part in parts
    )


def _is_complete(entry: Json, kind: Any) -> bool:
    """Whether an item has what strict servers of the API want: they refuse reasoning without any content, and messages
    of the assistant without content or with parts but no id and status (NVIDIA/TensorRT-LLM issue 17738,
    vllm-project/vllm issue 35508)."""
    if kind == "reasoning":
        return any(entry.get(name) for name in ("content", "summary", "encrypted_content"))
    if kind != "message" or entry.get("role") != "assistant" or isinstance(entry.get("content"), str):
        return True
    is_known = isinstance(entry.get("status"), str) and str(entry.get("id")).startswith(_PREFIXES["message"])
    return bool(entry.get("content")) and is_known


def _complete_item(entry: Any, profile: Profile) -> Any:
    """Return an item without an id that no server of this API would have given: the id of another server says nothing
    to this one."""
    if not isinstance(entry, dict):
        return entry
    entry = strip_input_id(entry)
    id_, kind = entry.get("id"), entry.get("type", "message")
    if kind == "reasoning":
        return complete_thought(entry, profile)
    prefixes = _PREFIXES.get(kind)
    if prefixes is None or not isinstance(id_, str) or id_.startswith(prefixes):
        return entry
    return {name: value for name, value in entry.items() if name != "id"}


def _write_tools(
    given: Any, request: ChatRequest, source: Source, profile: Profile, base: Json, now: Json
) -> tuple[Any, list[str]]:
    """Return the tools that are sent, and a warning for each one that is left out. Takes those of the translations."""
    as_read, written = base.pop("tools", None), now.pop("tools", None)
    if written is None and as_read is not None:
        return None, []
    given = given if isinstance(given, list) else []  # all tools are those of items, which are sent with them

    def takes(tool: Any) -> bool:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind == "function":
            return "name" in tool  # other APIs have a function in an object
        is_client = isinstance(kind, str) and kind in _CLIENT_TOOLS
        return profile.client_tools if is_client else profile.takes == "all"

    tools = OwnTools(source.tool_names.get, takes, write_tool)
    left_out = [tool for place, tool in enumerate(given) if place not in source.tool_names and not takes(tool)]
    warnings = warn_of_unsent(f"the tool {tool.get('type')!r}" for tool in left_out if isinstance(tool, dict))
    if source.has_client_tools and not profile.client_tools:
        warnings.append(_BECOME_FUNCTIONS)
    if not left_out and request.tools is source.tools and all(map(takes, given)):
        return encode_own_tools(given, given, request.known), warnings
    sent = write_own_tools(given, source.tools, choose_written(request.tools, written), tools)
    return encode_own_tools(given, sent, request.known), warnings
