from app.endpoints.urls import join_url

from tests.each_case import each_case


@each_case(
    ("base_url", "path", "expected"),
    [
        ("http://a/v1", "/v1/rerank", "http://a/v1/rerank"),
        ("http://a/v1", "/rerank", "http://a/rerank"),
        ("http://a/openai/v1", "/v1/embeddings", "http://a/openai/v1/embeddings"),
        ("http://a:1", "/embeddings", "http://a:1/embeddings"),
        ("http://a:1", "/v1/embeddings", "http://a:1/v1/embeddings"),
        ("http://a/api/paas/v4", "/v1/embeddings", "http://a/api/paas/v4/embeddings"),
        ("http://a/api/paas/v4", "/rerank", "http://a/api/paas/v4/rerank"),
        ("http://a/proxy", "/v1/embeddings", "http://a/proxy/embeddings"),
        ("https://a", "/v2/embed", "https://a/v2/embed"),
    ],
)
def test_a_path_goes_on_as_it_came_below_the_base_url(base_url: str, path: str, expected: str) -> None:
    assert join_url(base_url, path) == expected
