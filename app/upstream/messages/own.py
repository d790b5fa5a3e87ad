"""The body for a Messages server from that of a client of the same API: `app.upstream.own_body`."""

import re
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from app.chat.known_conversation import KnownConversation, add_up
from app.chat.messages import BILLING_HEADER, ChatRequest, Message, Reasoning, Source, WrittenMessages, is_sealed
from app.errors import InvalidInput, Violation
from app.openai_messages.content_parts import find_violations
from app.openai_messages.grouping import group_beginning, group_messages
from app.openai_messages.groups import MessageGroup
from app.params import GenerateCfg
from app.profiles import Profile
from app.upstream.messages.blank_texts import leave_out_blank_texts, leave_out_of_system
from app.upstream.messages.cache_marks import MAX_MARKS, count_marks, count_marks_of_messages, limit_marks
from app.upstream.messages.conversation import (
    NOTHING_WRITTEN,
    ConversationWriter,
    Written,
    find_media_violations,
    has_plain_ids,
    refuse_empty,
)
from app.upstream.messages.own_entries import arrange_entries, has_late_results, limit_mark, warn_of_marks
from app.upstream.messages.request import build_options, write_tool
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

Json = dict[str, Any]
_encode = msgspec.json.Encoder().encode

_NATIVE = ("temperature", "top_p", "top_k", "max_tokens", "tool_choice")
EXTENSIONS = (frozenset(GenerateCfg.model_fields).difference(_NATIVE)) | {
    *("cache", "chat_template_kwargs", "response_format")
}
"""Fields of a body that are the gateway's own: parameters that the API does not have, and the use of the cache."""
_VENDOR_FIELDS = frozenset(
    ("mcp_servers", "container", "context_management", "service_tier", "speed", "inference_geo", "diagnostics")
    + ("user_profile_id", "workspace_id", "thread")
)
"""Fields that only Anthropic's servers know."""
_VENDOR_TOOL_FIELDS = frozenset(("eager_input_streaming", "defer_loading", "allowed_callers", "input_examples"))
"""Fields of a function that only Anthropic's servers know; others refuse the request (DotHarness/dotcraft#282)."""
_VENDOR_BLOCKS = frozenset(
    ("server_tool_use", "mcp_tool_use", "compaction", "fallback", "mcp_tool_listing", "tool_addition", "tool_removal")
    + ("search_result", "tool_reference")
)
_HIDDEN = ("fallback", "mcp_tool_listing", "tool_addition", "tool_removal")
"""The types of blocks of which no translation has anything."""
_SEALED = {"thinking": "signature", "redacted_thinking": "data"}
"""Where the blocks of reasoning have what the gateway, or a server, has sealed."""
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_SEARCHES = ("server_tool_use", "web_search_tool_result", "web_fetch_tool_result")
_SEARCHED_HERE = re.compile(r"srvtoolu_(?!vrtx_|bdrk_)[A-Za-z0-9]*[^A-Za-z0-9].*", re.DOTALL)
"""The ids of calls that this gateway ran: `srvtoolu_` and the id of the model's server. Anthropic has only letters and
digits behind it (platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool)."""
_ONLY_UNSIGNED = "it has only reasoning that no server has signed"
_RUN_BY_ANTHROPIC = "mcptoolu_"
"""The ids of calls that Anthropic's servers ran begin with it (platform.claude.com/docs/en/agents-and-tools)."""
_ONE_ROUND = 2
"""A message with calls, and one with their results."""


