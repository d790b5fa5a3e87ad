"""One group of a conversation as the OpenAI messages that a server of this profile takes.

A conversation into the OpenAI message list that a server of a profile takes.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.chat.accumulator import is_json
from app.chat.messages import Media, Message, Text, ToolResult
from app.errors import Violation
from app.openai_messages import content_parts
from app.openai_messages.grouping import MessageGroup, group_messages
from app.profiles import Profile

_UNSENDABLE = re.compile(r"[^A-Za-z0-9_-]")


def write_group(one: MessageGroup, profile: Profile, joiner: str) -> list[dict[str, Any]]:
    if one.role == "assistant":
        return _assistant(one, profile, joiner)
    message: dict[str, Any] = {"role": one.role, "content": _content(one.texts, profile, joiner)}
    if one.name and profile.names != "none":
        message["name"] = _UNSENDABLE.sub("_", one.name)[:64]
    return [message]


def _assistant(one: MessageGroup, profile: Profile, joiner: str) -> list[dict[str, Any]]:
    reasoning = _reasoning(one, profile)
    details = one.details if profile.replay_details else []
    if not one.texts and not one.calls and reasoning is None and not details:
        return []
    message: dict[str, Any] = {"role": "assistant"}
    if one.name and profile.names == "all":
        message["name"] = _UNSENDABLE.sub("_", one.name)[:64]
    content = _content(one.texts, profile, joiner)
    if reasoning is not None and profile.replay_reasoning == "think_tags":
        content = _add_think_tags(reasoning, content, profile)
    elif reasoning is not None:
        message[profile.replay_reasoning] = reasoning
    if details:
        message["reasoning_details"] = details
    if one.extra_content is not None and profile.replay_extra_content:
        message["extra_content"] = one.extra_content
    if content or not one.calls:
        message["content"] = content
    elif profile.empty_content != "omit":
        message["content"] = None if profile.empty_content == "null" else ""
    if one.calls:
        message["tool_calls"] = [
            {
                "id": _call_id(issued.id, profile),
                "type": "function",
                "function": {"name": issued.call.name, "arguments": _arguments(issued.call.arguments, profile)},
                **(issued.call.extra if profile.replay_extra_content else {}),
            }
            for issued in one.calls
        ]
    return [message, *_results(one, profile, joiner)]


def _reasoning(one: MessageGroup, profile: Profile) -> str | None:
    if profile.replay_reasoning == "none" or (profile.replay_turns == "tool_turns" and not one.calls):
        return None
    if one.reasonings:
        return "\n".join(one.reasonings)
    return "" if one.calls and profile.replay_blank_reasoning else None


def _add_think_tags(
    reasoning: str, content: str | list[dict[str, Any]], profile: Profile
) -> str | list[dict[str, Any]]:
    opening, closing = profile.think_tags
    thought = f"{opening}\n{reasoning}\n{closing}\n\n"
    return thought + content if isinstance(content, str) else [_text(thought), *content]


def _results(one: MessageGroup, profile: Profile, joiner: str) -> list[dict[str, Any]]:
    """Tool messages; their media follow all of them in one user message, each where a numbered placeholder stands."""
    messages: list[dict[str, Any]] = []
    seen: list[Media] = []
    for id_, result in one.results:
        message: dict[str, Any] = {"role": "tool", "tool_call_id": _call_id(id_, profile)}
        if profile.tool_names and result.name:
            message["name"] = result.name
        message["content"] = _result_text(result, seen, profile)
        messages.append(message)
    if seen:
        labelled: list[Text | Media] = []
        for number, item in enumerate(seen, 1):
            labelled += [Text(f"[{item.media} {number}]"), item]
        messages.append({"role": "user", "content": _content([tuple(labelled)], profile, joiner)})
    return messages


def _result_text(result: ToolResult, seen: list[Media], profile: Profile) -> str | list[dict[str, Any]]:
    """The text, as parts where one of them is marked; media are added to `seen`, where their numbers come from."""
    lines: list[Text] = []
    for part in result.content:
        if isinstance(part, Text):
            lines.append(part)
        else:
            seen.append(replace(part, mark=None))
            lines.append(Text(f"[{part.media} {len(seen)}: see below]", part.mark))
    if any(line.mark for line in lines):
        return [piece for line in lines for piece in _write_part(line, profile)]
    return "\n".join(line.text for line in lines)


def _content(texts: "list[tuple[Text | Media, ...]]", profile: Profile, joiner: str) -> str | list[dict[str, Any]]:
    if any(isinstance(part, Media) for said in texts for part in said):
        return [piece for said in texts for part in said for piece in _write_part(part, profile)]
    if any(part.mark for said in texts for part in said):
        return [piece for said in texts for part in said for piece in _write_part(part, profile)]
    if profile.text_parts and any(part.text for said in texts for part in said if isinstance(part, Text)):
        return [piece for said in texts for part in said for piece in _write_part(part, profile)]
    strings = [_join_texts(said, joiner) for said in texts]
    return "\n".join(strings)


def _write_part(part: Text | Media, profile: Profile) -> list[dict[str, Any]]:
    pieces = (
        content_parts.write_parts(part, profile) if isinstance(part, Media) else [_text(part.text)] if part.text else []
    )
    if part.mark and pieces:
        pieces[-1] = {**pieces[-1], "cache_control": dict(part.mark.value)}
    return pieces


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _join_texts(said: "tuple[Text | Media, ...]", joiner: str) -> str:
    if len(said) == 1 and isinstance(said[0], Text):
        return said[0].text
    return joiner.join(part.text for part in said if isinstance(part, Text))


def _call_id(id_: str, profile: Profile) -> str:
    """Ids as some chat templates want them; the same id always becomes the same."""
    if profile.call_ids == "keep" or re.fullmatch(r"[A-Za-z0-9]{9}", id_):
        return id_
    return hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _arguments(text: str, profile: Profile) -> str:
    """Arguments of the history: blank ones are `{}`; broken ones are wrapped where servers refuse them."""
    if not text.strip():
        return "{}"
    if not profile.valid_arguments or (text.lstrip().startswith("{") and is_json(text)):
        return text
    return json.dumps({"_raw": text}, ensure_ascii=False)


def write_openai_messages(
    messages: Sequence[Message], profile: Profile, joiner: str
) -> tuple[list[dict[str, Any]], list[Violation]]:
    """(messages to send, violations): every orphan, duplicate and unanswered call, and media that cannot be sent.

    The messages are usable only where there are no violations.
    """
    grouped, violations = group_messages(messages)
    violations = sorted(
        violations + content_parts.find_violations(messages, profile), key=lambda found: _sort_key(found.path)
    )
    if violations:
        return [], violations
    found = [item for one in grouped for item in write_group(one, profile, joiner)]
    if messages and not found:
        return [], [Violation("messages", "nothing in this list is said to the model")]
    return found, []


def _sort_key(path: str) -> tuple[int, str]:
    digits = path.partition("[")[2].partition("]")[0]
    return (int(digits) if digits.isdigit() else 0, path)
