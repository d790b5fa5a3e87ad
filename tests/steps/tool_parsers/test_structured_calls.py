"""Structured calls lose what a server has left of its template; what is not certain stays, with a warning."""

from app.chat.events import Event, Extra, Failed, Fault, Finish, ToolCallDelta
from app.chat.messages import Tool
from app.steps.tool_parsers import tool_parser_stage

from tests.each_case import each_case
from tests.steps.stage_runner import joined

TOOLS = tuple(
    Tool(name, {"name": name, "parameters": {"properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}})
    for name in ("f", "g", "mcp.f")
)


def clean(name: str, *arguments: str, end: Event | None = None) -> tuple[str, str, bool]:
    """Return the name and the arguments that come out, and whether there is a warning."""
    stage = tool_parser_stage("auto", TOOLS, "chat-1")
    out = stage.feed([ToolCallDelta(0, "", "c1", name)])
    for text in arguments:
        out += stage.feed([ToolCallDelta(0, text)])
    out += stage.feed([end or Finish("tool_calls")])
    calls = [event for event in joined(out) if isinstance(event, ToolCallDelta)]
    last = out[-1]
    names = [event.name for event in calls if event.name]
    return "".join(names), "".join(event.arguments for event in calls), isinstance(last, Finish) and bool(last.warnings)


LONG = '{"a": "<|' + "x" * 400 + '"}'
CASES: list[tuple[str, tuple[str, ...], tuple[str, str, bool]]] = [
    ("g", ('{"a": 1}',), ("g", '{"a": 1}', False)),
    ("functions.g", ('{"a": 1}',), ("g", '{"a": 1}', False)),
    ("h", ('{"a": 1}',), ("h", '{"a": 1}', False)),
    ("h(a=1)", ("{}",), ("h(a=1)", "{}", True)),
    ("g" + " " * 5_000, ("{}",), ("g" + " " * 5_000, "{}", False)),
    ('g{"n": 1}', ("{}",), ("g", '{"n": 1}', False)),
    ('g{"n": 1}', ('{"n": ', "2}"), ("g", '{"n": 2}', True)),
    ("g(n=1)", (), ("g", '{"n": 1}', False)),
    ("g(", ('{"n": 1}',), ("g", '{"n": 1}', False)),
    ("g", ("js", 'on{"n": 1}'), ("g", '{"n": 1}', False)),
    ("g", ("so ", '{"n": 1}'), ("g", 'so {"n": 1}', True)),
    ("g", ('{"a": "<|\\"|>b<|\\"|>"}',), ("g", '{"a": "<|\\"|>b<|\\"|>"}', True)),
    ("g", ("[1]",), ("g", "[1]", False)),
    ("g", ("```",), ("g", "```", False)),
    ("g", ('{"n": 1}', " and so on"), ("g", '{"n": 1} and so on', True)),
    ("g", ('{"n": 1}', "<", "/tool_call>", "\n"), ("g", '{"n": 1}', False)),
    ("g", ('{"n": 1}<|im_',), ("g", '{"n": 1}', False)),
    ("g", ('{"n": 1}<b>',), ("g", '{"n": 1}<b>', True)),
    ("g", ('{"a": "x<', '|im_end|>"}'), ("g", '{"a": "x"}', True)),
    ("g", ('{"a": "x <|im_end|>"}',), ("g", '{"a": "x <|im_end|>"}', True)),
    ("g", ('{"a": "<|im_end|>"}',), ("g", '{"a": "<|im_end|>"}', True)),
    ("g", ('{"a": "<|x|> <|y|>", "b": "x<|x|>"}',), ("g", '{"a": "<|x|> <|y|>", "b": "x<|x|>"}', True)),
    ("g", ('{"a": "x\\u003c|im_end|\\u003e"}',), ("g", '{"a": "x"}', True)),
    ("g", ('{"a": "x\\u00', '3c|im_end|>"}'), ("g", '{"a": "x"}', True)),
    ("g", ('{"a": "x\\u00', 'e9"}'), ("g", '{"a": "x\\u00e9"}', False)),
    ("g", ('{"a": "x<|im', "_end|> y", '"}'), ("g", '{"a": "x<|im_end|> y"}', False)),
    ("g", ('{"a": "x <', '/think> y"}'), ("g", '{"a": "x </think> y"}', True)),
    ("g", ('{"a": "x</think>"}',), ("g", '{"a": "x</think>"}', True)),
    ("g", ('{"a": "\\u003c/mm:think\\u003e"}',), ("g", '{"a": "\\u003c/mm:think\\u003e"}', True)),
    ("g", ('{"a": "<think>x</think>"}',), ("g", '{"a": "<think>x</think>"}', False)),
    ("g", ('{"a": "</thinker>"}',), ("g", '{"a": "</thinker>"}', False)),
    ("g", ('{"a": "x<|',), ("g", '{"a": "x<|', False)),
    ("g", (LONG,), ("g", LONG, False)),
    ("g", ('{"a": <|x|>1}',), ("g", '{"a": <|x|>1}', False)),
    ("g", ('{"a": "x</｜DSML｜para', "meter"), ("g", '{"a": "x"}', True)),
    ("g", ('{"a": ["x</｜DSML｜parameter',), ("g", '{"a": ["x"', True)),
    ("g", ('{"a": "x</｜DSML｜parameter>y"}',), ("g", '{"a": "x</｜DSML｜parameter>y"}', True)),
    ("g", ("<tool_call>", '{"name": "g", "arguments": {"n": 1}}'), ("g", '{"n": 1}', True)),
    ("g", ("<parameter=n>1</parameter>",), ("g", '{"n": 1}', True)),
    (
        "g",
        ('<invoke name="f"><parameter name="n">1</parameter></invoke>',),
        ("g", '<invoke name="f"><parameter name="n">1</parameter></invoke>', False),
    ),
    ("g", ('{"n": 1}}</s',), ("g", '{"n": 1}', True)),
    ("g", ('{"n": 1}', '{"n": 1}'), ("g", '{"n": 1}', True)),
    ("g", ('{"n": {"a": 1}}', '{"n": 2}'), ("g", '{"n": {"a": 1}}{"n": 2}', True)),
    ("g", ("{", "{", '"n": 1}'), ("g", '{"n": 1}', True)),
    ("g", ("{", " ", "}"), ("g", "{ }", False)),
    ("g", ('{{"n": 1}}',), ("g", '{"n": 1}', True)),
    ("g", (', "argu', 'ments": {"n": 1}}'), ("g", '{"n": 1}', True)),
    ("g", (", 1",), ("g", ", 1", False)),
    ("g", ("<b>", "x</b>"), ("g", "<b>x</b>", False)),
]


@each_case(("name", "arguments", "want"), CASES, ids=lambda value: str(value)[:40])
def test_a_call_is_cleaned(name: str, arguments: tuple[str, ...], want: tuple[str, str, bool]) -> None:
    assert clean(name, *arguments) == want


def test_what_is_held_when_a_reply_fails_is_passed_on() -> None:
    failed = Failed(Fault("timeout", "", True))
    assert clean("g", '{"a": "x<|', end=failed)[1] == '{"a": "x<|'


def test_without_functions_calls_pass_as_they_are() -> None:
    stage = tool_parser_stage("auto", (), "chat-1")
    given: list[Event] = [ToolCallDelta(0, "{}</tool_call>", "c1", "functions.f"), Extra({"a": 1}, 0)]
    assert stage.feed(given) == given


@each_case(
    ("arguments", "is_told"), [('{"a": "x"', True), ('{"a": {"n": 1}', True), ('{"a": "x"}', False), ("[1", False)]
)
@each_case("end", [Finish("tool_calls"), Finish("length")])
def test_arguments_without_their_last_brace_are_told(arguments: str, is_told: bool, end: Finish) -> None:
    name, found, warned = clean("g", arguments[:4], arguments[4:], end=end)
    assert (name, found) == ("g", arguments)
    assert warned == (is_told and end.reason == "tool_calls")
