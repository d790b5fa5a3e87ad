"""Calls in the form of Python."""

from tests.each_case import each_case
from tests.steps.tool_parsers.family_replies import SEEDS, F, G, check_calls, check_text

CALLS: list[tuple[str, str, list[tuple[str, ...]]]] = [
    ("pythonic", "[f(n=1), g()]", [F, G]),
    ("pythonic", "<|python_start|>[f(n=1)]<|python_end|>", [F]),
    ("pythonic", "<|tool_call_start|>[f(n=1)] . <|tool_call_end|>!", [F, ("C", " . !")]),
    (
        "pythonic",
        "[f(s='a)\\'', b=true, l=[1, {'a': None}])]",
        [("F", "f", '{"s": "a)\'", "b": true, "l": [1, {"a": null}]}')],
    ),
    ("pythonic", "[f(n=1), g(x)]", [F, ("C", ", g(x)]")]),
    ("pythonic", "[f(n=1) g()]", [F, ("C", " g()]")]),
    ("pythonic", "[f(n=f)]", [("C", "[f(n=f)]")]),
    ("pythonic", "[h(n=1)]", [("C", "[h(n=1)]")]),
    ("pythonic", "[f(n=1", [("C", "[f(n=1")]),
    ("pythonic", "[1, 2]", [("C", "[1, 2]")]),
    ("pythonic", f"[{'f' * 300}", [("C", f"[{'f' * 300}")]),
    # vllm-project/vllm 21544, 45167, 51649
    ("pythonic", "<|python_start|>[f(**{'n': 1}), g()]<|python_end|>", [F, G]),
]


@each_case("seed", SEEDS)
@each_case(("family", "text", "want"), CALLS, ids=lambda value: str(value)[:60])
def test_a_call_is_read(family: str, text: str, want: list[tuple[str, ...]], seed: int | None) -> None:
    check_calls(family, text, want, seed)


NO_CALLS: list[tuple[str, str]] = [
    ("pythonic", "<|python_start|>[f(**[1])]"),
    ("pythonic", "<|python_start|>[f(n=1e999)]"),
    ("pythonic", "<|python_start|>[f('Paris', n=1)]"),
    ("pythonic", "<|python_start|>print(1)"),
]


@each_case("seed", SEEDS)
@each_case(("family", "text"), NO_CALLS, ids=lambda value: str(value)[:60])
def test_what_is_no_call_is_text_with_a_warning(family: str, text: str, seed: int | None) -> None:
    check_text(family, text, seed)
