from typing import get_args

from app.endpoints.kinds import (
    COHERE_PATHS,
    ENDPOINTS,
    MULTIPART_PATHS,
    PATHS,
    TEI_PATHS,
    ModelEndpoint,
    PathName,
    describe_served,
)

from tests.each_case import each_case


@each_case(
    ("served", "words"),
    [
        (["chat"], "chat"),
        (["embeddings", "rerank"], "embeddings and rerank"),
        (["chat", "images", "audio"], "chat, images and audio"),
    ],
)
def test_what_a_model_serves_is_listed_in_words(served: list[str], words: str) -> None:
    assert describe_served(served) == words


def test_each_path_belongs_to_one_endpoint() -> None:
    assert len(PATHS) == sum(len(endpoint.paths) for endpoint in ENDPOINTS)


def test_each_set_of_paths_has_only_paths_of_endpoints() -> None:
    assert MULTIPART_PATHS | COHERE_PATHS | TEI_PATHS <= PATHS
    assert all(endpoint.needs_model <= set(endpoint.paths) for endpoint in ENDPOINTS)


def test_each_name_of_a_path_has_its_endpoint() -> None:
    assert [endpoint.name for endpoint in ENDPOINTS] == list(get_args(PathName))
    assert {endpoint.serves for endpoint in ENDPOINTS} - {None} == {*get_args(ModelEndpoint)} - {"chat"}
