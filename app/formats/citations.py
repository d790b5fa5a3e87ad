"""Citations of web pages as the two APIs of OpenAI have them, from a server of any API.

Chat completions has the fields of a `url_citation` in an object of its own, Responses beside the type. One of Messages
has no place in the text: its places are 0, as OpenRouter writes them (NVIDIA-NeMo/Switchyard pull request 730).
"""

from collections.abc import Mapping
from typing import Any

_TYPE = "url_citation"


def write_chat_citation(annotation: Any) -> Any:
    """Return a citation of a web page for chat completions, beside the server's own fields; any other annotation as it
    is."""
    fields = _find_fields(annotation)
    return annotation if fields is None else {**annotation, "type": _TYPE, _TYPE: fields}


def write_responses_citation(annotation: Any) -> Any:
    """Return a citation of a web page for Responses; any other annotation as it is."""
    fields = _find_fields(annotation)
    return annotation if fields is None else {"type": _TYPE, **fields}


def _find_fields(annotation: Any) -> Mapping[str, Any] | None:
    """Return the fields of a citation of a web page."""
    if not isinstance(annotation, dict):
        return None
    inner = annotation.get(_TYPE)
    if isinstance(inner, dict):
        return inner
    if annotation.get("type") == _TYPE:
        return {name: value for name, value in annotation.items() if name != "type"}
    if not isinstance(annotation.get("url"), str) or "cited_text" not in annotation:
        return None
    named = {name: annotation[name] for name in ("url", "title") if annotation.get(name) is not None}
    return {**named, "content": annotation["cited_text"], "start_index": 0, "end_index": 0}
