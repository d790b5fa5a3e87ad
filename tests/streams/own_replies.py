"""Replies to clients of the server's own API: what a client gets of them, and whether that is in order."""

import copy
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from app.chat.accumulator import MessageAccumulator
from app.chat.events import Event, Extra, Failed, Finish, PassedEnd, is_end
from app.chat.messages import SEAL_PREFIX, ChatRequest, Tool
from app.chat.stage import Pipe, Stage
from app.formats.anthropic.arguments import CallsStage
from app.formats.anthropic.stream import AnthropicStreamEncoder
from app.formats.base import Encoder, Options, ReplyInfo, ResponsesOptions
from app.formats.responses.stream import ResponseEventEncoder
from app.profiles import Profile
from app.steps.pipeline import passed_reply_stages, reply_stages
from app.upstream.messages import api as messages
from app.upstream.reply.reader import ReplyReader
from app.upstream.responses import api as responses

Json = dict[str, Any]
Part = tuple[str, ...]
STOP_WORD = "STOP"
PLAIN = ChatRequest(model="m", messages=())
STOPS = ChatRequest(model="m", messages=(), params={"stop": [STOP_WORD]})
SCHEMA: Json = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
TOOLS = ChatRequest(model="m", messages=(), tools=(Tool("get_weather", SCHEMA),))
MODES: tuple[Any, ...] = ("leading", "interleaved", "forced_open", "auto_close")
PROFILES = [
    (PLAIN, Profile(inline_think="off")),
    (STOPS, Profile(inline_think="off")),
    *((PLAIN, Profile(inline_think=mode)) for mode in MODES),
    (TOOLS, Profile(text_tools="hermes")),
]


def stop_words(request: ChatRequest) -> tuple[str, ...]:
    return (STOP_WORD,) if request is STOPS else ()


class OwnApi(NamedTuple):
    """An API that a client and a server may share."""

    make_reader: Callable[[str], ReplyReader]
    make_passing_reader: Callable[[str], ReplyReader]
    make_encoder: Callable[[ReplyInfo], Encoder]
    make_stages: Callable[[], list[Stage]]
    list_faults: Callable[[list[Json]], Iterator[str]]


def read(reader: ReplyReader, parts: Iterable[bytes]) -> Iterator[list[Event]]:
    """Yield the events of each read."""
    for part in parts:
        yield reader.assembler.feed(reader.events.feed(part))
    rest = reader.assembler.feed(reader.events.close(clean=True))
    yield rest + reader.assembler.close(reader.events.junk)


def serve(
    api: OwnApi, parts: Iterable[bytes], request: ChatRequest, profile: Profile, stop_words: tuple[str, ...] = ()
) -> tuple[bytes, bool]:
    """Return what a client of the server's API gets, and whether the server's own events ended before the reply."""
    options = Options(passed=True, stop_words=stop_words, responses=ResponsesOptions(summary=True))
    encoder = api.make_encoder(ReplyInfo("resp_" + "0" * 32, "req-1", "m", 1, options=options))
    pipe = Pipe([*passed_reply_stages(request, profile, "r"), *api.make_stages()])
    out, has_ended = encoder.open(), False
    for events in read(api.make_passing_reader("r"), parts):
        given = pipe.feed(events) if events else events
        has_ended = has_ended or PassedEnd in map(type, given)
        out += encoder.feed(given) if given else b""
        if is_end(given):
            break
    return out, has_ended


def list_given(api: OwnApi, body: bytes, request: ChatRequest, profile: Profile) -> list[Event]:
    """Return what the stages give of a reply that is translated."""
    pipe = Pipe(reply_stages(request, profile, "r"))
    out: list[Event] = []
    for events in read(api.make_reader("r"), [body]):
        out += pipe.feed(events)
        if is_end(out):
            break
    return out


def describe(events: Sequence[Event]) -> tuple[list[Part], list[Any], str]:
    """Return the parts of a reply, what only the server can read, and how it ends. White space does not count."""
    accumulator = MessageAccumulator()
    accumulator.feed(list(events))
    parts: list[Part] = []
    for message in accumulator.messages:
        kind = "refusal" if message.refusal else message.kind
        if kind == "function_call":
            parts.append((kind, message.id, message.name, message.text))
            continue
        text = "".join(message.text.split())
        if parts and parts[-1][0] == kind:
            parts[-1] = (kind, parts[-1][1] + text)
        elif text:
            parts.append((kind, text))
    last = events[-1] if events else None
    end = last.reason if type(last) is Finish else last.fault.code if type(last) is Failed else "none"
    return parts, list(_list_opaque(events)), end


