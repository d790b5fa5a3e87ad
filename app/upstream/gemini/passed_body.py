"""Build a body of the Gemini API from that of a client of the same API which the gateway cannot read: its server may
know what it does not. Only what the gateway itself reads is taken out."""

from typing import Any

from app.chat.messages import ChatRequest
from app.profiles import Profile
from app.upstream.gemini.own import EXTENSIONS, OPTION_EXTENSIONS

Json = dict[str, Any]


def build_passed(request: ChatRequest, model: str, profile: Profile) -> tuple[Json, list[str]]:
    """Return the body, and a warning for each option that is not sent. `request.passed` must be set."""
    assert request.passed is not None
    given = request.passed.body
    body: Json = {name: value for name, value in given.items() if name not in EXTENSIONS}
    options = body.get("generationConfig")
    ignored = [name for name in given if name in EXTENSIONS and name != "cache"]
    if isinstance(options, dict):
        body["generationConfig"] = {name: value for name, value in options.items() if name not in OPTION_EXTENSIONS}
        ignored += [f"generationConfig.{name}" for name in options if name in OPTION_EXTENSIONS]
    if "model" in body:
        body["model"] = f"models/{model.removeprefix('models/')}"
    return body, [f"{name} was not sent: this model's server has no such parameter" for name in sorted(ignored)]
