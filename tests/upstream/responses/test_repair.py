"""What is left of a body of the Responses API without its opaque reasoning."""

from app.upstream.responses.repair import strip_reasoning


def test_items_of_reasoning_go() -> None:
    message = {"type": "message", "role": "user", "content": "x"}
    assert strip_reasoning({"input": [{"type": "reasoning", "id": "rs"}, message]}) == {"input": [message]}


def test_a_body_without_reasoning_is_left_alone() -> None:
    assert strip_reasoning({"input": "x"}) is None
    assert strip_reasoning({"input": [{"type": "message"}]}) is None
