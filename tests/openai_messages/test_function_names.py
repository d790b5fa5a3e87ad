"""The names of functions that a server takes."""

from app.openai_messages.function_names import find_name_rule

from tests.each_case import each_case


@each_case(
    ("form", "taken", "given", "sent"),
    [
        ("plain", "get_weather-2", "get.weather", "get_weather_"),
        ("plain", "2nd", "a b", "a_b_"),
        ("letter_first", "f2", "2nd", "f_2nd_"),
        ("dotted", "_a.b:c-d", "-a", "_-a_"),
    ],
)
def test_a_name_that_is_not_taken_keeps_what_it_can(form: str, taken: str, given: str, sent: str) -> None:
    rule = find_name_rule(64, form)
    assert rule.make(taken) == taken and not rule.changes(taken)
    made = rule.make(given)
    assert made[:-8] == sent and rule.changes(given) and not rule.changes(made)
    assert made == rule.make(given) != rule.make(f"{given}.")


def test_a_long_name_is_cut_and_stays_another_than_its_neighbours() -> None:
    rule = find_name_rule(20, "plain")
    first, second = rule.make("a" * 21), rule.make("a" * 22)
    assert (len(first), len(second)) == (20, 20) and first != second


def test_all_names_are_taken_or_not() -> None:
    rule = find_name_rule(8, "plain")
    assert rule.takes([]) and rule.takes(["a", "", "b" * 8])
    assert not rule.takes(["a", "b" * 9]) and not rule.takes(["a.b", "c"]) and not rule.takes(["a\0b"])
    assert rule.changes("a\0b")
