"""The changes of streams that `reply_model` lists."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from tests.faults.known_replies import APIS, DONE, ApiName, Frame, Json, chunk, event

Frames: TypeAlias = list[Frame]
Change: TypeAlias = Callable[[Frames], Frames | None]
"""Changes the frames of a reply, which are a copy; None if the reply has no such place."""
# Where things are.


def _usages(api: ApiName, frames: Frames) -> list[tuple[Json, str]]:
    """The objects that hold a usage, each with its name there."""
    found: list[tuple[Json, str]] = []
    for frame in frames:
        for holder in (frame.data, _get(frame.data, "message"), _get(frame.data, "response")):
            for name in ("usage", "usageMetadata"):
                if isinstance(holder, dict) and name in holder:
                    found.append((holder, name))
    return found


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def deltas(frames: Frames) -> Iterator[Json]:
    for frame in frames:
        for choice in _get(frame.data, "choices") or ():
            yield choice["delta"]


def _fragments(frames: Frames) -> Iterator[Json]:
    for delta in deltas(frames):
        yield from delta.get("tool_calls", ())


def _objects(frames: Frames) -> Iterator[Json]:
    return (frame.data for frame in frames if isinstance(frame.data, dict))


def _of_type(frames: Frames, kind: str) -> list[int]:
    return [at for at, frame in enumerate(frames) if _get(frame.data, "type") == kind]


def find_end(api: ApiName, frames: Frames) -> int:
    """The place of the frame with the finish reason."""
    if api == "chat_completions":
        return next(at for at, one in enumerate(frames) for c in one.data["choices"] if c["finish_reason"])
    if api == "gemini":
        return len(frames) - 1
    return _of_type(frames, "message_delta" if api == "messages" else "response.completed")[0]


def middle(api: ApiName, frames: Frames) -> int:
    """A place within the content."""
    return find_end(api, frames) // 2 + 1


def each(make: Callable[[ApiName], Change], apis: tuple[ApiName, ...] = APIS) -> dict[ApiName, Change]:
    return {api: make(api) for api in apis}


def calls_only(change: Change) -> Change:
    """For replies with calls."""

    def apply(frames: Frames) -> Frames | None:
        return change(frames) if _has_call(frames) else None

    return apply


def _has_call(frames: Frames) -> bool:
    text = json.dumps([frame.data for frame in frames])
    return any(mark in text for mark in ('"tool_calls": [', '"tool_use"', '"function_call"', "functionCall"))


def change_objects(edit: Callable[[Json], None]) -> Change:
    """Changes each object of a stream."""

    def apply(frames: Frames) -> Frames:
        for value in _objects(frames):
            edit(value)
        return frames

    return apply


# Usage.


def with_usage(change: Callable[[Json], Any]) -> Callable[[ApiName], Change]:
    def make(api: ApiName) -> Change:
        def apply(frames: Frames) -> Frames:
            for holder, name in _usages(api, frames):
                holder[name] = change(holder[name])
            return frames

        return apply

    return make


def scale(usage: Json, part: float) -> Json:
    return {name: int(value * part) for name, value in usage.items()}


def usage_in_each(write: Callable[[Json, float], Any]) -> Callable[[ApiName], Change]:
    """Each event has a usage, as the function writes it from the whole one and how far the reply is."""

    def make(api: ApiName) -> Change:
        def apply(frames: Frames) -> Frames:
            holder, name = _usages(api, frames)[-1]
            whole = holder[name]
            places = [value for value in _objects(frames) if api != "messages" or value["type"] == "message_delta"]
            if api == "messages":
                last = _of_type(frames, "message_delta")[0]
                extra = [event("message_delta", delta={}, usage=write(whole, at / 4)) for at in range(4)]
                return [*frames[:last], *extra, *frames[last:]]
            if api == "responses":
                places = [value["response"] for value in places if "response" in value]
            for at, value in enumerate(places):
                if name not in value:
                    value[name] = write(whole, at / len(places))
            return frames

        return apply

    return make


def late_usage(api: ApiName) -> Change:
    def apply(frames: Frames) -> Frames:
        holder, name = _usages(api, frames)[-1]
        usage = holder.pop(name)
        if api == "chat_completions":
            frames.pop(-2)
            late = Frame("", {"choices": [], "usage": usage})
        elif api == "messages":
            late = event("message_delta", delta={}, usage=usage)
        elif api == "responses":
            late = event("response.usage", usage=usage)
        else:
            late = Frame("", {"usageMetadata": usage})
        return [*frames, late]

    return apply


def usage_twice(api: ApiName) -> Change:
    def apply(frames: Frames) -> Frames:
        holder, name = _usages(api, frames)[-1]
        if api == "chat_completions":
            return [*frames[:-1], copy.deepcopy(frames[-2]), DONE]
        if api == "gemini":
            return [*frames, Frame("", {name: dict(holder[name])})]
        if api == "messages":
            return [*frames[:-1], event("message_delta", delta={}, usage=dict(holder[name])), frames[-1]]
        return [
            *frames[:-1],
            Frame("response.in_progress", {**frames[-1].data, "type": "response.in_progress"}),
            frames[-1],
        ]

    return apply


OTHER_NAMES = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "promptTokenCount": "prompt_token_count",
    "candidatesTokenCount": "candidates_token_count",
    "totalTokenCount": "total_token_count",
}


def map_values(change: Callable[[int], Any]) -> Callable[[Json], Json]:
    return lambda usage: {name: change(value) for name, value in usage.items()}


def usage_after_error(api: ApiName) -> Change:
    def apply(frames: Frames) -> Frames:
        at = middle(api, frames)
        return [
            *frames[:at],
            _error_frame(api),
            frames[-2] if api == "chat_completions" else frames[find_end(api, frames)],
        ]

    return apply


# Errors.

_ERROR = {"type": "server_error", "message": "the engine died", "code": 500}


def _error_frame(api: ApiName) -> Frame:
    if api == "messages":
        return event("error", error={"type": "api_error", "message": "the engine died"})
    if api == "responses":
        return event("error", code="server_error", message="the engine died", param=None)
    if api == "gemini":
        return Frame("", {"error": {"code": 500, "status": "INTERNAL", "message": "the engine died"}})
    return Frame("", {"error": _ERROR})


ERROR_FORMS: dict[str, Callable[[ApiName], Frame]] = {
    "as a data line": _error_frame,
    "as an event of chat completions": lambda api: Frame("", {"error": _ERROR}),
    "as an event named error": lambda api: Frame("error", {"message": "the engine died"}),
    "as an event named error, in a text": lambda api: Frame("", "event: error\ndata: the engine died"),
    "as a text": lambda api: Frame("", 'data: "upstream connect error"'),
    "as HTTP trailers": lambda api: Frame("", "0\r\nx-error: internal\r\ngrpc-status: 13\r\n\r\n"),
    "as a second response": lambda api: Frame(
        "", "HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\n\r\n<html><h1>502 Bad Gateway</h1></html>"
    ),
    "as a line of words": lambda api: Frame("", "data: upstream connect error or disconnect/reset before headers"),
}


def put(
    place: Callable[[ApiName, Frames], int], make: Callable[[ApiName], Frame], *, ends: bool
) -> Callable[[ApiName], Change]:
    """Puts an event at a place; `ends`: the stream ends behind it."""

    def build(api: ApiName) -> Change:
        def apply(frames: Frames) -> Frames:
            at = place(api, frames)
            return [*frames[:at], make(api), *([] if ends else frames[at:])]

        return apply

    return build


def error_as_content(api: ApiName) -> Change:
    text = '{"error": {"message": "the engine died", "code": 500}}'

    def apply(frames: Frames) -> Frames:
        at = middle(api, frames)
        return [*frames[:at], chunk({"content": text}), chunk({}, "error"), DONE]

    return apply


# Order.


def swap(kinds: tuple[str, str]) -> Change:
    """Swaps the first event of one type with the first one of another."""

    def apply(frames: Frames) -> Frames | None:
        first, second = (_of_type(frames, kind) for kind in kinds)
        if not first or not second:
            return None
        frames[first[0]], frames[second[0]] = frames[second[0]], frames[first[0]]
        return frames

    return apply


def hurry(later: str, earlier: str) -> Change:
    """Puts the first event of one type that is behind one of another before the last of these."""

    def apply(frames: Frames) -> Frames | None:
        places = _of_type(frames, earlier)
        place = next((at for at in _of_type(frames, later) if places and at > places[0]), None)
        if place is None:
            return None
        before = max(at for at in places if at < place)
        return [*frames[:before], frames[place], *frames[before:place], *frames[place + 1 :]]

    return apply


def twice(kind: str) -> Change:
    def apply(frames: Frames) -> Frames | None:
        places = _of_type(frames, kind)
        if not places:
            return None
        return [one for at, frame in enumerate(frames) for one in ([frame] * (2 if at in places else 1))]

    return apply


def without(*kinds: str) -> Change:
    def apply(frames: Frames) -> Frames | None:
        kept = [frame for frame in frames if _get(frame.data, "type") not in kinds]
        return kept if len(kept) < len(frames) else None

    return apply


def without_field(*names: str, kinds: tuple[str, ...] = ()) -> Change:
    def edit(value: Json) -> None:
        if not kinds or value["type"] in kinds:
            for name in names:
                value.pop(name, None)

    return change_objects(edit)


def _set_field(name: str, change: Callable[[Any], Any]) -> Change:
    def edit(value: Json) -> None:
        if name in value:
            value[name] = change(value[name])

    return change_objects(edit)


# Indexes and ids.


def _fragment_index(change: Callable[[int], Any]) -> Change:
    def apply(frames: Frames) -> Frames:
        for fragment in _fragments(frames):
            index = change(fragment.pop("index"))
            if index is not None:
                fragment["index"] = index
        return frames

    return calls_only(apply)


def indexes(change: Callable[[int], Any]) -> dict[ApiName, Change]:
    return {
        "chat_completions": _fragment_index(change),
        "messages": _set_field("index", change),
        "responses": _set_field("output_index", change),
        "gemini": _candidate_index(change),
    }


def _candidate_index(change: Callable[[int], Any]) -> Change:
    def edit(value: Json) -> None:
        for candidate in value.get("candidates", ()):
            candidate["index"] = change(candidate["index"])

    return change_objects(edit)


MISSING = object()


def ids(change: Callable[[str], Any]) -> dict[ApiName, Change]:
    """Changes the ids of calls."""

    def replace(holder: Json, name: str) -> None:
        value = change(holder.pop(name))
        if value is not MISSING:
            holder[name] = value

    def in_chat(frames: Frames) -> Frames:
        for fragment in _fragments(frames):
            if "id" in fragment:
                replace(fragment, "id")
        return frames

    def in_messages(frames: Frames) -> Frames:
        for value in _objects(frames):
            block = value.get("content_block", {})
            if block.get("type") == "tool_use":
                replace(block, "id")
        return frames

    def in_responses(frames: Frames) -> Frames:
        for item in _items(frames):
            if item.get("type") == "function_call":
                replace(item, "call_id")
        return frames

    def in_gemini(frames: Frames) -> Frames:
        for part in _parts(frames):
            if "functionCall" in part:
                replace(part["functionCall"], "id")
        return frames

    found: dict[ApiName, Change] = {
        "chat_completions": in_chat,
        "messages": in_messages,
        "responses": in_responses,
        "gemini": in_gemini,
    }
    return {api: calls_only(one) for api, one in found.items()}


def _items(frames: Frames) -> Iterator[Json]:
    """The items of a Responses stream."""
    seen: set[int] = set()
    for value in _objects(frames):
        for item in (value.get("item"), *(value.get("response", {}).get("output", ()))):
            if isinstance(item, dict) and id(item) not in seen:
                seen.add(id(item))
                yield item


def _parts(frames: Frames) -> Iterator[Json]:
    for value in _objects(frames):
        for candidate in value.get("candidates", ()):
            yield from candidate["content"]["parts"]


def changing_ids(frames: Frames) -> Frames:
    for number, fragment in enumerate(_fragments(frames)):
        fragment["id"] = f"call_{number}"
    return frames


def changing_item_ids(frames: Frames) -> Frames:
    for number, value in enumerate(_objects(frames)):
        if "item_id" in value:
            value["item_id"] = f"x{number}"
        if isinstance(value.get("item"), dict):
            value["item"] = {**value["item"], "id": f"y{number}"}
    return frames


def same_id_in_each(frames: Frames) -> Frames:
    ids: dict[int, str] = {}
    for fragment in _fragments(frames):
        fragment["id"] = ids.setdefault(fragment["index"], fragment.get("id", ""))
    return frames


# Endings.


def reasons(change: Callable[[str], Any]) -> dict[ApiName, Change]:
    def in_chat(frames: Frames) -> Frames:
        for value in _objects(frames):
            for choice in value["choices"]:
                if choice["finish_reason"]:
                    choice["finish_reason"] = change(choice["finish_reason"])
        return frames

    def in_messages(frames: Frames) -> Frames:
        delta = frames[find_end("messages", frames)].data["delta"]
        delta["stop_reason"] = change(delta["stop_reason"])
        return frames

    def in_gemini(frames: Frames) -> Frames:
        candidate = frames[-1].data["candidates"][0]
        candidate["finishReason"] = change(candidate["finishReason"])
        return frames

    return {"chat_completions": in_chat, "messages": in_messages, "gemini": in_gemini}


def reason_in_each(frames: Frames) -> Frames:
    for value in _objects(frames):
        for choice in value["choices"]:
            choice["finish_reason"] = choice["finish_reason"] or "stop"
    return frames


def gemini_reason_in_each(frames: Frames) -> Frames:
    for value in _objects(frames):
        value["candidates"][0]["finishReason"] = "STOP"
    return frames


def two_reasons(first: str, second: str) -> Change:
    def apply(frames: Frames) -> Frames:
        at = find_end("chat_completions", frames)
        return [*frames[:at], chunk({}, first), chunk({}, second), *frames[at + 1 :]]

    return apply


def cut(api: ApiName) -> Change:
    """No event that ends the reply comes."""
    return lambda frames: frames[: find_end(api, frames)]


def no_reason_but_done(frames: Frames) -> Frames:
    frames.pop(find_end("chat_completions", frames))
    return frames


# Types and names of fields.


def delta_field(name: str, change: Callable[[Any], Any]) -> Change:
    def apply(frames: Frames) -> Frames | None:
        found = False
        for delta in deltas(frames):
            if delta.get(name):
                delta[name], found = change(delta[name]), True
        return frames if found else None

    return apply


def renamed_delta(name: str, other: str) -> Change:
    def apply(frames: Frames) -> Frames | None:
        found = False
        for delta in deltas(frames):
            if name in delta:
                delta[other], found = delta.pop(name), True
        return frames if found else None

    return apply


def chat_function(change: Callable[[Json], None]) -> Change:
    def apply(frames: Frames) -> Frames:
        for fragment in _fragments(frames):
            change(fragment["function"])
        return frames

    return calls_only(apply)


def _joined_arguments(frames: Frames) -> Frames:
    """Each call in one fragment."""
    kept: Frames = []
    last: Json | None = None
    for frame in frames:
        fragments = list(_fragments([frame]))
        if fragments and last is not None and fragments[0]["index"] == last["index"]:
            last["function"]["arguments"] += fragments[0]["function"]["arguments"]
            continue
        last = fragments[0] if fragments else last
        kept.append(frame)
    return kept


def arguments(change: Callable[[str], Any]) -> Change:
    def apply(frames: Frames) -> Frames:
        frames = _joined_arguments(frames)
        for fragment in _fragments(frames):
            fragment["function"]["arguments"] = change(fragment["function"]["arguments"])
        return frames

    return calls_only(apply)


def rename(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): rename(one, names) for key, one in value.items()}
    return [rename(one, names) for one in value] if isinstance(value, list) else value


def renamed(**names: str) -> Change:
    return lambda frames: [Frame(frame.name, rename(frame.data, names)) for frame in frames]


SNAKE = renamed(
    finishReason="finish_reason",
    functionCall="function_call",
    usageMetadata="usage_metadata",
    promptTokenCount="prompt_token_count",
    candidatesTokenCount="candidates_token_count",
    totalTokenCount="total_token_count",
)


def part_field(name: str, change: Callable[[Any], Any]) -> Change:
    def apply(frames: Frames) -> Frames | None:
        found = False
        for part in _parts(frames):
            holder = part.get("functionCall", {}) if name == "args" else part
            if name in holder:
                holder[name], found = change(holder[name]), True
        return frames if found else None

    return apply


def message_delta_field(name: str, change: Callable[[Any], Any]) -> Change:
    def apply(frames: Frames) -> Frames | None:
        found = False
        for value in _objects(frames):
            delta = value.get("delta")
            if isinstance(delta, dict) and name in delta:
                delta[name], found = change(delta[name]), True
        return frames if found else None

    return apply


def whole_input(change: Callable[[Json], Any]) -> Change:
    """The start of a block has the input, and no delta."""

    def apply(frames: Frames) -> Frames:
        texts: dict[int, str] = {}
        for value in _objects(frames):
            delta = value.get("delta")
            if isinstance(delta, dict) and "partial_json" in delta:
                texts[value["index"]] = texts.get(value["index"], "") + delta["partial_json"]
        for value in _objects(frames):
            if value["type"] == "content_block_start" and value["index"] in texts:
                value["content_block"]["input"] = change(json.loads(texts[value["index"]]))
        return [frame for frame in frames if "partial_json" not in (_get(frame.data, "delta") or {})]

    return calls_only(apply)


def item_field(kind: str, name: str, change: Callable[[Any], Any]) -> Change:
    def apply(frames: Frames) -> Frames | None:
        found = False
        for item in _items(frames):
            if item.get("type") == kind and item.get(name):
                item[name], found = change(item[name]), True
        return frames if found else None

    return apply


def fragments_of_their_own(frames: Frames) -> Frames:
    """Each fragment of a call has another index and id, and an empty name (Oracle)."""
    for number, fragment in enumerate(_fragments(frames)):
        fragment.update(index=number, id=f"c{number}")
        fragment["function"].setdefault("name", "")
    return frames


def fragments_without_place(frames: Frames) -> Frames:
    """The fragments behind the first one of a call have another index, and neither an id nor a name (SGLang)."""
    for number, fragment in enumerate(_fragments(frames)):
        if "id" not in fragment:
            fragment.update(index=number + 90, id=None)
            fragment["function"]["name"] = None
    return frames


def flat_response(value: Json) -> None:
    """The response is the event itself."""
    value.update(value.pop("response", {}))


def usage_at_stop(frames: Frames) -> Frames:
    """Only the last event has the usage, as Bedrock's metrics."""
    counts: Json = {}
    for holder, name in _usages("messages", frames):
        counts |= holder.pop(name)
    metrics = {"inputTokenCount": counts["input_tokens"], "outputTokenCount": counts["output_tokens"]}
    frames[_of_type(frames, "message_stop")[0]].data["amazon-bedrock-invocationMetrics"] = metrics
    return frames


