"""One call of the function `f`, as models of each family write it."""

import json
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


def _json(values: Json) -> str:
    return json.dumps(values, ensure_ascii=False)


def _object(name: str, values: Json) -> str:
    return f'{{"name": "f", "{name}": {_json(values)}}}'


def _raw(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _tags(template: str, values: Json) -> str:
    """One element for each value; in the template stands `NAME` and `VALUE`."""
    return "".join(template.replace("NAME", name).replace("VALUE", _raw(value)) for name, value in values.items())


def _dsml(values: Json) -> str:
    inner = _typed('<｜DSML｜parameter name="NAME" string="KIND">VALUE</｜DSML｜parameter>', values)
    invoke = f'<｜DSML｜invoke name="f">{inner}</｜DSML｜invoke>'
    return f"<｜DSML｜function_calls>{invoke}</｜DSML｜function_calls>"


def _deepseek(head: str, end: str, values: Json) -> str:
    call = f"<｜tool▁call▁begin｜>{head}{_json(values)}{end}<｜tool▁call▁end｜>"
    return f"<｜tool▁calls▁begin｜>{call}<｜tool▁calls▁end｜>"


def _kimi(values: Json) -> str:
    call = f"<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{_json(values)}<|tool_call_end|>"
    return f"<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>"


def _coder(values: Json) -> str:
    parameters = _tags("<parameter=NAME>\nVALUE\n</parameter>\n", values)
    return f"<tool_call>\n<function=f>\n{parameters}</function>\n</tool_call>"


def _glm(values: Json) -> str:
    parameters = _tags("<arg_key>NAME</arg_key>\n<arg_value>VALUE</arg_value>\n", values)
    return f"<tool_call>f\n{parameters}</tool_call>"


def _minimax(values: Json) -> str:
    parameters = _tags('<parameter name="NAME">VALUE</parameter>\n', values)
    return f'<minimax:tool_call>\n<invoke name="f">\n{parameters}</invoke>\n</minimax:tool_call>'


def _invoke(opening: str, closing: str, values: Json, prefix: str = "") -> str:
    parameters = _tags(f'<{prefix}parameter name="NAME">VALUE</{prefix}parameter>\n', values)
    return f'{opening}<{prefix}invoke name="f">\n{parameters}</{prefix}invoke>{closing}'


def _seed(values: Json) -> str:
    parameters = _tags("<parameter=NAME>VALUE</parameter>\n", values)
    return f"<seed:tool_call>\n<function=f>\n{parameters}</function>\n</seed:tool_call>"


def _k3(values: Json) -> str:
    """Kimi K3: the type of each argument stands beside its name."""
    template = '<|open|>argument key="NAME" type="KIND"<|sep|>VALUE<|close|>argument<|sep|>'
    kinds = {name: "string" if isinstance(value, str) else "number" for name, value in values.items()}
    inner = "".join(_tags(template.replace("KIND", kinds[name]), {name: values[name]}) for name in values)
    call = f'<|open|>call tool="f" index="1"<|sep|>{inner}<|close|>call<|sep|>'
    return f"<|open|>tools<|sep|>{call}<|close|>tools<|sep|>"


_M3 = "]<]minimax[>["


def _m3_tags(name: str, value: object) -> str:
    if isinstance(value, dict):
        inner = "".join(_m3_tags(key, one) for key, one in value.items())
    elif isinstance(value, list):
        inner = "".join(_m3_tags("item", one) for one in value)
    else:
        inner = _raw(value)
    return f"{_M3}<{name}>{inner}{_M3}</{name}>\n"


def _m3(values: Json) -> str:
    inner = "".join(_m3_tags(name, value) for name, value in values.items())
    return f'{_M3}<tool_call>\n{_M3}<invoke name="f">\n{inner}{_M3}</invoke>\n{_M3}</tool_call>'


def _gemma_value(value: object) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_gemma_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_gemma_value, value)) + "]"
    return json.dumps(value)


def _gemma(values: Json) -> str:
    return f"<|tool_call>call:f{_gemma_value(values)}<tool_call|>"


def _pythonic(values: Json) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return f"<|python_start|>[f({arguments})]<|python_end|>"


def _harmony(values: Json) -> str:
    return f"<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{_json(values)}<|call|>"


def _cohere(values: Json) -> str:
    call = f'{{"tool_call_id": "0", "tool_name": "f", "parameters": {_json(values)}}}'
    return f"<|START_ACTION|>[\n    {call}\n]<|END_ACTION|>"


def _hunyuan(values: Json) -> str:
    template = "<arg_key:opensource>NAME</arg_key:opensource>\n<arg_value:opensource>VALUE</arg_value:opensource>\n"
    call = f"<tool_call:opensource>f<tool_sep:opensource>\n{_tags(template, values)}</tool_call:opensource>"
    return f"<tool_calls:opensource>\n{call}\n</tool_calls:opensource>"


def _typed(template: str, values: Json) -> str:
    """One element for each value; in the template stands `KIND`, too, whether it is text."""
    kinds = {name: "true" if isinstance(value, str) else "false" for name, value in values.items()}
    return "".join(_tags(template.replace("KIND", kinds[name]), {name: values[name]}) for name in values)


def _gcml(values: Json) -> str:
    inner = _typed('<｜GCML｜parameter name="NAME" string="KIND">VALUE</｜GCML｜parameter>\n', values)
    return f'<｜GCML｜tool_calls>\n<｜GCML｜invoke name="f">\n{inner}</｜GCML｜invoke>\n</｜GCML｜tool_calls>'


