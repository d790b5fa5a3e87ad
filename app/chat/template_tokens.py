"""The tokens of chat templates that servers leave in replies: the one list for texts, calls and reasoning.

Each is written as its model's template or tokenizer has it. A family of calls in text (`steps/tool_parsers`) says which
of them begin and separate its calls; here is what may stand behind a call or at the end of a reply.
"""

import re

K3_OPEN, K3_CLOSE, K3_END = "<|open|>", "<|close|>", "<|sep|>"
"""Kimi K3 (sglang/srt/function_call/kimik3_format.py): `<|open|>response<|sep|>…<|close|>response<|sep|>`."""
K3_CHANNELS = ("message", "response", "think", "tools", "call", "argument", "json")
M3_NAMESPACE = "]<]minimax[>["
"""Before each tag of MiniMax-M3 (sglang/srt/function_call/minimax_m3.py)."""

DSML_BARS = ("｜", "｜｜", "‖", "|", "||", " | ", " ｜ ")
"""The first are DeepSeek's, the others what models write instead (adolfousier/opencrabs#419, lsdefine/GenericAgent#804,
xorbitsai/xagent#790, AgentFlocks/flocks#687)."""
_DSML_NAMES = ("parameter", "invoke", "tool_calls", "function_calls", "tool_use", " parameter", " invoke", " calls")
DSML_CLOSERS = tuple(
    f"</{bars}DSML{bars}{name}{end}" for bars in DSML_BARS for name in _DSML_NAMES for end in (">", "")
)
"""DeepSeek V3.2, V4 and V4.1, whose names have a space; also cut off (vllm-project/vllm#53227)."""

GCML_CLOSERS = tuple(f"</｜GCML｜{name}{end}" for name in ("parameter", "invoke", "tool_calls") for end in (">", ""))
"""GigaChat 3.5 (sglang/srt/function_call/gigachat35_detector.py)."""
PLAMO_CLOSERS = tuple(f"<|plamo:end_tool_{name}:plamo|>" for name in ("arguments", "name", "request", "requests"))
"""PLaMo 3 (vllm/parser/plamo3.py)."""
INKLING_MESSAGE, INKLING_TEXT, INKLING_THOUGHT = "<|message_model|>", "<|content_text|>", "<|content_thinking|>"
INKLING_ENDS = ("<|end_message|>", "<|content_model_end_sampling|>")
"""Inkling (vllm/parser/inkling.py): `<|message_model|><|content_text|>…<|end_message|>`."""

