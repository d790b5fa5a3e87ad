"""The body for a Gemini server from that of a client of the same API: `app.upstream.own_body`.

Clients may write each field in two ways. What stays is sent as they wrote it; what is looked at, and what is changed,
has the documentation's spelling (`Source.canonical`), which has the same entries and parts at the same places.
"""

import re
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from app.chat.messages import SEAL_PREFIX, ChatRequest, Media, Source, Tool, ToolResult, WrittenMessages
from app.errors import InvalidInput, Violation
from app.openai_messages.content_parts import find_violations
from app.openai_messages.grouping import group_beginning, group_messages
from app.openai_messages.groups import MessageGroup
from app.params import GenerateCfg
from app.profiles import Profile
from app.upstream.gemini.conversation import SIGNATURE, ConversationWriter, find_media_violations
from app.upstream.gemini.media import find_problem
from app.upstream.gemini.request import build_options, write_openapi_tool, write_tool
from app.upstream.own_body import (
    ORPHAN,
    Block,
    OwnConversation,
    add_orphans,
    add_tools,
    choose_written,
    encode_own_tools,
    find_units,
    name_tool,
    patch,
    split_added_tools,
    split_violations,
    warn_of_unsent,
)
from app.upstream.request_options import NO_PARAMETER

Json = dict[str, Any]
_encode = msgspec.json.Encoder().encode

EXTENSIONS = frozenset(GenerateCfg.model_fields) | {"cache", "chat_template_kwargs"}
"""Fields of a body that are the gateway's own: parameters under its names, and the use of the cache."""
_NATIVE = ("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty", "logprobs")
OPTION_EXTENSIONS = EXTENSIONS.difference(_NATIVE)
"""The same in `generationConfig`, where the API has fields with some of these names."""
_VENDOR_FIELDS = frozenset(("labels", "serviceTier", "modelArmorConfig"))
"""Fields that only Google's servers know. `cachedContent` is none of them: without it the conversation is another."""
_DECLARATIONS = "functionDeclarations"
_SCHEMAS = frozenset(("parametersJsonSchema", "responseJsonSchema"))
"""The fields of a function that `tool_schema` of the profile is about."""
_PARTS_OF_GOOGLE = ("toolCall", "toolResponse")
"""Parts of tools that only Google's servers run."""
_CALLS = ("functionCall", "functionResponse")
_CODE = ("executableCode", "codeExecutionResult")
_SEALED = re.compile(rf"{re.escape(SEAL_PREFIX)}|cGFybGV5MS[4-7]")
"""How a seal of the gateway begins, as it is and in base64."""
_OPTIONS = "generationConfig"


def build_own(request: ChatRequest, model: str, profile: Profile) -> tuple[Json, list[str]]:
    """Return the body, and a warning for each part that is not sent as given. `request.source` must be set.

    Raises InvalidInput with every violation.
    """
    assert request.source is not None
    source = request.source
    conversation = _write_conversation(request, source, profile)
    vendor = [] if profile.takes == "all" else [name for name in source.body if name in _VENDOR_FIELDS]
    lacking = [name for name in source.body if name in profile.lacks]
    body = {name: value for name, value in source.body.items() if name not in (*EXTENSIONS, *vendor, *lacking)}
    options = body.get(_OPTIONS)
    if isinstance(options, dict) and not OPTION_EXTENSIONS.isdisjoint(options):
        body[_OPTIONS] = {name: value for name, value in options.items() if name not in OPTION_EXTENSIONS}
    request, added = split_added_tools(request)
    as_read = replace(request, params=source.params, tools=source.tools)
    base, now = build_options(as_read, profile.neutral, name_tool), build_options(request, profile, name_tool)
    violations = split_violations(now.violations, base.violations, takes_all=profile.takes == "all")
    if violations:
        raise InvalidInput(violations)
    tools, warnings = _write_tools(body.pop("tools", None), request, source, profile, base.body, now.body)
    body |= _patch_fields(body, source.canonical, base.body, now.body)
    body = {name: value for name, value in body.items() if value is not _GONE}
    if conversation.system is None and body.get("systemInstruction") is not None:
        del body["systemInstruction"]
    if "model" in body:
        body["model"] = f"models/{model.removeprefix('models/')}"
    beginning = [] if request.before is None else [msgspec.Raw(request.before.written)]
    body["contents"] = [*beginning, *conversation.contents]
    if conversation.system is not None:
        body["systemInstruction"] = conversation.system
    if tools := add_tools(tools, added):
        body["tools"] = tools
    elif source.body.get("tools") or profile.takes != "all":
        body.pop("toolConfig", None)
    warnings += warn_of_unsent(vendor) + [f"{name} was not sent: {NO_PARAMETER}" for name in lacking]
    warnings += [text for text in now.warnings if text not in base.warnings]
    return body, [*conversation.warnings, *warnings]


