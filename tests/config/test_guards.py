"""What is wrong with guards and masking is refused at the start."""

from typing import Any

import pytest
from app.config.mistakes import find_conflicts
from app.config.settings import Settings
from app.config.warnings import find_warnings
from pydantic import ValidationError

from tests.each_case import each_case

Json = dict[str, Any]
URL = {"url": "http://127.0.0.1:9"}
INVALID: list[tuple[Json, str]] = [
    ({}, "exactly one of"),
    ({**URL, "detectors": ["email"]}, "exactly one of"),
    ({**URL, "api": "other"}, "api"),
    ({**URL, "phases": ["later"]}, "phases"),
    ({**URL, "phases": []}, "phases"),
    ({**URL, "api": "presidio", "phases": ["request", "reply"]}, "presidio"),
    ({**URL, "api": "presidio", "context": "all"}, "presidio"),
    ({**URL, "action": "mask"}, "action"),
    ({"detectors": ["email"], "timeout_seconds": 1}, "timeout_seconds"),
    ({**URL, "window_characters": 50, "overlap_characters": 50}, "window_characters"),
    ({**URL, "forward_headers": ["Authorization"]}, "credential"),
    ({"url": "http://guard.example.com", "sees": "original"}, "TLS"),
    ({"url": "no url"}, "url"),
    ({**URL, "api": "agentgateway", "images": True}, "images"),
    ({**URL, "api": "moderation", "images": True}, "images"),
    ({**URL, "api": "presidio", "tools": True}, "tools"),
    ({"detectors": ["email"], "tools": True}, "tools"),
    ({**URL, "api": "moderation", "params": {"thresholds": 0.5}}, "thresholds"),
    ({**URL, "api": "moderation", "params": {"thresholds": {"hate": "0.5"}}}, "thresholds"),
]


def settings(guards: Json, **more: Any) -> Settings:
    return Settings.model_validate({"demo": True, "guards": guards, **more})


@each_case("row, word", INVALID)
def test_a_guard_that_is_not_valid_is_refused(row: Json, word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        settings({"g": row})


@each_case("url", ["https://guard.example.com", "http://10.0.0.5", "http://guard", "http://127.0.0.1:1"])
def test_originals_go_to_the_own_network_or_over_tls(url: str) -> None:
    assert settings({"g": {"url": url, "sees": "original"}}).guards["g"].sees == "original"


@each_case(
    "masking",
    [
        {"key": "00"},
        {"patterns": {"a_b": "x*"}},
        {"patterns": {"a_b": "("}},
        {"patterns": {"a_b": "(a+)+"}},
        {"patterns": {"A": "x"}},
    ],
)
def test_masking_that_is_not_valid_is_refused(masking: Json) -> None:
    with pytest.raises(ValidationError):
        settings({}, masking=masking)


def test_a_detector_must_exist() -> None:
    found = [*find_conflicts(settings({"g": {"detectors": ["email", "staff"]}}))]
    assert any(mistake.startswith("guards.g.detectors") and "'staff'" in mistake for mistake in found)
    known = settings({"g": {"detectors": ["staff"]}}, masking={"patterns": {"staff": "ST-[0-9]+"}})
    assert not [mistake for mistake in find_conflicts(known) if mistake.startswith("guards")]


def test_several_workers_must_have_one_key() -> None:
    rows = {"g": {"detectors": ["email"]}}
    alone = [*find_conflicts(settings(rows))]
    several = [*find_conflicts(settings(rows, server={"workers": 2}))]
    given = [*find_conflicts(settings(rows, server={"workers": 2}, masking={"key": "0" * 64}))]
    assert [any(mistake.startswith("masking.key") for mistake in one) for one in (alone, several, given)] == [
        *(False, True, False)
    ]


REDIS = {"cache": {"url": "redis://127.0.0.1:6379/0"}}


@each_case(
    ("more", "refused"),
    [
        (REDIS, True),
        (REDIS | {"masking": {"key": "0" * 64}}, False),
        (REDIS | {"state": {"url": "sqlite:////data/state.db"}}, False),
        (REDIS | {"usage": {"url": "postgresql://db.test/parley"}}, False),
        ({"cache": {"url": "memory:"}}, False),
    ],
)
def test_the_key_is_not_kept_in_redis_beside_what_it_encrypts(more: Json, refused: bool) -> None:
    found = [*find_conflicts(settings({"g": {"detectors": ["email"]}}, **more))]
    assert any(mistake.startswith("masking.key") for mistake in found) is refused


def test_a_file_of_rules_that_no_guard_uses_is_a_warning() -> None:
    masking = {"rules_file": "rules.toml"}
    for detectors, warned in (("email", True), ("secrets", False)):
        found = find_warnings(settings({"g": {"detectors": [detectors]}}, masking=masking))
        assert any(warning.startswith("masking.rules_file is not used") for warning in found) is warned


def test_there_are_at_most_16_guards() -> None:
    rows = {f"g{number}": {"detectors": ["email"]} for number in range(17)}
    assert any("at most 16" in mistake for mistake in find_conflicts(settings(rows)))


def test_what_does_not_enforce_warns() -> None:
    rows = {"a": {**URL, "on_failure": "pass"}, "b": {**URL, "mode": "observe"}, "c": URL}
    found = [text for text in find_warnings(settings(rows)) if text.startswith("guards")]
    assert [text.split()[0] for text in found] == ["guards.a.on_failure", "guards.b"]


def test_a_pattern_cannot_have_the_name_of_a_detector() -> None:
    found = find_conflicts(settings({}, masking={"patterns": {"email": "x"}}))
    assert any(mistake.startswith("masking.patterns.email") for mistake in found)


@each_case("row", [{"mode": "observe"}, {"action": "observe"}])
def test_presidio_that_observes_is_not_waited_for(row: Json) -> None:
    rule = settings({"g": {**URL, "api": "presidio", **row}}).guards["g"].make_rule("g")
    assert (rule.observes, rule.enforces, rule.masks) == (True, False, False)


VIRTUAL, ALIAS = "'auto' is virtual", "'other-m' is an alias"


@each_case(
    ("patterns", "problem", "models"),
    [
        (["auto"], VIRTUAL, "'m', 'n'"),
        (["a*", "m*"], VIRTUAL, "'m', 'n'"),
        (["other*", "m"], ALIAS, "'m'"),
        (["gpt"], "'gpt' is an alias", "'m', 'n'"),
        (["*"], "", ""),
        (["m", "unknown"], "", ""),
    ],
)
def test_a_guard_cannot_be_for_a_name_under_which_no_model_answers(
    patterns: list[str], problem: str, models: str
) -> None:
    tree = {
        "m": {"upstreams": ["u"], "aliases": ["other-m"]},
        "n": {"upstreams": ["u"]},
        "auto": {"use": "m", "rules": [{"when": {"media": "image"}, "use": "n"}], "aliases": ["gpt"]},
    }
    upstreams = {"u": {"base_url": "http://model.test/v1"}}
    row = {"detectors": ["email"], "models": patterns}
    found = find_conflicts(settings({"g": row}, models=tree, upstreams=upstreams))
    text = f"guards.g.models: {problem}, and a guard goes by the name of the model that answers: {models}"
    assert [one for one in found if one.startswith("guards")] == ([text] if problem else [])
