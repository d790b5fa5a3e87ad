"""What a caller's parameters do to a model's defaults."""

from typing import Annotated, Any

import pytest
from app.chat.attachments import PassageSearch
from app.params import (
    SERVER_PARAMS,
    GenerateCfg,
    RagConfig,
    chooses_route,
    find_max_tokens,
    find_routing_params,
    max_entries,
    merge_params,
)
from pydantic import TypeAdapter, ValidationError

from tests.each_case import each_case

PINNED = {"provider": {"only": ["x"]}, "a": 1}


@each_case(
    ("defaults", "given", "want"),
    [
        ({"temperature": 1, "top_p": 0.5}, {"temperature": 0}, {"temperature": 0, "top_p": 0.5}),
        ({"stop": ["a", "b"]}, {"stop": ["b", "c"]}, {"stop": ["a", "b", "c"]}),
        ({"stop": "a"}, {"stop": "b"}, {"stop": ["a", "b"]}),
        ({"stop": "a"}, {}, {"stop": "a"}),
        ({"extra_body": {"a": 1}}, {"extra_body": {"b": 2}}, {"extra_body": {"b": 2}}),
        ({"extra_body": PINNED}, {"extra_body": {"b": 2}}, {"extra_body": {"provider": {"only": ["x"]}, "b": 2}}),
        ({"extra_body": PINNED}, {"extra_body": None}, {"extra_body": {"provider": {"only": ["x"]}}}),
        ({"extra_body": PINNED}, {"extra_body": {"provider": {}}}, {"extra_body": {"provider": {}}}),
        ({"max_tokens": 9}, {"max_completion_tokens": 5}, {"max_completion_tokens": 5}),
        ({"function_choice": "auto"}, {"tool_choice": "required"}, {"tool_choice": "required"}),
        ({"parallel_function_calls": True}, {"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"tool_choice": "required"}, {"temperature": 0}, {"tool_choice": "required", "temperature": 0}),
        ({"stop": ["a"]}, {"stop": None}, {}),
        ({"stop": None}, {"stop": ["a"]}, {"stop": ["a"]}),
        ({"max_tokens": 9}, {"max_completion_tokens": None}, {}),
        ({"function_choice": "required"}, {"tool_choice": None}, {}),
        ({"top_p": None}, {}, {}),
    ],
)
def test_the_callers_word_wins_whichever_name_it_uses(
    defaults: dict[str, Any], given: dict[str, Any], want: dict[str, Any]
) -> None:
    assert merge_params(defaults, given) == want


@each_case(
    ("defaults", "given", "most"),
    [
        ({}, {}, None),
        ({"max_tokens": 10}, {}, 10),
        ({"max_completion_tokens": 10}, {}, 10),
        ({"max_tokens": 10}, {"max_completion_tokens": 20}, 20),
        ({"max_completion_tokens": 10}, {"max_tokens": 20}, 20),
        ({}, {"max_tokens": None, "max_completion_tokens": 20}, 20),
        ({}, {"max_tokens": 10, "max_completion_tokens": 20}, 10),
        ({"max_tokens": 10}, {"max_tokens": None}, None),
        ({"max_tokens": 10}, {"max_completion_tokens": None}, None),
    ],
)
def test_the_limit_of_a_reply_has_two_names(defaults: dict[str, Any], given: dict[str, Any], most: int | None) -> None:
    assert find_max_tokens(defaults, given) == most
    assert find_max_tokens({}, merge_params(defaults, given)) == most


@each_case("name", GenerateCfg.model_fields)
def test_a_parameter_that_is_given_as_null_has_no_default(name: str) -> None:
    given = GenerateCfg.model_validate({name: None}).given_params()
    assert given == {name: None}
    assert merge_params({name: "anything", "kept": 1}, given) == {"kept": 1}


NAMED = {"type": "function", "function": {"name": "f"}}


def test_a_list_that_is_too_long_is_refused_before_its_entries_are_read() -> None:
    numbers: TypeAdapter[list[int]] = TypeAdapter(Annotated[list[int], max_entries(2)])
    assert numbers.validate_python([1, 2]) == [1, 2]
    with pytest.raises(ValidationError) as error:
        numbers.validate_python(["a", "b", "c"])
    assert [one["msg"] for one in error.value.errors()] == ["Value error, has 3 entries; at most 2 are allowed"]


@each_case(
    ("choice", "kept"),
    [
        ("any", "required"),
        ("f", "f"),
        (NAMED, NAMED),
        ({"function": {"name": "f"}}, NAMED),
        ({"type": "function", "name": "f"}, NAMED),
        ({"type": "custom", "custom": {"name": "f"}}, NAMED),
        ({"type": "custom", "name": "f"}, NAMED),
        ({"type": "allowed_tools", "mode": "auto", "tools": [NAMED]}, ...),
        ({"type": "allowed_tools", "allowed_tools": {"tools": [NAMED, {"type": "custom", "name": "g"}]}}, ...),
    ],
)
def test_a_choice_is_a_word_a_name_or_an_object_with_a_name(choice: Any, kept: Any) -> None:
    want = choice if kept is ... else kept
    assert GenerateCfg.model_validate({"tool_choice": choice}).given_params() == {"tool_choice": want}


@pytest.mark.parametrize(
    "inner",
    [
        None,
        {},
        {"tools": []},
        {"tools": [{}]},
        {"tools": ["f"]},
        {"mode": "none", "tools": [NAMED]},
        {"tools": [NAMED, {"type": "function"}]},
    ],
)
def test_a_choice_of_allowed_tools_has_a_mode_and_tools(inner: Any) -> None:
    nested = {"type": "allowed_tools", "allowed_tools": inner}
    for choice in (nested, {"type": "allowed_tools", **(inner or {})}):
        with pytest.raises(ValidationError, match="mode auto or required, and tools"):
            GenerateCfg.model_validate({"tool_choice": choice})


@each_case("choice", [{}, {"name": "f"}, {"function": "f"}, {"function": {"name": 5}}, {"type": "x", "name": "f"}])
def test_a_choice_of_another_shape_is_refused_with_the_shapes_that_there_are(choice: Any) -> None:
    with pytest.raises(ValidationError, match='{"function": {"name": "the name"}}'):
        GenerateCfg.model_validate({"tool_choice": choice})


def test_of_the_parameters_of_known_servers_these_choose_a_model_or_an_address() -> None:
    assert {name for name in SERVER_PARAMS if chooses_route(name)} == {
        "adapter_id",
        "api_base",
        "api_key",
        "bootstrap_host",
        "bootstrap_port",
        "compound_custom",
        "custom_llm_provider",
        "draft_model",
        "extra_headers",
        "extra_query",
        "fallbacks",
        "kv_transfer_params",
        "lora",
        "lora_path",
        "models",
        "plugins",
        "preset",
        "provider",
        "providers",
        "route",
        "safety_model",
        "tags",
    }
    assert not any(map(chooses_route, GenerateCfg.model_fields))


@each_case(
    ("extra_body", "found"),
    [
        ({"context_window_fallbacks": [], "top_a": 1}, [("context_window_fallbacks",)]),
        ({"baseURL": "x", "providerOptions": {}}, [("baseURL",), ("providerOptions",)]),
        ({"extra_body": {"models": [], "google": {"thinking_config": {}}}}, [("extra_body", "models")]),
        ({"metadata": {"tags": ["paid"], "session": "1"}}, [("metadata", "tags")]),
        ({"extra_body": {"extra_body": {"route": None}}}, [("extra_body", "extra_body", "route")]),
        ({"metadata": "model", "guided_json": {"properties": {"model": {}}}, "x": {"json_schema": {"model": 1}}}, []),
        ({"dry_base": 1.75, "portrait": 1, "remodel": 1, "posthost": 1}, []),
        (
            {"a": [{"b": {"Api-Base": 1}}], "apibase": 1, "MODELS": []},
            [("MODELS",), ("a", 0, "b", "Api-Base"), ("apibase",)],
        ),
    ],
)
def test_a_parameter_that_chooses_a_model_or_an_address_is_known_by_a_word_of_its_name(
    extra_body: dict[str, Any], found: list[tuple[str | int, ...]]
) -> None:
    assert find_routing_params(extra_body) == found


@each_case(
    ("choice", "message"),
    [
        ({"type": "auto", "disable_parallel_tool_use": True}, "set parallel_tool_calls to false"),
        ({"type": "x"}, 'must be "auto", "none", "required"'),
    ],
)
def test_a_choice_of_no_known_form_is_refused(choice: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GenerateCfg(tool_choice=choice)


def test_a_choice_of_another_api_is_written_in_the_form_of_chat_completions() -> None:
    assert GenerateCfg(tool_choice={"type": "any"}).tool_choice == "required"


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