_GONE = object()


def _patch_fields(own: Json, canonical: Mapping[str, Any], base: Json, now: Json) -> Json:
    """Return those fields in which the two translations differ, patched in the documentation's spelling."""
    out: Json = {}
    for name in dict.fromkeys((*base, *now)):
        before, after = base.get(name), now.get(name)
        if _encode(before) == _encode(after):
            continue
        given = canonical.get(name)
        if isinstance(given, dict) and isinstance(before or {}, dict) and isinstance(after or {}, dict):
            kept = {key: value for key, value in given.items() if name != _OPTIONS or key not in OPTION_EXTENSIONS}
            gone = (before or {}).keys() - (after or {}).keys()
            kept = {key: value for key, value in kept.items() if key not in gone}
            out[name] = patch(kept, before or {}, after or {}, depth=2) or _GONE
        elif name in now:
            out[name] = after
        elif name in own:
            out[name] = _GONE
    return out


def write_own_beginning(request: ChatRequest, profile: Profile) -> WrittenMessages | None:
    """Write contents from the client's own entries: `WriteBeginning`."""
    assert request.source is not None
    grouped = group_beginning(request.messages, request.calls_before)
    if grouped is None or find_violations(request.messages, profile) or find_media_violations(request):
        return None
    writer = _OwnWriter(request, request.source, profile)
    writer.write(grouped[0])
    if writer.warnings or not writer.contents or _find_role(writer.contents[-1]) != "user":
        return None  # what follows could become part of the last content
    state = _System(None if writer.system_is_own else writer.system, is_own=writer.system_is_own)
    return WrittenMessages(writer.contents, grouped[1], state)


class _System(NamedTuple):
    """What is known of the system's field after the beginning of a conversation (`Beginning.state`)."""

    written: Any
    is_own: bool
    """The field is that of the client's own body."""


class _Conversation(NamedTuple):
    system: Any
    contents: list[Any]
    warnings: list[str]


def _write_conversation(request: ChatRequest, source: Source, profile: Profile) -> _Conversation:
    """Return the system and the contents after the beginning. Raises InvalidInput."""
    groups, violations = group_messages(request.messages, request.calls_before)
    violations += find_violations(request.messages, profile) or find_media_violations(request)
    if violations and profile.takes != "all":
        raise InvalidInput(violations)
    writer = _OwnWriter(request, source, profile, violations)
    writer.write(add_orphans(source, groups, request.messages) if violations else groups)
    return _Conversation(writer.system, writer.contents, writer.warnings)


