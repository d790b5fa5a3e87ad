"""`Resources`: what lives as long as the gateway, whatever its configuration becomes, beside its `AppContext`."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from app.access.jwks import JwksSources
from app.access.stored_keys import StoredKeys
from app.api.masking_key import MaskingKey
from app.attachments.documents.protocol import DocumentLimits
from app.attachments.documents.worker_pool import DocumentWorkers
from app.attachments.fetch import Fetcher, FetchLimits, Resolver
from app.attachments.loader import AttachmentLimits, AttachmentLoader
from app.config.settings import Settings
from app.config.storage import OpenStorage, Storage, open_state, with_state
from app.routing import HealthChecks, RetryBudget, UpstreamStates
from app.runtime.ticker import Ticker
from app.state import Database
from app.upstream.base_urls import BaseUrlCheck
from app.upstream.http.client import UpstreamClient
from app.upstream.http.transport import PushTransport, UpstreamTransport


class RetryRules(Struct, frozen=True):
    seconds: float
    """The first wait before a request is sent again."""
    budget: RetryBudget
    """Limits how often that happens."""
    grace_seconds: float
    """How long a model server that has finished may take to end its reply."""


class Resources(Struct, frozen=True):
    demo_url: Callable[[], str] | None
    """Returns the address of the demo model, which is known once its server listens; None: it is not configured."""
    transport: UpstreamTransport
    client: UpstreamClient
    fetcher: Fetcher
    document_workers: DocumentWorkers
    loader: AttachmentLoader
    base_urls: BaseUrlCheck
    ticker: Ticker
    storage: Storage
    database: Database | None
    """The state; None: it is with the cache, or nothing is kept."""
    stored_keys: StoredKeys | None
    """API keys of the state; None: there can be none that count."""
    upstreams: UpstreamStates
    health_checks: HealthChecks
    jwks: JwksSources
    """The keys of issuers of JWTs."""
    retries: RetryRules
    masking_key: MaskingKey

    async def aclose(self) -> None:
        """Close all of it but the stores, which the `AppContext` closes."""
        await self.health_checks.aclose()
        await self.jwks.aclose()
        if self.storage.redis is not None:
            await self.storage.redis.aclose()
        await self.base_urls.aclose()
        await self.client.aclose()
        await self.fetcher.aclose()
        await self.document_workers.aclose()
        if self.database is not None:
            await asyncio.to_thread(self.database.close)


def make_resources(
    settings: Settings,
    demo_url: Callable[[], str] | None,
    transport: UpstreamTransport | None,
    resolver: Resolver | None,
    open_storage: OpenStorage,
    retries: RetryRules,
) -> Resources:
    fetch, server = settings.fetch, settings.server
    limits = FetchLimits(fetch.allow, fetch.max_bytes, fetch.max_seconds, fetch.max_redirects, fetch.max_concurrent)
    transport = transport or PushTransport()
    client, fetcher, upstreams = UpstreamClient(transport), Fetcher(limits, resolver), UpstreamStates()
    document_workers = DocumentWorkers(DocumentLimits(**settings.documents.model_dump()))
    tick_seconds = min(1.0, server.heartbeat_seconds / 4, server.commit_seconds / 4)
    ticker = Ticker(max(tick_seconds, 0.01))
    database = open_state(settings.state)
    return Resources(
        demo_url,
        transport,
        client,
        fetcher,
        document_workers,
        AttachmentLoader(fetcher, document_workers, AttachmentLimits(fetch.max_media, fetch.max_total_bytes)),
        BaseUrlCheck(client),
        ticker,
        with_state(open_storage(settings.cache, ticker), settings, database),
        database,
        _find_stored_keys(settings, database),
        upstreams,
        HealthChecks(client, upstreams),
        JwksSources(transport),
        retries,
        MaskingKey(),
    )


def _find_stored_keys(settings: Settings, database: Database | None) -> StoredKeys | None:
    """Return the keys of the state. A gateway that has lost its administrator must not serve everyone in place of those
    who have a key; where other keys are required, the stored ones are refused."""
    if database is None or not (settings.has_admin or not settings.requires_keys):
        return None
    return StoredKeys(database, has_admin=settings.has_admin)
