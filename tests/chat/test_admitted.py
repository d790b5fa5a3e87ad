"""Only guards admit a request."""

import ast
from pathlib import Path

from app.chat.admitted import mark_admitted
from app.chat.messages import ChatRequest

APP = Path(__file__).parents[2] / "app"
ADMITTING = {
    "api/chat.py": 2,
    "api/descriptions.py": 1,  # it has the gateway's own words, and a medium, which no guard can look at
    "api/model_calls.py": 1,
    "api/reply_opening.py": 1,
    "api/token_counts.py": 1,
    "guards/admission.py": 5,
    "responses_api/compact.py": 1,
}
"""How often each module calls `mark_admitted`. Those of `api`, but the second, do so for requests without guards."""


def count_calls(name: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for path in APP.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        count = sum(isinstance(call.func, ast.Name) and call.func.id == name for call in calls)
        if count:
            found[str(path.relative_to(APP))] = count
    return found


def test_a_request_is_admitted_as_the_same_object() -> None:
    request = ChatRequest("m", ())
    assert mark_admitted(request) is request


def test_no_other_module_admits_requests() -> None:
    assert count_calls("mark_admitted") == ADMITTING
