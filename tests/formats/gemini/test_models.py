"""The list of models in Google's form."""

import pytest
from app.errors import InvalidInput
from app.formats.gemini.models import read_name, select_page, write_model

from tests.each_case import each_case

NAMES = ["a", "b", "c"]


@each_case(
    ("query", "page", "beside"),
    [
        (b"", ["a", "b"], {"nextPageToken": "2"}),
        (b"pageToken=2", ["c"], {}),
        (b"pageSize=1&pageToken=1", ["b"], {"nextPageToken": "2"}),
        (b"pageSize=0", ["a", "b"], {"nextPageToken": "2"}),
        (b"pageSize=9", NAMES, {}),
        (b"pageToken=7", [], {}),
    ],
)
def test_a_page_has_what_its_query_asks_for(query: bytes, page: list[str], beside: dict[str, str]) -> None:
    assert select_page(NAMES, query, 2) == (page, beside)


@each_case("query", [b"pageSize=-1", b"pageSize=x", b"pageToken=1234567890"])
def test_another_number_is_refused_by_its_name(query: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        select_page(NAMES, query, 2)
    assert caught.value.violations[0].path == query.partition(b"=")[0].decode()


@each_case(
    ("endpoints", "methods"),
    [
        (("chat",), ["generateContent", "countTokens"]),
        (("embeddings", "chat"), ["generateContent", "countTokens", "embedContent", "batchEmbedContents"]),
        (("rerank",), []),
    ],
)
def test_a_model_has_the_methods_of_what_it_serves(endpoints: tuple[str, ...], methods: list[str]) -> None:
    written = write_model("Org/m", "M", 8, None, endpoints)
    assert written == {
        "name": "models/Org/m",
        "version": "1",
        "displayName": "M",
        "inputTokenLimit": 8,
        "supportedGenerationMethods": methods,
    }
    assert read_name(written["name"]) == read_name("Org/m") == "Org/m"
