"""The ways in which replies with function calls go wrong, as a table: which operator, at which place, and its source.

An operator changes a reply of which the calls are known. So what must come out is known: these calls; or text, with a
warning; never another call, other arguments, or markup without a warning.
"""

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import NamedTuple

from app.chat.template_tokens import CALL_CLOSERS
from app.steps.tool_parsers.families import FAMILIES

Apply = Callable[[str, str], str | None]
"""Changes the text of a call; None if that has no such place. The second argument is the family."""


class Fault(NamedTuple):
    place: str
    operator: str
    source: str
    apply: Apply


def _opening(text: str, family: str) -> str | None:
    return next((marker for marker in FAMILIES[family].blocks if text.startswith(marker)), None)


def _closers(text: str) -> list[str]:
    """The closing markers at the end of a call, the last one first."""
    found = []
    text = text.rstrip()
    while closer := next((one for one in sorted(CALL_CLOSERS, key=len, reverse=True) if text.endswith(one)), None):
        found.append(closer)
        text = text.removesuffix(closer).rstrip()
    return found


def _without_opening(text: str, family: str) -> str | None:
    opening = _opening(text, family)
    return None if opening is None else text.removeprefix(opening)


def _opening_twice(text: str, family: str) -> str | None:
    opening = _opening(text, family)
    return None if opening is None else opening + text


def _without_closer(text: str, family: str) -> str | None:
    closers = _closers(text)
    return text.rstrip().removesuffix(closers[0]) if closers else None


def _closer_twice(text: str, family: str) -> str | None:
    closers = _closers(text)
    return text + "\n" + closers[0] if closers else None


def _inner_closer_twice(text: str, family: str) -> str | None:
    closers = _closers(text)
    if len(closers) < 2:
        return None
    return text.rstrip().removesuffix(closers[0]) + closers[1] + "\n" + closers[0]


def _other_closer(text: str, family: str) -> str | None:
    closers = _closers(text)
    other = "</tool_call>" if closers and closers[0] != "</tool_call>" else "</function_calls>"
    return text.rstrip().removesuffix(closers[0]) + other if closers else None


def _empty_block_first(text: str, family: str) -> str | None:
    opening, closers = _opening(text, family), FAMILIES[family].closers
    return f"{opening}{closers[0]}\n{text}" if opening and closers and not FAMILIES[family].fillers else None


def _renamed(name: str) -> Apply:
    """Replaces the first name in a call; `f` is the function."""

    def apply(text: str, family: str) -> str | None:
        for before, after in (
            ('"name": "f"', f'"name": "{name}"'),
            ('name="f"', f'name="{name}"'),
            ("<function=f>", f"<function={name}>"),
            ("call:f{", f"call:{name}{{"),
            ('tool="f"', f'tool="{name}"'),
            ("▁sep｜>f\n", f"▁sep｜>{name}\n"),
            ("▁begin｜>f<", f"▁begin｜>{name}<"),
            ("[TOOL_CALLS]f[", f"[TOOL_CALLS]{name}["),
            ("<tool_call>f\n", f"<tool_call>{name}\n"),
            ("<ifm|tool_call>f\n", f"<ifm|tool_call>{name}\n"),
            ("<iquest_tool_call>f<", f"<iquest_tool_call>{name}<"),
            ("_name:plamo|>f<", f"_name:plamo|>{name}<"),
            ('"name":"f"', f'"name":"{name}"'),
            (":start|>f\n", f":start|>{name}\n"),
        ):
            if before in text:
                return text.replace(before, after, 1)
        return None

    return apply


def _behind(token: str) -> Apply:
    return lambda text, family: text + token


def _before(token: str) -> Apply:
    return lambda text, family: token + text


TEXT_FAULTS = (
    Fault("start", "none", "the template", lambda text, family: text),
    Fault("start", "opening missing", "typeclaw/typeclaw#344", _without_opening),
    Fault("start", "opening twice", "derived", _opening_twice),
    Fault("start", "empty block before", "ollama/ollama#16398", _empty_block_first),
    Fault("start", "blank lines before", "derived", _before("\n\n")),
    Fault("start", "text before", "QwenLM/Qwen3-Coder#475", _before("I look.\n")),
    Fault("end", "closer missing", "vllm-project/vllm#53227", _without_closer),
    Fault("end", "closer twice", "ollama/ollama#16383", _closer_twice),
    Fault("end", "inner closer twice", "QwenLM/Qwen3.8#178", _inner_closer_twice),
    Fault("end", "closer of another family", "adolfousier/opencrabs#419", _other_closer),
    Fault("end", "closers of other families behind", "QwenLM/qwen-code#10700", _behind("</function></invoke>")),
    Fault("end", "end of turn behind", "vllm-project/vllm#51412", _behind("<|im_end|>")),
    Fault("end", "DeepSeek's end of turn behind", "derived", _behind("<｜end▁of▁sentence｜>")),
    Fault("end", "text behind", "derived", _behind("\nI asked.")),
    Fault("name", "functions. before", "derived", _renamed("functions.f")),
    Fault("name", "default_api. before", "derived", _renamed("default_api.f")),
    Fault("name", "counter behind", "derived", _renamed("f:0")),
    Fault("name", "blank behind", "derived", _renamed("f ")),
    Fault("name", "channel behind", "earendil-works/pi#4439", _renamed("f<|channel|>commentary")),
)
EXCEPTIONS = {
    frozenset(("channel behind", "opening missing")): "JSON without a marker is text, whatever its name has",
    frozenset(("text before", "opening missing")): "`assistant` behind a text is a word",
    frozenset(("closer missing", "text behind")): "a closing tag before text may be a part of the value",
    frozenset(("text behind", "opening missing")): "a closing marker in the middle of a text may be about markers",
}
"""Pairs of faults that leave nothing by which a call, or its end, could be known."""
PROSE = {"text before": "I look.", "text behind": "I asked."}
"""The text that an operator adds."""

