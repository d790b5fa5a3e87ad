"""What Google's servers refuse of a body, written independently of the code that writes it.

The sources are the messages of their refusals: google-gemini/gemini-cli issue 16543 (results are as many as calls),
vercel/ai issue 15550 (signatures), googleapis/python-genai issue 2792 (references), vectorize-io/hindsight PR 187
(names of results).
"""

import json
import re
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
_DATA = {
    *("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


def find_broken_rule(body: Json) -> str | None:
    """Return the first rule that a body breaks, with the content that breaks it."""
    contents = body["contents"]
    if not contents or contents[0]["role"] != "user":
        return "the first content is not the user's"
    waiting: list[Json] = []
    for place, content in enumerate(contents):
        if place and content["role"] == contents[place - 1]["role"]:
            return f"[{place}]: two contents of one role"
        fault = _check_content(content, waiting)
        if fault:
            return f"[{place}]: {fault}"
        waiting = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
    names = [one["name"] for tool in body.get("tools", ()) for one in tool["functionDeclarations"]]
    if any(_NAME.fullmatch(name) is None for name in names):
        return f"names of functions: {names}"
    return f"calls without results: {waiting}" if waiting else None


def _check_content(content: Json, waiting: Sequence[Json]) -> str | None:
    parts = content["parts"]
    if content["role"] not in ("user", "model") or not parts:
        return "no role or no parts"
    faults = [_check_part(part, content["role"]) for part in parts]
    found = [part["functionResponse"] for part in parts if "functionResponse" in part]
    if [_name(one) for one in found] != [_name(one) for one in waiting]:
        faults.append(f"results {found} of the calls {waiting}")
    if found and any("functionResponse" not in part for part in parts[: len(found)]):
        faults.append("a part before a result")
    calls = [part for part in parts if "functionCall" in part]
    if calls and "thoughtSignature" not in calls[0]:
        faults.append("the first call has no signature")
    return next(filter(None, faults), None)


def _name(one: Json) -> tuple[Any, Any]:
    return one.get("id"), one["name"]


def _check_part(part: Json, role: str) -> str | None:
    data = part.keys() & _DATA
    if len(data) != 1 or part.keys() - data - {"thoughtSignature"}:
        return f"the part {part}"
    if part.get("text") == "" and "thoughtSignature" not in part:
        return "an empty text"
    if "thoughtSignature" in part and _BASE64.fullmatch(part["thoughtSignature"]) is None:
        return f"a signature that is not base64: {part}"
    if "functionCall" in part:
        call = part["functionCall"]
        is_whole = isinstance(call["args"], dict) and _NAME.fullmatch(call["name"]) is not None
        return None if is_whole and role == "model" else f"the call {part}"
    if "functionResponse" in part:
        result = part["functionResponse"]
        is_whole = isinstance(result["response"], dict) and result["name"] and '"$ref"' not in json.dumps(result)
        return None if is_whole and role == "user" else f"the result {part}"
    return None
