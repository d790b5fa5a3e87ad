"""What is found in texts, and what is not."""

import time
from collections.abc import Iterable

import pytest
from app.guards.detectors import DETECTORS, choose_spans, make_pattern
from app.guards.spans import Span

from tests.each_case import each_case

FOUND = [
    ("email", "Write to ann@example.com.", ["ann@example.com"]),
    ("email", "ann.b+tag@mail.example.co.uk, éann@example.com", ["ann.b+tag@mail.example.co.uk", "éann@example.com"]),
    (
        "email",
        "jörg@example.com, ann@müller.de, анна@почта.рф, \u0430nn@example.com",
        [
            *("jörg@example.com", "ann@müller.de", "анна@почта.рф", "\u0430nn@example.com"),
        ],
    ),
    ("email", "联系ann@example.com", ["ann@example.com"]),
    ("email", "@decorator a@b user@host ann@example.c0m", []),
    ("card", "card 4111-1111-1111-1111, 378282246310005", ["4111-1111-1111-1111", "378282246310005"]),
    ("card", "3782 822463 10005 and 2024 5555 5555 5555 4444", ["3782 822463 10005", "5555 5555 5555 4444"]),
    ("card", "4111111111111112 94111111111111111 x4111111111111111 4111111111111111.5", []),
    ("card", "1234 5678 9012 3456", []),
    (
        "iban",
        "to DE89 3704 0044 0532 0130 00, GB82WEST12345698765432.",
        ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432"],
    ),
    ("iban", "not DE88370400440532013000, DE893704004405320130, XX89370400440532013000", []),
    ("iban", "DE89370400440532013000X", []),
    ("card", " ".join(["4111 1111 1111 1111"] * 6), ["4111 1111 1111 1111"] * 6),
    ("card", "-".join(["4111111111111111"] * 6), ["4111111111111111"] * 6),
    (
        "iban",
        "DE89370400440532013000 GB82WEST12345698765432, REF AB12 DE89 3704 0044 0532 0130 00 KD24",
        ["DE89370400440532013000", "GB82WEST12345698765432", "DE89 3704 0044 0532 0130 00"],
    ),
    ("phone", "Call +49 (30) 123456-78 or +1 555.010.9999", ["+49 (30) 123456-78", "+1 555.010.9999"]),
    ("phone", "030 12345678, 1+4912345678, +12", []),
    ("ip", "at 8.8.8.8, 2606:4700:4700::1111.", ["8.8.8.8", "2606:4700:4700::1111"]),
    ("ip", "at 10.0.0.1, 127.0.0.1, ::1, fe80::1, 1.2.3.4.5, 12:30:45, 999.1.1.1", []),
    (
        "secrets",
        "key sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7, AKIAIOSFODNN7EXAMPLE",
        ["sk-proj-Ab1Cd2Ef3Gh4Ij5Kl6Mn7", "AKIAIOSFODNN7EXAMPLE"],
    ),
    ("secrets", "ghp_" + "aB3d" * 9, ["ghp_" + "aB3d" * 9]),
    ("secrets", "postgres://ann:s3cret@db.example/x", ["ann:s3cret"]),
    ("secrets", "Authorization: Bearer abcdef0123456789", ["abcdef0123456789"]),
    (
        "secrets",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        ["wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"],
    ),
    (
        "secrets",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r",
        ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r"],
    ),
    (
        "secrets",
        "a\n-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\nb",
        ["-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----"],
    ),
    ("secrets", "-----BEGIN RSA PRIVATE KEY-----\nMIIB", ["-----BEGIN RSA PRIVATE KEY-----\nMIIB"]),
    ("secrets", "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx, task-management-of-many-people-in-teams", []),
    ("secrets", "d41d8cd98f00b204e9800998ecf8427e https://example.com:8080/a@b", []),
]
HOSTILE = (
    "a",
    "1 ",
    "1",
    "+1 ",
    ":a",
    "://:",
    "eyJ",
    "a.b@",
    "A",
    "AA11",
    "authorization: bearer ",
    "-----BEGIN PRIVATE KEY-----",
    "sk-",
    "a@a.",
    "4111 ",
)


def find(name: str, text: str) -> list[str]:
    groups = choose_spans(text, DETECTORS[name](text), lambda value: False)
    return [text[group[0].start : group[-1].end] for group in groups]


@each_case("name, text, found", FOUND)
def test_a_detector_finds_these_values(name: str, text: str, found: list[str]) -> None:
    assert find(name, text) == found


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_takes_linear_time(name: str) -> None:
    for part in HOSTILE:
        long, short = part * (400_000 // len(part)), part * (50_000 // len(part))
        assert _measure(name, long) < 40 * max(_measure(name, short), 0.002), part


def _measure(name: str, text: str) -> float:
    began = time.process_time()
    for _ in DETECTORS[name](text):
        pass
    return time.process_time() - began


def test_a_pattern_finds_its_first_group() -> None:
    def texts(spans: Iterable[Span], text: str) -> list[str]:
        return [text[span.start : span.end] for span in spans]

    text = "id ST-123456, name: Ann"
    assert texts(make_pattern("STAFF", r"\bST-[0-9]{6}\b")(text), text) == ["ST-123456"]
    assert texts(make_pattern("NAME", r"name: (\w+)")(text), text) == ["Ann"]
    assert texts(make_pattern("NAME", r"name: (\w*)")("name: "), "name: ") == []


def test_of_values_that_overlap_the_earlier_counts_then_the_longer() -> None:
    spans = [Span(3, 5, "A"), Span(0, 5, "B"), Span(0, 6, "C"), Span(6, 8, "D")]
    assert choose_spans("x" * 10, spans, lambda value: False) == [[spans[2]], [spans[3]]]


def test_of_values_that_overlap_the_end_of_the_later_belongs_to_the_earlier() -> None:
    spans = [Span(4, 9, "A"), Span(0, 5, "B"), Span(8, 10, "C"), Span(10, 11, "D")]
    assert choose_spans("x" * 12, spans, lambda value: False) == [[spans[1], spans[0], spans[2]], [spans[3]]]


def test_a_text_like_a_placeholder_is_no_value() -> None:
    find_words = make_pattern("WORD", "[A-Z]{4,}")
    text = "ABCD [EMAIL_YGDF6NR7] EFGH"
    spans = choose_spans(text, find_words(text), lambda value: value == "EFGH")
    assert [text[group[0].start : group[0].end] for group in spans] == ["ABCD"]
