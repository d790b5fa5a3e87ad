"""`[fetch]` and `[documents]`: the media that are fetched, and the documents that are read."""

from typing import Literal

from pydantic import Field, field_validator

from app.attachments.fetch.address_policy import AllowList
from app.config.tables.base import Seconds, Table


class Fetch(Table):
    allow: tuple[str, ...] = ()
    max_bytes: int = Field(default=20 * 1024 * 1024, ge=1)
    max_total_bytes: int = Field(default=64 * 1024 * 1024, ge=1)
    max_seconds: Seconds = 20.0
    max_redirects: int = Field(default=5, ge=0, le=20)
    max_concurrent: int = Field(default=32, ge=1)
    max_media: int = Field(default=64, ge=1)

    @field_validator("allow")
    @classmethod
    def _check_allow_list(cls, allow: tuple[str, ...]) -> tuple[str, ...]:
        AllowList(allow)
        return allow


class MediaDescriptions(Table):
    """How media are described by another model: `describe_media_with` of a model."""

    prompt: str | None = Field(default=None, min_length=1)
    """Without it, a text of the gateway's own."""
    task_aware: bool = False
    """The prompt has the last words of the user."""
    max_items: int = Field(default=20, ge=1, le=1000)
    max_parallel: int = Field(default=4, ge=1, le=64)
    max_tokens: int = Field(default=400, ge=1)
    timeout_seconds: Seconds = 30.0
    on_failure: Literal["text", "refuse"] = "text"


class Documents(Table):
    workers: int = Field(default=2, ge=1, le=64)
    workers_per_caller: int = Field(default=1, ge=1, le=64)
    max_waiting: int = Field(default=64, ge=1)
    queue_seconds: Seconds = 20.0
    wall_seconds: Seconds = 20.0
    cpu_seconds: int = Field(default=15, ge=1)
    memory_bytes: int = Field(default=1024 * 1024 * 1024, ge=256 * 1024 * 1024)
    max_pages: int = Field(default=500, ge=1)
    max_characters: int = Field(default=400_000, ge=1)
    max_searched_characters: int = Field(default=4_000_000, ge=1)
    max_unpacked_bytes: int = Field(default=128 * 1024 * 1024, ge=1)
    max_pixels: int = Field(default=64_000_000, ge=1)
