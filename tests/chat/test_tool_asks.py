import random
import re

from app.chat.tool_asks import ALL_TOOLS, MAX_NAME_CHARS, NO_TOOLS, ApprovalRule, ToolFilter, make_tool_name

from tests.each_case import each_case


@each_case(
    ("server", "tool", "name"),
    [
        ("wx", "get_weather", "wx-get_weather"),
        ("a-b", "c", "a-b-c"),
        ("a", "read file", "a-read_file_4213f2"),
        ("s", "x" * 62, "s-" + "x" * 62),
    ],
)
def test_a_name_for_the_model_is_the_server_and_the_tool(server: str, tool: str, name: str) -> None:
    assert make_tool_name(server, tool) == name


def test_a_long_name_is_cut_and_ends_with_its_hash() -> None:
    name = make_tool_name("s", "x" * 63)
    assert len(name) == MAX_NAME_CHARS
    assert re.fullmatch(r"s-x{55}_[0-9a-f]{6}", name)


def test_random_names_are_valid_and_never_equal() -> None:
    rng = random.Random(7)
    pairs = {
        ("".join(rng.choices("ab_", k=rng.randint(1, 3))), "".join(rng.choices("ab é./_", k=rng.randint(1, 70))))
        for _ in range(10_000)
    }
    names = {make_tool_name(server, tool) for server, tool in pairs}
    assert len(names) == len(pairs)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)


@each_case(
    ("tools", "tool", "read_only", "accepted"),
    [
        (ALL_TOOLS, "a", False, True),
        (NO_TOOLS, "a", True, False),
        (ToolFilter(("a",)), "a", False, True),
        (ToolFilter(("a",)), "b", False, False),
        (ToolFilter(excluded=("a",)), "a", False, False),
        (ToolFilter(read_only=True), "a", False, False),
        (ToolFilter(read_only=True), "a", True, True),
        (ToolFilter(read_only=False), "a", True, False),
        (ToolFilter(("a",), read_only=True), "a", False, False),
    ],
)
def test_a_filter_accepts_what_passes_each_test(tools: ToolFilter, tool: str, read_only: bool, accepted: bool) -> None:
    assert tools.accepts(tool, read_only=read_only) is accepted


def test_what_always_needs_approval_does_so_even_if_it_is_also_listed_as_never() -> None:
    rule = ApprovalRule(ToolFilter(("a", "b")), ToolFilter(("b", "c")))
    assert [rule.asks(tool, read_only=False) for tool in "abcd"] == [True, True, False, None]


def test_all_need_approval_but_those_that_a_request_exempts() -> None:
    """vllm-project/agentic-api#145: OpenAI asks for every call that `never` does not name."""
    rule = ApprovalRule(never=ToolFilter(("b",)), others=True)
    assert [rule.asks(tool, read_only=False) for tool in "ab"] == [True, False]
