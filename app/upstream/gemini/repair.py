"""Change a body of the Gemini API that its server has refused, because not all servers and models take the same.

The messages are those of Google's servers. Each change is made after one refusal, and then in every body of that caller
to that model.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from app.chat.known_conversation import is_same
from app.chat.messages import INTERRUPTED
from app.openai_messages.messages import UNCHECKED
from app.upstream.api import Repair
from app.upstream.gemini.conversation import FIRST_TEXT, SIGNATURE, sign_first_call
from app.upstream.gemini.schemas import write_openapi

Json = dict[str, Any]
_SIGNATURES = (SIGNATURE, "thought_signature")
"""In both spellings, as clients write them."""
_BUDGETS = {"MINIMAL": 0, "LOW": 1024, "MEDIUM": 8192, "HIGH": 24_576}


def strip_signatures(body: Json) -> Json | None:
    """Return the body with no signature but that which is not checked; None if it has no other."""
    return _change_contents(
        body, lambda content: _sign({**content, "parts": list(map(_drop_signature, content["parts"]))})
    )


def sign_calls(body: Json) -> Json | None:
    """Return the body with a signature on the first call of each content; None if each has one."""
    return _change_contents(body, _sign)


def drop_ids(body: Json) -> Json | None:
    """Return the body with calls and results that have no ids; None if none has one."""
    return _change_contents(body, lambda content: {**content, "parts": list(map(_drop_id, content["parts"]))})


def write_old_schemas(body: Json) -> Json | None:
    """Return the body with schemas of OpenAPI instead of JSON schemas; None if it has none of these."""
    changed = dict(body)
    if isinstance(body.get("tools"), list):
        changed["tools"] = [_write_old_tool(tool) for tool in body["tools"]]
    options = body.get("generationConfig")
    schema = options.get("responseJsonSchema") if isinstance(options, dict) else None
    if isinstance(options, dict) and isinstance(schema, dict):
        rest = {name: value for name, value in options.items() if name != "responseJsonSchema"}
        changed["generationConfig"] = {**rest, "responseSchema": write_openapi(schema)}
    return None if is_same(changed, body) else changed


def write_budget(body: Json) -> Json | None:
    """Return the body with a budget of thinking instead of a level; None if it has no level."""

    def write(config: Json) -> Json | None:
        level = config.get("thinkingLevel")
        if not isinstance(level, str) or level not in _BUDGETS:
            return None
        rest = {name: value for name, value in config.items() if name != "thinkingLevel"}
        return {**rest, "thinkingBudget": _BUDGETS[level]}

    return _change_thinking(body, write)


def keep_thinking(body: Json) -> Json | None:
    """Return the body without a budget of 0, for a model that always thinks; None if it has none."""
    return _change_thinking(body, lambda config: {} if config.get("thinkingBudget") == 0 else None)


def drop_thinking(body: Json) -> Json | None:
    """Return the body without what it says of thinking; None if it says nothing."""
    return _change_thinking(body, lambda _: {})


def fold_last(body: Json) -> Json | None:
    """Return the body whose last content, texts of the model, is in the user's content before it; None if there is
    none, or if it has anything else."""
    contents = body.get("contents")
    if not isinstance(contents, list) or len(contents) < 2:
        return None
    before, last = (one if isinstance(one, dict) else {} for one in contents[-2:])
    given, said = before.get("parts"), last.get("parts")
    if before.get("role") == "model" or last.get("role") != "model":
        return None
    if not isinstance(given, list) or not isinstance(said, list):
        return None
    if not all(isinstance(part, dict) and "text" in part for part in said):
        return None
    texts = [{"text": part["text"]} for part in said if part["text"] and not part.get("thought")]
    return {**body, "contents": [*contents[:-2], {**before, "parts": [*given, *texts]}]}


def order_turns(body: Json) -> Json | None:
    """Return the body in which contents of one role are one, and the first one is of the user; None if it is so."""
    contents = body.get("contents")
    if not isinstance(contents, list) or not all(isinstance(one, dict) for one in contents):
        return None
    ordered: list[Json] = []
    for content in contents:
        last = ordered[-1] if ordered else {}
        if ordered and last.get("role") == content.get("role") and _has_parts(last) and _has_parts(content):
            ordered[-1] = {**last, "parts": [*last["parts"], *content["parts"]]}
        else:
            ordered.append(content)
    if ordered and ordered[0].get("role") == "model":
        ordered.insert(0, {"role": "user", "parts": [{"text": FIRST_TEXT}]})
    return None if len(ordered) == len(contents) and is_same(ordered, contents) else {**body, "contents": ordered}


def answer_calls(body: Json) -> Json | None:
    """Return the body in which results of as many calls follow as each content has; None if it is so.

    A result without a call is a text, and a call without one gets one that says that it was interrupted.
    """
    contents = body.get("contents")
    if not isinstance(contents, list) or not all(isinstance(one, dict) and _has_parts(one) for one in contents):
        return None
    answered: list[Json] = []
    for content in contents:
        is_model = content.get("role") == "model"
        waiting = _list_names(answered[-1], "functionCall") if answered else []
        parts = content["parts"] if is_model else [_match(part, waiting) for part in content["parts"]]
        missing = [{"functionResponse": {"name": name, "response": {"error": INTERRUPTED}}} for name in waiting]
        if missing and is_model:
            answered.append({"role": "user", "parts": missing})
            missing = []
        if missing:
            parts = (
                [part for part in parts if _is_result(part)] + missing + [one for one in parts if not _is_result(one)]
            )
        answered.append(content if parts == content["parts"] else {**content, "parts": parts})
    return None if answered == contents else {**body, "contents": answered}


def _list_names(content: Json, kind: str) -> list[Any]:
    parts = content["parts"] if content.get("role") == "model" else ()
    return [part[kind].get("name") for part in parts if isinstance(part, dict) and isinstance(part.get(kind), dict)]


def _is_result(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("functionResponse"), dict)


def _match(part: Any, waiting: list[Any]) -> Any:
    """Return a part of the user, or a text in the place of a result for which no call waits."""
    if not _is_result(part):
        return part
    result = part["functionResponse"]
    if result.get("name") in waiting:
        waiting.remove(result["name"])
        return part
    return {"text": json.dumps(result.get("response"), ensure_ascii=False)}


def _has_parts(content: Json) -> bool:
    return isinstance(content.get("parts"), list)


def _change_thinking(body: Json, change: Callable[[Json], Json | None]) -> Json | None:
    options = body.get("generationConfig")
    config = options.get("thinkingConfig") if isinstance(options, dict) else None
    changed = change(config) if isinstance(config, dict) else None
    if not isinstance(options, dict) or changed is None:
        return None
    rest = {name: value for name, value in options.items() if name != "thinkingConfig"}
    written = {**rest, **({"thinkingConfig": changed} if changed else {})}
    left = {name: value for name, value in body.items() if name != "generationConfig"}
    return {**left, "generationConfig": written} if written else left


def _change_contents(body: Json, change: Callable[[Json], Json]) -> Json | None:
    """Return the body with changed contents; None if nothing differs. A content in another form stays: Google's servers
    take an object in the place of a list."""
    contents = body.get("contents")
    if not isinstance(contents, list):
        return None
    changed = [change(one) if isinstance(one, dict) and isinstance(one.get("parts"), list) else one for one in contents]
    return None if is_same(changed, contents) else {**body, "contents": changed}


def _sign(content: Json) -> Json:
    parts = [dict(part) if isinstance(part, dict) else part for part in content["parts"]]
    sign_first_call({"parts": [part for part in parts if isinstance(part, dict)]}, UNCHECKED)
    return {**content, "parts": parts}


def _drop_signature(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if name not in _SIGNATURES or value in (None, UNCHECKED)}


def _drop_id(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    written = dict(part)
    for name in ("functionCall", "functionResponse"):
        if isinstance(part.get(name), dict):
            written[name] = {key: value for key, value in part[name].items() if key != "id"}
    return written


def _write_old_tool(tool: Any) -> Any:
    functions = tool.get("functionDeclarations") if isinstance(tool, dict) else None
    return (
        {**tool, "functionDeclarations": [_write_old(one) for one in functions]}
        if isinstance(functions, list)
        else tool
    )


def _write_old(function: Any) -> Any:
    schema = function.get("parametersJsonSchema") if isinstance(function, dict) else None
    if not isinstance(schema, dict):
        return function
    rest = {name: value for name, value in function.items() if name != "parametersJsonSchema"}
    return {**rest, "parameters": write_openapi(schema)}


def _make(pattern: str, change: Callable[[Json], Json | None], warning: str) -> Repair:
    return Repair(re.compile(pattern, re.IGNORECASE), change, warning)


REPAIRS: dict[str, Repair] = {
    "tool_schema": _make(
        # anomalyco/opencode issue 12295; brightwave-inc/tidebreak PR 1537
        r'Unknown name "(?:parameters_?Json_?Schema|response_?Json_?Schema)"|alongside unsupported fields|'
        r"didn.?t specify the schema type field|reference to undefined schema|"
        # probelabs/probe issue 569; diegosouzapw/OmniRoute issue 13464
        r"function_?declarations\[\d+\]\.parameters|generation_?config\.response_?(?:json_?)?schema",
        write_old_schemas,
        "the model server does not take these JSON schemas: the request was sent with schemas of OpenAPI, without what "
        'these cannot say. Set tool_schema = "openapi" in the model\'s profile',
    ),
    "call_ids": _make(
        r"Unknown name \"id\" at '?contents",
        drop_ids,
        "the model server does not know ids of calls: the request was sent without them. Set call_ids = false in the "
        "model's profile",
    ),
    "missing_signature": _make(
        r"missing a thought_?signature",
        sign_calls,
        "the model server demands signatures of calls: the request was sent with one that is not checked. Set "
        "missing_signature in the model's profile",
    ),
    # google-gemini/gemini-cli#17208
    "results": _make(
        r"number of function response parts",
        answer_calls,
        "the model server wants as many results as calls: one that says that the call was interrupted was added for "
        "each without any, and a result without a call was sent as a text",
    ),
    # google-gemini/gemini-cli#26486
    "turns": _make(
        r"function call turn comes immediately after",
        order_turns,
        "the model server wants calls right behind the user or results: contents of one role were sent as one, behind "
        "one of the user",
    ),
    "assistant_last": _make(
        # LibreChat-AI/agents PR 323, pipecat-ai/pipecat PR 5821: Gemini 3.5 Flash-Lite, 3.6 Flash
        r"ending with a model turn|requests? ends? with a user role",
        fold_last,
        "the model server takes no content of the model at the end: it was appended to the user's content",
    ),
    "level": _make(
        r"thinking.?level\b.{0,60}\bnot supported",
        write_budget,
        "this model has no levels of thinking: the request was sent with a budget. Set thinking_switch = "
        '"gemini_budget" in the model\'s profile',
    ),
    "always_thinks": _make(
        r"only works in thinking mode",
        keep_thinking,
        "this model cannot be switched off: it thinks",
    ),
    "thinking": _make(
        r"thinking\b.{0,30}\bnot (?:supported|enabled|available)|does not support thinking|"
        r'Unknown name "thinking_?Config"',
        drop_thinking,
        "this model does not think: the request was sent without what it says of thinking. Set thinking_switch = "
        '"none" in the model\'s profile',
    ),
}
"""By a name of its own. The first of several that fit counts."""
