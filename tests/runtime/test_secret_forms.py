"""The forms of secrets, beside the detectors' and the log's own tests."""

import re

import pytest
from app.runtime.secret_forms import SECRET_FORMS, SecretForm, find_secrets, find_secrets_in_log
from app.runtime.text_tests import make_text_test
from hypothesis import given
from hypothesis import strategies as st

from tests.linear_time import linear

EXPRESSIONS = [
    (form, expression) for form in SECRET_FORMS for expression in (form.expression, form.in_logs) if expression
]


def _with_short_repeats(expression: re.Pattern[str]) -> re.Pattern[str]:
    """The same with repeats of at most 30 more: values of it are made faster."""
    return re.compile(
        re.sub(r"\{(\d+),(\d+)\}", lambda m: f"{{{m[1]},{min(int(m[2]), int(m[1]) + 30)}}}", expression.pattern),
        (expression.flags & re.IGNORECASE) | re.ASCII,
    )


@pytest.mark.parametrize(("form", "expression"), EXPRESSIONS, ids=lambda one: getattr(one, "pattern", "")[:40])
def test_the_tests_of_a_form_miss_nothing_that_its_expressions_find(
    form: SecretForm, expression: re.Pattern[str]
) -> None:
    test = make_text_test(form.test)

    @given(st.from_regex(_with_short_repeats(expression)), st.sampled_from(["", " ", "\n", "é", "\ud800"]))
    def check(text: str, around: str) -> None:
        # What is generated has around it what it likes, also what the look-arounds exclude.
        text = around + text + around
        if expression.search(text):
            assert test(text)
            assert any(word in text for word in form.keywords) or expression.flags & re.IGNORECASE

    check()


KEYS = (
    "sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7",
    "ghp_" + "aB3d" * 9,
    "xoxb-123456789012-abcdefghijkl",
    "glsa_" + "aB3d" * 8 + "_0123abcd",
    "123456789:AA" + "aB3d_-x" * 4 + "aB3d_",
    "hvs." + "aB3d" * 8,
)


@pytest.mark.parametrize("key", KEYS)
def test_guards_and_logs_find_one_list_of_keys(key: str) -> None:
    text = f"The key {key} is theirs."
    for find in (find_secrets, find_secrets_in_log):
        assert {text[start:end] for start, end in find(text)} == {key}, find


SHORT = ("sk-abcdefghijklmnop", "pk-abcdefghijklmnop", "xai-abcdefghijklmnop", "\\nghp_" + "a" * 30)


@pytest.mark.parametrize("text", SHORT)
def test_a_log_also_loses_what_may_be_a_key(text: str) -> None:
    assert not list(find_secrets(text))
    assert list(find_secrets_in_log(text))


def test_one_part_of_a_beginning_many_times_takes_linear_time() -> None:
    for part in ("sk-", "://", "://a:", "eyJ", "Bearer ", "key-", "a://b:c", "-----BEGIN PRIVATE KEY-----"):
        assert linear(lambda size, part=part: list(find_secrets_in_log(part * size)), 10_000), part  # type: ignore[misc]
