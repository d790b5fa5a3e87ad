"""Examples of the replies, frames and errors of each format: what its encoder writes of one reply."""

import json

from app.api.openapi.components import Components
from app.chat.events import Event, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.errors import UnknownModel
from app.formats.base import Format, Options, ReplyInfo, ReplyMode
from app.formats.openapi import FormatPart

_EVENTS: list[Event] = [
    ReasoningDelta("I need the weather of Paris."),
    TextDelta("Let me check."),
    ToolCallDelta(0, '{"city": "Paris"}', "call_9a153a93", "get_weather"),
    Finish("tool_calls", {"prompt_tokens": 11, "completion_tokens": 21, "total_tokens": 32}),
]
_ERROR = UnknownModel("there is no model 'demp'; did you mean 'demo'? (GET /v1/models lists them)", "model")


def write_examples(components: Components, format_: Format, part: FormatPart) -> None:
    reply = json.loads(_encode(format_, "whole"))
    lines = _encode(format_, "delta").decode().split("\n")
    frames = [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: [DONE]"]
    first_of_each = {frame.get("type", frame.get("object")): frame for frame in reversed(frames)}
    error = format_.error(_ERROR.to_dict("req-5a0c"))
    for name, examples in (
        (part.replies[0].__name__, [reply]),
        (part.frame_name, [*reversed(first_of_each.values())]),
        (part.error.__name__, [error]),
    ):
        components.schemas[name].setdefault("examples", examples)


def _encode(format_: Format, mode: ReplyMode) -> bytes:
    info = ReplyInfo("chat-5dfeb033230794166d0c3c3788218c67", "req-5a0c", "demo", 1795364881, options=Options())
    encoder = format_.reply_encoder(info, mode)
    stage = format_.make_stage(info, mode)
    return encoder.open() + encoder.feed(_EVENTS if stage is None else stage.feed(_EVENTS))
