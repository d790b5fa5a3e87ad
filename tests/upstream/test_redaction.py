"""What no caller may see of an error's words, and what stays."""

import base64
from urllib.parse import quote

import pytest
from app.chat.events import Fault
from app.upstream.faults import MAX_MESSAGE, from_body
from app.upstream.redaction import Redactor

from tests.each_case import each_case
from tests.linear_time import linear

KEY = "Zx9!plain/key+val=0"
KNOWN = Redactor(
    [KEY, "sk-abc/def:ghijkl", "Basic dXNlcjpwYXNzd29yZDEyMw==", "none", "x"],
    ["http://vllm:8000/v1", "https://llm.corp.example/x/v1", "http://10.1.2.3:8000/v1"],
)


@each_case(
    ("form", "secret"),
    [
        (KEY, "plain"),
        (quote(KEY), "plain"),
        (quote(KEY, safe=""), "plain"),
        (base64.b64encode(f"somebody:{KEY}".encode()).decode(), "IXBsYWlu"),
        (base64.b64encode(KEY.encode()).decode(), "IXBsYWlu"),
        (f"x{KEY}x", "plain"),
        ("sk-abc/def:ghijkl", "ghijkl"),
        ("Bearer sk-abc/def:ghijkl", "ghijkl"),
        ("password123", "password"),
        ("dXNlcjpwYXNzd29yZDEyMw==", "dXNlcjpw"),
        ("Basic b3RoZXI6cGFpcg==", "b3RoZXI6"),
        ("http://me:pw123@example.com/", "pw123"),
        ("https://example.com/?api_key=pw123", "pw123"),
    ],
)
def test_a_secret_is_replaced_however_it_is_quoted(form: str, secret: str) -> None:
    assert secret in form
    shown = KNOWN.redact_fault(from_body(f"no such key {form} here".encode(), 401)).message
    assert ("[redacted]" in shown, secret in shown) == (True, False)
    assert shown.startswith("no such key ")


def test_a_secret_that_is_cut_off_with_the_text_leaves_nothing() -> None:
    for before in range(MAX_MESSAGE - len(KEY) - 3, MAX_MESSAGE):
        fault = from_body(b"." * before + KEY.encode() + b" and more" * 900, 400)
        assert KEY[:6] not in KNOWN.redact_fault(fault).message


def test_a_word_that_happens_to_be_a_key_is_replaced_only_where_it_stands_alone() -> None:
    assert KNOWN.redact_text("nonexistent x is none") == "nonexistent x is [redacted]"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://vllm:8000/v1/models is down; vllm is fine; vllm:8000", "[address] is down; vllm is fine; [address]"),
        ("at llm.corp.example now", "at [address] now"),
        ("dial tcp 10.9.9.9:8000: refused by 8.8.8.8", "dial tcp [address]: refused by 8.8.8.8"),
        ("[::1]:8000 and http://localhost:1/x and a.internal", "[address] and [address] and [address]"),
        ("/home/u/model.gguf: no such file", "[path]: no such file"),
        ("the model `/models/qwen` does not exist", "the model `[path]` does not exist"),
        ('File "/usr/lib/a b/x.py", line 3', 'File "[path]", line 3'),
        (r"cannot open C:\Users\me\x.bin", "cannot open [path]"),
        ("file:///srv/a and ~/b/c", "[path] and [path]"),
    ],
)
def test_file_paths_and_inside_addresses_are_replaced(text: str, shown: str) -> None:
    assert KNOWN.redact_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "POST /v1/chat/completions is not supported; </think> and/or 1/2 image/png Qwen/Qwen3-8B",
        "see https://platform.openai.com/account/api-keys",
        "at /messages/0/content: wrong",
        "Basic authentication failed",
        "on 2026/11/22 at 10:00:00",
    ],
)
def test_what_a_caller_needs_stays(text: str) -> None:
    assert KNOWN.redact_text(text) == text


def test_what_the_server_added_is_searched_too() -> None:
    fault = Fault("tool_use_failed", "no", True, 400, None, {"failed_generation": [f"<{KEY}>"]})
    assert KNOWN.redact_fault(fault).detail == {"failed_generation": ["<[redacted]>"]}


@pytest.mark.parametrize("unit", ["a.", "/a", "-", "1.", "://", "[", "a-", "~/", "key=", f"{KEY[:7]}", "basic "])
def test_a_text_is_searched_in_linear_time(unit: str) -> None:
    many = Redactor((f"key-{at}-{'x' * 30}" for at in range(150)), (f"http://h{at}.example/v1" for at in range(50)))
    assert linear(lambda size: many.redact_text((unit * size)[:size]), 1000)