Change = Callable[[str, str], tuple[str, str]]
"""Changes the name and the arguments of a structured call."""


class CallFault(NamedTuple):
    place: str
    operator: str
    source: str
    change: Change


def _name(change: Callable[[str], str]) -> Change:
    return lambda name, arguments: (change(name), arguments)


def _arguments(change: Callable[[str], str]) -> Change:
    return lambda name, arguments: (name, change(arguments))


def _in_name(template: str) -> Change:
    return lambda name, arguments: (template.replace("NAME", name), "{}")


def _add_to_text(token: str) -> Callable[[str], str]:
    return lambda arguments: arguments.replace("A b", f"A b{token}")


CALL_FAULTS = (
    CallFault("name", "none", "the API", lambda name, arguments: (name, arguments)),
    *(
        CallFault("name", f"{before}…{behind}".replace("\n", "\\n"), source, _name(f"{before}{{}}{behind}".format))
        for before, behind, source in (
            ("functions.", "", "derived"),
            ("default_api.", "", "derived"),
            ("tools:", "", "derived"),
            ("", ":0", "derived"),
            ("functions.", ":3", "derived"),
            ("", "<|channel|>commentary", "earendil-works/pi#4439"),
            ("", "</tool_call>", "derived"),
            ("", " json", "derived"),
            ("", "(", "derived"),
            ("", "\n<arg_key>city", "zai-org/GLM-5#84"),
            ("<|tool_call_begin|>", "", "derived"),
        )
    ),
    CallFault("name", "twice", "derived", _name(lambda name: name * 2)),
    *(
        CallFault("arguments", f"in the name: {template}", "zai-org/GLM-5#84", _in_name(template))
        for template in (
            "NAME<arg_key>city</arg_key><arg_value>A b</arg_value>",
            'NAME{"city": "A b"}',
            'NAME(city="A b")',
            "NAME<parameter=city>A b</parameter>",
        )
    ),
    *(
        CallFault("before arguments", token.strip(), source, _arguments(f"{token}{{}}".format))
        for token, source in (
            ("[ARGS]", "raullenchai/Rapid-MLX#579"),
            ("json", "derived"),
            ("```json\n", "derived"),
            ("<|message|>", "derived"),
            ("<|constrain|>json<|message|>", "derived"),
            ("<|tool_call_argument_begin|>", "derived"),
            ("<｜tool▁sep｜>", "derived"),
        )
    ),
    *(
        CallFault("behind arguments", token.strip(), source, _arguments(f"{{}}{token}".format))
        for token, source in (
            ("</tool_call>", "derived"),
            ("\n```", "derived"),
            ("<|call|>", "derived"),
            ("<|im_end|>", "derived"),
            ("<|tool_call_end|><|tool_calls_section_end|>", "derived"),
            ("</｜DSML｜parameter>\n</｜DSML｜invoke>", "vllm-project/vllm#53227"),
            ("<｜tool▁call▁end｜>", "derived"),
            ("<|close|>call<|sep|>", "sgl-project/sglang#39583"),
            ("</parameter></function>", "derived"),
        )
    ),
    *(
        CallFault("in a text", token, source, _arguments(_add_to_text(token)))
        for token, source in (
            ("</｜DSML｜parameter", "vllm-project/vllm#53227"),
            ("</｜DSML｜parameter>", "vllm-project/vllm#53227"),
            ("<|im_end|>", "derived"),
            ("<|tool_call_end|>", "derived"),
            ("<｜tool▁call▁end｜>", "derived"),
        )
    ),
    CallFault(
        "arguments", "as JSON text", "derived", _arguments(lambda text: f'"{text.replace(chr(34), chr(92) + chr(34))}"')
    ),
    CallFault("arguments", "twice", "derived", _arguments(lambda text: text * 2)),
)

PAIR_EXCEPTIONS: dict[str, str] = {
    "arguments: as JSON text": "a text with a token within or around it is no JSON, and stays as it came",
    "arguments: twice": "what stands between the two may be a part of either: they stay as they came, with a warning",
    "in a text: </｜DSML｜parameter": "only at the end of a text is a token without its end one",
}
"""Faults of a structured call that leave with many others nothing certain, with the reason."""


def find_pairs() -> Iterator[tuple[CallFault, CallFault]]:
    """Yield the faults that may be made one after the other in a structured call. A name has arguments once, and
    nothing behind them but what a template adds."""
    for first, second in permutations(CALL_FAULTS[1:], 2):
        names = {f"{fault.place}: {fault.operator}" for fault in (first, second)}
        if names.isdisjoint(PAIR_EXCEPTIONS) and not _is_at_name_twice(first, second):
            yield first, second


def _is_at_name_twice(first: CallFault, second: CallFault) -> bool:
    """Whether the second fault is in the arguments that the first one has put into the name, or doubles a name with
    parts of a template."""
    in_name = "in the name" in first.operator
    has_key = "<arg_key>" in second.operator or "in the name" in second.operator
    return (in_name and has_key) or (
        first.place in ("name", "arguments") and second.place == "name" and second.operator == "twice"
    )
