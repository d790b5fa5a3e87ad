"""How errors are written at the paths of other endpoints than those of conversations."""

from typing import Any

from app.endpoints.kinds import COHERE_PATHS, PATHS, TEI_PATHS
from app.errors import find_code
from app.formats.base import ErrorWriter

_STATUSES = {422: 400}
"""Clients of these APIs take a 400 for a request that is wrong."""
_CODE_STATUSES = {"unsupported": 400}


def _write_openai(error: dict[str, Any]) -> dict[str, Any]:
    """Write the form of OpenAI, vLLM, Jina and Voyage, with the gateway's own code."""
    row = find_code(error["code"])
    kind = row.openai_type or ("invalid_request_error" if error["status"] < 500 else "server_error")
    return {"error": {**error, "type": kind}}


def _write_cohere(error: dict[str, Any]) -> dict[str, Any]:
    return {"message": error["message"], "id": error["request_id"], "code": error["code"], "param": error["param"]}


def _write_tei(error: dict[str, Any]) -> dict[str, Any]:
    return {"error": error["message"], "error_type": error["code"], "param": error["param"]}


_OPENAI = ErrorWriter(_write_openai, _STATUSES, _CODE_STATUSES)
_COHERE = ErrorWriter(_write_cohere, _STATUSES, _CODE_STATUSES)
_TEI = ErrorWriter(_write_tei, _STATUSES, _CODE_STATUSES)
ENDPOINT_ERRORS = {path: _COHERE if path in COHERE_PATHS else _TEI if path in TEI_PATHS else _OPENAI for path in PATHS}
"""The writer of each path."""
