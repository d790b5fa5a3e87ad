"""`[guards.<name>]` and `[masking]`: what looks at requests and replies, and how values are masked."""

import re
from collections.abc import Mapping
from functools import cached_property
from ipaddress import ip_address
from typing import Annotated, Any, Literal

import httpx
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from app.access.addresses import is_loopback
from app.config.secret_rules import read_secret_rules
from app.config.tables.base import NO_PROXY, HeaderName, Names, ProxyUrl, Seconds, Secret, Table, http_url, split_list
from app.guards.expressions import find_slow_part
from app.guards.rules import DETECTOR_NAMES, SECRETS, Action, GuardRule, MaskingRule, Scope, SecretRule, ServiceName
from app.guards.verdicts import Phase
from app.upstream.http.options import ConnectionOptions, parse_proxy

MAX_GUARDS = 16
NEVER_FORWARDED = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})
"""Headers with credentials, which no guard gets."""
_OF_URLS = (
    *("api", "context", "on_failure", "timeout_seconds", "params", "headers", "forward_headers", "images"),
    *("tools", "sees", "max_bytes", "max_concurrent", "remember_seconds", "proxy", "ca_file", "client_certificate"),
)
_SENDS_MORE: tuple[ServiceName, ...] = ("litellm", "parley")
"""The forms that have a place for images and for definitions of tools."""
Word = Annotated[str, Field(pattern=r"^[a-z][a-z_]{1,15}$")]


def _guard_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", value):
        raise ValueError("must be 1 to 32 letters, digits, _ and -: refusals name it")
    return value


GuardName = Annotated[str, AfterValidator(_guard_name)]


