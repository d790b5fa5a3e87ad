"""What a caller may not choose in the body for a model server."""

from typing import Any

import pytest
from app.chat.known_conversation import KnownConversation
from app.chat.messages import CallerRights, ChatRequest, PassedBody
from app.errors import Forbidden
from app.upstream.api import ApiName, find_api
from app.upstream.body_rights import BodyCheck, make_body_check

from tests.each_case import each_case

SMALL = CallerRights("the API key 'small'", restricted=True)
FULL = CallerRights("the API key 'full'", restricted=False)


def make_request(
    api: ApiName | None,
    fields: dict[str, Any],
    rights: CallerRights | None,
    known: KnownConversation | None = None,
) -> ChatRequest:
    """Return a request with fields of a client's own body, or with parameters for the server."""
    if api is None:
        return ChatRequest("m", (), params={"extra_body": fields}, rights=rights)
    return ChatRequest("m", (), rights=rights, passed=PassedBody(api, fields), known=known)


def find_refused(
    fields: dict[str, Any],
    rights: CallerRights | None = SMALL,
    *,
    api: ApiName | None = "messages",
    allowed: tuple[str, ...] = (),
    has_price: bool = False,
    known: KnownConversation | None = None,
) -> str | None:
    """Return the path that is refused, or None."""
    check = make_body_check(make_request(api, fields, rights, known), "m", has_price=has_price)
    if check is None:
        return None
    try:
        check.check({"model": "m", **fields}, find_api(api or "chat_completions"), allowed)
    except Forbidden as error:
        assert error.param is not None and error.param in error.message
        return error.param
    return None