def build_own(request: ChatRequest, model: str, profile: Profile) -> tuple[Json, list[str]]:
    """Return the body, and a warning for each part that is not sent as given. `request.source` must be set.

    Raises InvalidInput with every violation.
    """
    assert request.source is not None
    source = request.source
    conversation = _write_conversation(request, source, profile)
    lacking = [name for name in source.body if name in profile.lacks]
    vendor = [] if profile.takes == "all" else [name for name in source.body if name in _VENDOR_FIELDS]
    left_out = {*EXTENSIONS, *lacking, *vendor}
    own = {name: value for name, value in source.body.items() if name not in left_out}
    lost: set[str] = set()
    if profile.takes != "all":
        own = limit_mark(own, lost)
    if profile.stream == "never" and own.get("stream"):
        own["stream"] = False
    request = _keep_choices(request, source)
    request, added = split_added_tools(request)
    as_read = replace(request, params=source.params, tools=source.tools)
    base = build_options(as_read, model, profile.neutral, conversation.messages, name_tool)
    now = build_options(request, model, profile, conversation.messages, name_tool)
    violations = split_violations(now.violations, base.violations, takes_all=profile.takes == "all")
    if violations:
        raise InvalidInput(violations)
    tools, tool_warnings = _write_tools(own.pop("tools", None), request, source, profile, base.body, now.body)
    del base.body["stream"], now.body["stream"]
    body = patch(own, base.body, now.body) | {"model": model, "messages": conversation.messages}
    if request.before is not None:
        body["messages"] = [msgspec.Raw(request.before.written), *conversation.messages]
    body.setdefault("max_tokens", now.body["max_tokens"])
    if conversation.system is None:
        body.pop("system", None)
    else:
        body["system"] = conversation.system
    if tools := add_tools(tools, added):
        body["tools"] = tools
    elif source.body.get("tools") or profile.takes != "all":
        body.pop("tool_choice", None)
    warnings = (
        warn_of_unsent(vendor) + warn_of_marks(lost) + [f"{name} was not sent: {NO_PARAMETER}" for name in lacking]
    )
    warnings += [text for text in now.warnings if text not in base.warnings]
    if _has_many_marks(source, request.known):
        body = msgspec.json.decode(_encode(body))
        warnings += limit_marks(body, body["messages"])[1]
    return body, [*conversation.warnings, *tool_warnings, *warnings]


def _has_many_marks(source: Source, known: KnownConversation | None) -> bool:
    """Whether a client's own body has more cache marks than the API takes."""
    messages = source.body.get("messages")
    of_messages = add_up(count_marks_of_messages, messages, known) if isinstance(messages, list) else 0
    return of_messages + count_marks(source.body) > MAX_MARKS


_THINKING = ("enable_thinking", "thinking_budget", "reasoning_effort")


def _keep_choices(request: ChatRequest, source: Source) -> ChatRequest:
    """Return the request without parameters that say something else than its own field."""
    if source.body.get("thinking") is None:
        return request
    params = {name: value for name, value in request.params.items() if name not in _THINKING}
    return replace(request, params=params | {name: source.params[name] for name in _THINKING if name in source.params})


def write_own_beginning(request: ChatRequest, profile: Profile) -> WrittenMessages | None:
    """Write messages from the client's own entries: `WriteBeginning`."""
    assert request.source is not None
    grouped = group_beginning(request.messages, request.calls_before)
    if grouped is None or find_violations(request.messages, profile):
        return None
    writer = _OwnWriter(request, request.source, profile)
    writer.write(grouped[0])
    if writer.warnings or not writer.messages or not _is_user(writer.messages[-1]):
        return None  # what follows could become part of the last message
    state = Written(None if writer.system_is_own else writer.system, writer.taken_ids, is_own=writer.system_is_own)
    return WrittenMessages(writer.messages, grouped[1], state)


