"""`[models.<name>]`: a model that clients can name, the upstreams that serve it and how it is asked."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from app.chat.messages import MediaKind
from app.config.tables.base import HeaderName, Names, Seconds, Table, split_list
from app.config.tables.limits import LimitSettings
from app.config.tables.prices import ModelPrice
from app.endpoints.kinds import CHAT, ModelEndpoint
from app.params import GenerateCfg, RagConfig
from app.routing.rules import Conditions, FormatWord
from app.routing.strategies import Strategy
from app.validation.wildcards import WILDCARD


def upstream_rows(value: Any) -> Any:
    """Return the upstreams of a model as tables: each may also be a name."""
    return _name_rows(value, "name")


def _tool_rows(value: Any) -> Any:
    """Return the tools of a model as tables: each may also be the name of a server."""
    return _name_rows(value, "mcp")


def _name_rows(value: Any, key: str) -> Any:
    """Replace each name in a list by a table that has it under this key."""
    value = split_list(value)
    if not isinstance(value, list | tuple):
        return value
    return [{key: row} if isinstance(row, str) else row for row in value]


class ModelUpstream(Table):
    """One upstream of a model; in the file, its name or a table."""

    name: str
    weight: float = Field(default=1.0, gt=0, le=1000, allow_inf_nan=False)
    priority: int = Field(default=1, ge=1, le=100)


class ModelTools(Table):
    """Tools that a model offers with every request; in the file, the name of their server or a table."""

    mcp: str
    tools: Names | None = None
    """None: all tools of the server."""


def _wrap_text(value: Any) -> Any:
    """Return a list of one text. A comma is a part of it: names of programs have some."""
    return (value,) if isinstance(value, str) else value


Patterns = Annotated[tuple[str, ...], BeforeValidator(_wrap_text), Field(min_length=1)]


class RuleConditions(Table):
    """What must hold of a request, all together; each pattern may be a text or a list of which one must fit."""

    tokens_above: int | None = Field(default=None, ge=0)
    media: Annotated[tuple[MediaKind, ...], BeforeValidator(_wrap_text), Field(min_length=1)] | None = None
    thinking: bool | None = None
    tool: Patterns | None = None
    model: Patterns | None = None
    header: dict[HeaderName, Patterns] = Field(default_factory=dict)
    user_agent: Patterns | None = None
    key: Patterns | None = None
    team: Patterns | None = None
    format: Annotated[tuple[FormatWord, ...], BeforeValidator(_wrap_text), Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if not self.header and all(
            getattr(self, name) is None for name in RuleConditions.model_fields if name != "header"
        ):
            raise ValueError("has no condition; the model for all other requests is `use` of the virtual model")
        return self

    def to_conditions(self) -> Conditions:
        given = {name: getattr(self, name) for name in self.model_fields_set if getattr(self, name) is not None}
        return Conditions(**{**given, "header": {name.lower(): patterns for name, patterns in self.header.items()}})


class RouteRule(Table):
    when: RuleConditions
    use: str


class Model(Table):
    upstreams: Annotated[tuple[ModelUpstream, ...], BeforeValidator(upstream_rows)] = ()
    """None for a virtual model; `references` finds other models without any."""
    use: str | None = None
    """The model that answers for this one, which is virtual, unless a rule names another one."""
    rules: tuple[RouteRule, ...] = ()
    route_seconds: Seconds = 3600.0
    strategy: Strategy | None = None
    """Without it, `session` where a server caches prefixes, else `least_busy`."""
    name: str | None = None
    display_name: str | None = Field(default=None, min_length=1, max_length=200)
    """How agents show the model. Without it, its name."""
    description: str | None = Field(default=None, max_length=1000)
    context_window: int | None = Field(default=None, ge=1, le=1_000_000_000)
    """The tokens of a conversation and its reply together. Without it, what the model's servers list; of a virtual
    model, the window of its default model."""
    describe_media_with: str | None = Field(default=None, min_length=1)
    """The model that puts media into words which this one does not take."""
    aliases: tuple[str, ...] = ()
    defaults: GenerateCfg = GenerateCfg()
    max_retries: int = Field(default=0, ge=0, le=10)
    deadline_seconds: Seconds | None = None
    endpoints: Annotated[tuple[ModelEndpoint, ...], BeforeValidator(split_list)] = Field(default=(CHAT,), min_length=1)
    """What the model serves."""
    vector_space: str | None = Field(default=None, min_length=1)
    """Models with the same one make vectors that can be compared; without it, the name of the model."""
    fallbacks: Names = ()
    fallbacks_on_context_length: Names = ()
    fallbacks_on_content_filter: Names = ()
    hedge: bool = False
    hedge_after_seconds: Seconds | None = None
    cache: bool = True
    cache_ttl_seconds: Seconds | None = None
    price: ModelPrice | None = None
    rag_cfg: RagConfig | None = None
    tools: Annotated[tuple[ModelTools, ...], BeforeValidator(_tool_rows)] = ()
    limits: LimitSettings = LimitSettings()
    profile: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_pattern(self) -> bool:
        """Whether its name at its upstreams depends on the alias that a request names, so that it has none itself."""
        return WILDCARD in (self.name or "")