CALL_CLOSERS = (
    *(
        "</tool_call>",
        "</tool_calls>",
        "</function>",
        "</function_call>",
        "</function_calls>",
        "</function_invocation>",
    ),
    *("</invoke>", "</parameter>", "</arg_value>", "</arg_key>", "</tool_call_name>", "</longcat_tool_call>"),
    *("</minimax:tool_call>", "</seed:tool_call>", "</steptml:invoke>", "</steptml:parameter>", "</TOOLCALL>"),
    *(f"{M3_NAMESPACE}{tag}" for tag in ("</invoke>", "</tool_call>")),
    *("[END_TOOL_REQUEST]", "<|python_end|>", "<tool_call|>", "<end_function_call>", "<|tools_suffix|>"),
    *("<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "<｜tool_call_end｜>", "<｜tool_calls_end｜>"),
    *("<|tool_call_end|>", "<|tool_calls_section_end|>", "<|tool_call_section_end|>", "<|action_end|>"),
    *("<|END_ACTION|>", "<|tool_call:end|>", "<|calls|>", "</dots_function_call>", "</param>"),
    *("</atem:function_calls>", "</atem:invoke>", "</atem:parameter>"),
    *(f"</ifm|{name}>" for name in ("tool_call", "tool_calls", "arg_value", "arg_key")),
    *("</iquest_tool_call>", "</rfl:parameter>", "<|tool_arg:end|>"),
    *("</tool_calls:opensource>", "</tool_call:opensource>", "</arg_value:opensource>", "</longcat_arg_value>"),
    *(f"{K3_CLOSE}{name}{end}" for name in K3_CHANNELS for end in (K3_END, "")),
    *DSML_CLOSERS,
    *GCML_CLOSERS,
    *PLAMO_CLOSERS,
)
"""What ends a call, its arguments or a block of calls in any family."""
TURN_ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>", "</s>", "<|endoftext|>"),
    *("<|end_of_text|>", "<|end_of_msg|>", "<|end_of_turn|>", "<end_of_turn>", "<turn|>", "<eos>", "[e~["),
    *("<｜end▁of▁sentence｜>", "<|user|>", "<|observation|>", "<|EOT|>", "<|eom|>", "<|eot|>", K3_END),
    *("<|plamo:tag|>", "<|ifm|im_end|>", "<|iquest_end|>", *INKLING_ENDS),
)
"""What ends the turn of a model."""
THINK_TAGS: tuple[tuple[str, ...], ...] = (
    *(("<mm:think>", "</mm:think>"), ("<seed:think>", "</seed:think>"), ("<think:opensource>", "</think:opensource>")),
    *(("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"), ("<|START_THINKING|>", "<|END_THINKING|>")),
    *(("<|channel>thought\n", "<channel|>"), ("<|channel><|channel>thought\n", "<channel|>")),
    *(("<|thought_start|>", "<|thought_end|>"), ("<|think|>", "<|end|>")),
    *(("<longcat_think>", "</longcat_think>"), ("<|inner_prefix|>", "<|inner_suffix|>")),
    (f"{K3_OPEN}think{K3_END}", f"{K3_CLOSE}think{K3_END}"),
    ("<ifm|think>", "</ifm|think>"),
    *((f"<ifm|{name}>", f"</ifm|{name}>", "</ifm|think>") for name in ("think_fast", "think_faster")),
    ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    *((opening, *INKLING_ENDS) for opening in (INKLING_THOUGHT, INKLING_MESSAGE + INKLING_THOUGHT)),
)
"""Around the reasoning of MiniMax-M3, Seed-OSS, Hunyuan, Mistral, Kimi-VL, Cohere, Gemma 4, MiniCPM, Solar Open,
LongCat, Apertus, Kimi K3, K2 Horizon, PLaMo 3 and Inkling (the reasoning parsers of vLLM and SGLang; llama.cpp:
common/chat.cpp, common/parsers): what opens it, what closes it, and what else models close it with. No answer begins
so."""
HARMONY_THOUGHT = ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|end|>")
"""The same of gpt-oss (github.com/openai/harmony)."""
WITH_HARMONY = (*THINK_TAGS, HARMONY_THOUGHT)
STRAY_CLOSERS = (
    *(closer for _, *closers in THINK_TAGS for closer in closers if closer not in ("<|end|>", *INKLING_ENDS)),
    "</thinking>",
)
"""What closes nothing but reasoning. The last is MiniMax-M3's, too (anomalyco/opencode#36569); its opening tag may be a
part of an answer, because prompts ask for it."""
THOUGHT_CLOSERS = tuple(f"{K3_CLOSE}{name}" for name in ("think", "response"))
"""What ends the reasoning of Kimi K3 and is no part of the answer; it also closes the channel of an answer that it has
not opened (vllm-project/vllm#53246)."""
THOUGHT_INTERRUPTS = (
    *(f"{K3_OPEN}response{K3_END}", f"{K3_OPEN}tools{K3_END}"),
    *("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>", f"{M3_NAMESPACE}<tool_call>"),
    *("<ifm|tool_calls>", "<|plamo:begin_tool_requests:plamo|>"),
)
"""What begins behind the reasoning of Kimi K3 and K2 if they have not closed it (vllm-project/vllm#53246, #54273,
#33646), of MiniMax-M3 (ai-dynamo/frontend-crates#133), of K2 Horizon and of PLaMo 3 (vLLM:
k2_horizon_reasoning_parser.py, plamo3.py)."""
_CALL_OPENINGS = (
    *("<|function_call|>", "<|message_sep|>", "<|tool_call>", "<|python_tag|>", "<|tool_call_start|>"),
    *("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>", "<|tool_call_begin|>"),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜DSML｜tool_calls>", "<｜DSML｜function_calls>"),
)
"""What a server leaves of a call that it has parsed (vllm-project/vllm#51701)."""
ANSWER_TAGS = ("<answer>", "</answer>")
"""Around the answer of Hunyuan: a parser that has eaten the first leaves the other (vllm-project/vllm#58127)."""
TEXT_ENDS = (
    *_CALL_OPENINGS,
    ANSWER_TAGS[1],
    *("<|END_RESPONSE|>", "<|END_TEXT|>", "<channel|>"),
    *(token for token in TURN_ENDS if token not in ("</s>", "[e~[", "<|call|>", K3_END)),
    *(f"{K3_CLOSE}{name}{end}" for name in K3_CHANNELS[:3] for end in (K3_END, "")),
)
"""What a text that a model wrote cannot end with."""
TEXT_STARTS = (
    *(f"{K3_OPEN}response{K3_END}", f"{K3_OPEN}message{K3_END}", K3_END, "<|START_RESPONSE|>", "<|START_TEXT|>"),
    *("<|begin|>assistant<|content|>", "<|begin|>assistant", "<|content|>"),
    *(INKLING_MESSAGE + INKLING_TEXT, INKLING_TEXT),
    *("<|start|>assistant<|channel|>final<|message|>", "<|channel|>final<|message|>"),
    "thought\n<channel|>",
)
"""What the text of a reply cannot begin with."""
BEFORE_ARGUMENTS = (
    *("[ARGS]", "<|tool_call_argument_begin|>", "<|message|>", "<|constrain|>json", "<|constrain|>", "<｜tool▁sep｜>"),
    *("<|plamo:begin_tool_arguments:plamo|>", "<|plamo:constrain|>json", "<|plamo:msg|>"),
    *("```json", "```", "json"),
)
"""What stands between the name of a function and its arguments."""

