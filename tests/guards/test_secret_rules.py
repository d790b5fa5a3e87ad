"""Rules for secrets from a file in the form of gitleaks."""

import time
from pathlib import Path

import pytest
from app.config.mistakes import find_conflicts
from app.config.request_log import make_export_finder
from app.config.settings import Settings
from app.config.tables.guards import MaskingSettings
from app.guards.secret_rules import make_rules_find, measure_entropy, parse_rules

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer, Running

pytest.importorskip("re2", reason="google-re2, of the extra guards, is not installed")
SPARE = "corp-Zx81Qw92Er73Ty64"
RULES = """
title = "ours"
minVersion = "v8.25.0"

[allowlist]
description = "for all"
paths = ['''\\.md$''']
stopwords = ["EXAMPLE"]

[[rules]]
id = "spare-token"
description = "Ours"
regex = '''\\b(corp-[A-Za-z0-9]{16})\\b'''
entropy = 3
keywords = ["CORP-"]
tags = ["own"]

[[rules]]
id = "door-code"
regex = '''(?i)door(?:\\s+code)?[ =:]+([0-9]{4})(?:\\D|\\z)'''
keywords = ["door"]
[[rules.allowlists]]
regexTarget = "line"
regexes = ['''# not a code$''']
[[rules.allowlists]]
condition = "AND"
paths = ['''tests/''']
regexes = ['''0000''']

[[rules]]
id = "only-files"
path = '''\\.p12$'''
"""


def find(text: str, rules: str = RULES) -> list[str]:
    parsed, mistakes = parse_rules(rules)
    assert mistakes == []
    return [text[span.start : span.end] for span in make_rules_find(parsed)(text)]


@each_case(
    ("text", "found"),
    [
        (f"use {SPARE} now", [SPARE]),
        (f"é {SPARE}, ü {SPARE[:-1]}5", [SPARE, f"{SPARE[:-1]}5"]),
        (f"\ud800 {SPARE}", [SPARE]),
        (f"x{SPARE}", []),
        ("corp-aaaaaaaaaaaaaaaa", []),  # its characters say too little
        ("corp-EXAMPLE81Qw92Er7", []),
        ("Door code: 4711.", ["4711"]),
        ("door=4711", ["4711"]),
        ("a\ndoor 4711 # not a code\ndoor 4712\nb", ["4712"]),
        ("door 0000 ", ["0000"]),  # the exception demands a path, which no text has
        ("a.p12", []),
        ("", []),
    ],
)
def test_a_rule_finds_these_values(text: str, found: list[str]) -> None:
    assert find(text) == found


@each_case(
    ("row", "text", "found"),
    [
        ("secretGroup = 2", "ab=cd", ["cd"]),
        ("", "ab=cd", ["ab"]),  # the first group that is not empty
        ("allowlist = {regexes = ['^a']}", "ab=cd", []),
        ("allowlists = [{regexes = ['=c'], regexTarget = 'match'}]", "ab=cd", []),
        ("allowlists = [{regexes = ['^a'], stopwords = ['B'], condition = 'and'}]", "ab=cd ac=cd", ["ac"]),
        ("allowlists = [{commits = ['abc']}]", "ab=cd", ["ab"]),
        ("keywords = ['cd', 'xy']", "ab=ce", []),
    ],
)
def test_fields_of_a_rule_count(row: str, text: str, found: list[str]) -> None:
    assert find(text, f"[[rules]]\nid = 'r'\nregex = '([a-z]+)=([a-z]+)'\n{row}") == found


def test_a_list_of_the_file_can_be_for_some_rules() -> None:
    rules = "".join(f"[[rules]]\nid = '{name}'\nregex = '{name}[0-9]'\n" for name in "ab")
    assert find("a1 b1", f"{rules}[[allowlists]]\ntargetRules = ['a']\nregexes = ['1']") == ["b1"]


