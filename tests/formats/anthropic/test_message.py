"""The fields of a message of Anthropic's beside its content."""

import json

from app.chat.events import Finish
from app.formats.anthropic.message import rename_model, write_usage, write_warnings

from tests.each_case import each_case


@each_case(
    ("text", "model"),
    [('{"type":"message_start","message":{"id":"m","model":"up"}}', "asked"), ('{"type":"message_start"}', None)],
)
def test_the_start_of_a_message_has_the_name_that_the_client_asked_for(text: str, model: str | None) -> None:
    found = json.loads(rename_model(text, "asked"))
    assert found.get("message", {}).get("model") == model


def test_the_counts_of_input_tokens_are_a_sum() -> None:
    details = {"cached_tokens": 4, "cache_write_tokens": 3}
    usage = write_usage(Finish("stop", {"prompt_tokens": 9, "prompt_tokens_details": details}))
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    assert [usage[name] for name in names] == [2, 4, 3]
    assert write_usage(Finish("stop", {"prompt_tokens": 1, "prompt_tokens_details": details}))["input_tokens"] == 0


def test_a_reply_without_warnings_has_nothing_of_the_gateways() -> None:
    assert (write_warnings([]), write_warnings(["w"])) == ({}, {"parley": {"warnings": ["w"]}})
