"""What is the same for all APIs: rules by which a refused request is sent once more."""

from typing import Any

import msgspec
from app.chat.events import Fault
from app.upstream.api import ApiName, find_api, repair_refused
from app.upstream.refusal_rules import RULES, VALUE_RULES

from tests.each_case import each_case
from tests.linear_time import linear

Json = dict[str, Any]
APIS: tuple[ApiName, ...] = ("chat_completions", "responses", "messages", "gemini")


def repair(tools: Any, message: str, param: str | None = None, api: ApiName = "responses") -> Any:
    fault = Fault("invalid_request", message, False, 400, server_param=param)
    repaired = repair_refused(find_api(api), msgspec.json.encode({"model": "m", "tools": tools}), fault)
    return None if repaired is None else msgspec.json.decode(repaired.data)["tools"]


def test_no_repair_of_an_api_has_the_name_of_a_rule() -> None:
    assert not VALUE_RULES.keys() & RULES.keys()
    for api in APIS:
        assert not find_api(api).repairs.keys() & (VALUE_RULES.keys() | RULES.keys())


@each_case(
    ("message", "param"),
    [
        # lmstudio-ai/lmstudio-bug-tracker#1812, BerriAI/litellm#30722, Alishahryar1/free-claude-code#859
        ("Invalid", "tools.14.type"),
        ("tools[7].type: unknown variant `namespace`, expected `function`", None),
        ("Unsupported Responses tool type: 'custom'", None),
        ("tools.1: Invalid input", None),
        ('Only `type:"function"` tools are supported on this endpoint.', "tools.8.type"),
    ],
)
def test_only_functions_are_offered_where_other_tools_are_refused(message: str, param: str | None) -> None:
    function = {"type": "function", "name": "f"}
    others = [{"type": "namespace", "name": "n", "tools": []}, {"type": "custom", "name": "c"}, {"type": "web_search"}]
    assert repair([function, *others, "odd"], message, param) == [function, "odd"]
    assert repair([function], message, param) is None
    assert repair(others, message, param) is None, "a request without any tool is another one"
    assert repair({}, message, param) is None
    own = {"name": "f", "input_schema": {}}
    assert repair([own, {"type": "custom", **own}, others[2]], message, param, "messages") == [
        own,
        {"type": "custom", **own},
    ]


@each_case(
    ("message", "left"),
    [
        # Vali-98/ChatterUI#564
        ("`temperature` and `top_p` cannot both be specified for this model. Please use only one.", ["temperature"]),
        ("'top_p' and 'temperature' can't be set together", ["top_p"]),
        ("temperature and messages cannot both be specified", None),
        ("top_p and min_p cannot both be specified", None),
    ],
)
def test_of_two_options_one_is_left_out_where_both_are_refused(message: str, left: list[str] | None) -> None:
    given = {"temperature": 0.5, "top_p": 0.9}
    fault = Fault("invalid_request", message, False, 400)
    for api in ("messages", "chat_completions"):
        body = msgspec.json.encode({"model": "m", "messages": [], **given})
        repaired = repair_refused(find_api(api), body, fault)
        sent = None if repaired is None else msgspec.json.decode(repaired.data)
        assert (None if sent is None else [name for name in sent if name in given]) == left


@each_case("content", ["Roses are \n", [{"type": "image"}, {"type": "text", "text": "Roses are \n"}]])
def test_white_space_at_the_end_of_the_last_message_is_left_out(content: Any) -> None:
    words = "messages: final assistant content cannot end with trailing whitespace"
    user = {"role": "user", "content": "Write a poem "}

    def send(*messages: Json) -> Any:
        body = msgspec.json.encode({"model": "m", "messages": messages})
        repaired = repair_refused(find_api("messages"), body, Fault("invalid_request", words, False, 400))
        return None if repaired is None else msgspec.json.decode(repaired.data)["messages"]

    trimmed = "Roses are" if isinstance(content, str) else [content[0], {"type": "text", "text": "Roses are"}]
    assert send(user, {"role": "assistant", "content": content}) == [user, {"role": "assistant", "content": trimmed}]
    for last in (trimmed, None, [], [{"type": "image"}]):
        assert send(user, {"role": "assistant", "content": last}) is None
    assert send(user) is None and send() is None


@each_case("word", ["tools.0.type ", "unsupported a tool ", "tool type a", "only function a", "a and ", "a" * 9])
def test_a_long_refusal_is_read_in_linear_time(word: str) -> None:
    assert linear(lambda size: repair([{"type": "x"}], word * size), 500)
