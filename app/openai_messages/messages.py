"""Writes a conversation as the OpenAI messages that a server of this profile accepts."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from app.chat.accumulator import is_json
from app.chat.message_fields import split_fields
from app.chat.messages import (
    BRIDGE,
    NO_CALLS,
    CallState,
    ChatRequest,
    Media,
    Message,
    Text,
    ToolResult,
    WrittenMessages,
    make_call_id,
)
from app.errors import Violation
from app.openai_messages import content_parts
from app.openai_messages.grouping import group_beginning, group_messages
from app.openai_messages.groups import MessageGroup
from app.profiles import Profile

_UNSENDABLE = re.compile(r"[^A-Za-z0-9_-]")
_NO_ARGUMENTS = ("", "null", "[]", '""')
"""Arguments of calls of functions without parameters, as some clients keep them."""


def write_group(group: MessageGroup, profile: Profile, joiner: str) -> list[dict[str, Any]]:
    """Write one group. The list is empty if nothing of an assistant's group is sent to this server."""
    if group.role == "assistant":
        return _assistant(group, profile, joiner)
    message: dict[str, Any] = {"role": group.role, "content": _content(group.texts, profile, joiner)}
    if group.name and profile.names != "none":
        message["name"] = _UNSENDABLE.sub("_", group.name)[:64]
    return [message]


def _assistant(group: MessageGroup, profile: Profile, joiner: str) -> list[dict[str, Any]]:
    reasoning = _reasoning(group, profile)
    fields, details = split_fields(group.details) if group.details else ({}, [])
    details = details if profile.replay_details else []
    fields = fields if profile.replay_extra_content else {}
    if not group.texts and not group.calls and reasoning is None and not details and not fields:
        return []
    message: dict[str, Any] = {"role": "assistant"}
    if group.name and profile.names == "all":
        message["name"] = _UNSENDABLE.sub("_", group.name)[:64]
    content = _content(group.texts, profile, joiner)
    if reasoning is not None and profile.replay_reasoning == "think_tags":
        content = _add_think_tags(reasoning, content, profile)
    elif reasoning is not None:
        message[profile.replay_reasoning] = reasoning
    message.update(fields)
    if details:
        message["reasoning_details"] = details
    if group.extra_content is not None and profile.replay_extra_content:
        extra_content = drop_other_apis(group.extra_content)
        if extra_content is not None:
            message["extra_content"] = extra_content
    if content or not group.calls:
        message["content"] = content
    elif profile.empty_content != "omit":
        message["content"] = None if profile.empty_content == "null" else ""
    if group.calls:
        extras = _call_extras(group, profile)
        message["tool_calls"] = [
            write_call(
                _call_id(grouped.id, profile),
                grouped.call.name,
                write_arguments(grouped.call.arguments, profile),
                extra,
            )
            for grouped, extra in zip(group.calls, extras, strict=True)
        ]
    return [message, *_results(group, profile, joiner)]


def _reasoning(group: MessageGroup, profile: Profile) -> str | None:
    if profile.replay_reasoning in ("none", "item", "item_text") or (
        profile.replay_turns == "tool_turns" and not group.calls
    ):
        return None
    if group.reasonings:
        return "\n".join(group.reasonings)
    needing = group.calls or (group.texts if profile.replay_blank_reasoning == "all" else [])
    return profile.blank_reasoning if profile.replay_blank_reasoning and needing else None


def _call_extras(group: MessageGroup, profile: Profile) -> list[Mapping[str, Any]]:
    """Return the opaque fields that are sent with each call of a turn."""
    if not profile.replay_extra_content:
        return [{} for _ in group.calls]
    extras: list[Mapping[str, Any]] = [drop_from_call(grouped.call.extra) for grouped in group.calls]
    if profile.missing_signature is not None and not has_signature(extras[0]):
        extras[0] = sign(extras[0], profile.missing_signature)
    return extras


