"""The body of `POST /v1/upstreams/check`."""

from pydantic import BaseModel, ConfigDict, Field


class UpstreamCheck(BaseModel):
    """The model server to be asked."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    base_url: str = Field(max_length=2000)
    """Where it serves OpenAI's API, mostly with `/v1` at the end."""
    api_key: str | None = Field(default=None, max_length=4000)
