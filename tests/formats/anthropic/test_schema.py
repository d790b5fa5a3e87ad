"""The URLs of Anthropic's sources, which are never data."""

import pytest
from app.formats.anthropic.schema import AnthropicUrlSource
from pydantic import ValidationError

from tests.each_case import each_case


@each_case(
    ("url", "message"),
    [
        ("", "must not be empty"),
        ("data:image/png;base64,aGk=", "must be an http(s) URL: this is base64, so send a source"),
        ("iVBORw0K" * 10, "must be an http(s) URL: this is base64, so send a source"),
        ("/tmp/a.png", "must be an http(s) URL: files of the gateway's machine are never read. Read the file"),
    ],
)
def test_a_url_that_is_not_one_is_refused_with_what_to_send(url: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        AnthropicUrlSource(type="url", url=url)
    assert caught.value.errors()[0]["msg"].startswith(f"Value error, {message}")


def test_the_scheme_of_a_url_may_be_in_capitals() -> None:
    assert AnthropicUrlSource(type="url", url="HTTPS://example.com/a").url == "HTTPS://example.com/a"
