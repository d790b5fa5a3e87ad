"""`rag_cfg` in Qwen-Agent's words."""

from typing import Any

import pytest
from app.chat.attachments import PassageSearch
from app.params import RagConfig
from pydantic import ValidationError

from tests.each_case import each_case


def test_without_a_key_it_is_as_qwen_agent_does_it() -> None:
    assert RagConfig().to_search() == PassageSearch(20_000, 500, 50, None, keywords=True, front=True)


@each_case(
    ("given", "changed"),
    [
        ({"max_ref_token": 4000, "parser_page_size": 400}, {"max_tokens": 4000, "passage_tokens": 400}),
        (
            {"chunk_size": 400, "chunk_overlap": 0, "top_k": 5},
            {"passage_tokens": 400, "overlap_tokens": 0, "max_passages": 5},
        ),
        ({"rag_searchers": ["keyword_search"]}, {"front": False}),
        ({"retrieval_type": "keyword"}, {"front": False}),
        ({"rag_searchers": ["front_page_search"]}, {"keywords": False}),
        ({"embedding_model": "e", "score_threshold": 0.5}, {"embedding_model": "e", "min_similarity": 0.5}),
        (
            {"retrieval_type": "vector", "embedding_model": "e"},
            {"keywords": False, "front": False, "embedding_model": "e"},
        ),
    ],
)
def test_each_key_has_its_effect(given: dict[str, Any], changed: dict[str, Any]) -> None:
    fields = {"keywords": True, "front": True} | changed
    assert RagConfig.model_validate(given).to_search() == PassageSearch(**fields)
    assert not RagConfig.model_validate(given).list_warnings()


@each_case(
    ("given", "message"),
    [
        ({"retrieval_type": "vector"}, "vector_search needs embedding_model"),
        ({"rag_searchers": ["vector_search"]}, "vector_search needs embedding_model"),
        ({"parser_page_size": 400, "chunk_size": 400}, "two names of the same number"),
        ({"chunk_size": 40, "chunk_overlap": 40}, "must be less than parser_page_size, 40"),
        ({"top_n": 3}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RagConfig.model_validate(given)


@each_case(
    "given",
    [
        {"rag_keygen_strategy": "GenKeyword"},
        {"index_path": "./rag_index"},
        {"score_threshold": 0.7},
        {"embedding_model": "e", "retrieval_type": "keyword"},
    ],
)
def test_what_has_no_effect_is_a_warning(given: dict[str, Any]) -> None:
    (warning,) = RagConfig.model_validate(given).list_warnings()
    assert warning.startswith(f"rag_cfg.{next(iter(given))} has no effect: ")
