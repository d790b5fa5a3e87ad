"""Cases of guards with one service, `house`, and a server of chat completions."""

from typing import Any

from tests.guards.golden_runner import Json, Run, run_case

CHAT = "/v1/chat/completions"
FINE: Json = {"chunks": [{"content": "Fine."}], "finish": "stop"}
LS: Json = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}
CALL: Json = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"dir":"/"}'}}
REJECT: Json = {"verdict": "reject", "reason": "zebra"}


def play(
    guards: Json,
    requests: list[Json],
    upstream: list[Json] | None = None,
    answers: list[Json] | None = None,
    default: Json | None = None,
    **config: Any,
) -> Run:
    rows = {name: {"url": "<webhook:house>", **row} if "detectors" not in row else row for name, row in guards.items()}
    masking = {"key": "0" * 64, "notice": False, **config.pop("masking", {})}
    given = {
        "config": {"guards": rows, "masking": masking, **config},
        "webhooks": {"house": {"answers": answers or [], "default": default or {"verdict": "pass"}}},
        "requests": [{"path": CHAT, "body": {"model": "m", **body}} for body in requests],
        "upstream": upstream if upstream is not None else [FINE] * len(requests),
    }
    return run_case({"given": given})


def user(*texts: str) -> Json:
    return {"messages": [{"role": "user", "content": text} for text in texts]}


def history(result: str, question: str = "List files") -> Json:
    messages: list[Json] = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]
    return {"messages": messages, "tools": [LS]}


def asked(run: Run) -> list[Json]:
    return [call["body"] for call in run.played.asked.get("house", [])]


def sent_texts(run: Run, number: int = 0) -> list[str]:
    return [message["content"] for message in run.played.sent[number]["messages"] if message.get("content")]
