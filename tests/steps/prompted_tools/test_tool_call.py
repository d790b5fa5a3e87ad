"""What stands between `<tool_call>` and `</tool_call>`."""

from app.chat.messages import ChatRequest
from app.profiles import Profile
from app.steps.prompted_tools import prompted_tool_stage

from tests.each_case import each_case
from tests.steps.prompted_tools.sample_requests import CODE, QUESTION, F
from tests.steps.stage_runner import Reply, run, texts

CALL = '{"name": "f", "arguments": {}}'
CODE_CALL = '<tool_call>{"name": "code_interpreter", "arguments": %s}\n<code>\nx = 1%s'


def reply(text: str, seed: int | None = None, *, code: bool = False) -> Reply:
    profile = Profile(native_tools=False, special_code_mode=code)
    stage = prompted_tool_stage(ChatRequest("m", (QUESTION,), (F, CODE)), profile, "chat-1")
    assert stage is not None
    return run([stage], texts(text, seed))


@each_case("seed", [None, *range(4)])
@each_case(
    ("text", "count"),
    [
        (f"<tool_call>\n{CALL}\n</tool_call>", 1),
        (f"<tool_call>\n{CALL}}}\n</tool_call>", 1),
        (f"<tool_call>\n{CALL}\n{CALL}\n</tool_call>", 2),
        ("<tool_call>\n<function=f>\n</function>\n</tool_call>", 1),
        (f"<tool_call>{CALL}", 1),
    ],
)
def test_each_call_of_a_block_is_read(text: str, count: int, seed: int | None) -> None:
    assert reply(text, seed).short() == [("F", "f", "{}")] * count


@each_case("seed", [None, *range(4)])
@each_case(("arguments", "start"), [("{}", "{"), ('{"timeout": 5}', '{"timeout": 5, ')])
def test_a_code_block_is_an_argument_of_its_call(arguments: str, start: str, seed: int | None) -> None:
    found = reply(CODE_CALL % (arguments, "\n</code>\n</tool_call>"), seed, code=True).short()
    assert found == [("F", "code_interpreter", start + '"code": "\\nx = 1\\n\\n"}')]


@each_case(("arguments", "end"), [("[1]", "</code></tool_call>"), ("{}", "")])
def test_code_that_is_cut_off_or_has_no_arguments_to_stand_in_is_text(arguments: str, end: str) -> None:
    text = CODE_CALL % (arguments, end)
    assert reply(text, code=True).short() == [("C", text)]