def _forwarded(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name.lower() in NEVER_FORWARDED:
            raise ValueError(f"{name} is a credential of the caller, which no guard gets: remove it")
    return tuple([name.lower() for name in names])


class Guard(Table):
    """One guard: with `detectors` it is built in, with a `url` it is a service."""

    detectors: Names = ()
    action: Action | None = None
    url: Annotated[str, AfterValidator(http_url)] | None = None
    api: ServiceName = "parley"
    phases: Annotated[tuple[Phase, ...], BeforeValidator(split_list)] = Field(
        default=("request", "reply"), min_length=1
    )
    stream: Literal["block", "window"] = "block"
    reasoning: Literal["check", "withhold", "skip"] = "check"
    context: Literal["new", "all"] = "new"
    mode: Literal["enforce", "observe"] = "enforce"
    on_failure: Literal["refuse", "pass"] = "refuse"
    on_result: Literal["withhold", "refuse"] = "withhold"
    timeout_seconds: Seconds = 5.0
    params: dict[str, Any] = Field(default_factory=dict)
    headers: dict[HeaderName, Secret] = Field(default_factory=dict)
    forward_headers: Annotated[tuple[HeaderName, ...], BeforeValidator(split_list), AfterValidator(_forwarded)] = ()
    images: bool = False
    tools: bool = False
    sees: Literal["masked", "original"] = "masked"
    window_characters: int = Field(default=400, ge=20, le=16384)
    overlap_characters: int = Field(default=100, ge=0, le=16384)
    max_bytes: int = Field(default=8 * 1024 * 1024, ge=1024, le=256 * 1024 * 1024)
    max_concurrent: int = Field(default=64, ge=1, le=4096)
    remember_seconds: float = Field(default=3600.0, ge=0, le=31_536_000, allow_inf_nan=False)
    keys: Names = ("*",)
    models: Names = ("*",)
    proxy: ProxyUrl | None = None
    ca_file: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "Guard":
        if bool(self.detectors) == (self.url is not None):
            raise ValueError("must have exactly one of `detectors` and `url`")
        self._check_fields()
        if self.window_characters <= self.overlap_characters:
            raise ValueError("`window_characters` must be more than `overlap_characters`")
        return self

    def _check_fields(self) -> None:
        given = self.model_fields_set
        if self.url is None:
            for name in _OF_URLS:
                if name in given:
                    raise ValueError(f"`{name}` is only for a guard with a `url`")
        elif self.action is not None and self.api != "presidio":
            raise ValueError("`action` is only for a guard with `detectors`, or with the api presidio")
        if self.api == "presidio" and self.url is not None:
            if "phases" in given and "reply" in self.phases:
                raise ValueError('the api presidio finds values in requests only: set phases = ["request"]')
            if self.context == "all":
                raise ValueError("the api presidio finds values in each text by itself: remove `context`")
        if self.api == "moderation" and not _are_thresholds(self.params.get("thresholds", {})):
            raise ValueError("`params.thresholds` must be a table of categories with numbers")
        for name in ("images", "tools"):
            if name in given and getattr(self, name) and self.api not in _SENDS_MORE:
                raise ValueError(f"`{name}` is only for the apis {' and '.join(_SENDS_MORE)}: others get texts")
        if self.sees == "original" and self.url is not None and not _is_private(self.url):
            raise ValueError("`sees` is original, but the URL is of another network and has no TLS: use https")

    def make_rule(self, name: str) -> GuardRule:
        presidio = self.url is not None and self.api == "presidio"
        return GuardRule(
            name,
            detectors=self.detectors,
            action="observe" if self.mode == "observe" and self.detectors else self.action or "mask",
            url=self.url or "",
            api=self.api,
            phases=("request",) if presidio else self.phases,
            stream=self.stream,
            reasoning=self.reasoning,
            context=self.context,
            observes=self.mode == "observe" or (presidio and self.action == "observe"),
            passes_on_failure=self.on_failure == "pass",
            refuses_results=self.on_result == "refuse",
            timeout_seconds=self.timeout_seconds,
            params=self.params,
            headers=tuple([(key.encode(), value.get_secret_value().encode()) for key, value in self.headers.items()]),
            forward_headers=self.forward_headers,
            sends_images=self.images,
            sends_tools=self.tools,
            sees_original=self.sees == "original",
            window_characters=self.window_characters,
            overlap_characters=self.overlap_characters,
            max_bytes=self.max_bytes,
            max_concurrent=self.max_concurrent,
            remember_seconds=self.remember_seconds,
            keys=self.keys,
            models=self.models,
            connections=self._connections(),
        )

    def _connections(self) -> ConnectionOptions:
        proxy = self.proxy.get_secret_value() if self.proxy else NO_PROXY
        return ConnectionOptions(
            None if proxy == NO_PROXY else parse_proxy(proxy), self.ca_file, self.client_certificate, self.client_key
        )


def _are_thresholds(value: Any) -> bool:
    return isinstance(value, dict) and all(type(limit) in (int, float) for limit in value.values())


def _is_private(url: str) -> bool:
    """Whether texts that are sent to a URL cannot be read on the way from one network to another."""
    parsed = httpx.URL(url)
    if parsed.scheme == "https" or is_loopback(parsed.host):
        return True
    try:
        return ip_address(parsed.host).is_private
    except ValueError:
        return "." not in parsed.host  # a name of a container, or of the same network


def _masking_key(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", value.get_secret_value()):
        raise ValueError("must be 64 hex digits, such as `openssl rand -hex 32` prints")
    return value


def _pattern(value: str) -> str:
    try:
        matches_nothing = re.compile(value).match("") is not None
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    if matches_nothing:
        raise ValueError("matches the empty text")
    problem = find_slow_part(value)
    if problem is not None:
        raise ValueError(f"has {problem}: a text could make its search take very long")
    return value


class MaskingSettings(Table):
    key: Annotated[SecretStr, AfterValidator(_masking_key)] | None = None
    scope: Scope = "caller"
    restore: Annotated[tuple[Literal["text", "reasoning", "arguments"], ...], BeforeValidator(split_list)] = (
        "text",
        "reasoning",
        "arguments",
    )
    notice: bool = True
    ignore: Names = ("*@users.noreply.github.com",)
    patterns: dict[Word, Annotated[str, AfterValidator(_pattern)]] = Field(default_factory=dict)
    rules_file: str | None = None

    @cached_property
    def secret_rules(self) -> tuple[tuple[SecretRule, ...], list[str]]:
        """The rules of `rules_file`, and what is wrong with it. The file is read once, so that all that these settings
        are for search by the same rules."""
        return ((), []) if self.rules_file is None else read_secret_rules(self.rules_file)

    def make_rule(self, key: bytes) -> MaskingRule:
        """`key` is for settings that have none."""
        given = bytes.fromhex(self.key.get_secret_value()) if self.key is not None else key
        rules = self.secret_rules[0]
        return MaskingRule(given, self.scope, self.restore, self.notice, self.ignore, self.patterns, rules)


def find_guard_mistakes(guards: Mapping[str, Guard], masking: MaskingSettings) -> list[str]:
    """Return what is wrong between guards and masking, each with its path."""
    mistakes = [
        f"guards.{name}.detectors: there is no detector or pattern {detector!r}; there are "
        + ", ".join([*DETECTOR_NAMES, *masking.patterns])
        for name, row in guards.items()
        for detector in row.detectors
        if detector not in DETECTOR_NAMES and detector not in masking.patterns
    ]
    if len(guards) > MAX_GUARDS:
        mistakes.append(f"guards: there are {len(guards)}; at most {MAX_GUARDS} are allowed")
    mistakes += [
        f"masking.patterns.{name}: is the name of a detector" for name in masking.patterns if name in DETECTOR_NAMES
    ]
    return mistakes


def find_guard_warnings(guards: Mapping[str, Guard], masking: MaskingSettings) -> list[str]:
    out = [
        f"guards.{name}.on_failure is pass: while the guard fails, requests and replies go on without it"
        for name, row in guards.items()
        if row.on_failure == "pass"
    ]
    out += [
        f"guards.{name} only observes: it refuses and changes nothing"
        for name, row in guards.items()
        if row.mode == "observe" or row.action == "observe"
    ]
    if masking.rules_file is not None and not any(SECRETS in row.detectors for row in guards.values()):
        out.append(f"masking.rules_file is not used: no guard has the detector {SECRETS}")
    return out
