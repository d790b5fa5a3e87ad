"""What the writers of bodies for servers of the client's own API share.

The conversation, the tools and the options are translated twice: as they were read, for a server that takes everything
(`base`), and as they are now, for this server (`now`). Where both say the same, the client's own entry is sent as it
came. Where they differ, a step or the profile changed something, and `now` is sent. So each repair is written once, for
every client, and what the gateway does not know reaches a server that may know it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from operator import is_
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from app.chat.known_conversation import KnownConversation, make_once
from app.chat.messages import ChatRequest, Media, Message, Part, Source, Tool, ToolResult
from app.errors import InvalidInput, Violation
from app.openai_messages.groups import MessageGroup
from app.profiles import Profile

Json: TypeAlias = dict[str, Any]
_encode = msgspec.json.Encoder().encode


class Block(Struct):
    """Neighbouring groups of messages that have entries in common, and these entries."""

    groups: list[MessageGroup]
    first: int
    """The number of the first entry; -1: the gateway has added the messages, or moved them."""
    last: int
    numbers: Sequence[int] = ()
    """Those of the entries. Those of which no message was read belong to the block before them."""
    entries: Sequence[Any] = ()
    is_kept: bool = False
    """All that was read of the entries is here, as it was read, and nothing else is."""


def divide_into_blocks(source: Source, groups: Sequence[MessageGroup]) -> list[Block]:
    """Divide groups into blocks. `source` is that of these messages only."""
    blocks = _join_groups(source, groups)
    own = [block for block in blocks if block.first >= 0]
    moved = [block for block in blocks if block.first < 0]
    gone = {source.find_number(message.path) for block in moved for message in _list_messages(block.groups)}
    begin, end = source.begin, source.begin + len(source.entries)
    read = _ReadMessages(source)
    for place, block in enumerate(own):
        start, stop = block.first if place else begin, own[place + 1].first if place + 1 < len(own) else end
        if gone.isdisjoint(range(start, stop)):
            block.numbers, block.entries = range(start, stop), source.entries[start - begin : stop - begin]
        else:
            block.numbers = [number for number in range(start, stop) if number not in gone]
            block.entries = [source.entries[number - begin] for number in block.numbers]
        block.is_kept = read.are_all(block.numbers, _list_messages(block.groups))
    return blocks


def renames_calls(groups: Sequence[MessageGroup]) -> bool:
    """Whether a call has not the id that its client gave it: one that an earlier call has, too, is numbered. Servers
    refuse ids that are used again (NousResearch/hermes-agent#102629), and an entry has the given one."""
    return any(grouped.call.id and grouped.id != grouped.call.id for group in groups for grouped in group.calls)


class OwnConversation(ABC):
    """Writes a conversation from the client's own entries, as far as nothing changed them."""

    def __init__(
        self, request: ChatRequest, source: Source, profile: Profile, violations: Sequence[Violation] = ()
    ) -> None:
        """`violations` are those of entries that can only be sent as they came: their own server says what is wrong."""
        self._violations = violations
        self._request = request
        self._source = source
        self._profile = profile
        self.system_is_own = False
        """The system's field is that of the client's own body."""
        self.warnings: list[str] = []

    def _divide(self, groups: Sequence[MessageGroup], system: Sequence[MessageGroup]) -> Iterator[Block]:
        """Yield the blocks that are not in the system's field."""
        for block in divide_into_blocks(self._source, groups):
            if not system or not any(group is one for group in block.groups for one in system):
                yield block

    def _find_system(self, groups: Sequence[MessageGroup]) -> Sequence[MessageGroup]:
        """Return the groups that are in the system's field, and find whether that is the client's own."""
        count = next((place for place, group in enumerate(groups) if not self._is_system(group)), len(groups))
        present = [message for group in groups[:count] for message in group.sources]
        read = [message for message in self._source.messages if self._is_field(message)]
        self.system_is_own = len(present) == len(read) and all(map(is_, present, read))
        return groups[:count]

    def _is_system(self, group: MessageGroup) -> bool:
        """Whether leading messages belong to the field: a server that knows no system messages in the conversation has
        no other place for them."""
        return group.role == "system" and (self._profile.system != "anywhere" or self._is_field(group.sources[0]))

    def _is_field(self, message: Message) -> bool:
        """Whether a message is from the system's field, or the gateway's own."""
        return message.role == "system" and self._source.find_number(message.path) < 0

    def _has_unsent(self, block: Block) -> bool:
        return not self._source.unsent.isdisjoint(block.numbers)

    def _read_entries(self, block: Block) -> Sequence[Any]:
        """Return the entries of a block in the form that `_takes` reads."""
        return block.entries

    @abstractmethod
    def _takes(self, entry: Any) -> bool:
        """Whether the server takes an entry as it is."""

    @abstractmethod
    def _add_own(self, entries: Sequence[Any]) -> None: ...

    def _add_untranslated(self, block: Block) -> None:
        """Add entries of which there is no translation. Raises InvalidInput if they cannot be sent as they came."""
        if not block.is_kept or self._has_unsent(block) or not all(map(self._takes, self._read_entries(block))):
            raise InvalidInput(self._violations)
        self._add_own(block.entries)


ORPHAN = "tool"
"""The role of a group that has only a result without a call. No translation has it."""


def add_orphans(source: Source, groups: Sequence[MessageGroup], messages: Sequence[Message]) -> list[MessageGroup]:
    """Return the groups with one for each result without a call, in the order of their entries."""
    answers = {id(message) for group in groups for message in group.answers}
    orphans = [message for message in messages if message.role == "tool" and id(message) not in answers]
    out = list(groups)
    for message in orphans:
        number = source.find_number(message.path)
        later = (at for at, group in enumerate(out) if source.find_number(group.sources[0].path) >= number)
        out.insert(next(later, len(out)), MessageGroup(ORPHAN, sources=[message]))
    return out


def _list_messages(groups: Sequence[MessageGroup]) -> list[Message]:
    return [message for group in groups for message in (*group.sources, *group.answers)]


def _join_groups(source: Source, groups: Sequence[MessageGroup]) -> list[Block]:
    """Return a block for each run of groups that share entries. A group before one of earlier entries was moved, so
    that its entries are no longer at its place."""
    numbers = [
        [number for message in (*group.sources, *group.answers) if (number := source.find_number(message.path)) >= 0]
        for group in groups
    ]
    blocks: list[Block] = []
    following = source.begin + len(source.entries)
    bounds: list[tuple[int, int]] = []
    for found in reversed(numbers):
        is_moved = not found or min(found) > following
        bounds.append((-1, -1) if is_moved else (min(found), max(found)))
        following = following if is_moved else min(found)
    for group, (first, last) in zip(groups, reversed(bounds), strict=True):
        if blocks and first >= 0 and blocks[-1].last >= first:
            blocks[-1].groups.append(group)
            blocks[-1].last = max(blocks[-1].last, last)
        else:
            blocks.append(Block([group], first, last))
    return blocks


class _ReadMessages:
    """The messages as they were read, by the numbers of their entries."""

    def __init__(self, source: Source) -> None:
        self._by_number: dict[int, list[Message]] = {}
        for message in source.messages:
            number = source.find_number(message.path)
            if number >= 0:
                self._by_number.setdefault(number, []).append(message)

    def are_all(self, numbers: Sequence[int], messages: Sequence[Message]) -> bool:
        """Whether messages are those that were read of the entries with these numbers, each as it was read."""
        read = [message for number in numbers for message in self._by_number.get(number, ())]
        was, present = set(map(id, read)), set(map(id, messages))
        if was == present:
            return True
        missing = _sort([message for message in read if id(message) not in present])
        new = _sort([message for message in messages if id(message) not in was])
        return len(missing) == len(new) and all(map(_is_copy, missing, new))


def _sort(messages: list[Message]) -> list[Message]:
    return sorted(messages, key=lambda message: message.path)


def _is_copy(message: Message, other: Message) -> bool:
    """Whether a message is a copy that a step has made, with the same parts. Equal values are not enough: Python takes
    True for 1."""
    return (
        (message.role, message.path, message.name, message.turn) == (other.role, other.path, other.name, other.turn)
        and message.extra is other.extra
        and len(message.parts) == len(other.parts)
        and all(map(_is_same_part, message.parts, other.parts))
    )


def _is_same_part(part: Part, other: Part) -> bool:
    if part is other:
        return True
    if isinstance(part, ToolResult) and isinstance(other, ToolResult):
        same = (part.id, part.name) == (other.id, other.name) and part.is_error is other.is_error
        return same and len(part.content) == len(other.content) and all(map(_is_same_part, part.content, other.content))
    if not isinstance(part, Media) or not isinstance(other, Media) or part.mark is not other.mark:
        return False
    return replace(part, name=None) == replace(other, name=None)  # a file without a name has got one


def find_units(base: Sequence[bytes], now: Sequence[bytes]) -> Iterator[tuple[bool, int, int, int, int]]:
    """Yield (whether both translations are equal there, the places in `base`, those in `now`) of one run after the
    other."""
    for kind, start, end, first, last in SequenceMatcher(None, base, now, autojunk=False).get_opcodes():
        yield kind == "equal", start, end, first, last


def patch(own: Mapping[str, Any], base: Mapping[str, Any], now: Mapping[str, Any], *, depth: int = 1) -> Json:
    """Return the client's own fields with what differs between the two translations. `depth` says how many levels of
    objects are patched instead of replaced."""
    out = dict(own)
    for name in (*now, *(name for name in base if name not in now)):
        before, after, given = base.get(name), now.get(name), own.get(name)
        if _encode(before) == _encode(after) and (name in base) == (name in now):
            continue
        if depth and all(isinstance(one, dict) for one in (given, before or {}, after or {})):
            out[name] = patch(own[name], before or {}, after or {}, depth=depth - 1)
            if not out[name]:
                del out[name]
        elif name in now:
            out[name] = after
        else:
            out.pop(name, None)
    return out


class OwnTools(Struct, frozen=True):
    """How an API's own tools are told apart."""

    list_names: Callable[[int], Sequence[str] | None]
    """Returns the names of the functions that the tool at a place was read as; None for one that is no function."""
    takes: Callable[[Any], bool]
    """Whether the server takes a tool as it is."""
    write: Callable[[Tool], Any]


def write_own_tools(given: Sequence[Any], read: Sequence[Tool], now: Sequence[Tool], tools: OwnTools) -> list[Any]:
    """Return the tools: those of the client that are as they were read, then what steps have made of the others."""
    was, present = {tool.name: tool for tool in read}, {tool.name: tool for tool in now}
    out: list[Any] = []
    done: set[str] = set()
    for place, tool in enumerate(given):
        names = tools.list_names(place)
        if names is None:
            out += [tool] if tools.takes(tool) else []
            continue
        new = [name for name in names if name not in done]
        done.update(new)
        if all(was.get(name) is present.get(name) for name in names) and tools.takes(tool):
            out.append(tool)
        else:
            out += [tools.write(present[name]) for name in new if name in present]
    return out + [tools.write(tool) for tool in now if tool.name not in done]


def name_tool(tool: Tool) -> Json:
    """Write a tool as its name only: translations show which tools there are, and few of them are written."""
    return {"name": tool.name}


def choose_written(tools: Sequence[Tool], written: Any) -> Sequence[Tool]:
    """Return those of the tools that a translation has: of a choice of one tool, some servers are sent only that."""
    if not isinstance(written, list) or len(written) == len(tools):
        return tools if written is not None else ()
    names = {tool["name"] for tool in written}
    return [tool for tool in tools if tool.name in names]


def encode_own_tools(given: Sequence[Any], written: Sequence[Any], known: KnownConversation | None) -> Any:
    """Return the tools as they are sent; those of the client, if they stay, are encoded once for a conversation that is
    known."""
    if known is None or not given or len(given) != len(written) or not all(map(is_, given, written)):
        return written
    return make_once(encode_own_tools, lambda: msgspec.Raw(_encode(given)), given, known)


def split_added_tools(request: ChatRequest) -> tuple[ChatRequest, list[Any]]:
    """Return (the request without the tools that `extra_body` adds to its functions, these tools). Only the defaults of
    a model have them: a client's own body has no `extra_body`."""
    extra = request.params.get("extra_body") or {}
    added = extra.get("tools")
    if not isinstance(added, list):
        return request, []
    rest = {name: value for name, value in extra.items() if name != "tools"}
    return replace(request, params={**request.params, "extra_body": rest}), added


def add_tools(tools: Any, added: Sequence[Any]) -> Any:
    """Return the tools that are sent, with the added ones that are not among them."""
    if not added:
        return tools
    given = msgspec.json.decode(tools) if isinstance(tools, msgspec.Raw) else tools or []
    given = [given] if isinstance(given, dict) else given
    return [*given, *(tool for tool in added if tool not in given)]


def split_violations(now: Sequence[Any], base: Sequence[Any], *, takes_all: bool) -> list[Any]:
    """Return what keeps a request from being sent. Of a client's own body, a server that takes everything says itself
    what is wrong."""
    return [one for one in now if not takes_all or one not in base]


def find_other_fields(body: Mapping[str, Any], given: Mapping[str, Any], accepted: Collection[str]) -> list[Violation]:
    """Return a violation for each field of a client's own body that is sent and that the server does not accept."""
    return [
        Violation(name, "is not a field that this model's server accepts")
        for name in given
        if name in body and name not in accepted
    ]


def warn_of_unsent(names: Iterable[str]) -> list[str]:
    """Return a warning for each part of a client's own body that is left out."""
    hint = "only the API's vendor knows it; with `takes = \"all\"` in the model's profile, everything is sent"
    return [f"{name} was not sent: {hint}" for name in names]
