"""`LiveConfiguration`: everything that a reload of the configuration replaces, in one assignment."""

from msgspec import Struct

from app.api.middleware import RequestRules
from app.api.request_limits import RequestLimits
from app.config.registry import ModelRegistry
from app.config.settings import Settings
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
