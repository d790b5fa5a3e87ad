"""Texts that cost the square of their length if a stage reads some of it again for each part of it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from app.chat.events import Event, Finish, TextDelta
from app.chat.stage import Stage
from app.steps.prompted_tools import NousStage, QwenStage
from app.steps.reasoning_parser import ReasoningStage, ThinkMode
from app.steps.stop_words import StopWordStage
from app.steps.tool_parsers import FAMILIES
from app.steps.tool_parsers.stage import CallStage

from tests.steps.tool_parsers.sample_texts import TOOLS

MODES: tuple[ThinkMode, ...] = ("leading", "forced_open", "auto_close", "interleaved")
STAGES: dict[str, Callable[[], Stage]] = {
    **{family: partial(CallStage, "chat-1", TOOLS, parser) for family, parser in FAMILIES.items()},
    "nous": lambda: NousStage("chat-1", TOOLS),
    "nous-thoughts": lambda: NousStage("chat-1", TOOLS, thought_in_content=True, code=True),
    "qwen": lambda: QwenStage("chat-1", TOOLS, parallel=True),
    "qwen-forced": lambda: QwenStage("chat-1", TOOLS, parallel=True, forced="f"),
    **{f"think-{mode}": partial(ReasoningStage, mode, ("<think>", "</think>"), "<tool_call>") for mode in MODES},
    "stop": lambda: StopWordStage(["<|end|>", " }}}}}}}}x", "\n\n\n\nObservation:", "aaaaaaaab", "\\\\\\\\n"]),
}


class Form(NamedTuple):
    """How a family writes calls."""

    opening: str
    arguments: str
    """Up to the first argument's value."""
    call: str
    closer: str


M3, K3 = "]<]minimax[>[", "<|open|>"
DSML, INVOKE = "<｜DSML｜", '<minimax:tool_call><invoke name="f">'
BEGIN, SEP, END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
KIMI, KIMI_ARGS, KIMI_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"


def _json_form(opening: str, closer: str, head: str = '{"name":"f","arguments":{"a":', tail: str = "1}}") -> Form:
    return Form(opening, opening + head, opening + head + tail + closer, closer)


