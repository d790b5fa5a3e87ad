from app.chat.messages import Tool, make_call_id
from msgspec.structs import replace


def test_an_id_is_made_from_all_that_it_names() -> None:
    assert make_call_id(3, "f", '{"a": 1}') == "call_77138082aa5ca81b36c65ca9"
    assert len({make_call_id(*what) for what in ((3, "f"), (4, "f"), (3, "g"), (3, "f", ""))}) == 4


def test_a_lone_surrogate_makes_an_id_too() -> None:
    assert make_call_id("\ud800").startswith("call_")


def test_the_json_of_a_tool_is_written_once_and_is_that_of_its_schema() -> None:
    tool = Tool("f", {"name": "f", "description": "é"})
    assert tool.encoded == '{"name":"f","description":"é"}'.encode()
    assert tool.encoded is tool.encoded
    assert replace(tool, schema={"name": "g"}).encoded == b'{"name":"g"}'
    assert tool == Tool("f", {"name": "f", "description": "é"})
