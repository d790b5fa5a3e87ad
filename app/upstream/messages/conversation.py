"""Write a conversation as the `system` and `messages` of Anthropic's Messages API.

The body of the next turn must begin with the body of this one: newer models bind their thinking to everything before
it (platform.claude.com/docs/en/build-with-claude/extended-thinking). So a message is written from itself alone, and
nothing moves but calls, which stand behind the texts of their turn: a text behind a call is refused.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from app.chat.accumulator import is_json_object
from app.chat.fetched_urls import find_fetched_urls
from app.chat.messages import (
    ERROR_TEXT,
    CacheMark,
    ChatRequest,
    Media,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    WrittenMessages,
    find_unread,
)
from app.errors import Violation
from app.openai_messages.content_parts import find_violations
from app.openai_messages.grouping import group_beginning, group_messages
from app.openai_messages.groups import MessageGroup
from app.openai_messages.messages import split_results
from app.profiles import Profile
from app.upstream.messages import FORMAT
from app.upstream.messages.media import find_problem, write_media

Block = dict[str, Any]

_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]")
_NO_ARGUMENTS = ("", "null", "[]", '""')
"""Arguments of calls of functions without parameters, as some clients keep them."""
_SERVER_ITEM = re.compile(r"(?:server|mcp)_tool_use|[a-z]\w*_tool_result|compaction|fallback|program\w*")
"""The types of blocks that only servers write. A caller's own detail must not smuggle in any other."""


class WrittenConversation(msgspec.Struct):
    """What `write_conversation` returns."""

    system: str | list[Block] | None
    messages: list[Block]
    warnings: list[str]
    violations: list[Violation]


class Written(msgspec.Struct, frozen=True):
    """What is known of the beginning of a conversation (`Beginning.state`)."""

    system: str | list[Block] | None
    ids: frozenset[str]
    """The ids of its calls, as they are sent."""
    is_own: bool = False
    """The system's field is that of the client's own body."""


NOTHING_WRITTEN = Written(None, frozenset())


def write_conversation(request: ChatRequest, profile: Profile) -> WrittenConversation:
    """Write the messages of a request. With violations there are no messages."""
    return ConversationWriter(request, profile).write()


def write_beginning(request: ChatRequest, profile: Profile) -> WrittenMessages | None:
    """Write messages for the Messages API: `WriteBeginning`."""
    return ConversationWriter(request, profile).write_beginning()