class _OwnWriter(OwnConversation):
    def __init__(
        self, request: ChatRequest, source: Source, profile: Profile, violations: Sequence[Violation] = ()
    ) -> None:
        super().__init__(request, source, profile, violations)
        self._entries: Sequence[Any] = source.canonical.get("contents") or ()
        self._base = ConversationWriter(request, profile.neutral, is_own=True)
        self._now = ConversationWriter(request, profile, is_own=True)
        self.contents: list[Any] = []
        self._is_new = False
        """The last content was translated, so that another one of its role can be joined to it."""
        self.system: Any = None

    def write(self, groups: Sequence[MessageGroup]) -> None:
        system = self._write_system(groups) if self._request.before is None else self._take_system()
        for block in self._divide(groups, system):
            self._add_block(block)

    def _write_system(self, groups: Sequence[MessageGroup]) -> Sequence[MessageGroup]:
        """Write the system's field; return the groups that are part of it."""
        system = self._find_system(groups)
        if self.system_is_own:
            self.system = self._source.body.get("systemInstruction")
        else:
            text = self._now.write_system(system)
            self.system = None if text is None else {"parts": [{"text": text}]}
        return system

    def _take_system(self) -> Sequence[MessageGroup]:
        """Take the system's field from the beginning; none of the groups after it is part of it."""
        assert self._request.before is not None
        known: _System = self._request.before.state
        self.system_is_own = known.is_own
        self.system = self._source.body.get("systemInstruction") if known.is_own else known.written
        return []

    def _add_block(self, block: Block) -> None:
        is_orphan = any(group.role == ORPHAN for group in block.groups)
        if is_orphan or (self._violations and not all(map(_is_writable, block.groups))):
            self._add_untranslated(block)
            return
        if not block.is_kept:
            self._add_now(block)
            return
        takes = all(map(self._takes, self._read_entries(block))) and not self._has_unsent(block)
        if takes and not any(map(self._is_concerned, block.groups)):
            self._add_own(block.entries)
            return
        base, _ = self._base.write_groups(block.groups)
        now, warnings = self._now.write_groups(block.groups)
        if takes and _encode(base) == _encode(now):
            self._add_own(block.entries)
            return
        merged = None if self._has_unsent(block) else self._merge(block, base, now)
        if merged is None:
            self._add_now(block)
        else:
            self.warnings += warnings
            self._add_own(merged)

    @override
    def _read_entries(self, block: Block) -> list[Any]:
        """Return the entries of a block in the documentation's spelling."""
        return [self._entries[number] for number in block.numbers]

    @override
    def _add_own(self, entries: Sequence[Any]) -> None:
        self._add_contents(entries, joins=self._is_new)
        self._is_new = False

    def _add_contents(self, contents: Sequence[Any], *, joins: bool) -> None:
        """Add contents. With `joins` the first one goes on with the last one of its role."""
        first, last = contents[0] if contents else None, self.contents[-1] if self.contents else None
        if joins and first is not None and last is not None and _find_role(first) == _find_role(last):
            self.contents[-1] = {**last, **first, "parts": [*_list_parts(last), *_list_parts(first)]}
            contents = contents[1:]
        self.contents += contents

    def _add_now(self, block: Block) -> None:
        """Add what the block is now."""
        now, warnings = self._now.write_groups(block.groups)
        self.warnings += warnings
        self.warnings += self._source.list_losses(block.numbers)
        self._add_contents(now, joins=True)
        self._is_new = True

    def _is_concerned(self, group: MessageGroup) -> bool:
        """Whether a rule of the profile is about something in these messages, so that both translations must be
        compared."""
        if group.role == "system":
            return self._profile.system != "anywhere"
        return bool(group.calls) and (self._profile.call_ids == "none" or not self._profile.replay_extra_content)

    @override
    def _takes(self, entry: Any) -> bool:
        return all(map(self._takes_part, _list_parts(entry)))

    def _takes_part(self, part: Any) -> bool:
        if not isinstance(part, dict):
            return True
        if isinstance(part.get(SIGNATURE), str) and _SEALED.match(part[SIGNATURE]):
            return False
        return self._profile.takes == "all" or all(part.get(name) is None for name in _PARTS_OF_GOOGLE)

    def _merge(self, block: Block, base: Sequence[Json], now: Sequence[Json]) -> list[Any] | None:
        """Return the client's own contents in which only those parts are replaced in which the translations differ, or
        which the server does not take; None if it is not clear which part became which."""
        given = [_list_parts(entry) for entry in block.entries]
        own = _list_units(self._read_entries(block), given)
        before, after = _list_with_roles(base), _list_with_roles(now)
        if own is None or len(own) != len(before) or not all(map(_is_written_as, own, before)):
            return None
        keys = [self._make_key(unit, pair) for unit, pair in zip(own, before, strict=True)]
        out: list[tuple[int, Any]] = []
        for kept, first, last, start, end in find_units(keys, [_encode(pair) for pair in after]):
            if kept:
                out += [(place, part) for unit in own[first:last] for place, part in unit.all_parts]
                continue
            unit = own[min(first, len(own) - 1)]
            if any(role != unit.role for role, _ in after[start:end]):
                return None
            out += [(unit.parts[0][0], part) for _, part in after[start:end]]
            out += [pair for unit in own[first:last] for pair in unit.hidden]
        return self._join_parts(block.entries, given, out)

    def _make_key(self, unit: "_Unit", pair: tuple[str, Json]) -> bytes:
        """Return what a part of the translation for a server that takes everything is compared by."""
        read = unit.read[0]
        if not all(map(self._takes_part, unit.read)):
            return b""
        role, part = pair
        if self._profile.call_ids == "none" and unit.kind in _CALLS and not (read.get(unit.kind) or {}).get("id"):
            part = {**part, unit.kind: {name: value for name, value in part[unit.kind].items() if name != "id"}}
        return _encode((role, part))

    def _join_parts(
        self, entries: Sequence[Any], given: Sequence[list[Any]], out: Sequence[tuple[int, Any]]
    ) -> list[Any]:
        known = [(at, part) for at, part in out if self._profile.takes == "all" or self._takes_part(part)]
        parts = [[part for at, part in known if at == place] for place in range(len(given))]
        return [
            entry if len(now) == len(was) and all(map(is_, now, was)) else {**entry, "parts": now}
            for entry, was, now in zip(entries, given, parts, strict=True)
            if now
        ]


