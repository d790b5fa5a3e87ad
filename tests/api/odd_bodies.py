"""Bodies of each conversation's endpoint with nearly all that clients send, in which one value is another one."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.upstream.odd_types import MISSING, ODD_VALUES, list_paths, replace

Json = dict[str, Any]


class OddBody(NamedTuple):
    endpoint: str
    """With `{}` in the place of the model, where the path has it."""
    path: tuple[str | int, ...]
    value: Any

    def write(self) -> Any:
        return replace(BODIES[self.endpoint], self.path, self.value)


def list_bodies() -> Iterator[OddBody]:
    """Yield each body with each of its values replaced by each odd one, and with each removed."""
    for endpoint, body in BODIES.items():
        for path in list_paths(body):
            for value in (*ODD_VALUES, MISSING):
                yield OddBody(endpoint, path, value)


_SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string", "default": 1}}}
_MARK: Json = {"cache_control": {"type": "ephemeral"}}
BODIES: dict[str, Json] = {
    "/v1/messages": {
        "model": "m",
        "max_tokens": 50,
        "system": [{"type": "text", "text": "Be", **_MARK}],
        "stream": False,
        "metadata": {"user_id": "u"},
        "stop_sequences": ["x"],
        "temperature": 1,
        "top_p": 0.5,
        "top_k": 5,
        "thinking": {"type": "enabled", "budget_tokens": 1024, "block_binding": {"prefix_mismatch_behavior": "x"}},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": _SCHEMA}},
        "output_format": {"type": "json_schema", "schema": _SCHEMA},
        "service_tier": "auto",
        "container": {"skills": [{"type": "anthropic", "skill_id": "x", "version": "1"}]},
        "context_management": {
            "edits": [
                {
                    "type": "clear_tool_uses_20250919",
                    "trigger": {"type": "input_tokens", "value": 5},
                    "keep": {"type": "tool_uses", "value": 1},
                    "exclude_tools": ["f"],
                },
                {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 1}},
            ]
        },
        "mcp_servers": [],
        "betas": ["x"],
        "speed": "fast",
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "tools": [
            {
                "name": "f",
                "description": "d",
                "input_schema": _SCHEMA,
                **_MARK,
                "type": "custom",
                "strict": True,
                "input_examples": [{"a": "x"}],
            },
            {
                "type": "web_search_20250305",
                "name": "web_search",
                "max_uses": 5,
                "allowed_domains": ["a.b"],
                "user_location": {"type": "approximate", "city": "B"},
            },
            {"type": "bash_20250124", "name": "bash"},
        ],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Q", **_MARK},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "x"},
                        "title": "t",
                        "context": "c",
                        "citations": {"enabled": True},
                    },
                    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "x"},
                    {
                        "type": "text",
                        "text": "A",
                        "citations": [
                            {
                                "type": "char_location",
                                "cited_text": "x",
                                "document_index": 0,
                                "document_title": "t",
                                "start_char_index": 0,
                                "end_char_index": 1,
                            }
                        ],
                    },
                    {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "x"}},
                    {
                        "type": "web_search_tool_result",
                        "tool_use_id": "srv1",
                        "content": [
                            {
                                "type": "web_search_result",
                                "url": "https://a.b",
                                "title": "t",
                                "encrypted_content": "x",
                                "page_age": "1",
                            }
                        ],
                    },
                    {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "is_error": False,
                        "content": [
                            {"type": "text", "text": "r"},
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                            },
                            {"type": "tool_reference", "tool_name": "f"},
                        ],
                    },
                    {"type": "text", "text": " "},
                ],
            },
        ],
    },
    "/v1/responses": {
        "model": "m",
        "store": False,
        "stream": False,
        "instructions": "Be",
        "max_output_tokens": 50,
        "max_tool_calls": 3,
        "metadata": {"a": "b"},
        "parallel_tool_calls": True,
        "reasoning": {"effort": "high", "summary": "auto", "generate_summary": "auto"},
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": _SCHEMA, "strict": True}},
        "include": ["reasoning.encrypted_content"],
        "truncation": "auto",
        "top_logprobs": 2,
        "temperature": 1,
        "top_p": 1,
        "service_tier": "auto",
        "prompt_cache_key": "k",
        "user": "u",
        "safety_identifier": "s",
        "client_metadata": {"a": "b"},
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
        "stream_options": {"include_obfuscation": False},
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": _SCHEMA, "strict": True},
            {
                "type": "custom",
                "name": "patch",
                "description": "d",
                "format": {"type": "grammar", "syntax": "lark", "definition": "x"},
            },
            {
                "type": "namespace",
                "name": "ns",
                "description": "d",
                "tools": [{"type": "function", "name": "g", "parameters": _SCHEMA}],
            },
            {
                "type": "web_search",
                "filters": {"allowed_domains": ["a.b"]},
                "user_location": {"type": "approximate"},
                "search_context_size": "low",
            },
            {"type": "local_shell"},
        ],
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Q"},
                    {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
                    {"type": "input_file", "file_data": "data:text/plain;base64,eA==", "filename": "a.txt"},
                ],
            },
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Hm"}],
                "content": [{"type": "reasoning_text", "text": "x"}],
                "encrypted_content": "x",
            },
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "phase": "final_answer",
                "content": [
                    {
                        "type": "output_text",
                        "text": "A",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "url": "https://a.b",
                                "title": "t",
                                "start_index": 0,
                                "end_index": 1,
                            }
                        ],
                        "logprobs": [],
                    },
                    {"type": "refusal", "refusal": "no"},
                ],
            },
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c1",
                "name": "f",
                "arguments": "{}",
                "status": "completed",
                "namespace": "ns",
            },
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "r"}]},
            {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "r"},
            {
                "type": "local_shell_call",
                "id": "ls",
                "call_id": "c3",
                "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": 5},
                "status": "completed",
            },
            {"type": "local_shell_call_output", "call_id": "c3", "id": "x", "output": "r"},
            {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "x"}},
            {"type": "compaction", "encrypted_content": "x"},
            {
                "type": "additional_tools",
                "role": "developer",
                "tools": [{"type": "function", "name": "h", "parameters": _SCHEMA}],
            },
        ],
    },
    "/v1/chat/completions": {
        "model": "m",
        "stream": False,
        "stream_options": {"include_usage": True},
        "max_tokens": 50,
        "n": 1,
        "stop": ["x"],
        "temperature": 1,
        "top_p": 1,
        "seed": 5,
        "user": "u",
        "metadata": {"a": "b"},
        "logit_bias": {"5": 1},
        "logprobs": True,
        "top_logprobs": 2,
        "reasoning_effort": "high",
        "parallel_tool_calls": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": _SCHEMA, "strict": True}},
        "chat_template_kwargs": {"enable_thinking": True},
        "extra_body": {"top_k": 5},
        "prediction": {"type": "content", "content": "x"},
        "web_search_options": {"user_location": {"type": "approximate"}},
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "parameters": _SCHEMA, "strict": True}},
            {"type": "custom", "custom": {"name": "p", "format": {"type": "text"}}},
        ],
        "functions": [{"name": "old", "parameters": _SCHEMA}],
        "function_call": "auto",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be"}]},
            {
                "role": "user",
                "name": "n",
                "content": [
                    {"type": "text", "text": "Q"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                    {"type": "file", "file": {"file_data": "data:text/plain;base64,eA==", "filename": "a"}},
                ],
            },
            {
                "role": "assistant",
                "content": "A",
                "refusal": None,
                "reasoning_content": "Hm",
                "reasoning_details": [{"type": "reasoning.text", "text": "Hm", "signature": "s"}],
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "f", "arguments": "{}"},
                        "extra_content": {"google": {"thought_signature": "x"}},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "r"}]},
            {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
            {"role": "function", "name": "old", "content": "r"},
        ],
    },
    "/v1/chat": {
        "model": "m",
        "stream": False,
        "messages": [
            {"role": "system", "content": "Be"},
            {
                "role": "user",
                "content": [
                    {"text": "Q"},
                    {"image": "data:image/png;base64,iVBORw0KGgo="},
                    {"file": "data:text/plain;base64,eA=="},
                ],
            },
            {
                "role": "assistant",
                "content": "A",
                "reasoning_content": "Hm",
                "name": "n",
                "function_call": {"name": "f", "arguments": "{}"},
                "extra": {"function_id": "1", "model_service_info": {"a": 1}},
            },
            {"role": "function", "name": "f", "content": "r", "extra": {"function_id": "1"}},
        ],
        "functions": [{"name": "f", "description": "d", "parameters": _SCHEMA}],
        "generate_cfg": {
            "max_tokens": 50,
            "temperature": 1,
            "stop": ["x"],
            "seed": 5,
            "function_choice": "auto",
            "thought_in_content": False,
            "fncall_prompt_type": "nous",
            "response_format": {"type": "json_object"},
            "extra_body": {"a": 1},
            "max_input_tokens": 9000,
            "lang": "en",
            "parallel_function_calls": True,
        },
        "delta_stream": True,
        "cache": {"mode": "off", "ttl": 5},
        "lang": "en",
        "metadata": {"a": "b"},
        "rag_cfg": {"max_ref_token": 1000},
    },
    "/v1beta/models/{}:generateContent": {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "Q"},
                    {
                        "inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="},
                        "videoMetadata": {"fps": 1},
                        "mediaResolution": {"level": "x"},
                    },
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "Hm", "thought": True, "thoughtSignature": "eA=="},
                    {"functionCall": {"id": "1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "eA=="},
                    {"executableCode": {"language": "PYTHON", "code": "1"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "id": "1",
                            "name": "f",
                            "response": {"result": "r"},
                            "parts": [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
                            "willContinue": False,
                            "scheduling": "SILENT",
                        }
                    }
                ],
            },
        ],
        "systemInstruction": {"role": "system", "parts": [{"text": "Be"}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "f",
                        "description": "d",
                        "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
                        "response": {"type": "OBJECT"},
                        "behavior": "BLOCKING",
                    },
                    {"name": "g", "parametersJsonSchema": _SCHEMA, "responseJsonSchema": _SCHEMA},
                ]
            },
            {"googleSearch": {"timeRangeFilter": {"startTime": "x"}}},
            {"urlContext": {}},
            {"codeExecution": {}},
        ],
        "toolConfig": {
            "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]},
            "retrievalConfig": {"latLng": {"latitude": 1, "longitude": 1}},
        },
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "labels": {"a": "b"},
        "serviceTier": "standard",
        "generationConfig": {
            "temperature": 1,
            "topP": 1,
            "topK": 5,
            "maxOutputTokens": 50,
            "stopSequences": ["x"],
            "candidateCount": 1,
            "seed": 5,
            "presencePenalty": 0.5,
            "frequencyPenalty": 0.5,
            "responseLogprobs": True,
            "logprobs": 2,
            "responseMimeType": "application/json",
            "responseJsonSchema": _SCHEMA,
            "responseModalities": ["TEXT"],
            "speechConfig": {"languageCode": "en", "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "x"}}},
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 100, "thinkingLevel": "LOW"},
            "imageConfig": {"aspectRatio": "1:1"},
        },
    },
}
