"""The offered function that a name stands for."""

from app.steps.tool_parsers.names import find_offered

from tests.each_case import each_case

OFFERED = ("f", "get.time", "ab")


@each_case(
    "name",
    ["f", "functions.f", "default_api.f", "tools:f", "api/f", "f:0", "functions.f:12", "f#3", "f<|channel|>json"]
    + ["f json", "f(", "f<arg_key>x", "ff", "to=functions.f", "`f`", '"f"', " f\n", "f:", "f{"],
)
def test_what_a_template_adds_to_a_name_is_left_out(name: str) -> None:
    assert find_offered(name, OFFERED) == "f"


def test_a_name_that_was_offered_stands_for_itself() -> None:
    assert find_offered("get.time", OFFERED) == "get.time"
    assert find_offered("x.f", ("f", "x.f")) == "x.f"


@each_case("name", ["", "g", "fff", "functions.g", "of", "abba", "f g".replace(" ", "_")])
def test_a_name_that_was_not_offered_stands_for_none(name: str) -> None:
    assert find_offered(name, OFFERED) is None


def test_a_name_that_stands_for_two_functions_stands_for_none() -> None:
    assert find_offered("f:0", ("f",)) == "f"
    assert find_offered("a.f:0", ("f", "a.f")) is None


def test_a_text_longer_than_any_name_stands_for_none() -> None:
    assert find_offered("f " + "x" * 3998, OFFERED) == "f"
    assert find_offered("f " + "x" * 3999, OFFERED) is None
