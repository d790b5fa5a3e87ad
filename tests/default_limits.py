"""Limits as they are where nothing is set, but for what a test changes."""

from dataclasses import fields
from typing import Any

import httpx
from app.attachments.documents.protocol import DocumentLimits
from app.attachments.fetch import FetchLimits
from app.attachments.loader import AttachmentLimits
from app.config.tables.attachments import Documents, Fetch
from app.config.tables.upstreams import Upstream
from app.upstream.http.client import Target
from msgspec.structs import replace


def document_limits(**changed: Any) -> DocumentLimits:
    return replace(DocumentLimits(**Documents().model_dump()), **changed)


def fetch_limits(**changed: Any) -> FetchLimits:
    fetch = Fetch()
    limits = FetchLimits(fetch.allow, fetch.max_bytes, fetch.max_seconds, fetch.max_redirects, fetch.max_concurrent)
    return replace(limits, **changed)


def attachment_limits(**changed: Any) -> AttachmentLimits:
    return replace(AttachmentLimits(Fetch().max_media, Fetch().max_total_bytes), **changed)


def upstream_target(name: str, base_url: str, headers: httpx.Headers | None = None, **changed: Any) -> Target:
    row = Upstream(base_url="http://model.test/v1")
    shared = {one.name for one in fields(Target)} & set(Upstream.model_fields) - {"base_url", "headers"}
    limits: dict[str, Any] = {one: getattr(row, one) for one in shared}
    return Target(name, base_url, headers or httpx.Headers(), **{**limits, **changed})