def one_text_block(frames: Frames) -> Frames | None:
    """Reasoning and text come in one block, which is opened as text."""
    kinds = [_get(frame.data, "type") for frame in frames]
    at = kinds.index("content_block_start")
    if frames[at].data["content_block"]["type"] != "thinking":
        return None
    frames[at].data["content_block"] = {"type": "text", "text": ""}
    stop = kinds.index("content_block_stop")
    return [*frames[:stop], *frames[stop + 2 :]]


def text_in_call(frames: Frames) -> Frames | None:
    """The last piece of the text comes in the block of the first call."""
    texts = [at for at, frame in enumerate(frames) if _get(_get(frame.data, "delta"), "type") == "text_delta"]
    if not texts or not _has_call(frames):
        return None
    moved = frames.pop(texts[-1])
    place = next(at for at in _of_type(frames, "content_block_start") if _is_call(frames[at]))
    moved.data["index"] = frames[place].data["index"]
    return [*frames[: place + 1], moved, *frames[place + 1 :]]


def _is_call(frame: Frame) -> bool:
    return bool(frame.data["content_block"]["type"] == "tool_use")


def input_in_text(frames: Frames) -> Frames | None:
    """The input of calls has the index of the text, which stays open."""
    starts = [frames[at].data for at in _of_type(frames, "content_block_start")]
    index = next((one["index"] for one in starts if one["content_block"]["type"] == "text"), None)
    if index is None or not _has_call(frames):
        return None
    for frame in frames:
        if _get(_get(frame.data, "delta"), "type") == "input_json_delta":
            frame.data["index"] = index
    return [one for one in frames if (one.name, one.data.get("index")) != ("content_block_stop", index)]


