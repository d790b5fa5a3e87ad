"""The ways in which whole replies go wrong beside their calls: usage, ids, indexes, errors, the order of events,
endings, reasoning, types and names of fields.

An operator changes the stream of a known reply. What must come out is that reply; or it with a warning; or an error;
never another call, other arguments or a part of the reply as if it were whole.
"""

import copy
import json
from collections.abc import Mapping
from typing import NamedTuple

from tests.faults.known_replies import ApiName, KnownReply, write_frames
from tests.faults.reasoning_changes import (
    as_tags,
    behind,
    call_in_reasoning,
    closer_left,
    message_at_end,
    reasoning_behind,
    reasoning_twice,
    repeat_signed,
    thinking_again,
    with_reasoning,
)
from tests.faults.replies import Outcome
from tests.faults.reply_changes import (
    ERROR_FORMS,
    MISSING,
    OTHER_NAMES,
    SNAKE,
    Change,
    Frames,
    arguments,
    arguments_named,
    calls_only,
    change_objects,
    changing_ids,
    changing_item_ids,
    chat_twice,
    cumulative,
    cumulative_arguments,
    cut,
    delta_field,
    each,
    each_in,
    error_as_content,
    find_end,
    flat_function,
    flat_response,
    fragments_of_their_own,
    fragments_without_place,
    gemini_reason_in_each,
    hurry,
    ids,
    indexes,
    input_in_list,
    input_in_text,
    item_field,
    last_text_twice,
    late_usage,
    listed_function,
    map_values,
    message_delta_field,
    middle,
    name_again,
    no_reason_but_done,
    one_call_only,
    one_text_block,
    only_native_reason,
    part_field,
    put,
    reason_in_each,
    reasons,
    rename,
    renamed,
    renamed_delta,
    same_id_in_each,
    scale,
    swap,
    text_delta_in_object,
    text_in_call,
    text_part,
    twice,
    two_reasons,
    usage_after_error,
    usage_at_stop,
    usage_in_each,
    usage_twice,
    whole_input,
    with_usage,
    without,
    without_chat,
    without_field,
)

EXACT: tuple[Outcome, ...] = ("right",)
TOLD: tuple[Outcome, ...] = ("right", "warned")
ANY: tuple[Outcome, ...] = ("right", "warned", "error")
FAILED: tuple[Outcome, ...] = ("error",)


class ReplyFault(NamedTuple):
    place: str
    operator: str
    changes: Mapping[ApiName, Change]
    expected: tuple[Outcome, ...] = TOLD
    loses_usage: bool = False
    """The reply may end without the numbers of its usage, because nothing has them."""
    source: str = "derived"


def make_faulty(fault: ReplyFault, api: ApiName, reply: KnownReply) -> Frames | None:
    change = fault.changes.get(api)
    return None if change is None else change(copy.deepcopy(write_frames(api, reply)))


