"""What a history of very many messages costs before it is sent."""

from collections.abc import Callable

from app.chat.messages import ChatRequest, Message, Text, Tool, ToolCall, ToolResult
from app.formats.qwen import QWEN_AGENT
from app.profiles import Profile
from app.runtime.token_counting import EstimatingCounter
from app.steps.pipeline import prepare_request

from tests.each_case import each_case
from tests.linear_time import linear

ASKED = Message("user", (Text("q"),))
LONG = Text("x" * 2000)
F = Tool("f", {"name": "f"})
NOUS = Profile(native_tools=False)
QWEN = Profile(native_tools=False, fncall_prompt_type="qwen")


def prepare(messages: list[Message], profile: Profile, *tools: Tool) -> tuple[Message, ...]:
    request = ChatRequest("m", tuple(messages), tools, policy=QWEN_AGENT)
    return prepare_request(request, profile, EstimatingCounter(), {})[0].messages


def users(count: int) -> list[Message]:
    return [Message("user", (LONG,))] * count


def systems(count: int) -> list[Message]:
    return [*[Message("system", (LONG,))] * count, ASKED]


def answers(count: int) -> list[Message]:
    return [ASKED, *[Message("assistant", (LONG,))] * count]


def results(count: int) -> list[Message]:
    calls = [Message("assistant", (ToolCall("f", "{}", str(number)),)) for number in range(count)]
    return [ASKED, *calls, *(Message("tool", (ToolResult((LONG,), "f", str(number)),)) for number in range(count))]


@each_case(
    ("make", "profile", "tools"),
    [
        (users, Profile(alternate=True), ()),
        (systems, Profile(system="merged"), ()),
        (answers, Profile(), ()),
        (answers, NOUS, (F,)),
        (answers, QWEN, (F,)),
        (results, NOUS, (F,)),
        (results, QWEN, (F,)),
        (results, NOUS, ()),
        (results, Profile(), (F,)),
    ],
)
def test_a_long_history_takes_linear_time(
    make: Callable[[int], list[Message]], profile: Profile, tools: tuple[Tool, ...]
) -> None:
    assert linear(lambda count: prepare(make(count), profile, *tools), 500)