class _Unit:
    """Parts of a client that became one part, with those behind them of which no translation has anything."""

    __slots__ = ("hidden", "kind", "parts", "read", "role")

    def __init__(self, kind: str, role: str) -> None:
        self.kind = kind
        self.role = role
        self.parts: list[tuple[int, Any]] = []
        """Each with the place of its entry among those of the block."""
        self.read: list[Any] = []
        """The same in the documentation's spelling."""
        self.hidden: list[tuple[int, Any]] = []

    @property
    def all_parts(self) -> list[tuple[int, Any]]:
        return [*self.parts, *self.hidden]


def _list_units(entries: Sequence[Any], given: Sequence[list[Any]]) -> list[_Unit] | None:
    """Return the units of a block; None if parts without a translation stand before all others. Neighbouring texts of
    the model are read as one text, up to a signature."""
    units: list[_Unit] = []
    for place, (entry, own) in enumerate(zip(entries, given, strict=True)):
        role = _find_role(entry)
        for read, part in zip(_list_parts(entry), own, strict=True):
            kind = _find_kind(read)
            last = units[-1] if units else None
            if kind is None:
                if last is None:
                    return None
                last.hidden.append((place, part))
                continue
            joins = kind == "text" and role == "model" and last is not None and last.kind == "text"
            if last is None or not joins or last.role != role or last.hidden or last.read[-1].get(SIGNATURE):
                last = _Unit(kind, role)
                units.append(last)
            last.parts.append((place, part))
            last.read.append(read)
    return units


def _find_kind(part: Any) -> str | None:
    """Return what a part becomes; None if no translation has it."""
    if not isinstance(part, dict):
        return None
    for name in (*_CALLS, "inlineData", "fileData"):
        if part.get(name) is not None:
            return name
    if part.get("thought") is True:
        return None
    has_text = bool(part.get("text")) or any(part.get(name) is not None for name in _CODE)
    return "text" if has_text or part.get(SIGNATURE) else None


def _is_written_as(unit: _Unit, written: tuple[str, Json]) -> bool:
    """Whether a part of a translation is what became of a client's part."""
    role, part = written
    if unit.role != role:
        return False
    if unit.kind in _CALLS:
        inner = unit.read[0][unit.kind]
        return unit.kind in part and isinstance(inner, dict) and inner.get("name") in (None, part[unit.kind]["name"])
    return unit.kind in part or (unit.kind in ("inlineData", "fileData") and not part.keys().isdisjoint(_MEDIA))


