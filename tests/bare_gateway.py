"""A gateway object without an application around it: it fetches no files, caches nothing and explains no faults."""

import httpx
from app.attachments.documents.worker_pool import DocumentWorkers
from app.attachments.fetch import Fetcher
from app.attachments.loader import AttachmentLoader
from app.cache import Cache, CacheRules
from app.chat.events import Fault
from app.gateway import Gateway
from app.routing import ModelRoute, RetryBudget, UpstreamStates
from app.runtime.ticker import Ticker
from app.runtime.token_counting import TokenCounters
from app.stores.memory import NullStore
from app.upstream.base_urls import BaseUrlCheck
from app.upstream.http.client import Target, UpstreamClient
from app.upstream.http.transport import UpstreamTransport
from typing_extensions import override

from tests.default_limits import attachment_limits, document_limits, fetch_limits


class NoBaseUrlCheck(BaseUrlCheck):
    """Asks no server for a better base_url."""

    @override
    async def explain(self, fault: Fault, target: Target) -> Fault:
        return fault


def make_gateway(route: ModelRoute, transport: UpstreamTransport | None = None) -> Gateway:
    """A gateway that knows this route alone."""
    client = UpstreamClient(transport)
    fetcher = Fetcher(fetch_limits(), transport=httpx.MockTransport(_refuse))
    return Gateway(
        lambda _: route,
        None,
        client,
        TokenCounters(()).get,
        AttachmentLoader(fetcher, DocumentWorkers(document_limits()), attachment_limits()),
        Cache(NullStore(), Ticker(1.0), CacheRules()),
        NoBaseUrlCheck(client),
        known=(),
        catalog=None,
        ticker=Ticker(1.0),
        upstreams=UpstreamStates(),
        budget=RetryBudget(),
    )


def _refuse(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"{request.url} is not to be fetched")
