"""Writes a conversation as the items of a Responses request (openai 3.57.0, types/responses/response_input_param.py).

The items of one assistant turn are its texts, then its calls, then their results, because DeepSeek refuses a text
between two calls and anything between calls and results. A reasoning item, and an item that only the server
understands, stands right before the item that followed it: OpenAI refuses a reasoning item without the one behind it.
"""

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from app.chat.fetched_urls import find_fetched_urls
from app.chat.messages import (
    UNREAD,
    ChatRequest,
    Media,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    WrittenMessages,
    find_unread,
)
from app.errors import Violation
from app.openai_messages import content_parts
from app.openai_messages.custom_tools import unwrap_input
from app.openai_messages.grouping import group_beginning, group_messages
from app.openai_messages.groups import MessageGroup
from app.openai_messages.messages import shorten_call_id, split_results, write_arguments
from app.profiles import Profile
from app.upstream.responses.items import VENDOR_ITEMS, strip_input_id

FORMATS = frozenset(("openai-responses-v1", "xai-responses-v1", "azure-openai-responses-v1"))
"""The formats of opaque reasoning that belong to this API, as OpenRouter names them."""
_SERVER_ITEM = re.compile(
    r"compaction(_\w+)?|context_compaction|program(_output)?|\w+_(call|output|call_output|list_tools)"
)
"""The types of items that servers write. An item of another type in the history is not sent: it would be a message."""
_CLIENT_ITEMS = frozenset(
    ("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "computer_call_output")
)

_LAST_THOUGHTS = "encrypted reasoning at the end of a turn was not sent: servers take it only before an item of theirs"
_KINDS = {"reasoning": "reasoning", "text": "text", "media": "text", "tool_call": "call", "tool_result": "result"}

Json = dict[str, Any]


class Written(Struct, frozen=True):
    """What is known of the beginning of a conversation (`Beginning.state`)."""

    instructions: str | None
    count: int
    """How many items it has."""
    is_own: bool = False
    """The instructions are those of the client's own body."""
    loses_thoughts: bool = False
    """Reasoning was left out that the server would not find."""


NOTHING_WRITTEN = Written(None, 0)


class WrittenConversation:
    __slots__ = ("before", "instructions", "items", "violations", "warnings")

    def __init__(self, before: Written) -> None:
        self.before = before
        self.instructions = before.instructions
        """The system messages before all others."""
        self.items: list[Json] = []
        """Those after the beginning."""
        self.violations: list[Violation] = []
        self.warnings: list[str] = []


def write_conversation(request: ChatRequest, profile: Profile) -> WrittenConversation:
    """Write the messages of a request. With violations there are no items: results and calls that do not match, and
    media that cannot be sent."""
    written, messages = WrittenConversation(_find_written(request)), request.messages
    groups, violations = group_messages(messages, request.calls_before)
    violations += content_parts.find_violations(messages, profile)
    written.violations = sorted(violations, key=lambda violation: violation.path)
    if violations:
        return written
    _write_groups(groups, request, profile, written).end()
    if messages and not written.items and written.instructions is None:
        text = "no message has content for the model: add a message with text or media"
        written.violations.append(Violation(request.paths.conversation, text))
    return written


def write_beginning(request: ChatRequest, profile: Profile) -> WrittenMessages | None:
    """Write messages for the Responses API: `WriteBeginning`."""
    grouped = group_beginning(request.messages, request.calls_before)
    if grouped is None:
        return None
    written = WrittenConversation(_find_written(request))
    writer = _write_groups(grouped[0], request, profile, written)
    if writer.waits or written.warnings:
        return None
    state = Written(written.instructions, written.before.count + len(written.items))
    return WrittenMessages(written.items, grouped[1], state)


class WrittenGroups(Struct, frozen=True):
    """What `write_groups` returns."""

    items: list[Json]
    warnings: list[str]


def write_groups(groups: Sequence[MessageGroup], joiner: str, profile: Profile, count: int) -> WrittenGroups:
    """Write groups of messages as items that follow `count` others."""
    written = WrittenConversation(Written(None, count))
    writer = _Writer(profile, joiner, written)
    for group in groups:
        writer.add(group)
    writer.end()
    return WrittenGroups(written.items, written.warnings)


def _find_written(request: ChatRequest) -> Written:
    return NOTHING_WRITTEN if request.before is None else request.before.state


def _write_groups(
    groups: Sequence[MessageGroup], request: ChatRequest, profile: Profile, written: WrittenConversation
) -> "_Writer":
    """Write the groups; there may be reasoning that waits for the item behind it."""
    leading, joiner = 0, request.text_joiner
    if request.before is None:
        # System messages alone are items: OpenAI demands an `input` (BerriAI/litellm pull request 29817).
        leading = next((place for place, group in enumerate(groups) if group.role != "system"), 0)
    if leading:
        written.instructions = joiner.join(join_texts(group.texts, joiner) for group in groups[:leading])
    writer = _Writer(profile, joiner, written)
    for group in groups[leading:]:
        writer.add(group)
    return writer


class _Writer:
    def __init__(self, profile: Profile, joiner: str, written: WrittenConversation) -> None:
        self._profile = profile
        self._joiner = joiner
        self._items = written.items
        self._before = written.before.count
        self._warnings = written.warnings
        self._thoughts: list[Json] = []
        """Reasoning items whose following item has not come yet."""
        self._is_encrypted = False
        """Whether the reasoning of the message is among them."""

    @property
    def waits(self) -> bool:
        """Whether there is reasoning whose following item has not come yet."""
        return bool(self._thoughts)

    def add(self, group: MessageGroup) -> None:
        if group.role == "assistant":
            self._add_turn(group)
            return
        self.end()
        self._items.append(write_message(group.role, self._write_content(group.texts)))

    def end(self) -> None:
        """End a turn. Put encrypted reasoning behind its last text before that text: servers refuse reasoning that no
        item of theirs follows. Any other is left out."""
        thoughts = [thought for thought in self._take_thoughts() if "encrypted_content" in thought]
        last = self._items[-1] if self._items else {}
        if thoughts and last.get("type") == "message" and last.get("role") == "assistant":
            self._items[-1:] = [*thoughts, last]
        elif thoughts:
            self._warnings.append(_LAST_THOUGHTS)

    def _add_turn(self, group: MessageGroup) -> None:
        texts: list[Json] = []
        calls: list[Json] = []
        grouped = iter(group.calls)
        customs: set[str] = set()
        for message in group.sources:
            self._add_reasoning(message, texts)
            for kind, run in itertools.groupby(message.parts, lambda part: _KINDS[part.kind]):
                parts = tuple(run)
                if kind == "reasoning":
                    self._add_thought("".join(part.text for part in parts if isinstance(part, Reasoning)), len(texts))
                elif kind == "text" and (content := self._write_answer_text(parts, message.path)):
                    texts += (*self._take_thoughts(), _write_answer(content, message.extra))
                for part in parts:
                    if isinstance(part, ToolCall):
                        item = _write_call(shorten_call_id(next(grouped).id, self._profile), part, self._profile)
                        customs.update([item["call_id"]] if item["type"] == "custom_tool_call" else [])
                        calls += (*self._take_thoughts(), item)
        self._items += texts
        self._items += calls
        self._add_results(group, customs)

    def _write_answer_text(self, parts: Sequence[Part], path: str) -> str:
        """Write a text of the assistant. Its messages have no media: OpenAI refuses every `input_…` part there."""
        self._warnings += (
            f"{part.path or path} was not sent: messages of the assistant have no media"
            for part in parts
            if isinstance(part, Media)
        )
        return join_texts([tuple(part for part in parts if isinstance(part, Text))], self._joiner)

    def _take_thoughts(self) -> list[Json]:
        thoughts, self._thoughts = self._thoughts, []
        return thoughts

    def _add_reasoning(self, message: Message, items: list[Json]) -> None:
        """Take the opaque items of a message. Its own reasoning is sent as text only if nothing of it is encrypted."""
        given = message.extra.get("reasoning_details")
        details = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
        own = [detail for detail in details if detail.get("format") in FORMATS]
        self._warnings += find_unread(message, FORMATS)
        thoughts = len(self._thoughts)
        for detail in own:
            item = self._read_detail(detail)
            if item is None:
                continue
            if self._profile.takes != "all" and item["type"] in VENDOR_ITEMS and message.extra.get(UNREAD):
                text = f"an item of type {item['type']} was not sent: only the vendor of its API knows it"
                self._warnings.append(f"{message.path}: {text}")
                continue
            if item["type"] == "reasoning":
                self._thoughts.append(item)
            else:
                items += (*self._take_thoughts(), item)
        self._is_encrypted = len(self._thoughts) > thoughts or any(detail.get("data") for detail in own)

    def _add_thought(self, text: str, place: int) -> None:
        if text and not self._is_encrypted and self._profile.replay_reasoning == "item_text":
            content = [{"type": "reasoning_text", "text": text}]
            id_ = _make_id(self._before + len(self._items) + place + len(self._thoughts), text)
            self._thoughts.append({"type": "reasoning", "id": id_, "summary": [], "content": content})

    def _read_detail(self, detail: Mapping[str, Any]) -> Json | None:
        """Return the item that a detail holds; None for one that is not sent."""
        data, item = detail.get("data"), detail.get("item")
        if detail.get("type") == "reasoning.encrypted" and isinstance(data, str) and data:
            id_ = strip_input_id(detail).get("id")
            id_ = id_ if isinstance(id_, str) and id_ else _make_id(self._before + len(self._items), data)
            return {"type": "reasoning", "id": id_, "summary": [], "encrypted_content": data}
        if detail.get("type") != "provider.item" or not isinstance(item, dict):
            return None
        kind = item.get("type")
        if not isinstance(kind, str) or kind in _CLIENT_ITEMS or _SERVER_ITEM.fullmatch(kind) is None:
            self._warnings.append(f"an opaque item of the type {kind!r} was not sent: servers write no such item")
            return None
        if find_fetched_urls(item):
            self._warnings.append(
                f"an opaque item of the type {kind!r} was not sent: it has a URL that would be fetched"
            )
            return None
        return dict(strip_input_id(item))

    def _add_results(self, group: MessageGroup, customs: set[str]) -> None:
        lines, labelled = split_results(group.results)
        whole = self._profile.tool_media and bool(labelled)
        for (id_, result), texts in zip(group.results, lines, strict=True):
            output: Any = "\n".join(text.text for text in texts)
            if whole and any(isinstance(part, Media) for part in result.content):
                output = self._write_parts(result)
            call_id = shorten_call_id(id_, self._profile)
            kind = "custom_tool_call_output" if call_id in customs else "function_call_output"
            self._items.append({"type": kind, "call_id": call_id, "output": output})
        if labelled and not whole:
            self._items.append(write_message("user", self._write_content([tuple(labelled)])))

    def _write_parts(self, result: ToolResult) -> list[Json]:
        return [self._write_part(part) for part in result.content if isinstance(part, Media) or part.text]

    def _write_content(self, runs: Sequence[tuple[Text | Media, ...]]) -> str | list[Json]:
        """Write a string, or parts if there are media."""
        parts = [part for run in runs for part in run]
        if not any(isinstance(part, Media) for part in parts):
            return join_texts(runs, self._joiner)
        return [self._write_part(part) for part in parts if isinstance(part, Media) or part.text]

    def _write_part(self, part: Text | Media) -> Json:
        if isinstance(part, Text):
            return {"type": "input_text", "text": part.text}
        url = part.urls[0]
        if part.media == "image":
            return {"type": "input_image", "image_url": url, "detail": part.detail or "auto"}
        if part.media == "audio":
            return content_parts.write_parts(part, self._profile)[0]
        if url[:5].lower() == "data:":
            return {"type": "input_file", "filename": part.name or "file", "file_data": url}
        return {"type": "input_file", "file_url": url}


def write_message(role: str, content: str | list[Json]) -> Json:
    return {"type": "message", "role": role, "content": content}


def _write_answer(content: str, extra: Mapping[str, Any]) -> Json:
    """Write a text of the assistant: a string without an id is the form that every server takes."""
    phase = _get_opaque(extra, "phase")
    message = write_message("assistant", content)
    return message if phase is None else message | {"phase": phase}


def _write_call(id_: str, call: ToolCall, profile: Profile) -> Json:
    opaque = {name: value for name in ("namespace", "caller") if (value := _get_opaque(call.extra, name)) is not None}
    if _get_opaque(call.extra, "custom") is True:
        return {
            "type": "custom_tool_call",
            "call_id": id_,
            "name": call.name,
            "input": unwrap_input(call.arguments),
        } | opaque
    arguments = write_arguments(call.arguments, profile)
    return {"type": "function_call", "call_id": id_, "name": call.name, "arguments": arguments} | opaque


def _get_opaque(extra: Mapping[str, Any], name: str) -> Any:
    content = extra.get("extra_content")
    own = content.get("openai") if isinstance(content, dict) else None
    return own.get(name) if isinstance(own, dict) else None


def _make_id(place: int, text: str) -> str:
    """Return the id of a reasoning item that has none: the same for the same history."""
    return "rs_" + hashlib.sha256(f"{place}:{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def join_texts(runs: Sequence[tuple[Text | Media, ...]], joiner: str) -> str:
    return "\n".join(joiner.join(part.text for part in run if isinstance(part, Text)) for run in runs)