def _list_opaque(events: Sequence[Event]) -> Iterator[Any]:
    for event in events:
        for detail in event.fields.get("reasoning_details", ()) if type(event) is Extra else ():
            found = detail.get("signature") or detail.get("data") or detail.get("item")
            if not (isinstance(found, str) and found.startswith(SEAL_PREFIX)):
                yield found


def read_frames(body: bytes) -> list[Json]:
    """Return the events of a stream. The name of each is that of its data."""
    found = []
    for frame in body.decode().split("\n\n"):
        lines = [line for line in frame.split("\n") if line and not line.startswith(":")]
        data = "\n".join(line[5:] for line in lines if line.startswith("data:"))
        if data.strip() and data.strip() != "[DONE]":
            found.append(json.loads(data))
    return found


def list_message_faults(events: list[Json]) -> Iterator[str]:
    """Yield what is wrong with a stream of Messages: blocks follow each other, and each is closed once."""
    names = [event["type"] for event in events if event["type"] != "ping"]
    if names[:1] != ["message_start"] or names.count("message_start") != 1:
        yield f"it begins with {names[:1]}"
    if names[-1:] not in (["message_stop"], ["error"]) or names.count("message_stop") > 1:
        yield f"it ends with {names[-1:]}"
    open_: dict[int, str] = {}
    started = 0
    for event in events:
        index: Any = event.get("index")
        match event["type"]:
            case "content_block_start":
                if index != started:
                    yield f"block {started} has the index {index}"
                started, open_[index] = index + 1, event["content_block"]["type"]
            case "content_block_delta" if index not in open_:
                yield f"a delta of block {index}, which is not open"
            case "content_block_delta" if _KINDS.get(event["delta"]["type"], open_[index]) != open_[index]:
                yield f"a {event['delta']['type']} in a block of the type {open_[index]}"
            case "content_block_stop" if open_.pop(index, None) is None:
                yield f"block {index} is closed, and is not open"
            case "message_delta" if open_:
                yield f"the message ends with open blocks: {open_}"
            case _:
                pass


_KINDS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "citations_delta": "text"}


def list_response_faults(events: list[Json]) -> Iterator[str]:
    """Yield what is wrong with a stream of Responses: items and numbers follow each other, and each item ends once with
    the texts of its deltas."""
    events = [event for event in events if event["type"].startswith("response.")]
    numbers = [event.get("sequence_number") for event in events]
    if numbers != list(range(len(events))):
        yield f"the numbers {numbers}"
    if events[0]["type"] != "response.created":
        yield f"it begins with {events[0]['type']}"
    open_: dict[int, str] = {}
    done: list[Json] = []
    texts: dict[Any, str] = {}
    streamed: dict[Any, str] = {}
    started = 0
    for event in events:
        index: Any = event.get("output_index")
        name = event["type"]
        place = (index, event.get("content_index"), event.get("summary_index"))
        if name == "response.output_item.added":
            if index != started:
                yield f"item {started} has the index {index}"
            started, open_[index] = index + 1, event["item"].get("id")
        elif name == "response.output_item.done":
            if open_.pop(index, None) != event["item"].get("id"):
                yield f"item {index} ends, and is not open with this id"
            done.append(event["item"])
            if streamed.pop(index, None) not in (None, _join_texts(event["item"])):
                yield f"item {index} ends with another text than its deltas"
        elif index is not None and open_.get(index) != event.get("item_id", open_.get(index)):
            yield f"{name} of item {index} with the id {event.get('item_id')}"
        elif name.endswith(".delta"):
            texts[place] = texts.get(place, "") + event["delta"]
            streamed[index] = streamed.get(index, "") + event["delta"]
        elif name.endswith((".output_text.done", "_text.done", ".refusal.done")):
            text = event.get("text", event.get("refusal"))
            if texts.pop(place, "") != text:
                yield f"{name} of {place} has another text than its deltas"
    last = events[-1]
    if last["type"] not in ("response.completed", "response.incomplete", "response.failed"):
        yield f"it ends with {last['type']}"
    if last["type"] != "response.failed":
        if open_:
            yield f"the reply ends with open items: {open_}"
        if last["response"]["output"] != done:
            yield "the output is not the items that have ended"
        if last["response"]["id"] != events[0]["response"]["id"]:
            yield "the id is another one at the end"


def _join_texts(item: Json) -> str:
    """Return what an item has of its deltas."""
    parts = (*item.get("summary", ()), *(item.get("content") or ()))
    texts = (part.get("text", part.get("refusal", "")) for part in parts)
    return "".join((*texts, item.get("arguments", ""), item.get("input", "")))


def write_stream(events: Iterable[Json]) -> bytes:
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode() for event in events
    )


