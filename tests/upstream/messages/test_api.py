"""What the Messages API needs beside its body and its replies."""

from app.profiles import find_profile
from app.upstream.messages.api import API

from tests.each_case import each_case

PROFILE = find_profile("anthropic", "messages")


@each_case(
    ("given", "complete"),
    [("http://a.test", "http://a.test/v1"), ("http://a.test/v1", "http://a.test/v1")],
)
def test_a_base_url_may_be_given_without_its_version(given: str, complete: str) -> None:
    assert API.complete_base_url(given) == complete


def test_the_key_has_a_header_of_its_own_unless_it_is_a_bearer_token() -> None:
    version = {"anthropic-version": "2023-06-01"}
    assert API.make_headers("k") == {"x-api-key": "k"} | version
    assert API.make_headers("k", "bearer") == {"authorization": "Bearer k"} | version
    assert API.make_headers(None) == version


def test_a_binding_of_thinking_needs_its_beta() -> None:
    assert API.list_headers is not None
    assert API.list_headers(PROFILE) == ()
    bound = PROFILE.model_copy(update={"thinking_binding": "drop_block"})
    assert [name for name, _ in API.list_headers(bound)] == [b"anthropic-beta"]
