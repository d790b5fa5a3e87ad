"""Goldens of DashScope's own interface in the form of its OpenAI-compatible one, which the gateway uses."""

from typing import Any

Json = dict[str, Any]
PATH = "/compatible-mode/v1"


def compatible(case: Json) -> Json:
    """The same conversation, request and reply; what the service says of itself is left out of the messages."""
    config = {**case["llm_cfg"], "model_server": "http://MOCK" + PATH}
    final = [_message(message) for message in case["final"]]
    return {**case, "llm_cfg": config, "upstream": [_exchange(one) for one in case["upstream"]], "final": final}


def _exchange(exchange: Json) -> Json:
    native = exchange["request"]["body"]
    parameters = native["parameters"]
    body = {"model": native["model"], "stream": True, "seed": parameters["seed"]}
    body |= {"tools": parameters["tools"]} if "tools" in parameters else {}
    body["messages"] = [_sent(message) for message in native["input"]["messages"]]
    chunks = [_chunk(chunk["output"]["choices"][0]) for chunk in exchange["response"]["chunks"]]
    response = {"kind": "sse", "chunks": chunks}
    return {"request": {**exchange["request"], "body": body}, "response": response}


def _sent(message: Json) -> Json:
    if message["role"] == "tool":
        return {"role": "tool", "tool_call_id": message["id"], "content": message["content"]}
    if isinstance(message["content"], str):
        return message
    return {**message, "content": [_part(item) for item in message["content"]]}


def _part(item: Json) -> Json:
    [(kind, value)] = item.items()
    return {"type": "text", "text": value} if kind == "text" else {"type": "image_url", "image_url": {"url": value}}


def _chunk(choice: Json) -> Json:
    delta = choice["message"]
    if isinstance(delta["content"], list):
        delta = {**delta, "content": "".join(item["text"] for item in delta["content"])}
    reason = None if choice["finish_reason"] == "null" else choice["finish_reason"]
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def _message(message: Json) -> Json:
    extra = {
        key: value for key, value in message.get("extra", {}).items() if key not in ("model_service_info", "model")
    }
    rest = {
        key: value for key, value in message.items() if key != "extra" and (key, value) != ("reasoning_content", "")
    }
    return {**rest, "extra": extra}