MESSAGES = OwnApi(
    messages.make_reader,
    messages.make_passing_reader,
    AnthropicStreamEncoder,
    lambda: [CallsStage("delta")],
    list_message_faults,
)
RESPONSES = OwnApi(
    responses.make_reader, responses.make_passing_reader, ResponseEventEncoder, list, list_response_faults
)


def list_mistakes(
    api: OwnApi,
    body: bytes,
    cuts: Iterable[Sequence[bytes]],
    request: ChatRequest,
    profile: Profile,
    stop_words: tuple[str, ...] = (),
) -> Iterator[str]:
    """Yield where a client gets something else than what the stages give, or not in order, for each way to cut the
    stream. Of a stream that is not in order itself, only the contents are looked at."""
    wanted = describe(list_given(api, body, request, profile))
    is_in_order = not any(api.list_faults(read_frames(body)))
    for number, parts in enumerate(cuts):
        sent, _ = serve(api, parts, request, profile, stop_words)
        got = describe([event for events in read(api.make_reader("r"), [sent]) for event in events])
        for name, one, other in zip(("parts", "opaque", "end"), got, wanted, strict=True):
            if one != other:
                yield f"cut {number}: {name} {one!r} instead of {other!r}"[:2000]
        if is_in_order:
            yield from (f"cut {number}: {fault}" for fault in api.list_faults(read_frames(sent)))


def insert_texts(api: OwnApi, events: list[Json], rng: random.Random) -> Iterator[tuple[str, list[Json]]]:
    """Yield the events with tags, a call and a stop word in one of the texts, each at a place of its own."""
    places = [place for place, event in enumerate(events) if _is_text(event)]
    for place in sorted({places[0], places[len(places) // 2], places[-1]}) if places else []:
        for name, inserted in _INSERTED.items():
            text = _get_text(events[place])
            at = 0 if name.startswith("first ") else rng.randrange(len(text) + 1)
            text = text[:at] + inserted + text[at:]
            edges = [0, *sorted(rng.sample(range(1, len(text)), min(2, len(text) - 1))), len(text)]
            pieces = [text[start:end] for start, end in zip(edges, edges[1:], strict=False)]
            changed = [*events[:place], *(_with_text(events[place], piece) for piece in pieces), *events[place + 1 :]]
            yield f"{name} at {place}", _complete(changed) if api is RESPONSES else changed


_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "A"}}\n</tool_call>'
_INSERTED = {
    "thought": "<think>Hm. So what.</think>\n\n",
    "first thought": "<think>Hm.</think>",
    "open thought": "<think>never",
    "end of a thought": "Hm</think>",
    "half a tag": "<thi",
    "call": _CALL,
    "stop word": STOP_WORD,
}


def _is_text(event: Json) -> bool:
    delta = event.get("delta")
    in_message = isinstance(delta, dict) and delta.get("type") == "text_delta" and bool(delta["text"])
    return in_message or (event.get("type") == "response.output_text.delta" and bool(delta))


def _get_text(event: Json) -> str:
    delta: Any = event["delta"]
    text: str = delta["text"] if isinstance(delta, dict) else delta
    return text


def _with_text(event: Json, text: str) -> Json:
    delta = event["delta"]
    return {**event, "delta": {**delta, "text": text} if isinstance(delta, dict) else text}


def _complete(events: list[Json]) -> list[Json]:
    """Return events of Responses with their numbers, and in each that ends a text that of its deltas."""
    events = copy.deepcopy(events)
    texts: dict[Any, str] = {}
    numbered = [event for event in events if "sequence_number" in event]
    for number, event in enumerate(numbered):
        event["sequence_number"] = number
    for event in events:
        index, place = event.get("output_index"), (event.get("output_index"), event.get("content_index"))
        match event["type"]:
            case "response.output_text.delta":
                texts[place] = texts.get(place, "") + event["delta"]
            case "response.output_text.done":
                event["text"] = texts.get(place, event["text"])
            case "response.content_part.done":
                event["part"] = _with_texts([event["part"]], texts, index, event["content_index"])[0]
            case "response.output_item.done" if event["item"].get("type") == "message":
                event["item"]["content"] = _with_texts(event["item"]["content"], texts, index, 0)
            case "response.completed" | "response.incomplete":
                for place_, item in enumerate(event["response"].get("output") or ()):
                    if item.get("type") == "message":
                        item["content"] = _with_texts(item["content"], texts, place_, 0)
            case _:
                pass
    return events


def _with_texts(parts: list[Json], texts: Mapping[Any, str], index: Any, first: int) -> list[Json]:
    return [
        {**part, "text": texts.get((index, place), part["text"])} if part.get("type") == "output_text" else part
        for place, part in enumerate(parts, first)
    ]
