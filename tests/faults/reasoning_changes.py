"""The changes of a reply's reasoning that `reply_model` lists."""

import json
from typing import Any, Literal

from tests.faults.known_replies import REPLIES, ApiName, Frame, Json, KnownReply, chunk, write_frames
from tests.faults.known_replies import cut as cut_text
from tests.faults.reply_changes import Change, Frames, calls_only, deltas, find_end


def with_reasoning(change: Change) -> Change:
    """For replies with reasoning."""
    return lambda frames: change(frames) if "Both" in json.dumps([frame.data for frame in frames]) else None


def reasoning_twice(other: str) -> Change:
    def apply(frames: Frames) -> Frames:
        for delta in deltas(frames):
            if "reasoning_content" in delta:
                delta[other] = delta["reasoning_content"]
        return frames

    return with_reasoning(apply)


def as_tags(opening: str, closing: str, *, field: bool) -> Change:
    """Reasoning in tags at the start of the text; `field`: in its field, too."""

    def apply(frames: Frames) -> Frames | None:
        reasoning = [frame for frame in frames if any("reasoning_content" in d for d in deltas([frame]))]
        text = "".join(delta["reasoning_content"] for delta in deltas(reasoning))
        rest = [frame for frame in frames if frame not in reasoning]
        tagged = [chunk({"content": opening}), chunk({"content": text}), chunk({"content": closing})]
        return [rest[0], *(reasoning if field else []), *tagged, *rest[1:]]

    return with_reasoning(apply)


def closer_left(closing: str) -> Change:
    """The text or the calls behind reasoning in its field begin with this closing tag."""

    def apply(frames: Frames) -> Frames:
        last = max(at for at, frame in enumerate(frames) if any("reasoning_content" in d for d in deltas([frame])))
        return [*frames[: last + 1], chunk({"content": closing}), *frames[last + 1 :]]

    return with_reasoning(apply)


def behind(field: Literal["reasoning", "text"], token: str) -> Change:
    """This stands at the end of the reasoning or of the text, wherever that is told."""
    texts = [getattr(reply, field) for reply in REPLIES.values() if getattr(reply, field)]
    ends = {end for text in texts for end in (text, cut_text(text)[-1])}

    def add(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: add(item) for key, item in value.items()}
        if isinstance(value, list):
            return list(map(add, value))
        return value + token if isinstance(value, str) and value in ends else value

    return with_reasoning(lambda frames: [Frame(frame.name, add(frame.data)) for frame in frames])


def call_in_reasoning(api: ApiName) -> Change:
    """The reply has nothing but reasoning, which has the call as text."""
    name, arguments = REPLIES["one call"].calls[0]
    text = f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"

    def apply(frames: Frames) -> Frames | None:
        has_text = "Both" in json.dumps([frame.data for frame in frames])
        return None if has_text else write_frames(api, KnownReply(reasoning=text))

    return calls_only(apply)


def repeat_signed(frames: Frames) -> Frames:
    """Reasoning comes as blocks, too, the last of which has the signature and all of the text (LiteLLM)."""
    out: Frames = []
    text = ""
    for frame in frames:
        for delta in deltas([frame]):
            if "reasoning_content" in delta:
                text += delta["reasoning_content"]
                delta["thinking_blocks"] = [{"type": "thinking", "thinking": delta["reasoning_content"]}]
            elif text:
                block = {"type": "thinking", "thinking": text, "signature": "s"}
                out.append(chunk({"reasoning_content": "", "thinking_blocks": [block]}))
                text = ""
        out.append(frame)
    return out


def reasoning_behind(frames: Frames) -> Frames | None:
    """The reasoning comes after the text."""
    kinds = [next(iter(delta), "") for frame in frames for delta in deltas([frame])]
    reasoning = [frame for frame, kind in zip(frames, kinds, strict=False) if kind == "reasoning_content"]
    last = max(at for at, kind in enumerate(kinds) if kind == "content")
    head, rest = frames[: last + 1], frames[last + 1 :]
    return [*(frame for frame in head if frame not in reasoning), *reasoning, *rest]


def message_at_end(frames: Frames) -> Frames:
    """The last chunk has the whole message beside its finish reason (Perplexity)."""
    choice = frames[find_end("chat_completions", frames)].data["choices"][0]
    message: Json = {"role": "assistant"}
    for delta in deltas(frames):
        for name in ("content", "reasoning_content"):
            if name in delta:
                message[name] = message.get(name, "") + delta[name]
    choice["message"] = message
    return frames


def thinking_again(opening: str, closing: str, *, field: bool) -> Change:
    """The second half of the reasoning stands in these tags behind the text; the first in its field, or in tags."""

    def apply(frames: Frames) -> Frames:
        reasoning = [frame for frame in frames if any("reasoning_content" in d for d in deltas([frame]))]
        first, second = reasoning[: len(reasoning) // 2], reasoning[len(reasoning) // 2 :]
        rest = [frame for frame in frames if frame not in reasoning]
        begin = first if field else [chunk({"content": f"<think>{_join(first)}</think>"})]
        last = max(at for at, frame in enumerate(rest) if any(d.get("content") for d in deltas([frame])))
        again = chunk({"content": f"{opening}{_join(second)}{closing}"})
        return [rest[0], *begin, *rest[1 : last + 1], again, *rest[last + 1 :]]

    return with_reasoning(apply)


def _join(frames: Frames) -> str:
    return "".join(delta["reasoning_content"] for delta in deltas(frames))