_MEDIA = ("inlineData", "fileData")


def _list_with_roles(contents: Sequence[Json]) -> list[tuple[str, Json]]:
    return [(content["role"], part) for content in contents for part in content["parts"]]


def _find_role(content: Any) -> str:
    role = content.get("role") if isinstance(content, dict) else None
    return "model" if isinstance(role, str) and role.lower() == "model" else "user"


def _list_parts(content: Any) -> list[Any]:
    parts = content.get("parts") if isinstance(content, dict) else None
    return parts if isinstance(parts, list) else [] if parts is None else [parts]


def _is_writable(group: MessageGroup) -> bool:
    """Whether the media of a group have a translation."""
    messages = (*group.sources, *group.answers)
    parts = [part for message in messages for part in message.parts]
    media = [one for part in parts for one in (part.content if isinstance(part, ToolResult) else (part,))]
    return not any(isinstance(one, Media) and find_problem(one) is not None for one in media)


# Tools.


def _write_tools(
    given: Any, request: ChatRequest, source: Source, profile: Profile, base: Json, now: Json
) -> tuple[Any, list[str]]:
    """Return the tools that are sent, and a warning for each one that is left out. Takes those of the translations."""
    as_read, written = base.pop("tools", None), now.pop("tools", None)
    read = source.canonical.get("tools")
    is_one = isinstance(given, dict)  # an object in the place of a list is a list of one
    given = [given] if is_one else given if isinstance(given, list) else []
    read = read if isinstance(read, list) else []
    if written is None and as_read is not None:
        return None, []
    functions = None if written is None else written[0][_DECLARATIONS]
    chosen = request.tools if written is None else choose_written(request.tools, functions)
    writer = _ToolWriter(source, chosen, profile)
    out = writer.write(given, read)
    if is_one and len(out) == 1 and out[0] is given[0]:
        return given[0], []
    return encode_own_tools(given, out, request.known), warn_of_unsent(writer.left_out)


class _ToolWriter:
    def __init__(self, source: Source, tools: Sequence[Tool], profile: Profile) -> None:
        self._takes_all = profile.takes == "all"
        self._takes_schemas = profile.tool_schema == "json"
        self._write = write_tool if self._takes_schemas else write_openapi_tool
        self._was = {tool.name: tool for tool in source.tools}
        self._present = {tool.name: tool for tool in tools}
        self._done: set[str] = set()
        self.left_out: list[str] = []

    def write(self, given: Sequence[Any], read: Sequence[Any]) -> list[Any]:
        out = [one for pair in zip(given, read, strict=True) if (one := self._write_entry(*pair)) is not None]
        new = [self._write(tool) for name, tool in self._present.items() if name not in self._done]
        return [*out, {_DECLARATIONS: new}] if new else out

    def _write_entry(self, given: Any, read: Any) -> Any:
        """Return an entry as it is sent: the client's own, if nothing in it was changed."""
        if not isinstance(read, dict):
            return given
        entry = dict(read)
        for name in [] if self._takes_all else [name for name in read if name != _DECLARATIONS]:
            self.left_out.append(f"the tool {name!r}")
            del entry[name]
        declared = read.get(_DECLARATIONS)
        if isinstance(declared, list):
            functions = [one for function in declared for one in self._write_function(function)]
            if len(functions) != len(declared) or not all(map(is_, functions, declared)):
                entry[_DECLARATIONS] = functions
                if not functions:
                    del entry[_DECLARATIONS]
        if entry == read and _encode(entry) == _encode(read):
            return given
        return entry or None

    def _write_function(self, function: Any) -> list[Any]:
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or name not in self._was:
            return [function]
        self._done.add(name)
        present = self._present.get(name)
        if present is self._was[name] and (self._takes_schemas or _SCHEMAS.isdisjoint(function)):
            return [function]
        return [] if present is None else [self._write(present)]
