"""What the checks of OpenAI's SDK share: the client, two questions, and how a program joins the pieces of a reply."""

from typing import Any

import openai
from checks import KEY, QUESTION, V1, weather

CLIENT = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0)
HELLO: list[Any] = [{"role": "user", "content": "Hello there"}]
ASKED: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
chat = CLIENT.chat.completions


def thoughts(message: Any) -> str:
    return (message.model_extra or {}).get("reasoning_content") or ""


def gathered(chunks: list[Any]) -> dict[str, Any]:
    """What a program that joins deltas by hand makes of them."""
    made: dict[str, Any] = {"thought": "", "text": "", "calls": {}, "finish": None, "usage": None, "order": []}
    for chunk in chunks:
        made["usage"] = chunk.usage or made["usage"]
        for choice in chunk.choices:
            thought = thoughts(choice.delta)
            kinds = [("thought", thought), ("text", choice.delta.content), ("calls", choice.delta.tool_calls)]
            made["order"] += [kind for kind, value in kinds if value and kind not in made["order"]]
            made["thought"] += thought
            made["text"] += choice.delta.content or ""
            made["finish"] = choice.finish_reason or made["finish"]
            for call in choice.delta.tool_calls or []:
                kept = made["calls"].setdefault(call.index, {"id": "", "name": "", "arguments": ""})
                kept["id"] += call.id or ""
                kept["name"] += call.function.name or ""
                kept["arguments"] += call.function.arguments or ""
    return made


def results(calls: list[Any]) -> list[Any]:
    return [{"role": "tool", "tool_call_id": call.id, "content": weather(call.function.arguments)} for call in calls]
