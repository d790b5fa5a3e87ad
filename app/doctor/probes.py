"""Judge the replies to three requests: one that asks for reasoning, one that offers a function, and one that asks for
more output tokens than any model has. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from app.chat.events import Event, Fault, Finish, ReasoningDelta, TextDelta, ToolCallDelta
from app.chat.messages import Tool
from app.profiles import Profile
from app.steps.reasoning_parser import ReasoningStage, ThinkMode
from app.steps.tool_parsers import tool_parser_stage

FUNCTION: dict[str, Any] = {
    "name": "get_weather",
    "description": "Returns the weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TOOL_QUESTION = "What is the weather in Paris? Call the function get_weather."
LENGTH_QUESTION = "Reply with the word OK."
HUGE_OUTPUT = 1_000_000
USUAL_OUTPUT = 32_000
"""What Claude Code asks for with each request."""
_PART_FOR_OUTPUT = 4
"""The part of a context that is suggested for the reply: the rest is for the conversation."""
REASONING_QUESTION = "What is 17 + 25? Think first, but briefly. Then answer with the number."

_FAMILIES = {
    "seed_oss": "<seed:tool_call>",
    "qwen3_coder": "<function=",
    "glm45": "<arg_key>",
    "hermes": "<tool_call>",
    "deepseek_v3": "<｜tool▁call",
    "dsml": "DSML",
    "mistral_json": "[TOOL_CALLS]",
    "kimi_k2": "<|tool_call",
    "minimax_m2": "<minimax:tool_call>",
    "kimi_k3": "<|open|>",
    "minimax_m3": "]<]minimax[>[",
    "step3": "<steptml:",
    "gemma4": "call:",
    "tool_calls": "<tool_calls>",
    "longcat": "<longcat_tool_call>",
    "nemotron": "<TOOLCALL>",
    "internlm": "<|action_start|>",
    "granite": "<|tool_call|>",
    "cohere": "<|START_ACTION|>",
    "gigachat": "<|function_call|>",
    "apertus": "<|tools_prefix|>",
    "functools": "functools[",
    "hunyuan_v4": "<tool_call:opensource>",
    "solar": "<|tool_call:begin|>",
    "dots": "<dots_function_call>",
    "atem": "<atem:",
    "minicpm5": "<function name=",
    "solar_open2": "<|tool_arg:start|>",
    "gigachat35": "<｜GCML｜",
    "k2_horizon": "<ifm|tool_call>",
    "iquest_q1": "<iquest_tool_call>",
    "plamo3": "<|plamo:begin_tool_",
    "inkling": "<|content_invoke_tool_json|>",
    "harmony": "<|channel|>",
    "lmstudio": "[TOOL_REQUEST]",
    "llama_json": "{",
    "pythonic": "[",
}
"""A text that a call of each family has: some families also read the calls of others."""
_TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<mm:think>", "</mm:think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)


class Verdict(Struct, frozen=True):
    good: bool
    message: str
    advice: str = ""
    fields: Mapping[str, Any] = {}
    """The profile fields to set."""


def judge_tools(events: Sequence[Event], profile: Profile, function: str = FUNCTION["name"]) -> Verdict:
    """Judge the reply to a request that offers this function."""
    if any(isinstance(event, ToolCallDelta) for event in events):
        return Verdict(True, "the server returns function calls")
    text = "".join(event.text for event in _parse_reasoning(events, profile) if isinstance(event, TextDelta))
    if profile.text_family is not None and _finds_call(text, profile.text_family, function):
        return Verdict(True, f'function calls arrive as text, which text_tools = "{profile.text_family}" reads')
    family = next(
        (name for name, mark in _FAMILIES.items() if mark in text and _finds_call(text, name, function)), None
    )
    if family is not None:
        advice = "start the server with a parser of tool calls, or let the gateway read them as they arrive"
        return Verdict(False, "function calls arrive as text in the content", advice, {"text_tools": family})
    return Verdict(
        True,
        "the model answered without calling the function that it was offered",
        "if it never calls one, let the gateway explain functions in the prompt: native_tools = false",
    )


def judge_refused_tools() -> Verdict:
    """Judge a server that answers an error to a request with functions, but not to one without."""
    advice = "start the server with support for tools, or let the gateway explain functions in the prompt"
    return Verdict(False, "the server refuses requests with functions", advice, {"native_tools": False})


def judge_output_limit(fault: Fault | None) -> Verdict | None:
    """Judge the answer to a request for HUGE_OUTPUT tokens; None if it says nothing about that limit."""
    if fault is None:
        return Verdict(True, "the server accepts any limit of output tokens")
    if fault.param is None or not isinstance(fault.detail, dict):
        return None
    context, largest = fault.detail.get("context_tokens"), fault.detail.get("largest_max_tokens")
    if largest is None:
        largest = context // _PART_FOR_OUTPUT if context is not None else None
    if largest is None:
        return None
    if largest >= USUAL_OUTPUT:
        return Verdict(True, f"the server accepts {USUAL_OUTPUT:,} output tokens, which clients usually request")
    why = f"its context has {context:,} tokens" if context is not None else f"its maximum is {largest:,}"
    text = f"the server refuses the {USUAL_OUTPUT:,} output tokens that clients such as Claude Code request: {why}"
    return Verdict(False, text, "let the gateway lower the limit", {"max_output_tokens": largest})


def judge_reasoning(events: Sequence[Event], profile: Profile) -> Verdict:
    """Judge the reply to REASONING_QUESTION."""
    if any(isinstance(event, ReasoningDelta) for event in events):
        return Verdict(True, "reasoning arrives in a separate field")
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    if _reads_reasoning(text, profile.inline_think, profile.think_tags):
        return Verdict(True, f"reasoning arrives between {' '.join(profile.think_tags)}, which the gateway reads")
    if "<|channel|>" in text:
        if profile.text_tools == "harmony":
            return Verdict(True, 'reasoning arrives as text, which text_tools = "harmony" reads')
        advice = "start the server with a parser of harmony, or let the gateway read it"
        return Verdict(False, "reasoning arrives in the content, in harmony", advice, {"text_tools": "harmony"})
    for tags in _TAGS:
        mode = _find_mode(text, tags)
        if mode is not None:
            fields: dict[str, Any] = {"inline_think": mode} if mode != profile.inline_think else {}
            fields |= {"think_tags": list(tags)} if tags != profile.think_tags else {}
            advice = "start the server with a parser of reasoning, or let the gateway read it"
            if mode == "forced_open":
                advice += '; "auto_close" if reasoning can also be off'
            return Verdict(False, f"reasoning arrives in the content, with {' '.join(tags)}", advice, fields)
    return Verdict(True, "the reply has no reasoning")


def _find_mode(text: str, tags: tuple[str, str]) -> ThinkMode | None:
    """Return how reasoning between these tags is read, or None if the text has none."""
    opening, closing = tags
    begin, end = text.find(opening), text.find(closing)
    if begin < 0 and end < 0:
        return None
    if begin < 0 or 0 <= end < begin:
        return "forced_open"
    more = text.find(opening, end) >= 0 if end >= 0 else False
    return "interleaved" if more or text[:begin].strip() else "leading"


def _reads_reasoning(text: str, mode: ThinkMode, tags: tuple[str, str]) -> bool:
    """Whether the gateway finds reasoning in the text, and leaves no tag in the rest."""
    events = ReasoningStage(mode, tags).feed([TextDelta(text), Finish("stop")])
    rest = "".join(event.text for event in events if isinstance(event, TextDelta))
    found = any(isinstance(event, ReasoningDelta) for event in events)
    tagged = any(tag in text for tag in tags)
    return found and tagged and not any(tag in rest for pair in _TAGS for tag in pair)


def _parse_reasoning(events: Sequence[Event], profile: Profile) -> Iterator[Event]:
    stage = ReasoningStage(profile.inline_think, profile.think_tags, profile.think_interrupt, profile.answer_tags)
    yield from stage.feed([*events] if events and isinstance(events[-1], Finish) else [*events, Finish("stop")])


def _finds_call(text: str, family: str, function: str) -> bool:
    stage = tool_parser_stage(family, [Tool(function, FUNCTION)], "doctor")
    events = stage.feed([TextDelta(text), Finish("stop")])
    return any(isinstance(event, ToolCallDelta) and event.name == function for event in events)