_HERMES = _json_form("<tool_call>", "</tool_call>")
_QWEN = Form("✿FUNCTION✿: f\n", '✿FUNCTION✿: f\n✿ARGS✿: {"a":', '✿FUNCTION✿: f\n✿ARGS✿: {"a":1}', "✿RETURN✿")
FORMS: dict[str, Form] = {
    "hermes": _HERMES,
    "nous": _HERMES,
    "nous-thoughts": _HERMES,
    "qwen": _QWEN,
    "qwen-forced": _QWEN,
    "qwen3_coder": Form(
        "<function=f>",
        "<function=f><parameter=s>",
        "<function=f><parameter=a>1</parameter></function>",
        "</parameter>",
    ),
    "deepseek_v3": _json_form(BEGIN, END, f'function{SEP}f\n```json\n{{"a":', "1}\n```"),
    "deepseek_v31": _json_form(f"<｜tool▁calls▁begin｜>{BEGIN}", END, f'f{SEP}{{"a":', "1}"),
    "dsml": Form(
        f"{DSML}tool_calls>",
        f'{DSML}tool_calls>{DSML}invoke name="f">{DSML}parameter name="s" string="true">',
        f'{DSML}tool_calls>{DSML}invoke name="f"></｜DSML｜invoke></｜DSML｜tool_calls>',
        "</｜DSML｜invoke>",
    ),
    "mistral_json": _json_form("[TOOL_CALLS][", "]"),
    "mistral_args": _json_form("[TOOL_CALLS]", "</s>", 'f[ARGS]{"a":', "1}"),
    "llama_json": _json_form("<|python_tag|>", "<|eom_id|>"),
    "pythonic": Form("<|python_start|>[f(", "[f(a=", "<|python_start|>[f(a=1)]<|python_end|>", "<|python_end|>"),
    "glm45": Form(
        "<tool_call>",
        "<tool_call>f<arg_key>s</arg_key><arg_value>",
        "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
        "</arg_value>",
    ),
    "kimi_k2": _json_form(KIMI, KIMI_END, f'functions.f:0{KIMI_ARGS}{{"a":', "1}"),
    "minimax_m2": Form(
        "<minimax:tool_call>",
        f'{INVOKE}<parameter name="s">',
        f'{INVOKE}<parameter name="a">1</parameter></invoke></minimax:tool_call>',
        "</invoke>",
    ),
    "minimax_m3": Form(
        f"{M3}<tool_call>",
        f'{M3}<tool_call>{M3}<invoke name="f">{M3}<s>',
        f'{M3}<tool_call>{M3}<invoke name="f">{M3}<a>1{M3}</a>{M3}</invoke>{M3}</tool_call>',
        f"{M3}</a>",
    ),
    "kimi_k3": Form(
        f"{K3}tools<|sep|>",
        f'{K3}call tool="f" index="1"<|sep|>{K3}argument key="s" type="string"<|sep|>',
        f'{K3}call tool="f" index="1"<|sep|>{K3}argument key="a" type="number"<|sep|>1<|close|>argument<|sep|>'
        "<|close|>call<|sep|>",
        "<|close|>argument<|sep|>",
    ),
    "step3": Form(
        "<｜tool_calls_begin｜>",
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f"><steptml:parameter name="s">',
        '<steptml:invoke name="f"><steptml:parameter name="a">1</steptml:parameter></steptml:invoke>',
        "</steptml:parameter>",
    ),
    "seed_oss": Form(
        "<seed:tool_call>",
        "<seed:tool_call><function=f><parameter=s>",
        "<seed:tool_call><function=f><parameter=a>1</parameter></function></seed:tool_call>",
        "</parameter>",
    ),
    "gemma4": Form(
        "<|tool_call>call:f{",
        '<|tool_call>call:f{s:<|"|>',
        "<|tool_call>call:f{a:1}<tool_call|>",
        "<tool_call|>",
    ),
    "tool_calls": _json_form("<tool_calls>", "</tool_calls>"),
    "longcat": _json_form("<longcat_tool_call>", "</longcat_tool_call>"),
    "nemotron": _json_form("<TOOLCALL>[", "]</TOOLCALL>"),
    "internlm": _json_form("<|action_start|><|plugin|>", "<|action_end|>"),
    "granite": _json_form("<|tool_call|>[", "]"),
    "harmony": _json_form("<|channel|>", "<|end|>", 'commentary to=functions.f<|message|>{"a":', "1}"),
    "lmstudio": _json_form("[TOOL_REQUEST]", "[END_TOOL_REQUEST]"),
    "cohere": _json_form("<|START_ACTION|>[", "]<|END_ACTION|>"),
    "gigachat": _json_form("<|function_call|>", "</s>"),
    "apertus": Form(
        "<|tools_prefix|>[", '<|tools_prefix|>[{"f": {"s": "', '<|tools_prefix|>[{"f": {"a": 1}}]', "<|tools_suffix|>"
    ),
    "functools": _json_form("functools[", "]"),
    "hunyuan_v4": Form(
        "<tool_call:opensource>",
        "<tool_call:opensource>f<arg_key:opensource>s</arg_key:opensource><arg_value:opensource>",
        "<tool_call:opensource>f<arg_key:opensource>a</arg_key:opensource><arg_value:opensource>1</arg_value:opensource>",
        "</arg_value:opensource>",
    ),
    "solar": Form(
        "<|tool_calls|><|tool_call:begin|>0<|tool_call:name|>f<|tool_call:args|>{",
        '<|tool_call:begin|>0<|tool_call:name|>f<|tool_call:args|>{"s": "',
        '<|tool_call:begin|>0<|tool_call:name|>f<|tool_call:args|>{"a": 1}<|tool_call:end|>',
        "<|tool_call:end|>",
    ),
    "dots": Form(
        "<dots_function_call>",
        '<dots_function_call><invoke name="f"><parameter name="s">',
        '<dots_function_call><invoke name="f"><parameter name="a">1</parameter></invoke></dots_function_call>',
        "</parameter>",
    ),
    "atem": Form(
        "<atem:function_calls>",
        '<atem:function_calls><atem:invoke name="f"><atem:parameter name="s">',
        '<atem:invoke name="f"><atem:parameter name="a">1</atem:parameter></atem:invoke>',
        "</atem:parameter>",
    ),
    "minicpm5": Form(
        '<function name="f">',
        '<function name="f"><param name="s">',
        '<function name="f"><param name="a">1</param></function>',
        "</param>",
    ),
    "gigachat35": Form(
        "<｜GCML｜tool_calls>",
        '<｜GCML｜tool_calls><｜GCML｜invoke name="f"><｜GCML｜parameter name="s" string="true">',
        '<｜GCML｜invoke name="f"><｜GCML｜parameter name="a" string="false">1</｜GCML｜parameter></｜GCML｜invoke>',
        "</｜GCML｜parameter>",
    ),
    "k2_horizon": Form(
        "<ifm|tool_call>",
        "<ifm|tool_call>f<ifm|arg_key>s</ifm|arg_key><ifm|arg_value>",
        "<ifm|tool_call>f<ifm|arg_key>a</ifm|arg_key><ifm|arg_type>integer</ifm|arg_type><ifm|arg_value>1"
        "</ifm|arg_value></ifm|tool_call>",
        "</ifm|arg_value>",
    ),
    "iquest_q1": Form(
        "<iquest_tool_call>",
        "<iquest_tool_call>f<arg_key>s</arg_key><arg_value>",
        "<iquest_tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></iquest_tool_call>",
        "</arg_value>",
    ),
    "plamo3": _json_form(
        "<|plamo:begin_tool_name:plamo|>",
        "<|plamo:end_tool_arguments:plamo|>",
        'f<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>{"a":',
        "1}",
    ),
    "inkling": _json_form("<|content_invoke_tool_json|>", "<|end_message|>", '{"name":"f","args":{"a":'),
    "solar_open2": Form(
        "<|tool_call:start|>",
        "<|tool_call:start|>f\n<|tool_arg:start|>s<|tool_arg:value|>",
        "<|tool_call:start|>f\n<|tool_arg:start|>a<|tool_arg:value|>1<|tool_arg:end|>\n<|tool_call:end|>",
        "<|tool_arg:end|>",
    ),
    **{f"think-{mode}": Form("<think>", "<think>x\n", "<think>x</think>", "</think>") for mode in MODES},
    "stop": Form("<|end|", "aaaaaaaa", "\n\n\n\nObs", "}}}}}}}}"),
}