def _add_think_tags(
    reasoning: str, content: str | list[dict[str, Any]], profile: Profile
) -> str | list[dict[str, Any]]:
    opening, closing = profile.think_tags
    block = f"{opening}\n{reasoning}\n{closing}\n\n"
    return block + content if isinstance(content, str) else [content_parts.write_text(block), *content]


def _results(group: MessageGroup, profile: Profile, joiner: str) -> list[dict[str, Any]]:
    """Write the tool messages, with numbered placeholders for media, and a user message with the media after them."""
    messages: list[dict[str, Any]] = []
    lines_of_results, labelled = split_results(group.results)
    for (id_, result), lines in zip(group.results, lines_of_results, strict=True):
        message: dict[str, Any] = {"role": "tool", "tool_call_id": _call_id(id_, profile)}
        if profile.tool_names and result.name:
            message["name"] = result.name
        message["content"] = _write_lines(lines, profile)
        messages.append(message)
    if labelled and profile.assistant_after_tool:
        messages.append({"role": "assistant", "content": BRIDGE})
    if labelled:
        messages.append({"role": "user", "content": _content([tuple(labelled)], profile, joiner)})
    return messages


def _write_lines(lines: Sequence[Text], profile: Profile) -> str | list[dict[str, Any]]:
    """Write text, as parts if one of them has a cache mark."""
    for line in lines:
        if line.mark:
            return [written for line in lines for written in _write_part(line, profile)]
    return lines[0].text if len(lines) == 1 else "\n".join([line.text for line in lines])


def _content(runs: "list[tuple[Text | Media, ...]]", profile: Profile, joiner: str) -> str | list[dict[str, Any]]:
    """Write a string, or parts if a run has media or cache marks, or the profile wants parts."""
    for run in runs:
        for part in run:
            if type(part) is Media or part.mark or (profile.text_parts and type(part) is Text and part.text):
                return [written for run in runs for part in run for written in _write_part(part, profile)]
    return "\n".join([_join_texts(run, joiner) for run in runs])


def _write_part(part: Text | Media, profile: Profile) -> list[dict[str, Any]]:
    if isinstance(part, Text):
        written = [content_parts.write_text(part.text)] if part.text else []
    else:
        written = content_parts.write_parts(part, profile)
    if written:
        written[-1] = content_parts.add_mark(written[-1], part.mark)
    return written


def _join_texts(run: "tuple[Text | Media, ...]", joiner: str) -> str:
    if len(run) == 1 and isinstance(run[0], Text):
        return run[0].text
    return joiner.join(part.text for part in run if isinstance(part, Text))


def shorten_call_id(id_: str, profile: Profile) -> str:
    """Return the id of a call as given, or a digest of one that is too long for the server."""
    return id_ if profile.max_call_id is None or len(id_) <= profile.max_call_id else make_call_id(id_)


def make_short_id(id_: str) -> str:
    """Return the id of a call as templates take it that refuse other ids: nine letters and digits, which are the same
    wherever the id stands."""
    if re.fullmatch(r"[A-Za-z0-9]{9}", id_):
        return id_
    return hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _call_id(id_: str, profile: Profile) -> str:
    return shorten_call_id(make_short_id(id_) if profile.call_ids == "alphanumeric9" else id_, profile)


def write_arguments(text: str, profile: Profile) -> str:
    """Return the arguments of a call as they are sent: `{}` for blank ones, and invalid ones wrapped if the server
    would refuse them."""
    if text.strip() in _NO_ARGUMENTS:
        return "{}"
    if not profile.valid_arguments or (text.lstrip().startswith("{") and is_json(text)):
        return text
    return json.dumps({"_raw": text}, ensure_ascii=False)


def write_openai_messages(
    messages: Sequence[Message], profile: Profile, joiner: str, path: str = "messages", calls: CallState = NO_CALLS
) -> tuple[list[dict[str, Any]], list[Violation]]:
    """Return (messages, violations).

    There is a violation for each result without a call, second result, call without a result, and media part that
    cannot be sent. With violations there are no messages. `path` is that of the conversation, and `calls` are those
    before these messages.
    """
    groups, violations = group_messages(messages, calls)
    violations = sorted(
        violations + content_parts.find_violations(messages, profile), key=lambda violation: _sort_key(violation.path)
    )
    if violations:
        return [], violations
    written = _write_groups(groups, profile, joiner)
    if messages and not written:
        return [], [Violation(path, "no message has content for the model: add a message with text or media")]
    return written, []


