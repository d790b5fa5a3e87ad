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
    kinds = {name: "true" if isinstance(value, str) else "false" for name, value in values.items()}
    template = '<｜DSML｜parameter name="NAME" string="KIND">VALUE</｜DSML｜parameter>'
    inner = "".join(_tags(template.replace("KIND", kinds[name]), {name: values[name]}) for name in values)
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


def _pythonic(values: Json) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return f"<|python_start|>[f({arguments})]<|python_end|>"


def _harmony(values: Json) -> str:
    return f"<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{_json(values)}<|call|>"


WRITTEN: dict[str, Callable[[Json], str]] = {
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
    "harmony": _harmony,
    "pythonic": _pythonic,
}


def composed(pieces: list[str | Json], write: Callable[[Json], str]) -> str:
    return "".join(piece if isinstance(piece, str) else write(piece) for piece in pieces)