_SWAPPED: tuple[tuple[ApiName, str, str], ...] = (
    ("messages", "message_start", "content_block_start"),
    ("messages", "content_block_start", "content_block_delta"),
    ("messages", "message_delta", "message_stop"),
    ("messages", "content_block_stop", "message_delta"),
    ("responses", "response.created", "response.output_item.added"),
    ("responses", "response.output_item.added", "response.content_part.added"),
    ("responses", "response.output_item.added", "response.output_text.delta"),
    ("responses", "response.output_item.added", "response.function_call_arguments.delta"),
)
_HURRIED: tuple[tuple[ApiName, str, str], ...] = (
    ("messages", "content_block_stop", "content_block_delta"),
    ("responses", "response.function_call_arguments.done", "response.function_call_arguments.delta"),
    ("responses", "response.output_text.done", "response.output_text.delta"),
    ("responses", "response.reasoning_text.done", "response.reasoning_text.delta"),
    ("responses", "response.output_item.done", "response.function_call_arguments.done"),
    ("responses", "response.output_item.done", "response.function_call_arguments.delta"),
    ("responses", "response.output_item.done", "response.output_text.delta"),
)
REPLY_FAULTS: tuple[ReplyFault, ...] = (
    ReplyFault("none", "none", each(lambda api: lambda frames: frames), EXACT),
    # usage
    ReplyFault("usage", "behind the end", each(late_usage), loses_usage=True),
    ReplyFault("usage", "twice", each(usage_twice), EXACT),
    ReplyFault("usage", "cumulative in each event", each(usage_in_each(scale)), EXACT),
    ReplyFault("usage", "the same in each event", each(usage_in_each(lambda usage, part: dict(usage))), EXACT),
    ReplyFault("usage", "null in each event", each(usage_in_each(lambda usage, part: None)), EXACT),
    ReplyFault("usage", "zero in each event", each(usage_in_each(lambda usage, part: scale(usage, 0))), EXACT),
    ReplyFault("usage", "a list in each event", each(usage_in_each(lambda usage, part: [usage])), EXACT),
    ReplyFault("usage", "missing", each(with_usage(lambda usage: None)), EXACT, loses_usage=True),
    ReplyFault("usage", "only zeros", each(with_usage(map_values(lambda value: 0))), EXACT, loses_usage=True),
    ReplyFault("usage", "texts for numbers", each(with_usage(map_values(str))), EXACT),
    ReplyFault("usage", "decimals for numbers", each(with_usage(map_values(float))), EXACT),
    ReplyFault("usage", "minus one", each(with_usage(map_values(lambda value: 2**64 - 1))), EXACT, loses_usage=True),
    ReplyFault("usage", "in a list", each(with_usage(lambda usage: [usage])), EXACT, loses_usage=True),
    ReplyFault("usage", "other names", each(with_usage(lambda usage: rename(usage, OTHER_NAMES))), EXACT),
    ReplyFault(
        "usage", "in the metrics of the last event", {"messages": usage_at_stop}, source="BerriAI/litellm#24850"
    ),
    ReplyFault("usage", "behind an error", each(usage_after_error), FAILED),
    # ids
    ReplyFault("ids", "missing", ids(lambda id_: MISSING)),
    ReplyFault("ids", "null", ids(lambda id_: None)),
    ReplyFault("ids", "empty", ids(lambda id_: "")),
    ReplyFault("ids", "the same for two calls", ids(lambda id_: "call")),
    ReplyFault("ids", "numbers", ids(lambda id_: int(id_[1:]))),
    ReplyFault("ids", "in a list", ids(lambda id_: [id_])),
    ReplyFault(
        "ids",
        "changing within a call",
        {"chat_completions": calls_only(changing_ids), "responses": changing_item_ids},
        source="GitHub Copilot",
    ),
    ReplyFault("ids", "again in each fragment", {"chat_completions": calls_only(same_id_in_each)}),
    # indexes
    ReplyFault("indexes", "missing", {**indexes(lambda index: None)}),
    ReplyFault("indexes", "all 0", indexes(lambda index: 0)),
    ReplyFault("indexes", "all -1", indexes(lambda index: -1)),
    ReplyFault("indexes", "with gaps", indexes(lambda index: index * 3)),
    ReplyFault("indexes", "from 1", indexes(lambda index: index + 1)),
    ReplyFault("indexes", "texts", indexes(str)),
    ReplyFault("indexes", "decimals", indexes(float)),
    ReplyFault(
        "indexes",
        "backwards",
        without_chat(indexes(lambda index: 9 - index)),
    ),
    ReplyFault(
        "indexes",
        "another in each fragment, whose name is empty",
        {"chat_completions": calls_only(fragments_of_their_own)},
        source="oracle/langchain-oracle#163",
    ),
    ReplyFault(
        "indexes",
        "another behind the first fragment, without id and name",
        {"chat_completions": calls_only(fragments_without_place)},
        source="sgl-project/sglang#23071",
    ),
    # errors
    *(
        ReplyFault("errors", f"after text, {form}", each(put(middle, make, ends=True)), FAILED)
        for form, make in ERROR_FORMS.items()
    ),
    *(
        ReplyFault("errors", f"within the reply, {form}", each(put(middle, make, ends=False)), ANY)
        for form, make in ERROR_FORMS.items()
    ),
    *(
        ReplyFault(
            "errors",
            f"after the finish reason, {form}",
            each(put(lambda api, frames: find_end(api, frames) + 1, make, ends=True)),
            ANY,
            loses_usage=True,
        )
        for form, make in ERROR_FORMS.items()
    ),
    *(
        ReplyFault(
            "errors",
            f"behind the end, {form}",
            each(put(lambda api, frames: len(frames), make, ends=True)),
            ANY,
        )
        for form, make in ERROR_FORMS.items()
    ),
    ReplyFault("errors", "as content", {"chat_completions": error_as_content("chat_completions")}, FAILED),
    # order
    *(
        ReplyFault("order", f"{first} after {second}", {api: swap((first, second))}, ANY)
        for api, first, second in _SWAPPED
    ),
    *(
        ReplyFault("order", f"{later} before the last {earlier}", {api: hurry(later, earlier)}, ANY)
        for api, later, earlier in _HURRIED
    ),
    *(
        ReplyFault("order", f"{kind} twice", {"messages": twice(kind)})
        for kind in ("message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop")
    ),
    *(
        ReplyFault("order", f"{kind} twice", {"responses": twice(f"response.{kind}")})
        for kind in ("created", "output_item.added", "content_part.added", "output_text.done", "completed")
        + ("function_call_arguments.done", "output_item.done", "content_part.done", "reasoning_text.done")
    ),
    *(
        ReplyFault(
            "order",
            f"without {', '.join(kinds)}",
            {"messages": without(*kinds)},
            loses_usage="message_start" in kinds,
        )
        for kinds in (("message_start",), ("content_block_stop",), ("message_stop",))
    ),
    ReplyFault("order", "without content_block_start", {"messages": without("content_block_start")}, ANY),
    *(
        ReplyFault("order", f"without {', '.join(kinds)}", {"responses": without(*(f"response.{k}" for k in kinds))})
        for kinds in (
            ("created",),
            ("content_part.added", "content_part.done"),
            (
                "output_item.done",
                "content_part.done",
                "output_text.done",
                "reasoning_text.done",
                "function_call_arguments.done",
            ),
            ("output_item.added",),
            ("output_text.delta", "reasoning_text.delta", "function_call_arguments.delta"),
            ("output_item.done",),
            ("function_call_arguments.done",),
        )
    ),
    ReplyFault(
        "order",
        "without an output at the end",
        {"responses": change_objects(lambda value: value.get("response", {}).update(output=[]))},
        source="ChatGPT's backend",
    ),
    ReplyFault("order", "without a name", {"messages": without_field("type"), "responses": without_field("type")}),
    ReplyFault(
        "order",
        "without an index",
        {"messages": without_field("index"), "responses": without_field("output_index")},
    ),
    ReplyFault(
        "order",
        "without an id of the item",
        {"responses": without_field("item_id")},
    ),
    ReplyFault(
        "order",
        "without any place",
        {"responses": without_field("item_id", "output_index", "content_index")},
        source="ggml-org/llama.cpp#20607",
    ),
    ReplyFault(
        "order",
        "the response as the event itself",
        {"responses": change_objects(flat_response)},
        source="7836246/cursor2api#116",
    ),
    ReplyFault(
        "order",
        "reasoning and text in one block of text",
        {"messages": one_text_block},
        source="BerriAI/litellm#32357",
    ),
    ReplyFault(
        "order",
        "the end of the text in the block of a call",
        {"messages": text_in_call},
        EXACT,
        source="sgl-project/sglang#26795",
    ),
    ReplyFault(
        "order",
        "the input of calls in the block of the text",
        {"messages": input_in_text},
        EXACT,
        source="sgl-project/sglang#26795",
    ),
    ReplyFault("order", "the stream again", {"chat_completions": chat_twice}),
    # endings
    ReplyFault("ending", "no finish reason, and no end", each(cut), FAILED),
    ReplyFault("ending", "no finish reason, [DONE]", {"chat_completions": no_reason_but_done}),
    ReplyFault("ending", "no finish reason, an end", {"messages": without("message_delta")}, loses_usage=True),
    ReplyFault("ending", "null", reasons(lambda word: None), ANY),
    ReplyFault("ending", "null as a text", reasons(lambda word: "null"), ANY),
    ReplyFault("ending", "empty", reasons(lambda word: ""), ANY),
    ReplyFault("ending", "an unknown word", reasons(lambda word: "banana"), ("warned", "right")),
    ReplyFault("ending", "an object", reasons(lambda word: {"type": word}), ANY),
    ReplyFault("ending", "a list", reasons(lambda word: [word]), ANY),
    ReplyFault("ending", "a number", reasons(lambda word: 1), ANY),
    ReplyFault(
        "ending",
        "of the other kind of reply",
        {
            "chat_completions": reasons(lambda word: "stop" if word == "tool_calls" else "tool_calls")[
                "chat_completions"
            ],
            "messages": reasons(lambda word: "end_turn" if word == "tool_use" else "tool_use")["messages"],
            "gemini": reasons(lambda word: "TOOL_CALLS")["gemini"],
        },
    ),
    ReplyFault(
        "ending",
        "of another API",
        {
            "chat_completions": reasons(lambda word: "tool_use" if word == "tool_calls" else "end_turn")[
                "chat_completions"
            ],
            "messages": reasons(lambda word: "tool_calls" if word == "tool_use" else "stop")["messages"],
            "gemini": reasons(lambda word: "stop")["gemini"],
        },
    ),
    ReplyFault(
        "ending",
        "in each event",
        {
            "chat_completions": reason_in_each,
            "gemini": gemini_reason_in_each,
        },
    ),
    ReplyFault("ending", "two: stop, tool_calls", {"chat_completions": two_reasons("stop", "tool_calls")}),
    ReplyFault("ending", "two: tool_calls, stop", {"chat_completions": two_reasons("tool_calls", "stop")}),
    ReplyFault(
        "ending",
        "null, and the provider's own word for a failure",
        {"chat_completions": only_native_reason("MALFORMED_FUNCTION_CALL")},
        FAILED,
        source="OpenRouterTeam/ai-sdk-provider#166",
    ),
    ReplyFault("ending", "no [DONE]", {"chat_completions": lambda frames: frames[:-1]}),
    # types
    ReplyFault("types", "content as a list of parts", {"chat_completions": delta_field("content", text_part)}),
    ReplyFault(
        "types",
        "content as a list of texts",
        {"chat_completions": delta_field("content", lambda text: [text])},
    ),
    ReplyFault(
        "types",
        "content as a part",
        {"chat_completions": delta_field("content", lambda text: text_part(text)[0])},
    ),
    ReplyFault(
        "types",
        "reasoning as a list of parts",
        {"chat_completions": delta_field("reasoning_content", text_part)},
    ),
    ReplyFault(
        "types",
        "reasoning as a list of texts",
        {"chat_completions": delta_field("reasoning_content", lambda text: [text])},
    ),
    ReplyFault(
        "types",
        "reasoning as an object",
        {"chat_completions": delta_field("reasoning_content", lambda text: {"text": text})},
    ),
    ReplyFault(
        "types",
        "tool_calls as an object",
        {"chat_completions": delta_field("tool_calls", lambda calls: calls[0])},
    ),
    ReplyFault(
        "types",
        "tool_calls with numbers as keys",
        {"chat_completions": delta_field("tool_calls", lambda calls: {"0": calls[0]})},
    ),
    ReplyFault("types", "tool_calls as a text", {"chat_completions": delta_field("tool_calls", json.dumps)}),
    ReplyFault(
        "types",
        "function in a list",
        {"chat_completions": calls_only(delta_field("tool_calls", listed_function))},
    ),
    ReplyFault(
        "types",
        "delta in a list",
        {"chat_completions": each_in("choices", lambda one: one.update(delta=[one["delta"]]))},
    ),
    ReplyFault(
        "types",
        "choices as an object",
        {
            "chat_completions": change_objects(
                lambda value: value.update(choices=value["choices"][0]) if value["choices"] else None
            )
        },
    ),
    ReplyFault(
        "types",
        "arguments as an object",
        {
            "chat_completions": arguments(json.loads),
            "responses": item_field("function_call", "arguments", json.loads),
        },
    ),
    ReplyFault(
        "types",
        "arguments in a list",
        {
            "chat_completions": arguments(lambda text: [json.loads(text)]),
            "responses": calls_only(input_in_list),
            "gemini": part_field("args", lambda value: [value]),
            "messages": whole_input(lambda value: [value]),
        },
    ),
    ReplyFault(
        "types",
        "arguments as a text",
        {
            "gemini": part_field("args", json.dumps),
            "messages": whole_input(json.dumps),
        },
    ),
    ReplyFault(
        "types",
        "arguments as a text twice",
        {
            "chat_completions": arguments(json.dumps),
        },
    ),
    ReplyFault("types", "arguments in the start", {"messages": whole_input(lambda value: value)}),
    ReplyFault(
        "types",
        "text as a list",
        {
            "messages": message_delta_field("text", lambda text: [text]),
            "gemini": part_field("text", lambda text: [text]),
        },
        ANY,
    ),
    ReplyFault(
        "types",
        "text as an object",
        {
            "messages": message_delta_field("text", lambda text: {"text": text}),
            "gemini": part_field("text", lambda text: {"text": text}),
            "responses": text_delta_in_object,
        },
        ANY,
    ),
    ReplyFault(
        "types",
        "content as a text",
        {"responses": item_field("message", "content", lambda parts: parts[0]["text"])},
    ),
    ReplyFault(
        "types",
        "parts as an object",
        {
            "gemini": each_in("candidates", lambda one: one["content"].update(parts=one["content"]["parts"][0])),
        },
        ANY,
    ),
    ReplyFault(
        "types",
        "candidates as an object",
        {
            "gemini": change_objects(lambda value: value.update(candidates=value["candidates"][0])),
        },
        ANY,
    ),
    ReplyFault(
        "types",
        "content in a list",
        {
            "gemini": each_in("candidates", lambda one: one.update(content=[one["content"]])),
        },
        ANY,
    ),
    # names
    *(
        ReplyFault("names", f"reasoning as {name}", {"chat_completions": renamed_delta("reasoning_content", name)})
        for name in ("reasoning", "reasoning_text", "thinking")
    ),
    *(
        ReplyFault(
            "names",
            f"arguments as {name}",
            {"chat_completions": arguments_named(name)},
        )
        for name in ("parameters", "input", "args")
    ),
    ReplyFault("names", "finishReason", {"chat_completions": renamed(finish_reason="finishReason")}, ANY),
    ReplyFault("names", "toolCalls", {"chat_completions": calls_only(renamed(tool_calls="toolCalls"))}, ANY),
    ReplyFault("names", "snake case", {"gemini": SNAKE}, ANY),
    ReplyFault("names", "camel case", {"messages": renamed(stop_reason="stopReason")}, ANY),
    ReplyFault(
        "names",
        "a function without its object",
        {"chat_completions": calls_only(delta_field("tool_calls", flat_function))},
    ),
    ReplyFault("names", "function_call", {"chat_completions": one_call_only}),
    ReplyFault(
        "names",
        "of each call again behind its arguments",
        {"chat_completions": calls_only(name_again)},
        EXACT,
        source="unslothai/unsloth#10059",
    ),
    # text
    *(
        ReplyFault(
            "text",
            f"{name} behind it",
            each(lambda api, token=token: behind("text", token)),  # type: ignore[misc]
            EXACT,
            source=source,
        )
        for name, token, source in (
            ("the end of an answer", "\n</answer>", "vllm-project/vllm#58127"),
            ("an end of the turn", "<|im_end|>\n", "derived"),
        )
    ),
    # reasoning
    *(
        ReplyFault(
            "reasoning",
            f"in reasoning_content and {name}",
            {"chat_completions": reasoning_twice(name)},
            EXACT,
        )
        for name in ("reasoning", "reasoning_text", "thinking")
    ),
    ReplyFault("reasoning", "in tags", {"chat_completions": as_tags("<think>", "</think>\n\n", field=False)}, EXACT),
    ReplyFault(
        "reasoning",
        "in tags that open twice",
        {"chat_completions": as_tags("<think>\n<think>", "</think>\n\n", field=False)},
        EXACT,
        source="ggml-org/llama.cpp#21760",
    ),
    ReplyFault(
        "reasoning",
        "in tags that close twice",
        {"chat_completions": as_tags("<think>", "</think>\n</think>\n\n", field=False)},
        EXACT,
    ),
    ReplyFault(
        "reasoning",
        "in its field, with another model's closing tag behind it",
        {"chat_completions": closer_left("</mm:think>")},
        EXACT,
        source="vllm-project/vllm#50549",
    ),
    ReplyFault(
        "reasoning",
        "in its field and in tags",
        {"chat_completions": as_tags("<think>", "</think>\n\n", field=True)},
        EXACT,
    ),
    ReplyFault(
        "reasoning",
        "in tags of another family",
        {"chat_completions": as_tags("<seed:think>", "</seed:think>", field=False)},
        EXACT,
    ),
    *(
        ReplyFault(
            "reasoning",
            f"{name} behind it",
            each(lambda api, token=token: behind("reasoning", token)),  # type: ignore[misc]
            EXACT,
            source=source,
        )
        for name, token, source in (
            ("DeepSeek's end of the turn", "<｜end▁of▁sentence｜>", "vllm-project/vllm#48748"),
            ("an end of the turn", "<|im_end|>\n", "derived"),
            ("the opening of a call", "<|function_call|>", "vllm-project/vllm#51701"),
        )
    ),
    ReplyFault(
        "reasoning",
        "in two blocks, the second behind the text",
        {"chat_completions": thinking_again("\n<think>\n", "\n</think>\n", field=False)},
        EXACT,
        source="kekzl/imp#793",
    ),
    ReplyFault(
        "reasoning",
        "in two blocks, the second open before calls",
        {"chat_completions": calls_only(thinking_again("\n<think>", "", field=False))},
        EXACT,
    ),
    ReplyFault(
        "reasoning",
        "in its field, the rest in tags behind the text",
        {"chat_completions": thinking_again("\n<think>\n", "\n</think>\n\n", field=True)},
        EXACT,
        source="kekzl/imp#793",
    ),
    ReplyFault("reasoning", "with the call as text", each(call_in_reasoning), source="waybarrios/vllm-mlx#98"),
    ReplyFault(
        "reasoning",
        "again in its signed block",
        {"chat_completions": with_reasoning(repeat_signed)},
        EXACT,
        source="open-webui/open-webui#29860",
    ),
    ReplyFault("reasoning", "behind the text", {"chat_completions": with_reasoning(reasoning_behind)}, EXACT),
    ReplyFault(
        "reasoning", "again in a message at the end", {"chat_completions": message_at_end}, EXACT, source="Perplexity"
    ),
    # deltas
    ReplyFault(
        "deltas",
        "cumulative arguments",
        {"chat_completions": calls_only(cumulative_arguments)},
        EXACT,
        source="NousResearch/hermes-agent#35592",
    ),
    ReplyFault(
        "deltas",
        "the last one twice, with the finish reason",
        {"chat_completions": last_text_twice},
        EXACT,
        source="ranxianglei/billion-context#429",
    ),
    ReplyFault("deltas", "cumulative text", {"chat_completions": cumulative("content")}),
    ReplyFault("deltas", "cumulative reasoning", {"chat_completions": cumulative("reasoning_content")}),
)

REPLY_EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("errors", "as content"): "a text is a text, whatever it says",
    ("names", "toolCalls"): "a field of an unknown name is skipped; the reply's native finish reason tells of calls",
    ("deltas", "cumulative text"): "each delta is sent on at once, and a text may repeat itself",
    ("deltas", "cumulative reasoning"): "each delta is sent on at once, and a text may repeat itself",
}
"""Faults whose outcome is not that of the others, by place and operator, each with the reason."""
