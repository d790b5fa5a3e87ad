"""`each_case` runs every case, and says which of them failed."""

import asyncio
import inspect
from typing import Any

import pytest

from tests.each_case import each_case


def notes_of(test: Any, **fixtures: Any) -> list[str]:
    with pytest.raises(AssertionError) as caught:
        test(**fixtures)
    return caught.value.__notes__


def test_stacked_tables_give_every_combination() -> None:
    seen = []

    @each_case("letter", "ab")
    @each_case(("number", "word"), [(1, "one"), (2, "two")])
    def test(letter: str, number: int, word: str) -> None:
        seen.append(f"{letter}{number}{word}")

    test()
    assert sorted(seen) == ["a1one", "a2two", "b1one", "b2two"]


def test_every_case_runs_and_the_failing_ones_are_named() -> None:
    ran = []

    @each_case("number", range(5))
    @each_case("word", [pytest.param("x" * 500, id="long")])
    def test(number: int, word: str) -> None:
        ran.append(number)
        assert number not in (1, 3)

    in_the_case, count, other = notes_of(test)
    assert ran == [0, 1, 2, 3, 4]
    assert in_the_case == "in the case long, number=1"
    assert count == "2 of 5 cases failed; the others:"
    assert other.strip().startswith("long, number=3: AssertionError: assert 3 not in (1, 3)")


def test_a_case_is_named_by_its_id_or_by_its_shortened_arguments() -> None:
    @each_case("number", [7], ids=["seven"])
    def by_id(number: int) -> None:
        raise AssertionError

    @each_case("number", [7], ids=lambda number: f"number {number}")
    def by_function(number: int) -> None:
        raise AssertionError

    @each_case("word", ["x" * 500])
    def by_value(word: str) -> None:
        pytest.fail("no")

    assert notes_of(by_id) == ["in the case seven"]
    assert notes_of(by_function) == ["in the case number 7"]
    with pytest.raises(pytest.fail.Exception) as caught:
        by_value()
    assert caught.value.__notes__ == [f"in the case word='{'x' * 199}… (502 characters)"]


def test_a_coroutine_function_stays_one() -> None:
    ran = []

    @each_case("number", range(3))
    async def test(number: int, fixture: str) -> None:
        await asyncio.sleep(0)
        ran.append((number, fixture))

    assert inspect.iscoroutinefunction(test)
    assert list(inspect.signature(test).parameters) == ["fixture"]
    asyncio.run(test(fixture="f"))
    assert ran == [(0, "f"), (1, "f"), (2, "f")]


def test_a_test_is_skipped_only_where_all_of_its_cases_are() -> None:
    @each_case("number", [1, 2])
    def some(number: int) -> None:
        if number == 1:
            pytest.skip("not here")

    @each_case("number", [1, 2])
    def all_of_them(number: int) -> None:
        pytest.skip("not here")

    @each_case("number", [])
    def none(number: int) -> None:
        pass

    some()
    for test in (all_of_them, none):
        with pytest.raises(pytest.skip.Exception):
            test()


def test_a_table_for_an_argument_that_the_test_lacks_is_refused() -> None:
    with pytest.raises(AssertionError, match="has no argument"):

        @each_case("other", [1])
        def test(number: int) -> None:
            pass
