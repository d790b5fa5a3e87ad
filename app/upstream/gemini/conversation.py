"""Write a conversation as the `contents` and the `systemInstruction` of the Gemini API.

Contents of one role do not follow each other. The results of a content's calls are the next content, as many as the
calls and in their order: the API refuses anything else (google-gemini/gemini-cli issue 16543).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from app.chat.accumulator import is_json_object
from app.chat.fetched_urls import find_fetched_urls
from app.chat.messages import (
    SEAL_PREFIX,
    ChatRequest,
    Media,
    Message,
    Text,
    ToolCall,
    ToolResult,
    WrittenMessages,
)
from app.errors import Violation
from app.openai_messages.content_parts import find_violations
from app.openai_messages.grouping import group_beginning, group_messages
from app.openai_messages.groups import MessageGroup
from app.openai_messages.messages import split_results
from app.profiles import Profile
from app.upstream.gemini import FORMAT
from app.upstream.gemini.media import find_problem, write_media

Json = dict[str, Any]

FIRST_TEXT = "."
"""The user's text before a conversation that begins with the model."""
_NO_ARGUMENTS = ("", "null", "[]", '""')
"""Arguments of calls of functions without parameters, as some clients keep them."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_OWN_PARTS = frozenset(("text", "inlineData", "fileData", "functionCall", "functionResponse", "thought"))
"""Fields of parts that a conversation is written with. A caller's own detail must not smuggle in any of them."""
SIGNATURE = "thoughtSignature"
_REFERENCE = '"$ref"'
"""In a response this key means a medium of the result, so that a schema with it is refused (googleapis/python-genai
issue 2792, NousResearch/hermes-agent issue 93014). It is sent as text."""


class WrittenConversation(msgspec.Struct):
    """What `write_conversation` returns."""

    contents: list[Json]
    system: str | None
    warnings: list[str]
    violations: list[Violation]


def write_conversation(request: ChatRequest, profile: Profile) -> WrittenConversation:
    """Write the messages of a request. With violations there are no contents."""
    return ConversationWriter(request, profile).write()


def write_beginning(request: ChatRequest, profile: Profile) -> WrittenMessages | None:
    """Write messages for the Gemini API: `WriteBeginning`. Its state is the system's text."""
    return ConversationWriter(request, profile).write_beginning()


