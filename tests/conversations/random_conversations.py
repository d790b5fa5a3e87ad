"""Random conversations written in each format, as clients get them wrong: ids missing or used again, results out of
order, late, of no call, or not there at all."""

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Json = dict[str, Any]
Act = tuple[str, Any]
"""(what, with what): `user`, `system`, `text`, `think` with a text, `call` with (id, name, arguments), `result` with
(id, name, text)."""
TEXTS = ("", "x", "hello", "天气", "a\nb", " ", "\u2028")
NAMES = ("f", "g", "get_weather")
ARGUMENTS = ("{}", "", '{"a": 1}', '{"a', "[1]", '{"é": "天"}')
IDS = ("1", "1", "c1", "c2", "1_2", None, "")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mM4IScHAAK2AQUKW6YGAAAAAElFTkSuQmCC"


def script(dice: Random) -> list[Act]:
    """Mostly sound: most calls have a result, most results a call."""
    acts: list[Act] = [("system", "Be kind")] if dice.random() < 0.2 else []
    acts.append(("user", _text(dice)))
    for _ in range(dice.randrange(4)):
        acts += _turn(dice)
        if dice.random() < 0.6:
            acts.append(("user", _text(dice)))
    return acts


def _text(dice: Random) -> str:
    return dice.choice(TEXTS)


def _turn(dice: Random) -> Iterator[Act]:
    calls = []
    for _ in range(dice.randrange(1, 5)):
        what = dice.choice(("think", "text", "call", "call"))
        if what == "call":
            calls.append((dice.choice(IDS), dice.choice(NAMES), dice.choice(ARGUMENTS)))
            yield "call", calls[-1]
        else:
            yield what, _text(dice)
    if dice.random() < 0.3:
        dice.shuffle(calls)
    for id_, name, _ in calls:
        if dice.random() < 0.04:
            continue
        if dice.random() < 0.1:
            yield dice.choice(("user", "text", "think")), _text(dice)
        if dice.random() < 0.04:
            id_, name = dice.choice(("zz", None)), dice.choice(("h", name))
        yield "result", (id_, name, _text(dice))


# -- Qwen-Agent --------------------------------------------------------------


def _qwen(acts: list[Act], dice: Random) -> list[Json]:
    turn = dice.choice((None, None, "t1"))
    return [_qwen_message(what, value, turn if dice.random() < 0.5 else None, dice) for what, value in acts]


def _qwen_message(what: str, value: Any, turn: str | None, dice: Random) -> Json:
    extra: Json = {"turn": turn} if turn else {}
    if what in ("call", "result") and value[0] is not None:
        extra["function_id"] = value[0]
    more = {"extra": extra} if extra else {}
    if what == "call":
        call = {"name": value[1], "arguments": value[2]}
        return {"role": "assistant", "content": dice.choice(("", "", "so")), "function_call": call, **more}
    if what == "result":
        content: Any = value[2] if dice.random() < 0.9 else [{"text": "see"}, {"image": f"data:image/png;base64,{PNG}"}]
        return {"role": "function", "name": value[1], "content": content, **more}
    if what == "think":
        return {"role": "assistant", "content": dice.choice(("", "so")), "reasoning_content": value, **more}
    role = {"user": "user", "system": "system", "text": "assistant"}[what]
    return {"role": role, "content": value if dice.random() < 0.8 else [{"text": value}, {"text": "b"}], **more}


# -- OpenAI --------------------------------------------------------------


def _openai(acts: list[Act], dice: Random) -> list[Json]:
    out: list[Json] = []
    for what, value in acts:
        if what == "result":
            out.append({"role": "tool", "tool_call_id": value[0] or "1", "content": value[2]})
        elif what in ("user", "system"):
            out.append({"role": what, "content": value if dice.random() < 0.8 else [{"type": "text", "text": value}]})
        else:
            _openai_assistant(out, what, value, dice)
    return out


def _openai_assistant(out: list[Json], what: str, value: Any, dice: Random) -> None:
    if not out or out[-1]["role"] != "assistant" or dice.random() < 0.2:
        out.append({"role": "assistant", "content": None})
    last = out[-1]
    if what == "call":
        function = {"name": value[1], "arguments": value[2]}
        last.setdefault("tool_calls", []).append({"id": value[0] or "1", "type": "function", "function": function})
    elif what == "think":
        last["reasoning_content"] = value
    else:
        last["content"] = value


# -- OpenAI's Responses --------------------------------------------------------------


def _responses(acts: list[Act], dice: Random) -> list[Json]:
    out: list[Json] = []
    for number, (what, value) in enumerate(acts):
        if what == "result":
            out.append({"type": "function_call_output", "call_id": value[0] or "1", "output": value[2]})
        elif what == "call":
            call = {"call_id": value[0] or "1", "name": value[1], "arguments": value[2]}
            out.append({"type": "function_call", **call})
        elif what == "think":
            content = [{"type": "reasoning_text", "text": value}]
            out.append({"type": "reasoning", "id": f"rs_{number}", "summary": [], "content": content})
        else:
            kind = "output_text" if what == "text" else "input_text"
            content = value if dice.random() < 0.6 else [{"type": kind, "text": value}]
            out.append({"role": "assistant" if what == "text" else what, "content": content})
    return out


# -- AutoGen --------------------------------------------------------------


