"""The usage of a reply of the Gemini API."""

from typing import Any

from app.upstream.gemini.usage import read_usage

from tests.each_case import each_case
from tests.upstream.gemini.replies import chunk, read, read_told, write_stream

Json = dict[str, Any]


def tell(*chunks: Json) -> Json:
    return read_told(read(write_stream(*chunks)))


def test_each_number_of_a_later_usage_replaces_the_earlier_one() -> None:
    first = {"promptTokenCount": 3, "candidatesTokenCount": 9, "trafficType": "ON_DEMAND"}
    last = {"promptTokenCount": 4, "thoughtsTokenCount": 2, "candidatesTokenCount": None, "toolUsePromptTokenCount": 5}
    usage = tell(chunk({"text": "a"}, usage=first), chunk(end="STOP", usage=last))["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (9, 11, 20)
    assert usage["trafficType"] == "ON_DEMAND" and usage["reasoning_tokens"] == 2
    assert tell(chunk(end="STOP", usage={"trafficType": "x"}))["usage"] is None


@each_case(
    ("given", "totals"),
    [
        ({"promptTokenCount": 3, "totalTokenCount": 9}, (3, 6, 9)),
        ({"candidatesTokenCount": 2}, (None, 2, None)),
        ({"promptTokenCount": "x", "candidatesTokenCount": -1}, None),
        (None, None),
    ],
)
def test_a_total_that_is_missing_follows_from_the_others(given: Json | None, totals: Any) -> None:
    usage = read_usage(given)
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    assert (None if usage is None else tuple(usage.get(name) for name in names)) == totals