def _horizon(values: Json) -> str:
    """K2 Horizon: a type between key and value is optional."""
    key, kind, value = (f"<ifm|arg_{tag}>{{}}</ifm|arg_{tag}>\n".format for tag in ("key", "type", "value"))
    template = key("NAME") + kind("KIND") + value("VALUE")
    kinds = {name: "string" if isinstance(value, str) else "integer" for name, value in values.items()}
    inner = "".join(_tags(template.replace("KIND", kinds[name]), {name: values[name]}) for name in values)
    return f"<ifm|tool_calls>\n<ifm|tool_call>f\n{inner}</ifm|tool_call>\n</ifm|tool_calls>"


def _iquest(values: Json) -> str:
    inner = _tags("<arg_key>NAME</arg_key><arg_value>VALUE</arg_value>", values)
    return f"<iquest_tool_call>f{inner}</iquest_tool_call>"


def _plamo_tag(name: str, text: str) -> str:
    return f"<|plamo:begin_tool_{name}:plamo|>{text}<|plamo:end_tool_{name}:plamo|>"


def _plamo(values: Json) -> str:
    arguments = _plamo_tag("arguments", f"<|plamo:constrain|>json<|plamo:msg|>{_json(values)}")
    return _plamo_tag("requests", _plamo_tag("request", _plamo_tag("name", "f") + arguments))


def _inkling(values: Json) -> str:
    call = f'{{"name":"f","args":{_json(values)}}}'
    return f"<|message_model|>f<|content_invoke_tool_json|>{call}<|end_message|>"


def _solar_open2(values: Json) -> str:
    inner = _tags("<|tool_arg:start|>NAME<|tool_arg:value|>VALUE<|tool_arg:end|>\n", values)
    return f"<|tool_call:start|>f\n{inner}<|tool_call:end|>"


def write_beam(values: Json) -> str:
    """Beam writes its calls in harmony's messages, and the parameters in tags."""
    inner = _tags('<rfl:parameter name="NAME">\nVALUE\n</rfl:parameter>', values)
    return f"<|start|>assistant to=f<|channel|>analysis <|constrain|>xml<|message|>{inner}<|call|>"


def _minicpm(values: Json) -> str:
    parameters = _tags('<param name="NAME">VALUE</param>', values)
    return f'<function name="f">{parameters}</function>'


def _solar(values: Json) -> str:
    call = f"<|tool_call:begin|>0<|tool_call:name|>f<|tool_call:args|>{_json(values)}<|tool_call:end|>"
    return f"<|tool_calls|>{call}<|calls|>"


WRITTEN: dict[str, Callable[[Json], str]] = {
    "cohere": _cohere,
    "gigachat": lambda values: f"<|function_call|>{_object('arguments', values)}",
    "apertus": lambda values: f'<|tools_prefix|>[{{"f": {_json(values)}}}]<|tools_suffix|>',
    "functools": lambda values: f"functools[{_object('arguments', values)}]",
    "hunyuan_v4": _hunyuan,
    "solar": _solar,
    "dots": lambda values: _invoke("<dots_function_call>\n", "\n</dots_function_call>", values),
    "atem": lambda values: _invoke("<atem:function_calls>\n", "\n</atem:function_calls>", values, "atem:"),
    "minicpm5": _minicpm,
    "gigachat35": _gcml,
    "k2_horizon": _horizon,
    "iquest_q1": _iquest,
    "plamo3": _plamo,
    "inkling": _inkling,
    "solar_open2": _solar_open2,
    "nous": lambda values: f"<tool_call>\n{_object('arguments', values)}\n</tool_call>",
    "qwen": lambda values: f"✿FUNCTION✿: f\n✿ARGS✿: {_json(values)}\n",
    "hermes": lambda values: f"<tool_call>{_object('arguments', values)}</tool_call>",
    "lmstudio": lambda values: f"[TOOL_REQUEST]{_object('arguments', values)}[END_TOOL_REQUEST]",
    "mistral_json": lambda values: f"[TOOL_CALLS][{_object('arguments', values)}]",
    "mistral_args": lambda values: f"[TOOL_CALLS]f[ARGS]{_json(values)}",
    "llama_json": lambda values: f"<|python_tag|>{_object('parameters', values)}",
    "deepseek_v3": lambda values: _deepseek("function<｜tool▁sep｜>f\n```json\n", "\n```", values),
    "deepseek_v31": lambda values: _deepseek("f<｜tool▁sep｜>", "", values),
    "kimi_k2": _kimi,
    "qwen3_coder": _coder,
    "glm45": _glm,
    "minimax_m2": _minimax,
    "dsml": _dsml,
    "kimi_k3": _k3,
    "minimax_m3": _m3,
    "step3": lambda values: _invoke(
        "<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜>",
        "<｜tool_call_end｜>\n<｜tool_calls_end｜>",
        values,
        "steptml:",
    ),
    "seed_oss": _seed,
    "gemma4": _gemma,
    "tool_calls": lambda values: f"<tool_calls>\n{_object('arguments', values)}\n</tool_calls>",
    "longcat": lambda values: f"<longcat_tool_call>{_object('arguments', values)}</longcat_tool_call>",
    "nemotron": lambda values: f"<TOOLCALL>[{_object('arguments', values)}]</TOOLCALL>",
    "internlm": lambda values: f"<|action_start|><|plugin|>{_object('parameters', values)}<|action_end|>",
    "granite": lambda values: f"<|tool_call|>[{_object('arguments', values)}]",
    "harmony": _harmony,
    "pythonic": _pythonic,
}


def composed(pieces: list[str | Json], write: Callable[[Json], str]) -> str:
    return "".join(piece if isinstance(piece, str) else write(piece) for piece in pieces)