def name_again(frames: Frames) -> Frames:
    """The name of each call comes once more behind its arguments."""
    changed: Frames = []
    name, place = "", 0
    for frame in frames:
        calls = [call for choice in _get(frame.data, "choices") or () for call in choice["delta"].get("tool_calls", ())]
        if name and not (calls and "name" not in calls[0]["function"]):
            changed.append(chunk({"tool_calls": [{"index": place, "function": {"name": name, "arguments": ""}}]}))
            name = ""
        if calls and "name" in calls[0]["function"]:
            name, place = calls[0]["function"]["name"], calls[0]["index"]
        changed.append(frame)
    return changed


def only_native_reason(word: str) -> Change:
    """The finish reason is null, and the provider's own word stands beside it."""

    def apply(frames: Frames) -> Frames:
        choice = frames[find_end("chat_completions", frames)].data["choices"][0]
        choice.update(finish_reason=None, native_finish_reason=word)
        return frames

    return apply


def cumulative(name: str) -> Change:
    def apply(frames: Frames) -> Frames | None:
        text = ""
        for delta in deltas(frames):
            if delta.get(name):
                text += delta[name]
                delta[name] = text
        return frames if text else None

    return apply


def cumulative_arguments(frames: Frames) -> Frames:
    texts: dict[int, str] = {}
    for fragment in _fragments(frames):
        at = fragment["index"]
        texts[at] = fragment["function"]["arguments"] = texts.get(at, "") + fragment["function"]["arguments"]
    return frames


