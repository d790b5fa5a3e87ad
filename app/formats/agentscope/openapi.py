"""Errors of both versions of AgentScope."""

from typing import Literal

from app.formats.openapi import Described, ErrorDetail


class AgentScopeErrorDetail(ErrorDetail):
    type: str
    """The kind of the error."""


class AgentScopeErrorBody(Described):
    """An error in the form of AgentScope (formats `agentscope` and `agentscope2`); in version 1 also a frame."""

    error: AgentScopeErrorDetail
    last: Literal[True] | None = None
    """Only in version 1: nothing follows."""