RULE = "[[rules]]\nid = 'r'\nregex = 'a'\n"
MISTAKES = [
    ("rules = ", "it is not valid TOML"),
    ("rules = 1", "not in the form of gitleaks"),
    ("", "no rules"),
    ("[extend]\nuseDefault = true", "`extend` is not supported"),
    ("[[rules]]\nregex = 'a'", "rule 0: it has no `id`"),
    ("[[rules]]\nid = 'r'", "rule 'r': it has neither"),
    ("[[rules]]\nid = 'r'\nregex = '(?=a)'", "rule 'r': RE2 does not take"),
    ("[[rules]]\nid = 'r'\nregex = 'a*'", "rule 'r': its `regex` matches the empty text"),
    (f"{RULE}secretGroup = 1", "rule 'r': `secretGroup` is 1"),
    (f"{RULE}entropy = 'x'", "rule 'r': Expected `float`"),
    (f"{RULE}[[rules.required]]\nid = 'b'", "rule 'r': Object contains unknown field `required`"),
    (f"{RULE}allowlists = [{{regexes = ['(']}}]", "rule 'r': RE2 does not take"),
    (f"{RULE}allowlists = [{{regexes = ['a'], condition = 'XOR'}}]", "rule 'r': `condition`"),
    (f"{RULE}allowlists = [{{regexes = ['a'], regexTarget = 'file'}}]", "rule 'r': `regexTarget`"),
    (f"{RULE}allowlists = [{{regexes = ['a']}}]\nallowlist = {{regexes = ['b']}}", "rule 'r': it has `allowlist`"),
    (f"{RULE}[[allowlists]]\ntargetRules = ['x']\nregexes = ['a']", "`targetRules` names 'x'"),
]


@each_case(("text", "start"), MISTAKES)
def test_what_would_find_something_else_is_a_mistake(text: str, start: str) -> None:
    rules, mistakes = parse_rules(text)
    assert any(start in mistake for mistake in mistakes), mistakes


def test_every_mistake_is_named() -> None:
    rows = "".join(f"[[rules]]\nid = '{name}'\nregex = '('\n" for name in "abc")
    assert [mistake[:8] for mistake in parse_rules(rows)[1]] == ["rule 'a'", "rule 'b'", "rule 'c'"]


@each_case("text", ["a" * 1_000_000, "door " * 100_000, "corp-" + "A1" * 100_000])
def test_a_search_takes_linear_time(text: str) -> None:
    slow = "[[rules]]\nid = 'slow'\nregex = '(?:[a-z]+)+[0-9]$'\n"
    began = time.process_time()
    find(text, RULES + slow)
    assert time.process_time() - began < 1.5


def test_entropy_is_that_of_the_characters() -> None:
    assert [measure_entropy(text) for text in ("aaaa", "abab", "abcd")] == [0, 1, 2]


@each_case(
    ("data", "start"),
    [
        (None, "cannot be read"),
        (b"\xff", "must be text in UTF-8"),
        (b"#" * (8 * 1024 * 1024 + 1), "has more than"),
        (b"[[rules]]\nid = 'r'", "rule 'r'"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_mistake(data: bytes | None, start: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    if data is not None:
        file.write_bytes(data)
    rules, (mistake,) = MaskingSettings(rules_file=str(file)).secret_rules
    assert rules == () and start in mistake and mistake.startswith(f"'{file}'")


def test_the_request_log_has_the_rules_that_the_guards_have_whatever_becomes_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES)
    settings = Settings.model_validate({"masking": {"rules_file": str(file)}})
    assert not [mistake for mistake in find_conflicts(settings) if mistake.startswith("masking")]
    file.unlink()
    [span] = make_export_finder(settings.model_copy())(f"It is {SPARE}.")
    assert (span.start, span.end) == (6, 6 + len(SPARE))


def test_the_rules_of_a_file_mask_and_a_reload_changes_them(tmp_path: Path) -> None:
    file, server = tmp_path / "rules.toml", ModelServer()
    file.write_text(RULES)
    settings = {
        "upstreams": {"s": {"base_url": "http://model.test/v1"}},
        "models": {"m": {"upstreams": ["s"]}},
        "guards": {"pii": {"detectors": ["secrets"]}, "mail": {"detectors": ["email"]}},
        "masking": {"key": "0" * 64, "rules_file": str(file), "notice": False},
    }
    body = {"model": "m", "messages": [{"role": "user", "content": f"It is {SPARE} of ann@example.com"}]}
    with Running(settings, server) as gateway:
        gateway.post("/v1/chat/completions", body)
    text = server.requests[0].content.decode()
    assert SPARE not in text and "[SECRET_" in text and "[EMAIL_" in text
