"""The shapes of a conversation in Google's Gemini API: contents, their parts, and the words of a reply.

https://ai.google.dev/api/generate-content. The models describe the spelling of the documentation, in camel case;
`spelling` reads the other one.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_MAX_SHOWN = 40
_SHAPE = ConfigDict(extra="allow", strict=True)


Role: TypeAlias = Literal["user", "model", "system"]
ROLES: Mapping[str, Role] = {"user": "user", "function": "user", "model": "model", "system": "system"}


def _check_role(value: str | None) -> str | None:
    if value is not None and value.lower() not in ROLES:
        raise ValueError(f"must be user, model, function or system, not {value[:_MAX_SHOWN]!r}")
    return value


class GeminiBlob(BaseModel):
    """Bytes in base64, of either alphabet."""

    model_config = _SHAPE

    mimeType: str = Field(min_length=1)
    data: str
    displayName: Any = None


class GeminiFile(BaseModel):
    model_config = _SHAPE

    fileUri: str = Field(min_length=1)
    mimeType: str | None = None
    displayName: Any = None


class GeminiFunctionCall(BaseModel):
    model_config = _SHAPE

    name: str = Field(min_length=1, pattern=r"\S")
    args: dict[str, Any] | None = None
    id: str | None = None
    partialArgs: Any = None
    willContinue: Any = None


class GeminiResponsePart(BaseModel):
    """A medium in the result of a function."""

    model_config = _SHAPE

    inlineData: GeminiBlob | None = None
    fileData: GeminiFile | None = None


class GeminiFunctionResponse(BaseModel):
    model_config = _SHAPE

    name: str | None = None
    response: Any = None
    """An object. Texts and lists, which Google refuses, are read as well."""
    id: str | None = None
    parts: list[GeminiResponsePart] | None = None
    scheduling: Any = None
    willContinue: Any = None


class GeminiCode(BaseModel):
    """Code that the model has written for Google's servers to run."""

    model_config = _SHAPE

    code: str = ""
    language: Any = None
    id: Any = None


class GeminiCodeResult(BaseModel):
    model_config = _SHAPE

    output: str | None = None
    outcome: Any = None
    id: Any = None


class GeminiPart(BaseModel):
    model_config = _SHAPE

    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None
    inlineData: GeminiBlob | None = None
    fileData: GeminiFile | None = None
    functionCall: GeminiFunctionCall | None = None
    functionResponse: GeminiFunctionResponse | None = None
    executableCode: GeminiCode | None = None
    codeExecutionResult: GeminiCodeResult | None = None
    videoMetadata: Any = None
    mediaResolution: Any = None
    partMetadata: Any = None
    toolCall: Any = None
    toolResponse: Any = None


class GeminiContent(BaseModel):
    """A message. Neighbours of one role are one turn."""

    model_config = _SHAPE

    role: Annotated[str | None, AfterValidator(_check_role)] = None
    """`user`, `model`, `function` or `system`, in upper or lower case; without one, the user's."""
    parts: list[GeminiPart] | None = None


class GeminiMessage(GeminiContent):
    """A content in the list of `POST /v1/chat`, which is none of another format."""

    content: None = None
    type: None = None


GeminiMessages: TypeAlias = Annotated[list[GeminiMessage], Field(min_length=1)]

DATA_FIELDS = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse"),
    *("executableCode", "codeExecutionResult", "toolCall", "toolResponse"),
)
"""The fields of which a part has one."""

STOP, MAX_TOKENS, SAFETY, MALFORMED_CALL = "STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"
PROHIBITED = "PROHIBITED_CONTENT"
"""Finish reasons. No other ones are written: a word that Google does not have ends as `other` in the AI SDK."""
FORMAT = "google-gemini-v1"
"""The `format` of items of `reasoning_details` that are parts of Google's own."""
SIGNATURE_VENDOR, SIGNATURE_KEY = "google", "thought_signature"
"""Where `extra_content` of a call or a text has Google's signature, as Google's endpoint for OpenAI's clients does."""
