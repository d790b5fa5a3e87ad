"""`LiveConfiguration`: everything that a reload of the configuration replaces, in one assignment."""

from msgspec import Struct

from app.api.middleware import RequestRules
from app.config.registry import ModelRegistry
from app.config.settings import Server, Settings
from app.formats.request_limits import RequestLimits
from app.gateway import Gateway
from app.upstream.catalog import Catalog


class LiveConfiguration(Struct, frozen=True):
    """A request takes it once, when its body begins, and goes on with it."""

    settings: Settings
    registry: ModelRegistry
    gateway: Gateway
    catalog: Catalog | None
    """Lists the models of the pass-through's upstream; None: there is no pass-through."""
    rules: RequestRules
    request_limits: RequestLimits
    separate_callers: bool
    """Stored replies are shared only among the requests of one caller."""


def request_limits(server: Server) -> RequestLimits:
    return RequestLimits(server.max_messages, server.max_content_items, server.max_functions, server.max_nesting)