class ConversationWriter:
    def __init__(self, request: ChatRequest, profile: Profile) -> None:
        self._request = request
        self._profile = profile
        self._ids: dict[str, str] = {}
        """The id that is sent for each id of the conversation."""
        self._before: Written = NOTHING_WRITTEN if request.before is None else request.before.state
        self._taken = set(self._before.ids)
        self._messages: list[Block] = []
        self._warnings: list[str] = []

    @property
    def taken_ids(self) -> frozenset[str]:
        """The ids of calls, as they are sent."""
        return frozenset(self._taken)

    def write_groups(self, groups: Sequence[MessageGroup]) -> tuple[list[Block], list[str]]:
        """Return (the messages for these groups, warnings): each group is written from itself alone."""
        self._messages, self._warnings = [], []
        for group in groups:
            self._write_group(group)
        for message in self._messages:
            message["content"] = _shorten(message["content"])
        return self._messages, self._warnings

    def write(self) -> WrittenConversation:
        groups, violations = group_messages(self._request.messages, self._request.calls_before)
        violations += find_violations(self._request.messages, self._profile) or find_media_violations(self._request)
        if violations:
            return WrittenConversation(None, [], [], violations)
        system = self._write_groups(groups)
        if system is not None and all(group.role == "system" for group in groups) and not self._messages:
            # The API demands a message (langchain-ai/langchain issue 30764).
            self._messages, system = [{"role": "user", "content": system}], None
        elif self._request.messages and not self._messages:
            violations = [refuse_empty(self._request)]
        elif self._messages and self._messages[-1]["role"] == "assistant":
            _strip_end(self._messages[-1])
        return WrittenConversation(system, self._messages, self._warnings, violations)

    def write_beginning(self) -> WrittenMessages | None:
        grouped = group_beginning(self._request.messages, self._request.calls_before)
        if grouped is None or any(_has_mark(message) for message in self._request.messages if message.role != "system"):
            return None  # of all marks of a body, only the last ones are sent
        system = self._write_groups(grouped[0])
        if self._warnings or not self._messages or self._messages[-1]["role"] != "user":
            return None  # what follows could become part of the last message
        return WrittenMessages(self._messages, grouped[1], Written(copy_blocks(system), frozenset(self._taken)))

    def _write_groups(self, groups: Sequence[MessageGroup]) -> str | list[Block] | None:
        """Write the groups; return the text of the system."""
        start, system = 0, copy_blocks(self._before.system)
        if self._request.before is None:
            start = next((place for place, group in enumerate(groups) if group.role != "system"), len(groups))
            system = self.write_system(groups[:start])
        for group in groups[start:]:
            self._write_group(group)
        self._place_system_messages()
        for message in self._messages:
            message["content"] = _shorten(message["content"])
        return system

    def _place_system_messages(self) -> None:
        """Make a system message in the conversation a text of the user, where the server takes none: it takes one
        behind a message of the user, and before one of the assistant or at the end
        (platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages)."""
        if self._profile.system != "anywhere" or "system" not in [message["role"] for message in self._messages]:
            return
        messages, self._messages = self._messages, []
        for place, message in enumerate(messages):
            last = self._messages[-1]["role"] if self._messages else "user"
            following = messages[place + 1]["role"] if place + 1 < len(messages) else "assistant"
            fits = message["role"] != "system" or (last == "user" and following == "assistant")
            self._append(message["role"] if fits else "user", message["content"])

    def write_system(self, groups: Sequence[MessageGroup]) -> str | list[Block] | None:
        """Write the system messages before all others: one string, because several servers join blocks by nothing;
        blocks only if one has a cache mark."""
        parts = [part for group in groups for run in group.texts for part in run if isinstance(part, Text)]
        if any(part.mark for part in parts):
            return [block for part in parts for block in self._write_part(part)] or None
        return self._request.text_joiner.join([part.text for part in parts if part.text.strip()]) or None

    def _write_group(self, group: MessageGroup) -> None:
        if group.role == "assistant":
            self._append("assistant", self._write_assistant(group))
            if group.results:
                self._append("user", self._write_results(group.results))
            return
        blocks = [block for run in group.texts for part in run for block in self._write_part(part)]
        self._append("system" if group.role == "system" and self._profile.system == "anywhere" else "user", blocks)

    def _append(self, role: str, blocks: list[Block]) -> None:
        """Add blocks. Neighbours of one role are one message."""
        if not blocks:
            return
        if self._messages and self._messages[-1]["role"] == role:
            self._messages[-1]["content"] += blocks
        else:
            self._messages.append({"role": role, "content": blocks})

    def _write_part(self, part: Text | Media) -> list[Block]:
        """Write a text or a medium. Blank texts are refused by the API, so they are left out."""
        if isinstance(part, Media):
            block, warning = write_media(part)
            if warning is not None:
                self._warnings.append(warning)
            return [_add_mark(block, part.mark)]
        return [_add_mark({"type": "text", "text": part.text}, part.mark)] if part.text.strip() else []

    # The assistant's turn.

    def _write_assistant(self, group: MessageGroup) -> list[Block]:
        calls = {id(grouped.call): grouped.id for grouped in group.calls}
        blocks: list[Block] = []
        for message in group.sources:
            blocks += self._write_thoughts(message)
            for part in message.parts:
                if isinstance(part, ToolCall):
                    blocks.append(self._write_call(part, calls[id(part)]))
                elif isinstance(part, Text):
                    blocks += self._write_part(part)
                elif isinstance(part, Media):
                    self._warnings.append(
                        f"{part.path or message.path} was not sent: messages of the assistant have no media"
                    )
        return _move_calls(blocks)

    def _write_thoughts(self, message: Message) -> list[Block]:
        """Write what stands before the texts and calls of a message: its opaque items, and its reasoning."""
        text = "\n".join([part.text for part in message.parts if isinstance(part, Reasoning)])
        given = message.extra.get("reasoning_details")
        items = [item for item in given if _is_ours(item)] if isinstance(given, list) else []
        self._warnings += find_unread(message, (FORMAT,))
        signed = [item for item in items if item.get("type") == "reasoning.text" and item.get("signature")]
        textless = sum(not isinstance(item.get("text"), str) for item in signed)
        if textless > 1:
            # A client has joined the texts of several signed blocks, and what each one signs is not known any more.
            self._warnings.append(f"{message.path}: its reasoning was not sent, because its signed parts were joined")
            items = [item for item in items if item not in signed]
            text = ""
        else:
            text = _remove_signed(text, signed)
        blocks: list[Block] = []
        for item in items:
            block = self._write_item(item, text, message.path)
            if block is not None:
                blocks.append(block)
        if text.strip() and not signed and self._profile.unsigned_thinking == "send":
            blocks.append({"type": "thinking", "thinking": text, "signature": ""})
        return blocks

    def _write_item(self, item: Block, text: str, path: str) -> Block | None:
        type_ = item.get("type")
        if type_ == "reasoning.text" and isinstance(item.get("signature"), str) and item["signature"]:
            own = item.get("text")
            thought = own if isinstance(own, str) else text
            return {"type": "thinking", "thinking": thought, "signature": item["signature"]}
        if type_ == "reasoning.encrypted" and isinstance(item.get("data"), str):
            return {"type": "redacted_thinking", "data": item["data"]}
        block = item.get("item")
        if type_ == "provider.item" and isinstance(block, dict):
            if not isinstance(kind := block.get("type"), str) or _SERVER_ITEM.fullmatch(kind) is None:
                why = "servers write no such block"
            elif find_fetched_urls(block):
                why = "it has a URL that would be fetched"
            else:
                return block
            self._warnings.append(f"{path}: an item of its reasoning_details was not sent: {why}")
        return None

    def _write_call(self, call: ToolCall, id_: str) -> Block:
        arguments = call.arguments
        if arguments.strip() in _NO_ARGUMENTS:
            given: Any = {}
        elif is_json_object(arguments):
            given = msgspec.Raw(arguments.encode("utf-8", "surrogatepass"))
        else:
            given = {"_raw": arguments}
            self._warnings.append(f"{call.path or 'a call'}: its arguments are not a JSON object: sent as _raw")
        block: Block = {"type": "tool_use", "id": self._make_id(id_), "name": call.name, "input": given}
        content = call.extra.get("extra_content")
        ours = content.get("anthropic") if isinstance(content, dict) else None
        if isinstance(ours, dict) and isinstance(ours.get("caller"), dict):
            block["caller"] = ours["caller"]
        return block

    def _write_results(self, results: Sequence[tuple[str, ToolResult]]) -> list[Block]:
        """Write results. Where they cannot have media, these follow them."""
        has_media = any(isinstance(part, Media) for _, result in results for part in result.content)
        if self._profile.tool_media or not has_media:
            return [self._write_result(id_, result) for id_, result in results]
        lines, labelled = split_results(results)
        texts = [(id_, replace(result, content=tuple(own))) for (id_, result), own in zip(results, lines, strict=True)]
        written = [self._write_result(id_, result) for id_, result in texts]
        return written + [block for part in labelled for block in self._write_part(part)]

    def _write_result(self, id_: str, result: ToolResult) -> Block:
        block: Block = {"type": "tool_result", "tool_use_id": self._make_id(id_)}
        if any(isinstance(part, Media) or part.mark for part in result.content):
            block["content"] = [written for part in result.content for written in self._write_part(part)]
        else:
            block["content"] = "\n".join([part.text for part in result.content if isinstance(part, Text)])
        if result.is_error and not block["content"]:
            block["content"] = ERROR_TEXT  # an empty one is refused: openclaw/openclaw#97292
        return {**block, "is_error": result.is_error} if result.is_error is not None else block

    def _make_id(self, id_: str) -> str:
        """Return the id of a call as the API takes it, the same for the call and its result."""
        if id_ not in self._ids:
            base = written = _NOT_IN_IDS.sub("_", id_)
            number = 0
            while written in self._taken:
                number += 1
                written = f"{base}_{number}"
            self._taken.add(written)
            self._ids[id_] = written
        return self._ids[id_]


