"""The configuration that an import makes."""

from datetime import date

from app.importers.draft import Draft


def test_servers_with_one_name_are_told_apart_and_equal_ones_are_one() -> None:
    draft = Draft()
    names = [
        draft.add_upstream(name, {"base_url": url})
        for name, url in (("A b", "1"), ("a-b", "2"), ("A b", "1"), ("!", "3"))
    ]
    assert names == ["a-b", "a-b-2", "a-b", "server"]


def test_the_variables_that_it_needs_are_known() -> None:
    draft = Draft({"a": {"api_key": "${A}", "headers": {"x": "${B} ${A}"}}}, {"m": {"upstreams": ["${C}"], "n": 3}})
    assert draft.list_variables() == ["A", "B", "C"]


def test_what_toml_cannot_hold_is_left_out_and_noted() -> None:
    draft = Draft(models={"m": {"defaults": {"extra_body": {"a": None, "b": [1, None], "\ud800": date(2027, 1, 1)}}}})
    assert draft.to_tree() == {"models": {"m": {"defaults": {"extra_body": {"b": [1]}}}}}
    assert draft.notes == [
        "models.m.defaults.extra_body.a: a value of the type NoneType cannot be written",
        "models.m.defaults.extra_body.b[1]: a value of the type NoneType cannot be written",
        "models.m.defaults.extra_body.?: a value of the type date cannot be written",
    ]


def test_notes_that_say_the_same_of_several_rows_are_one() -> None:
    draft = Draft()
    for path, text in (("rows[0].a", "x"), ("b", "x"), ("rows[1].a", "x"), ("rows[1].a", "y: z"), ("rows[2].a", "x")):
        draft.note(path, text)
    assert draft.list_notes() == ["rows[0].a and 2 more: x", "b: x", "rows[1].a: y: z"]


def test_a_model_is_found_by_its_name_and_its_aliases() -> None:
    draft = Draft(models={"m": {"aliases": ["n"]}})
    assert [draft.find_model(name) for name in ("m", "n", "o")] == ["m", "m", None]
