"""The families of models that write calls as text: one row for each, with its source.

vLLM's parsers are in vllm/tool_parsers, SGLang's in sglang/srt/function_call.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from app.chat.template_tokens import (
    DSML_BARS,
    GCML_CLOSERS,
    INKLING_ENDS,
    K3_CLOSE,
    K3_END,
    K3_OPEN,
    M3_NAMESPACE,
    PLAMO_CLOSERS,
)
from app.steps.tool_parsers import harmony
from app.steps.tool_parsers.family import Family
from app.steps.tool_parsers.gemma import GemmaCall, read_bare_call
from app.steps.tool_parsers.inkling import BLOCKS
from app.steps.tool_parsers.json_calls import KeyedCalls, NamedCall, NotedCall, ObjectCalls
from app.steps.tool_parsers.minimax_m3 import NamespacedCall
from app.steps.tool_parsers.pythonic import PythonCalls
from app.steps.tool_parsers.xml_calls import XmlSyntax

OBJECTS, NOTED = ObjectCalls(), NotedCall()
QWEN = XmlSyntax("<function=", "</function>", "<parameter=", "</parameter>")
INVOKE = XmlSyntax('<invoke name="', "</invoke>", '<parameter name="', "</parameter>")
MINIMAX = replace(INVOKE, break_pairs=True)


def _pairs(call_end: str, prefix: str = "", suffix: str = "") -> XmlSyntax:
    """A name in plain text, and a key and a value for each parameter. Hunyuan 3 has `<tool_sep>` behind the name, K2
    Horizon a type between key and value."""
    return XmlSyntax(
        "",
        call_end,
        f"<{prefix}arg_key{suffix}>",
        f"</{prefix}arg_value{suffix}>",
        parameter_head_end=f"<{prefix}arg_value{suffix}>",
        stop=f"</{prefix}arg_key{suffix}>",
        breaks=False,
        name_end=f"<tool_sep{suffix}>",
        type_opening=f"<{prefix}arg_type{suffix}>",
    )


GLM = _pairs("</tool_call>")
STEPTML = XmlSyntax('<steptml:invoke name="', "</steptml:invoke>", '<steptml:parameter name="', "</steptml:parameter>")
K3 = XmlSyntax(
    f'{K3_OPEN}call tool="',
    f"{K3_CLOSE}call{K3_END}",
    f'{K3_OPEN}argument key="',
    f"{K3_CLOSE}argument{K3_END}",
    head_end=K3_END,
    parameter_head_end=K3_END,
    breaks=False,
    other_ends=(f"{K3_CLOSE}argument",),
    object_opening=f'{K3_OPEN}json type="object"{K3_END}',
)


def _dsml(bars: str, space: str) -> XmlSyntax:
    """DeepSeek V4.1 writes a space before each name (sglang: deepseekv41_detector.py)."""
    others = (f"</{other}DSML{other}{space}parameter>" for other in DSML_BARS if other != bars)
    return XmlSyntax(
        f'<{bars}DSML{bars}{space}invoke name="',
        f"</{bars}DSML{bars}{space}invoke>",
        f'<{bars}DSML{bars}{space}parameter name="',
        f"</{bars}DSML{bars}{space}parameter>",
        breaks=False,
        other_ends=(*others, f"</{bars}DSML{bars}{space}parameter"),
    )


GCML = XmlSyntax(
    '<｜GCML｜invoke name="',
    "</｜GCML｜invoke>",
    '<｜GCML｜parameter name="',
    "</｜GCML｜parameter>",
    breaks=False,
    other_ends=("</｜GCML｜parameter",),
)
_TOOL_CALL, _TOOL_CALL_END = ("<tool_call>",), ("</tool_call>",)
_DSML_BLOCKS = ("function_calls>", "tool_calls>", " calls>", "tool_use>")
_DEEPSEEK = Family(
    "deepseek_v3",
    ("<｜tool▁calls▁begin｜>",),
    (NamedCall("<｜tool▁call▁begin｜>", ("<｜tool▁sep｜>",), ends=("<｜tool▁call▁end｜>",)),),
    ("<｜tool▁calls▁end｜>",),
)
_MISTRAL = Family(
    "mistral_json",
    ("[TOOL_CALLS]",),
    (OBJECTS, NamedCall("", ("[ARGS]",), "[CALL_ID]", ends=("[TOOL_CALLS]",))),
    guesses=("name", "object"),
)

FAMILIES: Mapping[str, Family] = {
    # with a bar instead of the bracket: can1357/oh-my-pi#10376
    "hermes": Family(
        "hermes", ("<tool_call>", "<tool_call| "), (OBJECTS, QWEN, NOTED), _TOOL_CALL_END, guesses=("object",)
    ),
    # also Qwen 3.5 to 3.8, Step 3.5, MiMo
    "qwen3_coder": Family("qwen3_coder", _TOOL_CALL, (QWEN, OBJECTS, NOTED), _TOOL_CALL_END, guesses=()),
    "glm45": Family("glm45", _TOOL_CALL, (OBJECTS, QWEN, GLM), _TOOL_CALL_END),  # also GLM-4.7 and GLM-5
    # sglang: hunyuan_detector.py; vLLM: hy_v3_tool_parser.py, jamba_tool_parser.py, minimax_tool_parser.py
    "tool_calls": Family(
        "tool_calls", ("<tool_calls>",), (OBJECTS, INVOKE, GLM), ("</tool_calls>",), ("<tool_call>",), ("object",)
    ),
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v31": Family("deepseek_v31", _DEEPSEEK.blocks, _DEEPSEEK.calls, _DEEPSEEK.closers),
    "dsml": Family(
        "dsml",
        (
            *(f"<{bars}DSML{bars}{name}" for bars in DSML_BARS for name in _DSML_BLOCKS),
            # the bracket is a token of its own, which servers eat: vllm-project/vllm#40801
            *(f"{DSML_BARS[0]}DSML{DSML_BARS[0]}{name}" for name in _DSML_BLOCKS[:2]),
        ),
        (
            *(_dsml(bars, space) for bars in DSML_BARS for space in ("", " ")),
            NamedCall("<｜DSML｜toolcall>", ("\n",)),  # vllm-project/vllm-ascend#13794
        ),
        tuple(f"</{bars}DSML{bars}{name}" for bars in DSML_BARS for name in (*_DSML_BLOCKS, "invoke>", " invoke>")),
        guesses=(),
        plain=tuple(f"</{DSML_BARS[0]}DSML{DSML_BARS[0]}{name}" for name in _DSML_BLOCKS[:2]),
    ),
    "llama_json": Family(
        "llama_json", ("<|python_tag|>",), (OBJECTS,), fillers=("<|python_tag|>",), guesses=("object",)
    ),
    "mistral_json": _MISTRAL,
    "mistral_args": Family("mistral_args", _MISTRAL.blocks, _MISTRAL.calls, guesses=_MISTRAL.guesses),
    "pythonic": Family(
        "pythonic",
        ("<|python_start|>", "<|tool_call_start|>", "<function_calls>"),
        (PythonCalls(), INVOKE, OBJECTS),
        ("<|python_end|>", "<|tool_call_end|>", "</function_calls>"),
        ("```python", "```"),
        guesses=("list",),
    ),
    # K2 Thinking sometimes writes the singular (github.com/ggml-org/llama.cpp/pull/17376).
    "kimi_k2": Family(
        "kimi_k2",
        ("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"),
        (NamedCall("<|tool_call_begin|>", ("<|tool_call_argument_begin|>",), is_id=True, ends=("<|tool_call_end|>",)),),
        ("<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
    ),
    # sglang: kimik3_format.py
    "kimi_k3": Family(
        "kimi_k3",
        (f"{K3_OPEN}tools{K3_END}",),
        (K3,),
        (f"{K3_CLOSE}tools{K3_END}", f"{K3_CLOSE}message{K3_END}", f"{K3_CLOSE}call", f"{K3_CLOSE}tools"),
    ),
    "minimax_m2": Family("minimax_m2", ("<minimax:tool_call>",), (MINIMAX, QWEN, OBJECTS), ("</minimax:tool_call>",)),
    "minimax_m3": Family(
        "minimax_m3", (f"{M3_NAMESPACE}<tool_call>",), (NamespacedCall(), MINIMAX), (f"{M3_NAMESPACE}</tool_call>",)
    ),
    # sglang: step3_detector.py
    "step3": Family(
        "step3",
        ("<｜tool_calls_begin｜>", "<｜tool_call_begin｜>"),
        (STEPTML,),
        ("<｜tool_call_end｜>", "<｜tool_calls_end｜>"),
        ("function", "<｜tool_sep｜>"),
    ),
    # vLLM: seed_oss_tool_parser.py
    "seed_oss": Family("seed_oss", ("<seed:tool_call>",), (QWEN, OBJECTS), ("</seed:tool_call>",)),
    # vLLM: gemma4_tool_parser.py, functiongemma_tool_parser.py
    "gemma4": Family(
        "gemma4",
        ("<|tool_call>", "<start_function_call>"),
        (GemmaCall(),),
        ("<tool_call|>", "<end_function_call>"),
        start=read_bare_call,
    ),
    "harmony": Family(
        "harmony",
        (harmony.START, harmony.CHANNEL),
        (harmony.HarmonyMessage(),),
        guesses=(),
        start=harmony.read_bare_channels,
        dropped=harmony.ENDS,
    ),
    "lmstudio": Family("lmstudio", ("[TOOL_REQUEST]",), (OBJECTS,), ("[END_TOOL_REQUEST]",), guesses=("object",)),
    # vLLM: longcat_tool_parser.py; with keys and values: mlx-lm: tool_parsers/longcat.py
    "longcat": Family(
        "longcat",
        ("<longcat_tool_call>",),
        (OBJECTS, _pairs("</longcat_tool_call>", prefix="longcat_")),
        ("</longcat_tool_call>",),
        guesses=("object", "name"),
    ),
    # vLLM: nemotron_json_tool_parser.py
    "nemotron": Family("nemotron", ("<TOOLCALL>",), (OBJECTS,), ("</TOOLCALL>",), guesses=("object",)),
    # vLLM: internlm2_tool_parser.py
    "internlm": Family(
        "internlm", ("<|action_start|>", "<|plugin|>"), (OBJECTS,), ("<|action_end|>",), guesses=("object",)
    ),
    # vLLM: granite_tool_parser.py, granite_20b_fc_tool_parser.py
    "granite": Family("granite", ("<|tool_call|>", "<function_call>"), (OBJECTS,), ("</function_call>",), guesses=()),
    # llama.cpp: common/chat.cpp (Command R7B, Cohere2 MoE)
    "cohere": Family("cohere", ("<|START_ACTION|>",), (OBJECTS,), ("<|END_ACTION|>",), guesses=("object",)),
    # vLLM: gigachat3_tool_parser.py
    "gigachat": Family("gigachat", ("<|function_call|>", "function call<|role_sep|>"), (OBJECTS,), guesses=()),
    # sglang: gigachat35_detector.py
    "gigachat35": Family("gigachat35", ("<｜GCML｜tool_calls>",), (GCML,), GCML_CLOSERS[2:], guesses=()),
    # vLLM: apertus_tool_parser.py
    "apertus": Family("apertus", ("<|tools_prefix|>",), (KeyedCalls(),), ("<|tools_suffix|>",), guesses=()),
    # vLLM: phi4mini_tool_parser.py
    "functools": Family("functools", (), (ObjectCalls("functools["),), guesses=()),
    # sglang: hunyuan_detector.py; the tokens of Hy4 have a suffix
    "hunyuan_v4": Family(
        "hunyuan_v4",
        ("<tool_calls:opensource>", "<tool_call:opensource>"),
        (_pairs("</tool_call:opensource>", suffix=":opensource"),),
        ("</tool_calls:opensource>", "</tool_call:opensource>"),
    ),
    # llama.cpp: common/chat.cpp (Solar Open)
    "solar": Family(
        "solar",
        ("<|tool_calls|>",),
        (
            NamedCall(
                "<|tool_call:begin|>",
                ("<|tool_call:args|>",),
                ends=("<|tool_call:end|>",),
                name_opening="<|tool_call:name|>",
            ),
        ),
        ("<|calls|>", "<|tool_call:end|>"),
        guesses=(),
    ),
    # a pull request of vLLM: solar_open2_tool_parser.py
    "solar_open2": Family(
        "solar_open2",
        ("<|tool_call:start|>",),
        (
            XmlSyntax(
                "",
                "<|tool_call:end|>",
                "<|tool_arg:start|>",
                "<|tool_arg:end|>",
                parameter_head_end="<|tool_arg:value|>",
                stop="<",
                breaks=False,
            ),
        ),
        ("<|tool_call:end|>",),
    ),
    # sglang: dots_detector.py
    "dots": Family("dots", ("<dots_function_call>",), (INVOKE, OBJECTS), ("</dots_function_call>",), guesses=()),
    # vLLM: muse_glimmer_tool_parser.py
    "atem": Family(
        "atem",
        (harmony.ATEM_BLOCK,),
        (
            XmlSyntax(
                '<atem:invoke name="',
                "</atem:invoke>",
                '<atem:parameter name="',
                "</atem:parameter>",
                break_pairs=True,
            ),
        ),
        ("</atem:function_calls>", "</atem:invoke>"),
        guesses=(),
    ),
    # vLLM: k2_horizon_tool_parser.py; sglang: k2_v3_detector.py
    "k2_horizon": Family(
        "k2_horizon",
        ("<ifm|tool_calls>", "<ifm|tool_call>"),
        (OBJECTS, _pairs("</ifm|tool_call>", prefix="ifm|")),
        ("</ifm|tool_call>", "</ifm|tool_calls>"),
        guesses=("name", "object"),
    ),
    # sglang: iquest_q1_detector.py
    "iquest_q1": Family(
        "iquest_q1", ("<iquest_tool_call>",), (OBJECTS, _pairs("</iquest_tool_call>")), ("</iquest_tool_call>",)
    ),
    # vLLM: parser/plamo3.py
    "plamo3": Family(
        "plamo3",
        ("<|plamo:begin_tool_requests:plamo|>", "<|plamo:begin_tool_request:plamo|>"),
        (NamedCall("<|plamo:begin_tool_name:plamo|>", ("<|plamo:end_tool_name:plamo|>",), ends=(PLAMO_CLOSERS[0],)),),
        PLAMO_CLOSERS,
    ),
    # vLLM: parser/inkling.py; sglang: inkling_detector.py; llama.cpp: common/parsers/inkling.cpp
    "inkling": Family("inkling", (), BLOCKS, INKLING_ENDS, dropped=INKLING_ENDS),
    # vLLM: minicpm5_tool_parser.py
    "minicpm5": Family(
        "minicpm5",
        (),
        (XmlSyntax('<function name="', "</function>", '<param name="', "</param>", break_pairs=True),),
        guesses=(),
    ),
}
