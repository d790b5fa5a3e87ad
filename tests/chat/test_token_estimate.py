"""About how many tokens a request has, before the model counts them."""

from app.chat.attachments import Attachment, FileText, Inlined, Section
from app.chat.messages import ChatRequest, Media, Message, Part, PassedBody, Reasoning, Text, Tool, ToolCall, ToolResult
from app.chat.token_estimate import MEDIA_TOKENS, MESSAGE_TOKENS, estimate_prompt_tokens

from tests.each_case import each_case

IMAGE = Media("image", ("https://h/a.png",))


@each_case(
    ("part", "tokens"),
    [
        (Text("a" * 40), 10),
        (Text("é" * 40), 20),
        (Text("中" * 40), 30),
        (Text("\ud800" * 4), 3),
        (Reasoning("a" * 40), 10),
        (ToolCall("f" * 20, "a" * 20), 10),
        (ToolResult((Text("a" * 40), IMAGE), "f"), 10 + MEDIA_TOKENS),
        (IMAGE, MEDIA_TOKENS),
        (Media("video", ("https://h/1", "https://h/2"), frames=True), 2 * MEDIA_TOKENS),
    ],
)
def test_a_part_has_a_token_for_each_four_bytes(part: Part, tokens: int) -> None:
    assert estimate_prompt_tokens(ChatRequest("m", (Message("user", (part,)),))) == tokens + MESSAGE_TOKENS


def test_the_schemas_of_tools_count() -> None:
    tool = Tool("f", {"name": "f" * 29})
    assert estimate_prompt_tokens(ChatRequest("m", (), (tool,))) == 10


def test_the_text_of_files_counts_and_other_attachments_do_not() -> None:
    attachments: list[Attachment] = [FileText((Section("a" * 20), Section("b" * 20))), Inlined("data:,x" * 100)]
    assert estimate_prompt_tokens(ChatRequest("m", ()), attachments) == 10


def test_a_body_that_the_gateway_cannot_read_counts_as_it_is() -> None:
    body = PassedBody("messages", {"messages": [{"role": "user", "content": "a" * 4000}]})
    assert 1000 <= estimate_prompt_tokens(ChatRequest("m", (), passed=body)) <= 1020
    message = Message("user", (Text("a" * 40),))
    assert estimate_prompt_tokens(ChatRequest("m", (message,), passed=body)) == 10 + MESSAGE_TOKENS