class ConversationWriter:
    def __init__(self, request: ChatRequest, profile: Profile, *, is_own: bool = False) -> None:
        """`is_own`: it is of a client of this API, who knows where its model takes media, and what calls without a
        signature mean to it."""
        self._request = request
        self._profile = profile
        self._has_tool_media = profile.tool_media or is_own
        self._missing_signature = None if is_own else profile.missing_signature
        self._contents: list[Json] = []
        self._warnings: list[str] = []

    def write(self) -> WrittenConversation:
        request = self._request
        groups, violations = group_messages(request.messages, request.calls_before)
        violations += find_violations(request.messages, self._profile) or find_media_violations(request)
        if violations:
            return WrittenConversation([], None, [], violations)
        system = self._write_groups(groups)
        if request.before is not None:
            return WrittenConversation(self._contents, system, self._warnings, violations)
        if system is not None and not self._contents:
            self._append("user", [{"text": system}])
            system = None
        elif not self._contents:
            text = "no message has content for the model: add a message with text or media"
            violations = [Violation(request.paths.conversation, text)]
        elif self._contents[0]["role"] == "model":
            self._contents.insert(0, {"role": "user", "parts": [{"text": FIRST_TEXT}]})
            path = request.paths.conversation
            self._warnings.append(f"{path}: a text of the user, {FIRST_TEXT!r}, was added before the first message")
        return WrittenConversation(self._contents, system, self._warnings, violations)

    def write_beginning(self) -> WrittenMessages | None:
        grouped = group_beginning(self._request.messages, self._request.calls_before)
        if grouped is None:
            return None
        system = self._write_groups(grouped[0])
        contents = self._contents
        begins = self._request.before is None
        if (
            self._warnings
            or not contents
            or contents[-1]["role"] != "user"
            or (begins and contents[0]["role"] != "user")
        ):
            return None
        return WrittenMessages(contents, grouped[1], system)

    def write_groups(self, groups: Sequence[MessageGroup]) -> tuple[list[Json], list[str]]:
        """Return (the contents for these groups, warnings): each group is written from itself alone."""
        self._contents, self._warnings = [], []
        for group in groups:
            self._write_group(group)
        self._sign_first_calls()
        return self._contents, self._warnings

    def _write_groups(self, groups: Sequence[MessageGroup]) -> str | None:
        """Write the groups; return the text of the system."""
        before, start = self._request.before, 0
        system: str | None = None if before is None else before.state
        if before is None:
            start = next((place for place, group in enumerate(groups) if group.role != "system"), len(groups))
            system = self.write_system(groups[:start])
        for group in groups[start:]:
            self._write_group(group)
        self._sign_first_calls()
        return system

    def write_system(self, groups: Sequence[MessageGroup]) -> str | None:
        texts = [part.text for group in groups for run in group.texts for part in run if isinstance(part, Text)]
        return self._request.text_joiner.join([text for text in texts if text.strip()]) or None

    def _write_group(self, group: MessageGroup) -> None:
        if group.role == "assistant":
            for message in group.sources:
                self._append("model", self._write_assistant(message, group))
            if group.results:
                self._append("user", self._write_results(group))
            return
        self._append("user", [written for run in group.texts for part in run for written in self._write_part(part)])

    def _append(self, role: str, parts: list[Json]) -> None:
        """Add parts. Neighbours of one role are one content."""
        if not parts:
            return
        if self._contents and self._contents[-1]["role"] == role:
            self._contents[-1]["parts"] += parts
        else:
            self._contents.append({"role": role, "parts": parts})

    def _write_part(self, part: Text | Media) -> list[Json]:
        """Write a text or a medium. An empty text is refused."""
        if isinstance(part, Media):
            if part.detail not in (None, "auto"):
                self._warnings.append(f"{part.path}: `detail` was not sent: this model's server has no such parameter")
            return write_media(part)
        return [{"text": part.text}] if part.text else []

    # The model's turn.

    def _write_assistant(self, message: Message, group: MessageGroup) -> list[Json]:
        ids = {id(grouped.call): grouped.id for grouped in group.calls}
        parts = self._write_items(message)
        last_text: Json | None = None
        for part in message.parts:
            if isinstance(part, ToolCall):
                parts.append(self._write_call(part, ids[id(part)]))
            elif isinstance(part, Text | Media):
                written = self._write_part(part)
                parts += written
                last_text = written[-1] if written else last_text
        signature = self._read_signature(message.extra)
        if signature is not None and not all(isinstance(part, ToolCall) for part in message.parts):
            if last_text is None:
                last_text = {"text": ""}
                parts.append(last_text)
            last_text[SIGNATURE] = signature
        return parts

    def _write_items(self, message: Message) -> list[Json]:
        """Write the parts that only the server can read, which it wants back at their place."""
        given = message.extra.get("reasoning_details")
        parts = []
        for item in given if isinstance(given, list) else ():
            if not isinstance(item, dict) or item.get("format") != FORMAT or item.get("type") != "provider.item":
                continue
            part = item.get("item")
            if not isinstance(part, dict) or not part or not _OWN_PARTS.isdisjoint(part):
                why = "servers write no such part"
            elif find_fetched_urls(part):
                why = "it has a URL that would be fetched"
            else:
                parts.append(dict(part))
                continue
            self._warnings.append(f"{message.path}: an item of its reasoning_details was not sent: {why}")
        return parts

    def _write_call(self, call: ToolCall, id_: str) -> Json:
        arguments = call.arguments
        if arguments.strip() in _NO_ARGUMENTS:
            given: Any = {}
        elif is_json_object(arguments):
            given = msgspec.Raw(arguments.encode("utf-8", "surrogatepass"))
        else:
            given = {"_raw": arguments}
            self._warnings.append(f"{call.path or 'a call'}: its arguments are not a JSON object: sent as _raw")
        part: Json = {"functionCall": {**self._write_id(id_), "name": call.name, "args": given}}
        signature = self._read_signature(call.extra)
        return part if signature is None else {**part, SIGNATURE: signature}

    def _write_id(self, id_: str) -> Json:
        return {} if self._profile.call_ids == "none" else {"id": id_}

    def _read_signature(self, extra: Mapping[str, Any]) -> str | None:
        """Return Google's own signature of a text or call; None if it has none."""
        content = extra.get("extra_content")
        google = content.get("google") if self._profile.replay_extra_content and isinstance(content, dict) else None
        signature = google.get("thought_signature") if isinstance(google, dict) else None
        if not isinstance(signature, str) or not signature or signature.startswith(SEAL_PREFIX):
            return None
        if _BASE64.fullmatch(signature):
            return signature
        self._warnings.append("a thought_signature was not sent: it is not base64")
        return None

    def _sign_first_calls(self) -> None:
        """Give the first call of each content a signature if it has none. Google signs the first of several calls."""
        if self._missing_signature is not None:
            for content in self._contents:
                sign_first_call(content, self._missing_signature)

    # The results.

    def _write_results(self, group: MessageGroup) -> list[Json]:
        """Write results in the order of the calls. Where they cannot have media, these follow them."""
        places = {grouped.id: place for place, grouped in enumerate(group.calls)}
        results = sorted(group.results, key=lambda one: places.get(one[0], len(places)))
        names = {grouped.id: grouped.call.name for grouped in group.calls}
        has_media = any(isinstance(part, Media) for _, result in results for part in result.content)
        labelled: Sequence[Text | Media] = ()
        if has_media and not self._has_tool_media:
            lines, labelled = split_results(results)
            results = [
                (id_, replace(result, content=tuple(own))) for (id_, result), own in zip(results, lines, strict=True)
            ]
        written = [self._write_result(id_, names.get(id_) or result.name or "", result) for id_, result in results]
        return written + [one for part in labelled for one in self._write_part(part)]

    def _write_result(self, id_: str, name: str, result: ToolResult) -> Json:
        text = "\n".join([part.text for part in result.content if isinstance(part, Text)])
        response: Any
        if result.is_error:
            response = {"error": text}
        elif is_json_object(text) and _REFERENCE not in text:
            response = msgspec.Raw(text.encode("utf-8", "surrogatepass"))
        else:
            response = {"result": text}
        written: Json = {**self._write_id(id_), "name": name, "response": response}
        media = [one for part in result.content if isinstance(part, Media) for one in self._write_part(part)]
        return {"functionResponse": {**written, "parts": media} if media else written}


def sign_first_call(content: Json, signature: str) -> None:
    """Give the first call of a content this signature, if it has none."""
    for part in content["parts"]:
        if "functionCall" in part:
            part.setdefault(SIGNATURE, signature)
            return


def find_media_violations(request: ChatRequest) -> list[Violation]:
    parts = [part for message in request.messages for part in message.parts]
    media = [one for part in parts for one in (part.content if isinstance(part, ToolResult) else (part,))]
    return [
        Violation(part.path, problem)
        for part in media
        if isinstance(part, Media) and (problem := find_problem(part)) is not None
    ]
