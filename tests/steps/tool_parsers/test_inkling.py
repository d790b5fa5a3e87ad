"""Inkling's messages: reasoning, content, and calls."""

from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.steps.stage_runner import run, texts
from tests.steps.tool_parsers.family_replies import SEEDS, F, G, check_calls, check_text

MODEL, THOUGHT, TEXT, CALL = (
    "<|message_model|>",
    "<|content_thinking|>",
    "<|content_text|>",
    "<|content_invoke_tool_json|>",
)
END = "<|end_message|>"
OWN = f'{CALL}{{"name":"f","args":{{"n": 1}}}}{END}'

CALLS: list[tuple[str, list[tuple[str, ...]]]] = [
    (f"{THOUGHT}Hm{END}{MODEL}f{OWN}", [("R", "Hm"), F]),
    (f"{MODEL}{THOUGHT}Hm{END}{MODEL}{TEXT}I look.{END}{MODEL}f{OWN}", [("R", "Hm"), ("C", "I look."), F]),
    (f"f{OWN}", [F]),  # the prompt has begun the message
    (f'{OWN}{MODEL}g{CALL}{{"name":"g","args":{{}}}}<|content_model_end_sampling|>', [F, G]),
    (f"{TEXT}Four{END}{MODEL}{TEXT} men{END}<|content_model_end_sampling|>", [("C", "Four men")]),
    (f"{MODEL}<|content_invoke_tool_text|>ls -l{END}", [("C", "ls -l")]),
    (f"{TEXT}Fo", [("C", "Fo")]),
    ("Plain.", [("C", "Plain.")]),
]


@each_case("seed", SEEDS)
@each_case("family", ["inkling", "auto"])
@each_case(("text", "want"), CALLS)
def test_a_message_is_what_its_content_says(
    family: str, text: str, want: list[tuple[str, ...]], seed: int | None
) -> None:
    check_calls(family, text, want, seed)


@each_case("seed", SEEDS)
@each_case("text", [f"{MODEL}{CALL}no JSON", f"{MODEL}f\ng{CALL}{{"])
def test_what_is_no_message_is_text_with_a_warning(text: str, seed: int | None) -> None:
    check_text("inkling", text, seed)


def test_messages_are_read_without_functions() -> None:
    stage = tool_parser_stage("inkling", (), "chat-1")
    assert run([stage], texts(f"{MODEL}{THOUGHT}Hm{END}{TEXT}x{END}", None)).short() == [("R", "Hm"), ("C", "x")]