_SPECIAL = r"<\|[^<>|\s]{1,40}\|>|</?｜+[^<>｜\n]{1,30}｜+[^<>\n]{0,40}>?"
"""Special tokens by their form: `<|…|>`, and DeepSeek's with wide bars."""


def _join(*groups: tuple[str, ...]) -> str:
    tokens = sorted({token for group in groups for token in group}, key=len, reverse=True)
    return "|".join(map(re.escape, tokens))


TOKEN = re.compile(f"{_join(CALL_CLOSERS, TURN_ENDS, ('[ARGS]', '[TOOL_CALLS]', '[CALL_ID]'))}|{_SPECIAL}")
"""A token that is no part of a name."""
AROUND_ARGUMENTS = re.compile(rf"(?>(?:{_join(CALL_CLOSERS, TURN_ENDS, BEFORE_ARGUMENTS)}|{_SPECIAL}|\s)*)")
"""What servers leave of a template before and behind arguments.

The group is atomic: a space behind a token of DeepSeek's form belongs to that token or stands by itself, and a match
that tried both for each token would take exponential time.
"""
_AROUND = tuple(sorted({*CALL_CLOSERS, *TURN_ENDS, *BEFORE_ARGUMENTS}, key=len, reverse=True))
_UNFINISHED = re.compile(r"<\|[^<>|\s]{0,40}\|?|</?｜+[^<>｜\n]{0,30}｜*[^<>\n]{0,40}")


def may_begin_token(text: str) -> bool:
    """Whether a text can consist of tokens around arguments, the last of which may not be complete."""
    known = AROUND_ARGUMENTS.match(text)
    rest = text[known.end() :] if known is not None else text
    return not rest or any(token.startswith(rest) for token in _AROUND) or _UNFINISHED.fullmatch(rest) is not None