def _is_user(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "user"


class _Conversation(NamedTuple):
    system: Any
    messages: list[Any]
    warnings: list[str]


def _write_conversation(request: ChatRequest, source: Source, profile: Profile) -> _Conversation:
    """Return the system and the messages after the beginning. Raises InvalidInput."""
    groups, violations = group_messages(request.messages, request.calls_before)
    violations += find_violations(request.messages, profile) or find_media_violations(request)
    if violations and profile.takes != "all":
        raise InvalidInput(violations)
    writer = _OwnWriter(request, source, profile, violations)
    writer.write(add_orphans(source, groups, request.messages) if violations else groups)
    if not writer.messages and request.before is None and source.entries and not profile.blank_texts:
        raise InvalidInput([refuse_empty(request)])
    return _Conversation(writer.system, writer.messages, writer.warnings)


class _OwnWriter(OwnConversation):
    def __init__(
        self, request: ChatRequest, source: Source, profile: Profile, violations: Sequence[Violation] = ()
    ) -> None:
        super().__init__(request, source, profile, violations)
        self._base = ConversationWriter(request, profile.neutral)
        self._now = ConversationWriter(request, profile)
        self._before: Written = NOTHING_WRITTEN if request.before is None else request.before.state
        self.messages: list[Any] = []
        self._is_new = False
        """The last message was translated, so that another one of its role can be joined to it."""
        self.system: Any = self._before.system
        self.system_is_own = self._before.is_own

    @property
    def taken_ids(self) -> frozenset[str]:
        return self._now.taken_ids

    def write(self, groups: Sequence[MessageGroup]) -> None:
        system = self._write_system(groups) if self._request.before is None else []
        if self._request.before is not None and self.system_is_own:
            self.system = self._read_own_system()
        for block in self._divide(groups, system):
            arranged = arrange_entries(block.entries, takes_all=self._profile.takes == "all")
            self.warnings += arranged.warnings
            entries = arranged.entries
            if not self._profile.blank_texts:
                kept = leave_out_blank_texts(entries)
                self.warnings += kept.warnings
                entries = kept.entries
            self._add_block(block if entries is block.entries else replace(block, entries=entries))

    def _write_system(self, groups: Sequence[MessageGroup]) -> Sequence[MessageGroup]:
        """Write the system's field; return the groups that are part of it."""
        system = self._find_system(groups)
        self.system = self._read_own_system() if self.system_is_own else self._now.write_system(system)
        return system

    def _read_own_system(self) -> Any:
        own = self._source.body.get("system")
        if not self._profile.blank_texts:
            own, warnings = leave_out_of_system(own)
            self.warnings += warnings
        if isinstance(own, list) and self._profile.takes != "all":
            lost: set[str] = set()
            own = [limit_mark(block, lost) for block in own]
            self.warnings += warn_of_marks(lost)
        if not isinstance(own, list) or not self._profile.caches_prefixes:
            return own
        kept = [block for block in own if not _is_billing_header(block)]
        return kept if len(kept) < len(own) else own

    def _add_block(self, block: Block) -> None:
        if any(group.role == ORPHAN for group in block.groups):
            self._add_untranslated(block)
            return
        is_late = self._profile.takes != "all" and len(block.entries) > _ONE_ROUND and has_late_results(block.entries)
        if is_late or not block.is_kept or renames_calls(block.groups) or not has_plain_ids(block.groups):
            self._add_now(block)
            return
        takes = all(self._takes(entry) for entry in block.entries) and not self._has_unsent(block)
        if takes and not any(self._is_concerned(group) for group in block.groups):
            self._add_own(block.entries)
            return
        base, _ = self._base.write_groups(block.groups)
        now, warnings = self._now.write_groups(block.groups)
        if takes and _encode(base) == _encode(now):
            self._add_own(block.entries)
            return
        merged = None if self._has_unsent(block) else self._merge(block.entries, base, now)
        if merged is None:
            self._add_now(block)
        else:
            self.warnings += warnings
            if not merged:
                self.warnings += [f"messages[{number}] was left out: {_ONLY_UNSIGNED}" for number in block.numbers]
            self._add_own(merged)

    @override
    def _add_own(self, entries: Sequence[Any]) -> None:
        self._add_messages(entries, joins=self._is_new)
        self._is_new = False

    def _add_messages(self, messages: Sequence[Any], *, joins: bool) -> None:
        """Add messages. With `joins` the first one goes on with the last one of its role: the entry between them may be
        gone."""
        first, last = messages[0] if messages else None, self.messages[-1] if self.messages else None
        if joins and isinstance(first, dict) and isinstance(last, dict) and first.get("role") == last.get("role"):
            content = [*_list_blocks(last["content"]), *_list_blocks(first["content"])]
            self.messages[-1] = {**last, **first, "content": content}
            messages = messages[1:]
        self.messages += messages

    def _add_now(self, block: Block) -> None:
        """Add what the block is now."""
        now, warnings = self._now.write_groups(block.groups)
        self.warnings += warnings
        self.warnings += self._source.list_losses(block.numbers)
        self._add_messages(now, joins=True)
        self._is_new = True

    def _is_concerned(self, group: MessageGroup) -> bool:
        """Whether a rule of the profile is about something in these messages, so that both translations must be
        compared."""
        profile = self._profile
        if group.role == "system":
            return profile.system != "anywhere"
        if group.results and not profile.tool_media:
            return True
        if group.reasonings and profile.unsigned_thinking != "send":
            return any(map(_is_unsigned, group.sources))
        return False

    @override
    def _takes(self, entry: Any) -> bool:
        content = entry.get("content") if isinstance(entry, dict) else None
        return not isinstance(content, list) or all(map(self._takes_content, content))

    def _takes_content(self, block: Any) -> bool:
        if not isinstance(block, dict):
            return True
        kind = str(block.get("type"))
        if kind in _SEALED and is_sealed(block.get(_SEALED[kind])):
            return False
        if kind.startswith("mcp_tool_") and kind != "mcp_tool_listing":
            id_ = block.get("id") if kind == "mcp_tool_use" else block.get("tool_use_id")
            if not str(id_).startswith(_RUN_BY_ANTHROPIC):
                return False  # this gateway ran it
        if kind in _SEARCHES:
            id_ = block.get("id") if kind == "server_tool_use" else block.get("tool_use_id")
            if _SEARCHED_HERE.fullmatch(str(id_)):
                return False  # this gateway ran it
        return self._profile.takes == "all" or not _is_vendor_block(block, kind)

    def _merge(self, entries: Sequence[Any], base: Sequence[Any], now: Sequence[Any]) -> list[Any] | None:
        """Return the client's own messages in which only those blocks are replaced in which the translations differ, or
        which the server does not take; None if it is not clear which block became which."""
        given = [_list_blocks(entry["content"]) for entry in entries]
        own = _list_units(entries, given)
        before, after = _list_with_roles(base), _list_with_roles(now)
        if len(own) != len(before) or not all(map(_is_written_as, own, before)):
            return None
        takes = [self._takes_content(unit.blocks[0]) for unit in own]
        keys = [_encode(pair) if taken else b"" for pair, taken in zip(before, takes, strict=True)]
        out: list[tuple[int, Any]] = []
        for kept, first, last, start, end in find_units(keys, [_encode(pair) for pair in after]):
            if kept:
                out += [(unit.place, block) for unit in own[first:last] for block in unit.blocks]
                continue
            place = own[min(first, len(own) - 1)].place
            if any(role != entries[place]["role"] for role, _ in after[start:end]):
                return None
            out += [(place, block) for _, block in after[start:end]]
            out += [(unit.place, block) for unit in own[first:last] for block in unit.blocks[1:]]
        known = [(at, block) for at, block in out if self._profile.takes == "all" or block.get("type") not in _HIDDEN]
        contents = [[block for at, block in known if at == place] for place in range(len(given))]
        return [
            entry if len(content) == len(blocks) and all(map(is_, content, blocks)) else {**entry, "content": content}
            for entry, blocks, content in zip(entries, given, contents, strict=True)
            if content
        ]


class _Unit(NamedTuple):
    """A block of a client with those behind it of which no translation has anything."""

    place: int
    """Its entry among those of the block."""
    role: str
    blocks: list[Any]


def _list_units(entries: Sequence[Any], blocks_of: Sequence[Sequence[Any]]) -> list[_Unit]:
    units: list[_Unit] = []
    for place, (entry, blocks) in enumerate(zip(entries, blocks_of, strict=True)):
        for block in blocks:
            kind = block.get("type")
            hidden = kind in _HIDDEN or (kind == "text" and not str(block.get("text")).strip())
            if hidden and units and units[-1].place == place:
                units[-1].blocks.append(block)
            else:
                units.append(_Unit(place, entry["role"], [block]))
    return units


def _list_with_roles(messages: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(message["role"], block) for message in messages for block in _list_blocks(message["content"])]


def _is_written_as(unit: _Unit, written: tuple[str, Any]) -> bool:
    """Whether a block of a translation is what became of a client's block."""
    kind, (role, block) = str(unit.blocks[0].get("type")), written
    if kind.endswith("tool_result"):
        return bool(block["type"] == "tool_result")
    return unit.role == role and bool(("tool_use" if kind in _CALLS else kind) == block["type"])


def _is_vendor_block(block: Mapping[str, Any], kind: str) -> bool:
    """Whether only Anthropic's servers know a block."""
    if kind in _VENDOR_BLOCKS or (kind.endswith("_tool_result") and kind != "tool_result"):
        return True
    if kind == "tool_use":
        return block.get("caller") is not None
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") == "file":
        return True
    inner = block.get("content") if kind == "tool_result" else None
    return isinstance(inner, list) and any(
        isinstance(one, dict) and _is_vendor_block(one, str(one.get("type"))) for one in inner
    )


def _is_unsigned(message: Message) -> bool:
    """Whether a message has reasoning that no server has signed."""
    return not message.extra.get("reasoning_details") and any(type(part) is Reasoning for part in message.parts)


def _is_billing_header(block: Any) -> bool:
    text = block.get("text") if isinstance(block, dict) else None
    return isinstance(text, str) and text.startswith(BILLING_HEADER)


def _list_blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _write_tools(
    given: Any, request: ChatRequest, source: Source, profile: Profile, base: Json, now: Json
) -> tuple[Any, list[str]]:
    """Return the tools that are sent, and a warning for each one that is left out. Takes those of the translations."""
    as_read, written = base.pop("tools", None), now.pop("tools", None)
    if written is None and as_read is not None:
        return None, []
    given = given if isinstance(given, list) else []
    takes_all = profile.takes == "all"
    left_out = [] if takes_all else [tool for tool in given if _is_hosted(tool)]
    is_foreign = any(isinstance(tool, dict) and "function" in tool for tool in given)
    if not left_out and not is_foreign and request.tools is source.tools and not isinstance(written, list):
        return _encode_tools(given, given, request, profile)
    tools = OwnTools(
        lambda place: source.tool_names.get(place),
        lambda tool: not (isinstance(tool, dict) and "function" in tool) and (takes_all or not _is_hosted(tool)),
        write_tool,
    )
    chosen = choose_written(request.tools, written)
    warnings = warn_of_unsent(f"the tool {_find_name(tool) or tool.get('type')!r}" for tool in left_out)
    sent = write_own_tools(given, source.tools, chosen, tools)
    encoded, more = _encode_tools(given, sent, request, profile)
    return encoded, [*warnings, *more]


def _encode_tools(
    given: Sequence[Any], sent: Sequence[Any], request: ChatRequest, profile: Profile
) -> tuple[Any, list[str]]:
    """Return the tools as they are sent, and a warning for each field that is left out of them."""
    if profile.takes == "all":
        return encode_own_tools(given, sent, request.known), []
    left_out: set[str] = set()
    lost: set[str] = set()
    limited = [limit_mark(tool, lost) for tool in sent]
    sent = limited if lost else sent
    for tool in sent:
        if isinstance(tool, dict) and not _VENDOR_TOOL_FIELDS.isdisjoint(tool):
            left_out.update(_VENDOR_TOOL_FIELDS.intersection(tool))
    if not left_out:
        return encode_own_tools(given, sent, request.known), warn_of_marks(lost)
    plain = [{name: value for name, value in tool.items() if name not in _VENDOR_TOOL_FIELDS} for tool in sent]
    return plain, [*warn_of_unsent(f"{name} of tools" for name in sorted(left_out)), *warn_of_marks(lost)]


def _find_name(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    return tool.get("name") or (function.get("name") if isinstance(function, dict) else None)


def _is_hosted(tool: Any) -> bool:
    """Whether a tool is run by Anthropic's servers, or has a schema that only its models know."""
    if not isinstance(tool, dict) or "function" in tool or "input_schema" in tool:
        return False
    return tool.get("type") not in (None, "custom", "function")
