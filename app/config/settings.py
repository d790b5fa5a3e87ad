"""`Settings`: the whole tree of what can be configured. The tables are in `config/tables`.

docs/reference/settings.md lists every setting; a test compares the two.
"""

from pydantic import Field

from app.access.addresses import is_loopback
from app.config.tables.agents import AgentSettings
from app.config.tables.alerts import AlertReceiver
from app.config.tables.attachments import Documents, Fetch, MediaDescriptions
from app.config.tables.base import Table
from app.config.tables.callers import JwtIssuer, Key, KeyName, Team
from app.config.tables.guards import Guard, GuardName, MaskingSettings
from app.config.tables.limits import GatewayLimits
from app.config.tables.models import Model
from app.config.tables.prices import PricesSettings
from app.config.tables.server import MetricsSettings, Server, Tracing
from app.config.tables.storage import (
    CacheSettings,
    ReasoningSettings,
    RequestLogSettings,
    ResponsesSettings,
    StateSettings,
    UsageSettings,
)
from app.config.tables.tools import HostedToolsSettings, McpServer, ToolServerName, ToolsSettings
from app.config.tables.upstreams import Upstream
from app.profiles import KINDS, Profile, find_profile
from app.profiles.apis import WITHOUT_EFFECT

DEMO = "demo"


class SettingsError(Exception):
    """The mistakes in a configuration, each with its path."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class Settings(Table):
    default_model: str | None = None
    server: Server = Server()
    upstreams: dict[str, Upstream] = Field(default_factory=dict)
    models: dict[str, Model] = Field(default_factory=dict)
    keys: dict[KeyName, Key] = Field(default_factory=dict)
    """The API keys of callers by name."""
    teams: dict[KeyName, Team] = Field(default_factory=dict)
    jwt: dict[KeyName, JwtIssuer] = Field(default_factory=dict)
    """The issuers of JWTs that are accepted like keys."""
    limits: GatewayLimits = GatewayLimits()
    """The limits of all callers together."""
    cache: CacheSettings = CacheSettings()
    prices: PricesSettings = PricesSettings()
    state: StateSettings = StateSettings()
    usage: UsageSettings = UsageSettings()
    request_log: RequestLogSettings = RequestLogSettings()
    responses: ResponsesSettings = ResponsesSettings()
    reasoning: ReasoningSettings = ReasoningSettings()
    fetch: Fetch = Fetch()
    documents: Documents = Documents()
    media_descriptions: MediaDescriptions = MediaDescriptions()
    mcp_servers: dict[ToolServerName, McpServer] = Field(default_factory=dict)
    """Servers of tools that the gateway runs."""
    hosted_tools: HostedToolsSettings = HostedToolsSettings()
    """Searches and fetches of the web that clients ask for in the words of their APIs."""
    tools: ToolsSettings = ToolsSettings()
    agents: AgentSettings = AgentSettings()
    guards: dict[GuardName, Guard] = Field(default_factory=dict)
    """What looks at requests and replies, in the order of the file."""
    masking: MaskingSettings = MaskingSettings()
    alerts: dict[KeyName, AlertReceiver] = Field(default_factory=dict)
    """Webhooks to which alerts are sent."""
    metrics: MetricsSettings = MetricsSettings()
    tracing: Tracing = Tracing()
    passthrough: str | None = None
    """The upstream that serves every model name that is not configured."""
    tokenizer: str | None = None
    """The tokenizer file for models whose profile names none; without one, tokens are estimated."""
    demo: bool = False
    """Whether the built-in demonstration model is served, as the model `demo`."""

    @property
    def requires_keys(self) -> bool:
        """Whether requests need an API key or a JWT: there are keys or issuers, or an administrator may create keys and
        other machines can reach the gateway."""
        server = self.server
        local = is_loopback(server.host.strip("[]").lower())
        return self.names_callers or (server.admin_key is not None and not local and not server.allow_anonymous)

    @property
    def names_callers(self) -> bool:
        """Whether callers have names: there are API keys, or issuers of JWTs."""
        return bool(self.keys or self.jwt)

    @property
    def hashes_users(self) -> bool:
        """Whether some callers' end users are known by a hash only."""
        return any(row.hash_users for row in (*self.keys.values(), *self.jwt.values()))

    @property
    def has_admin(self) -> bool:
        """Whether someone may manage keys."""
        of_tokens = any(row.admin_claim is not None for row in self.jwt.values())
        return self.server.admin_key is not None or of_tokens or any(key.admin for key in self.keys.values())

    @property
    def separate_callers(self) -> bool:
        """Whether stored replies are shared only among the requests of one caller."""
        return self.cache.scope == "caller" or (self.cache.scope == "auto" and self.names_callers)

    @property
    def serves_this_machine_only(self) -> bool:
        """Whether every caller is a program or a user of this machine: the gateway listens on a loopback address, and
        no key, admin key or other host name suggests that a proxy passes on the requests of others."""
        server = self.server
        local = is_loopback(server.host.strip("[]").lower())
        return local and not (self.names_callers or server.admin_key or server.allowed_hosts or server.allowed_origins)

    def kind_profile(self, kind: str) -> Profile:
        return KINDS[kind]

    def profile(self, model: str, upstream: str) -> Profile:
        row = find_profile(self.upstreams[upstream].kind, self.upstreams[upstream].api)
        given = self.models[model].profile if model in self.models else {}
        unused = WITHOUT_EFFECT[self.upstreams[upstream].api]
        fields = {name: value for name, value in given.items() if name not in unused}
        return Profile.model_validate({**row.model_dump(), **fields}) if fields else row