WriteBeginning: TypeAlias = Callable[[ChatRequest, Profile], WrittenMessages | None]
"""Writes messages without media after which the conversation goes on, as the writer of a server's API does. Returns
None if they have violations or warnings, or if what follows could change how they are written."""


def write_beginning(request: ChatRequest, profile: Profile) -> WrittenMessages | None:
    """Write messages for chat completions: `WriteBeginning`."""
    grouped = group_beginning(request.messages, request.calls_before)
    return (
        None
        if grouped is None
        else WrittenMessages(_write_groups(grouped[0], profile, request.text_joiner), grouped[1])
    )


def _write_groups(groups: Sequence[MessageGroup], profile: Profile, joiner: str) -> list[dict[str, Any]]:
    return [message for group in groups for message in write_group(group, profile, joiner)]


def _sort_key(path: str) -> tuple[int, str]:
    digits = path.partition("[")[2].partition("]")[0]
    return (int(digits) if digits.isdigit() else 0, path)


_OTHER_APIS = frozenset(("openai", "anthropic"))
"""The parts of `extra_content` that belong to the Responses API and to Messages: strict servers refuse them."""


def drop_other_apis(extra_content: Any) -> Any:
    """Return the `extra_content` of a text or call as chat completions take it; None if nothing is left."""
    if not isinstance(extra_content, dict) or _OTHER_APIS.isdisjoint(extra_content):
        return extra_content
    return {name: value for name, value in extra_content.items() if name not in _OTHER_APIS} or None


def drop_from_call(extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the opaque fields of a call as chat completions take them."""
    content = extra.get("extra_content")
    if content is None:
        return extra
    left = drop_other_apis(content)
    if left is content:
        return extra
    rest = {name: value for name, value in extra.items() if name != "extra_content"}
    return rest if left is None else {**rest, "extra_content": left}


_KEY = "thought_signature"
UNCHECKED = "skip_thought_signature_validator"
"""The signature that Gemini does not check (ai.google.dev/gemini-api/docs/thought-signatures, FAQ)."""


def has_signature(extra: Mapping[str, Any]) -> bool:
    """Whether the opaque fields of a call have a signature."""
    content = extra.get("extra_content")
    if not isinstance(content, dict):
        return False
    return any(isinstance(part, dict) and part.get(_KEY) for part in content.values())


def sign(extra: Mapping[str, Any], signature: str) -> dict[str, Any]:
    """Return the opaque fields of a call with this signature."""
    content = extra.get("extra_content")
    given = content if isinstance(content, dict) else {}
    google = given.get("google")
    signed = {**(google if isinstance(google, dict) else {}), _KEY: signature}
    return {**extra, "extra_content": {**given, "google": signed}}


def write_call(id_: str, name: str, arguments: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Write one item of `tool_calls`; `extra` has further fields, such as `extra_content`."""
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **extra}


def split_results(results: Sequence[tuple[str, ToolResult]]) -> tuple[list[list[Text]], list[Text | Media]]:
    """Return (lines, labelled): the lines of text of each result's tool message, and the parts of a user message that
    follows them. Tool messages have only text, so each media part is replaced by a line with its number."""
    lines: list[list[Text]] = []
    labelled: list[Text | Media] = []
    for _, result in results:
        lines.append([])
        for part in result.content:
            if isinstance(part, Text):
                lines[-1].append(part)
            else:
                number = len(labelled) // 2 + 1
                labelled += [Text(f"[{part.media} {number}]"), replace(part, mark=None)]
                lines[-1].append(Text(f"[{part.media} {number}: see below]", part.mark))
    return lines, labelled
