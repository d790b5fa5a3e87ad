"""A client of the Gemini API in front of a server of the same API."""

from typing import Any

from tests.upstream.gemini.replies import SETTINGS, call, chunk

Json = dict[str, Any]
URL = "/v1beta/models/m"
USER: Json = {"role": "user", "parts": [{"text": "Q"}]}
HEAD: Json = {"modelVersion": "gemini-x", "responseId": "r1"}
GROUNDED: Json = {
    "groundingMetadata": {"webSearchQueries": ["q"], "searchEntryPoint": {"renderedContent": "<a>"}},
    "urlContextMetadata": {"urlMetadata": []},
    "safetyRatings": [{"category": "C", "probability": "LOW"}],
    "avgLogprobs": -0.25,
    "logprobsResult": {"chosenCandidates": []},
    "citationMetadata": {"citations": [{"uri": "https://a.test/"}]},
}
PARTS = [
    {**chunk({"text": "hm", "thought": True}), **HEAD},
    {**chunk({"text": "né \u2028😀"}), **HEAD},
    {**chunk({"executableCode": {"language": "PYTHON", "code": "1"}}, {"newKind": {"a": [1]}}), **HEAD},
    {**chunk(call("f", {"a": "é"}, thoughtSignature="czE="), call("g")), **HEAD},
    {**chunk({"text": "A", "thoughtSignature": "czI="}, end="STOP", usage={"promptTokenCount": 3}, **GROUNDED), **HEAD},
]


def configure(profile: Json | None = None, **fields: Any) -> Json:
    return {**SETTINGS, **fields, "models": {"m": {**SETTINGS["models"]["m"], "profile": profile or {}}}}