def last_text_twice(frames: Frames) -> Frames | None:
    """A proxy has merged the last text with the finish reason, and sends that chunk twice."""
    end = find_end("chat_completions", frames)
    if frames[end].data["choices"][0]["finish_reason"] != "stop":
        return None
    frames[end].data["choices"][0]["delta"] = frames[end - 1].data["choices"][0]["delta"]
    return [*frames[: end - 1], frames[end], *frames[end:]]


def chat_twice(frames: Frames) -> Frames:
    """The stream comes again behind its end."""
    return [*frames, *frames]


def text_part(text: str) -> list[Json]:
    return [{"type": "text", "text": text}]


def one_call_only(frames: Frames) -> Frames | None:
    fragments = list(_fragments(frames))
    if not fragments or any(fragment["index"] for fragment in fragments):
        return None
    for delta in deltas(frames):
        if "tool_calls" in delta:
            delta["function_call"] = delta.pop("tool_calls")[0]["function"]
    return frames


def input_in_list(frames: Frames) -> Frames | None:
    """A call of Responses has its arguments as a list, at its end alone."""
    rest = without("response.function_call_arguments.delta", "response.function_call_arguments.done")(frames)
    return item_field("function_call", "arguments", lambda text: [json.loads(text)])(rest or [])


def text_delta_in_object(frames: Frames) -> Frames:
    for frame in frames:
        if frame.name == "response.output_text.delta":
            frame.data["delta"] = {"text": frame.data["delta"]}
    return frames


def flat_function(calls: list[Json]) -> list[Json]:
    return [{**{key: value for key, value in calls[0].items() if key != "function"}, **calls[0]["function"]}]


def listed_function(calls: list[Json]) -> list[Json]:
    return [{**calls[0], "function": [calls[0]["function"]]}]


def arguments_named(name: str) -> Change:
    return chat_function(lambda function: function.update({name: function.pop("arguments")}))


def each_in(name: str, change: Callable[[Json], None]) -> Change:
    """Changes each object of the list of this name."""

    def change_all(value: Json) -> None:
        for one in value[name]:
            change(one)

    return change_objects(change_all)


def without_chat(changes: dict[ApiName, Change]) -> dict[ApiName, Change]:
    """Leave out chat completions, whose calls have the order of their indexes."""
    return {api: change for api, change in changes.items() if api != "chat_completions"}
