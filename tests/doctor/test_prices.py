"""Models whose cost is not known are named."""

from typing import Any

from app.config.settings import Settings
from app.doctor.prices import check_prices

from tests.each_case import each_case

PRICED: dict[str, Any] = {"upstreams": ["u"], "price": {"input": 1, "output": 1}}
UNPRICED: dict[str, Any] = {"upstreams": ["u"]}
REPORTED: dict[str, Any] = {"upstreams": ["r"]}


@each_case(
    ("models", "status", "words"),
    [
        ({"a": UNPRICED}, None, ""),
        ({"a": PRICED, "b": REPORTED}, "ok", "every configured model"),
        ({"a": PRICED, "b": UNPRICED, "c": UNPRICED}, "warning", "counts as 0: b, c"),
        ({"a": PRICED} | {f"m{number}": UNPRICED for number in range(25)}, "warning", "m19 and 5 more"),
    ],
)
def test_prices(models: dict[str, Any], status: str | None, words: str) -> None:
    upstreams = {
        "u": {"base_url": "http://127.0.0.1:1/v1"},
        "r": {"base_url": "http://127.0.0.1:2/v1", "kind": "openrouter"},
    }
    found = check_prices(Settings.model_validate({"upstreams": upstreams, "models": models}))
    assert [finding.status for finding in found] == ([] if status is None else [status])
    assert all(words in finding.message for finding in found)
