from app.chat.template_tokens import AROUND_ARGUMENTS, CALL_CLOSERS, TEXT_ENDS, TOKEN, TURN_ENDS, may_begin_token

from tests.each_case import each_case
from tests.linear_time import linear


@each_case(
    "text",
    [
        "",
        " \n",
        "</tool_call>\n<|im_end|>",
        "</tool_c",
        "</s> </inv",
        "<|new_tok",
        "<|new_token|>",
        "<｜new",
        "</｜｜new｜ argument",
        "```js",
    ],
)
def test_tokens_around_arguments_may_be_incomplete(text: str) -> None:
    assert may_begin_token(text)


@each_case("text", ["x", "{}", '</tool_call>{"a"', "<|a b", "<|" + "a" * 41, "<b>", "</s>x"])
def test_other_text_begins_no_token(text: str) -> None:
    assert not may_begin_token(text)


@each_case("token", sorted({*CALL_CLOSERS, *TURN_ENDS}))
def test_each_token_is_found_whole(token: str) -> None:
    assert (found := TOKEN.match(token)) is not None
    assert found.group() == token
    assert AROUND_ARGUMENTS.fullmatch(token) is not None


@each_case("token", ["</s>", "[e~[", "<|call|>", "<|sep|>"])
def test_a_text_may_end_with_a_token_that_also_stands_in_texts(token: str) -> None:
    assert token in TURN_ENDS
    assert token not in TEXT_ENDS


@each_case("unit", ["<｜a｜" + " " * 10, "</｜a｜b>", "<|a|>", "</｜GCML｜parameter>", " \n"])
@each_case("end", ["b" * 60 + "<", "<", ""])
def test_what_stands_around_arguments_is_found_in_linear_time(unit: str, end: str) -> None:
    assert linear(lambda size: AROUND_ARGUMENTS.fullmatch(unit * size + end), 5_000)