def _autogen(acts: list[Act], dice: Random) -> list[Json]:
    out: list[Json] = []
    for what, value in acts:
        if what == "call":
            _gathered(
                out, "ToolCallRequestEvent", {"id": value[0] or "", "name": value[1], "arguments": value[2]}, dice
            )
        elif what == "result":
            result = {"call_id": value[0] or "", "name": value[1], "content": value[2], "is_error": False}
            _gathered(out, "ToolCallExecutionEvent", result, dice)
        elif what == "system":
            out.append({"type": "SystemMessage", "content": value})
        elif what == "think":
            kind = dice.choice(({}, {"kind": "reasoning"}, {"kind": "content"}))
            out.append({"type": "ThoughtEvent", "source": "a", "content": value, "metadata": kind})
        else:
            out.append({"type": "TextMessage", "source": "user" if what == "user" else "a", "content": value})
    return out


def _gathered(out: list[Json], type_: str, item: Json, dice: Random) -> None:
    if out and out[-1]["type"] == type_ and dice.random() < 0.8:
        out[-1]["content"].append(item)
    else:
        out.append({"type": type_, "source": "a", "content": [item]})


# -- AgentScope --------------------------------------------------------------


def _scope(acts: list[Act], dice: Random, *, second: bool) -> list[Json]:
    out: list[Json] = []
    for what, value in acts:
        block = _block(what, value, second=second)
        if what in ("user", "system"):
            out.append({"name": what, "role": what, "content": [block]})
        elif what == "result" and not second:
            out.append({"name": "system", "role": "system", "content": [block]})
        elif out and out[-1]["role"] == "assistant" and dice.random() < 0.9:
            out[-1]["content"].append(block)
        else:
            out.append({"name": "a", "role": "assistant", "content": [block], "id": f"m{len(out)}"})
    return out


def _block(what: str, value: Any, *, second: bool) -> Json:
    if what == "call":
        call = {"id": value[0], "name": value[1]}
        if second:
            return {"type": "tool_call", **call, "input": value[2]}
        return {"type": "tool_use", **call, "input": {}, "raw_input": value[2]}
    if what == "result":
        state = {"state": "success"} if second else {}
        return {"type": "tool_result", "id": value[0], "name": value[1], "output": value[2], **state}
    return {"type": "thinking", "thinking": value} if what == "think" else {"type": "text", "text": value}


# -- Anthropic --------------------------------------------------------------


def _anthropic(acts: list[Act], dice: Random) -> list[Json]:
    out: list[Json] = []
    for what, value in acts:
        if what in ("user", "system"):
            content: Any = value if dice.random() < 0.8 else [{"type": "text", "text": value}]
            out.append({"role": what, "content": content})
            continue
        role = "user" if what == "result" else "assistant"
        if not out or out[-1]["role"] != role or isinstance(out[-1]["content"], str) or dice.random() < 0.2:
            out.append({"role": role, "content": []})
        out[-1]["content"].append(_anthropic_block(what, value))
    return out


def _anthropic_block(what: str, value: Any) -> Json:
    if what == "call":
        return {"type": "tool_use", "id": value[0] or "1", "name": value[1], "input": {"a": value[2]}}
    if what == "result":
        return {"type": "tool_result", "tool_use_id": value[0] or "1", "content": value[2]}
    if what == "think":
        return {"type": "thinking", "thinking": value, "signature": ""}
    return {"type": "text", "text": value}


# -- Google's Gemini --------------------------------------------------------------


def _gemini(acts: list[Act], dice: Random) -> list[Json]:
    out: list[Json] = []
    for what, value in acts:
        role = {"user": "user", "system": "system", "result": "user"}.get(what, "model")
        if not out or out[-1]["role"] != role or dice.random() < 0.2:
            out.append({"role": role, "parts": []})
        out[-1]["parts"].append(_gemini_part(what, value))
    return out


def _gemini_part(what: str, value: Any) -> Json:
    if what == "call":
        return {"functionCall": {"id": value[0], "name": value[1], "args": {"a": value[2]}}}
    if what == "result":
        return {"functionResponse": {"id": value[0], "name": value[1], "response": {"result": value[2]}}}
    return {"text": value, "thought": True} if what == "think" else {"text": value}


WRITERS: dict[str, Callable[[list[Act], Random], list[Json]]] = {
    "qwen": _qwen,
    "openai": _openai,
    "autogen": _autogen,
    "agentscope": lambda acts, dice: _scope(acts, dice, second=False),
    "agentscope2": lambda acts, dice: _scope(acts, dice, second=True),
    "anthropic": _anthropic,
    "responses": _responses,
    "gemini": _gemini,
}


# -- damage --------------------------------------------------------------

ODD: tuple[Any, ...] = (
    None,
    True,
    3,
    -1.5,
    "",
    "x",
    "\ud800",
    [],
    {},
    [None],
    {"type": "nonsense"},
    "system",
    "tool",
    "function",
)


def damaged(messages: list[Json], dice: Random) -> list[Any]:
    """One to three things go wrong: a key or an item lost, doubled, moved, or replaced by something odd."""
    whole: list[Any] = copy.deepcopy(messages)
    for _ in range(dice.randrange(1, 4)):
        holder = dice.choice(list(_holders(whole)))
        if not holder:
            continue
        key = dice.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
        match dice.randrange(4):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder.insert(dice.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
            case 2 if isinstance(holder, list):
                holder.insert(dice.randrange(len(holder)), holder.pop(key))
            case _:
                holder[key] = copy.deepcopy(dice.choice(ODD))
    return whole


def _holders(value: Any) -> Iterator[Any]:
    """Every object and list in it, itself included."""
    if isinstance(value, dict | list):
        yield value
        for one in value.values() if isinstance(value, dict) else value:
            yield from _holders(one)