@each_case(
    ("fields", "path"),
    [
        ({"models": ["other"]}, "models"),
        ({"API-BASE": "x"}, "API-BASE"),
        ({"providerOptions": {"gateway": {"models": []}}}, "providerOptions"),
        ({"metadata": {"a": [{"fallbacks": []}]}}, "metadata.a[0].fallbacks"),
        ({"metadata": '{"model": "other"}'}, "metadata"),
        ({"litellm_metadata": {"model": "other"}}, "litellm_metadata.model"),
        ({"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "other"}]}, "tools[0].model"),
        ({"x_new": 1}, "x_new"),
        ({"x_new": {"route": "y"}}, "x_new.route"),
        ({"x_new": {"text": "y"}}, "x_new"),
    ],
)
def test_a_caller_who_may_not_use_all_models_chooses_nothing_else(fields: dict[str, Any], path: str) -> None:
    assert find_refused(fields, api="messages") == path


@each_case(
    "fields",
    [
        {"metadata": {"user_id": "u"}, "top_k": 5, "thinking": {"type": "adaptive"}, "cache_control": {}},
        {"tools": [{"name": "f", "model": 1, "input_schema": {"properties": {"model": {}, "file_id": {}}}}]},
        {"tools": [{"type": "custom", "name": "route", "provider": 1}, "wrong", {"type": 5}]},
        {
            "output_config": {"format": {"schema": {"properties": {"models": {}}}}},
            "mcp_servers": [{"url": "https://a.b"}],
        },
        {"chat_template_kwargs": {"model_identity": "x"}, "repetition_penalty": 1.0},
    ],
)
def test_fields_that_are_known_to_choose_nothing_are_sent(fields: dict[str, Any]) -> None:
    assert find_refused(fields) is None and find_refused(fields, FULL, has_price=True) is None


def test_where_a_model_has_a_price_no_caller_chooses_another_model() -> None:
    for rights in (FULL, None):
        assert find_refused({"fallbacks": []}, rights, has_price=True) == "fallbacks"
        assert find_refused({"x_new": {"models": []}}, rights, has_price=True) == "x_new.models"
        assert find_refused({"x_new": 1}, rights, has_price=True) is None
        assert find_refused({"fallbacks": []}, rights) is None
    request = make_request(None, {"models": []}, None)
    check = make_body_check(request, "m", has_price=True)
    assert check is not None
    with pytest.raises(Forbidden, match="the model 'm' has a price"):
        check.check({}, find_api("chat_completions"), ())


def test_parameters_for_the_server_are_checked_as_a_body_is() -> None:
    assert find_refused({"provider": {}}, api=None) == "generate_cfg.extra_body.provider"
    assert find_refused({"x_new": 1}, api=None) == "generate_cfg.extra_body.x_new"
    assert find_refused({"guided_json": {"properties": {"route": {}}}, "top_a": 1}, api=None) is None
    assert (
        find_refused({"google": {"cached_content": "c"}}, FULL, api=None)
        == "generate_cfg.extra_body.google.cached_content"
    )


FILE = {"type": "input_file", "file_id": "file-1"}
PAINTER = {"type": "image_generation", "model": "other"}


@each_case(
    ("fields", "path"),
    [
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}, "tools[0].vector_store_ids"),
        ({"tools": [{"type": "code_interpreter", "container": "cntr_1"}]}, "tools[0].container"),
        (
            {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}]},
            "tools[0].container",
        ),
        (
            {"tools": [{"type": "mcp", "connector_id": "connector_gmail", "authorization": "t"}]},
            "tools[0].connector_id",
        ),
        ({"input": [{"role": "user", "content": [FILE]}]}, "input[0].content[0].file_id"),
        ({"input": [{"type": "x_new", "a": {"file_id": "f"}}]}, "input[0].a.file_id"),
        ({"input": [{"type": "function_call_output", "output": [FILE]}]}, "input[0].output[0].file_id"),
        ({"input": [{"type": "x_call", "role": "user", "content": [FILE]}]}, "input[0].content[0].file_id"),
        ({"tools": [{"type": "computer_use", "vector_store_ids": ["vs_1"]}]}, "tools[0].vector_store_ids"),
        (
            {"tools": [{"type": "namespace", "tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}]},
            "tools[0].tools[0].vector_store_ids",
        ),
        ({"metadata": {"type": "x_call", "conversation": "conv_1"}}, "metadata.conversation"),
    ],
)
def test_what_only_the_operators_account_has_is_named_by_no_caller(fields: dict[str, Any], path: str) -> None:
    for rights in (SMALL, FULL):
        assert find_refused(fields, rights, api="responses") == path
    assert find_refused(fields, None, api="responses") is None, "without keys there is one caller"
    name = path.rpartition(".")[2]
    assert find_refused(fields, FULL, api="responses", allowed=(name,)) is None


def test_a_container_of_the_account_is_told_from_a_new_one() -> None:
    skill = {"type": "anthropic", "skill_id": "pptx"}
    assert find_refused({"container": {"skills": [skill]}}, FULL) is None
    assert find_refused({"container": {"skills": [skill, {"type": "custom", "skill_id": "s"}]}}, FULL) == "container"
    assert find_refused({"container": {"id": "c", "skills": [skill]}}, FULL) == "container"
    assert find_refused({"container": "c"}, FULL) == "container"
    assert find_refused({"container": None}, FULL) is None
    new = {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}
    assert find_refused(new, FULL, api="responses") is None
    shell = {"type": "shell", "environment": {"skills": [{"type": "skill_reference", "skill_id": "s"}]}}
    assert find_refused({"tools": [shell]}, FULL, api="responses") == "tools[0].environment.skills[0].skill_id"


@each_case(
    "item",
    [
        {"type": "code_interpreter_call", "container_id": "cntr_1", "outputs": [{"file_id": "f"}]},
        {"type": "file_search_call", "results": [{"file_id": "f"}]},
        {
            "role": "assistant",
            "content": [{"type": "output_text", "annotations": [{"type": "file_citation", "file_id": "f"}]}],
        },
        {"role": "assistant", "content": [{"type": "tool_use", "input": {"file_id": "f"}}]},
        {"type": "function_call", "arguments": "{}", "file_id": ""},
        {"type": "bash_code_execution_tool_result", "content": {"content": [{"file_id": "f"}]}},
        "wrong",
    ],
)
def test_what_a_server_has_written_comes_back_with_the_conversation(item: Any) -> None:
    assert find_refused({"input": [item]}, api="responses") is None


def test_a_type_says_nothing_where_names_of_fields_say_what_an_entry_is() -> None:
    file = {"fileUri": "files/1", "mimeType": "image/png"}
    for part in ({"type": "x_call", "fileData": file}, {"fileData": {"type": "x_call", **file}}):
        fields = {"contents": [{"type": "x_call", "parts": [part]}]}
        assert find_refused(fields, FULL, api="gemini") == "contents[0].parts[0].fileData.fileUri"


@each_case(
    ("fields", "path"),
    [
        ({"input": ["x", {"type": "additional_tools", "tools": [PAINTER]}]}, "input[1].tools[0].model"),
        (
            {"input": [{"type": "tool_search_output", "tools": [{"type": "namespace", "tools": [PAINTER]}]}]},
            "input[0].tools[0].tools[0].model",
        ),
        ({"tools": [{"type": "namespace", "name": "model", "tools": [PAINTER]}]}, "tools[0].tools[0].model"),
        ({"input": [{"type": "additional_tools", "tools": [{"type": "function", "model": "f"}]}]}, None),
        ({"input": [{"type": "additional_tools", "tools": "wrong"}, {"tools": [{"type": ["wrong"]}, 1]}]}, None),
    ],
)
def test_tools_that_items_add_choose_no_model_either(fields: dict[str, Any], path: str | None) -> None:
    known = KnownConversation()
    for rights, has_price in ((SMALL, False), (FULL, True), (None, True)):
        assert find_refused(fields, rights, api="responses", has_price=has_price, known=known) == path
    assert find_refused(fields, FULL, api="responses") is None


def test_a_field_that_is_not_sent_names_nothing() -> None:
    check = make_body_check(make_request("responses", {"conversation": "c"}, FULL), "m", has_price=False)
    assert check is not None
    check.check({"model": "m"}, find_api("responses"), ())


def test_a_conversation_that_is_known_is_looked_through_once_and_still_refused() -> None:
    entries: list[Any] = [{"type": "message", "content": [FILE]}, *({"type": "message"} for _ in range(20))]
    known = KnownConversation()
    for _ in range(2):
        request = ChatRequest(
            "m", (), rights=FULL, known=known, passed=PassedBody("responses", {"input": list(entries)})
        )
        check = make_body_check(request, "m", has_price=False)
        assert check is not None
        with pytest.raises(Forbidden, match=r"input\[0\]\.content\[0\]\.file_id"):
            check.check({"input": []}, find_api("responses"), ())


@each_case(
    ("fields", "path"),
    [
        ({"cachedContent": "cachedContents/x"}, "generate_cfg.extra_body.cachedContent"),
        (
            {"tools": [{"fileSearch": {"fileSearchStoreNames": ["s"]}}]},
            "generate_cfg.extra_body.tools[0].fileSearch.fileSearchStoreNames",
        ),
        ({"cached-content": "cachedContents/x"}, "generate_cfg.extra_body.cached-content"),
        (
            {"tools": [{"retrieval": {"vertex_rag_store": {"rag_resources": [{"rag_corpus": "c"}]}}}]},
            "generate_cfg.extra_body.tools[0].retrieval.vertex_rag_store.rag_resources",
        ),
        (
            {"tools": [{"retrieval": {"vertexAiSearch": {"engine": "projects/p/engines/e"}}}]},
            "generate_cfg.extra_body.tools[0].retrieval.vertexAiSearch.engine",
        ),
        (
            {"tools": [{"googleMaps": {"authConfig": {"apiKeyConfig": {"apiKeySecret": "projects/p/secrets/s"}}}}]},
            "generate_cfg.extra_body.tools[0].googleMaps.authConfig.apiKeyConfig.apiKeySecret",
        ),
        ({"tools": [{"type": "web_search", "engine": "exa"}]}, None),
        ({"tools": [{"functionDeclarations": [{"name": "cachedContent"}]}, {"googleSearch": {}}]}, None),
    ],
)
def test_no_caller_names_what_only_the_account_at_google_has(fields: dict[str, Any], path: str | None) -> None:
    assert find_refused(fields, FULL, api=None) == path


def test_a_caller_of_a_priced_model_chooses_no_other_at_google() -> None:
    config: dict[str, Any] = {"routingConfig": {"manualMode": {"modelName": "other"}}}
    path = "generate_cfg.extra_body.generationConfig.routingConfig"
    assert find_refused({"generationConfig": config}, None, api=None, has_price=True) == path
    schema = {"responseJsonSchema": {"$defs": {"Model": {"type": "object"}}}, "seed": 1}
    assert find_refused({"generationConfig": schema}, None, api=None, has_price=True) is None


def test_the_system_of_a_body_names_nothing_of_the_account() -> None:
    part = {"file_data": {"file_uri": "files/abc"}}
    for uri in ("files/abc", " gs://bucket/a", "https://generativelanguage.googleapis.com/v1beta/files/abc"):
        system = {"parts": [{"file_data": {"file_uri": uri}}]}
        found = find_refused({"systemInstruction": system, "contents": []}, FULL, api="gemini")
        assert found == "systemInstruction.parts[0].file_data.file_uri"
    assert find_refused({"systemInstruction": {"parts": [part]}}, FULL, api="gemini", allowed=("fileUri",)) is None
    public = {"parts": [{"fileData": {"fileUri": "https://files.example/a.png"}}]}
    assert find_refused({"systemInstruction": public}, FULL, api="gemini") is None


@each_case(
    ("fields", "path"),
    [
        ({"images": [{"file_id": "f"}]}, "images[0].file_id"),
        ({"voice": {"id": "voice_1"}}, "voice"),
        ({"voice": "alloy", "user": "u"}, None),
        ({"x": {"vectorStoreIds": ["v"]}}, "x.vectorStoreIds"),
    ],
)
def test_a_request_that_is_no_conversation_names_nothing_of_the_account(
    fields: dict[str, Any], path: str | None
) -> None:
    for rights, expected in ((FULL, path), (None, None)):
        check = BodyCheck(rights, "m", True, fields, "", None, None)
        if expected is None:
            check.check_account(fields)
            continue
        with pytest.raises(Forbidden) as caught:
            check.check_account(fields)
        assert caught.value.param == expected
        check.check_account(fields, (expected.rpartition(".")[2],))