CALL_ENDS = "</function></invoke></｜DSML｜invoke></tool_call>"
UNITS = [
    *(" ", "\n", "\t\n", "}", "{", "]", "[", "(", ")", ",", '"', "'", "\\", '\\"', "9", "x", "é", "<", "</", ";", ":"),
    *("/", "/**/", "//\n", '{"a":', '"a":1,', "a=1,", "```", "<think>", "</think>", "<think></think>", "<tool_call>"),
    *("</parameter>x", "</arg_value>x", "</｜DSML｜parameter>  x", "</function>"),
]


_REST = 5_000


class Hostile(NamedTuple):
    """A beginning, and what is repeated after it."""

    start: str
    unit: str

    def text(self, size: int) -> str:
        """Return a text of about this size. All end at the same place of the unit: another end may be another case."""
        unit = self.unit
        return self.start + unit * (size // len(unit)) + unit[: _REST % len(unit)]


def hostile_texts(stage: str) -> list[Hostile]:
    form = FORMS[stage]
    opening, arguments, call, closer = form
    starts = ["", opening, arguments, f'{arguments}"', call, call.removesuffix(closer), f'{opening}{{"name":"']
    starts += [f'{arguments}"{closer}', f"{arguments}x{CALL_ENDS}"]
    units = [*UNITS, opening, opening[:-1], f"x{opening}", f"{opening}{{'", arguments, f'{arguments}"', f"{arguments}'"]
    units += [f"{arguments}/*", call, f"\n{call}", f"{call} x", closer, closer[:-1]]
    units += [f'\n//{opening}{{"type":[', f'//{arguments}["{closer}",\n']
    return [Hostile(start, unit) for start in dict.fromkeys(starts) for unit in dict.fromkeys(units) if unit]


def pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def feed_pieces(stage: Stage, text: str, size: int) -> list[Event]:
    """Return the events of the text in pieces of this size."""
    out: list[Event] = []
    for piece in pieces(text, size):
        out += stage.feed([TextDelta(piece)])
    return out + stage.feed([Finish("stop")])