def has_plain_ids(groups: Sequence[MessageGroup]) -> bool:
    """Whether all ids of calls have only the characters that the API takes."""
    return not any(_NOT_IN_IDS.search(grouped.id) for group in groups for grouped in group.calls)


def refuse_empty(request: ChatRequest) -> Violation:
    text = "no message has content for the model: add a message with text or media"
    return Violation(request.paths.conversation, text)


def copy_blocks(system: str | list[Block] | None) -> str | list[Block] | None:
    """Return the system's text as it can be sent: of its blocks, marks may be removed."""
    return [{**block} for block in system] if isinstance(system, list) else system


def _has_mark(message: Message) -> bool:
    for part in message.parts:
        if isinstance(part, ToolResult):
            if any(one.mark for one in part.content):
                return True
        elif isinstance(part, Text | Media) and part.mark:
            return True
    return False


def find_media_violations(request: ChatRequest) -> list[Violation]:
    parts = [part for message in request.messages for part in message.parts]
    media = [one for part in parts for one in (part.content if isinstance(part, ToolResult) else (part,))]
    return [
        Violation(part.path, problem)
        for part in media
        if isinstance(part, Media) and (problem := find_problem(part)) is not None
    ]


def _remove_signed(text: str, signed: Sequence[Block]) -> str:
    """Remove the texts that signatures behind one without a text tell themselves: chat completions has the reasoning of
    a reply as one text."""
    for item in reversed(signed):
        own = item.get("text")
        if not isinstance(own, str):
            return text
        rest = text.removesuffix(own)
        text = rest if rest else text
    return text


def _is_ours(item: Any) -> bool:
    return isinstance(item, dict) and item.get("format") == FORMAT


def _move_calls(blocks: list[Block]) -> list[Block]:
    """Move the calls that have a text behind them to behind the last text."""
    last = max((place for place, block in enumerate(blocks) if block["type"] == "text"), default=-1)
    before = blocks[: last + 1]
    calls = [block for block in before if block["type"] == "tool_use"]
    if not calls:
        return blocks
    return [*(block for block in before if block["type"] != "tool_use"), *calls, *blocks[last + 1 :]]


def _shorten(blocks: list[Block]) -> str | list[Block]:
    """Return a single text without a mark as a string."""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return str(blocks[0]["text"])
    return blocks


def _strip_end(message: Block) -> None:
    """Strip the end of a message that the model continues: the API refuses trailing white space."""
    content = message["content"]
    if isinstance(content, str):
        message["content"] = content.rstrip()
    elif content[-1]["type"] == "text":
        content[-1] = {**content[-1], "text": content[-1]["text"].rstrip()}


def _add_mark(block: Block, mark: CacheMark | None) -> Block:
    return {**block, "cache_control": dict(mark.value)} if mark else block
