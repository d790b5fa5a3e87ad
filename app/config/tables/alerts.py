"""`[alerts.<name>]`: a webhook to which alerts are sent."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from app.alerts.bodies import AlertApi
from app.config.tables.base import NO_PROXY, HeaderName, Names, ProxyUrl, Seconds, Secret, Table, exact_url, split_list
from app.upstream.http.options import ConnectionOptions, parse_proxy


def _secret_url(value: SecretStr) -> SecretStr:
    exact_url(value.get_secret_value())
    return value


Percent = Annotated[int, Field(ge=1, le=1000)]


class AlertReceiver(Table):
    url: Annotated[SecretStr, AfterValidator(_secret_url)]
    """Anyone who knows it can send messages, so it is a secret."""
    api: AlertApi = "alertmanager"
    events: Names = ("*",)
    budget_percent: Annotated[tuple[Percent, ...], BeforeValidator(split_list)] = (80, 100)
    repeat_seconds: Seconds = 14_400.0
    headers: dict[HeaderName, Secret] = Field(default_factory=dict)
    external_url: str | None = None
    proxy: ProxyUrl | None = None
    """Without it, `load` sets what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say."""
    ca_file: str | None = None

    @property
    def connections(self) -> ConnectionOptions:
        proxy = self.proxy.get_secret_value() if self.proxy else NO_PROXY
        return ConnectionOptions(None if proxy == NO_PROXY else parse_proxy(proxy), self.ca_file)
