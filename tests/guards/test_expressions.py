"""Expressions that a text could make slow are found."""

from app.guards.expressions import find_slow_part

from tests.each_case import each_case


@each_case("expression", [r"\bST-[0-9]{6}\b", "a+b*c{2,}", "(?:ab|cd)+", "[a-z]+@[a-z]+", "(?i)staff-\\d+"])
def test_an_expression_of_linear_parts_is_accepted(expression: str) -> None:
    assert find_slow_part(expression) is None


@each_case(
    "expression, problem",
    [
        ("(a+)+b", "a repeat within a repeat"),
        ("(?:x|(?:a*b)*)c", "a repeat within a repeat"),
        (r"(a)b\1", "a reference to a group"),
        ("(?<=a)b", "a look-around"),
        ("a(?!b)", "a look-around"),
    ],
)
def test_a_slow_part_is_named(expression: str, problem: str) -> None:
    assert find_slow_part(expression) == problem
