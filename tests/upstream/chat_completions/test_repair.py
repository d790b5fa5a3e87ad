"""What is left out of a body of chat completions that its server has refused."""

from typing import Any

from app.upstream.chat_completions.repair import strip_reasoning

Json = dict[str, Any]
SKIP = "skip_thought_signature_validator"


def call(id_: str, **google: str) -> Json:
    extra = {"extra_content": {"google": google}} if google else {}
    return {"id": id_, "type": "function", "function": {"name": "f", "arguments": "{}"}, **extra}


def test_signatures_become_the_value_that_is_not_checked() -> None:
    calls = [call("a", thought_signature="x", other="y"), call("b"), call("c", thought_signature="z")]
    stripped = strip_reasoning(
        {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": calls}]}
    )
    assert stripped is not None
    sent = stripped["messages"][1]["tool_calls"]
    assert sent == [call("a", thought_signature=SKIP, other="y"), call("b"), call("c", thought_signature=SKIP)]
    assert strip_reasoning(stripped) is None


def test_the_first_call_of_a_turn_gets_one() -> None:
    stripped = strip_reasoning({"messages": [{"role": "assistant", "tool_calls": [call("a"), call("b")]}]})
    assert stripped is not None
    assert stripped["messages"][0]["tool_calls"] == [call("a", thought_signature=SKIP), call("b")]
    assert strip_reasoning({"messages": [{"role": "assistant", "content": "x", "tool_calls": []}]}) is None
