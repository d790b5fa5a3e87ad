"""Which requests are answered in Gemini's language."""

from app.formats.gemini.paths import find_key, is_gemini_request, read_page, skips_errors, wants_events

from tests.each_case import each_case


@each_case(
    ("method", "path", "query", "headers", "is_one"),
    [
        ("POST", "/v1beta/models/m:generateContent", b"", {}, True),
        ("GET", "/v1beta", b"", {}, True),
        ("GET", "/v1alpha/models", b"", {}, True),
        ("POST", "/v1/models/m:8b:generateContent", b"", {}, True),
        ("POST", "/v1/projects/p/locations/l/x", b"", {}, True),
        ("POST", "/v1/publishers/google/models/m:generateContent", b"", {}, True),
        ("POST", "/upload/v1beta/files", b"", {}, True),
        ("POST", "/v1/v1beta/models/m:generateContent", b"", {}, True),
        ("POST", "/models/m:generateContent", b"", {}, True),
        ("GET", "/v1/v1beta/models", b"", {b"x-goog-api-key": b"k"}, True),
        ("GET", "/v1/v1beta/models/m", b"key=k", {}, True),
        ("GET", "/v1/v1beta/models", b"", {}, False),
        ("POST", "/v1/models/:generateContent", b"", {}, False),
        ("POST", "/v1/models/m:é", b"", {}, False),
        ("POST", "/v1/uploads", b"", {}, False),
        ("POST", "/v1/models/m", b"", {}, False),
        ("POST", "/v1/chat", b"key=k", {}, False),
        ("GET", "/v1/models/m:8b", b"", {}, False),
        ("GET", "/v1/models", b"", {}, False),
        ("GET", "/v1/models", b"", {b"x-goog-api-key": b"k"}, True),
        ("GET", "/v1/models/m", b"", {b"x-goog-api-client": b"x"}, True),
        ("GET", "/v1/models", b"pageSize=3&key=k", {}, True),
        ("GET", "/v1/modelsof", b"key=k", {}, False),
        ("GET", "/v1betas", b"", {}, False),
    ],
)
def test_the_path_and_the_marks_of_googles_clients_decide(
    method: str, path: str, query: bytes, headers: dict[bytes, bytes], is_one: bool
) -> None:
    assert is_gemini_request(method, path, query, headers) is is_one


@each_case(
    ("query", "key"),
    [(b"key=a%2Bb", "a+b"), (b"alt=sse&key=k", "k"), (b"key=", None), (b"monkey=k", None), (b"", None)],
)
def test_the_key_of_a_query_is_found(query: bytes, key: str | None) -> None:
    assert find_key(query) == key


@each_case(("query", "events"), [(b"alt=sse", True), (b"$alt=SSE", True), (b"alt=json", False), (b"", False)])
def test_only_sse_asks_for_events(query: bytes, events: bool) -> None:
    assert wants_events(query) is events


def test_a_page_is_read_in_both_spellings() -> None:
    assert read_page(b"pageSize=2&page_token=4") == ("2", "4")
    assert read_page(b"") == (None, None)


@each_case(
    ("client", "skips"),
    [
        (b"google-genai-sdk/1.30.0 gl-node/v20.20.2", True),
        (b"google-genai-sdk/2.32.0 gl-node/v20.20.2", False),
        (b"google-genai-sdk/1.30.0 gl-python/3.11.7", False),
        (b"google-genai-sdk/10.0.0 gl-node/v20.20.2", False),
        (b"", False),
    ],
)
def test_the_node_sdk_before_version_2_skips_errors_in_streams(client: bytes, skips: bool) -> None:
    assert skips_errors({b"x-goog-api-client": client}) is skips
    assert not skips_errors({})
