"""Notes as they stand under `metadata.parley` of AgentScope's messages: callers send them, so they are checked."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.chat.messages import MediaKind
from app.formats.agentscope.media import check_base64
from app.formats.media_urls import check_url, is_remote

Json = dict[str, Any]


class MediaNote(BaseModel):
    """Media that the blocks from `at` replace."""

    model_config = ConfigDict(extra="forbid", strict=True)

    at: int = Field(ge=0)
    blocks: int = Field(ge=1)
    media: MediaKind
    urls: list[str] | None = Field(default=None, min_length=1)
    """None means those of the blocks."""
    frames: bool = False
    format: str | None = None
    detail: str | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _check_urls(self) -> "MediaNote":
        """Audio may be bare base64, as Qwen-Agent has it; all else is a URL."""
        for url in self.urls or ():
            if self.media == "audio" and not is_remote(url):
                check_base64(url)
            else:
                check_url(url)
        return self


class PieceNote(BaseModel):
    """One piece: how many blocks are its own, and what they get wrong. A key that is absent is right as read."""

    model_config = ConfigDict(extra="forbid", strict=True)

    blocks: int = Field(ge=0)
    name: str | None = None
    turn: str | None = None
    extra: Json = {}
    id: str | None = None
    tool: str | None = None
    is_error: bool | None = None
    call: Json = {}
    media: list[MediaNote] = []


class AgentScopeSidecar(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: str
    name: str
    """The sender under whom the message was sent: notes do not count for another."""
    pieces: list[PieceNote] = Field(min_length=1)
