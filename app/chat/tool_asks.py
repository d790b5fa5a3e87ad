"""Tools that the gateway runs: those that a request asks for, and their names."""

import hashlib
import re

from msgspec import Struct

from app.chat.hosted_tools import HostedAsks

MAX_NAME_CHARS = 64
"""The longest name of a function that all model servers take."""
_HASHED_CHARS = 57
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def make_tool_name(server: str, tool: str) -> str:
    """Return the name under which a model knows the tool. It depends on nothing else, so that a history means the same
    whatever is configured."""
    plain = f"{server}-{tool}"
    name = _NOT_IN_NAMES.sub("_", plain)
    if name == plain and len(name) <= MAX_NAME_CHARS:
        return name
    digest = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[:_HASHED_CHARS]}_{digest[:6]}"


class ToolFilter(Struct, frozen=True):
    """Some tools of a server: those that pass each test."""

    names: tuple[str, ...] | None = None
    """Only these; None: all."""
    excluded: tuple[str, ...] = ()
    read_only: bool | None = None
    """Only those whose server says that they change nothing (True), or that do not say so (False)."""

    def accepts(self, tool: str, *, read_only: bool) -> bool:
        if self.names is not None and tool not in self.names:
            return False
        return tool not in self.excluded and self.read_only in (None, read_only)


ALL_TOOLS = ToolFilter()
NO_TOOLS = ToolFilter(names=())


class ApprovalRule(Struct, frozen=True):
    """Which calls the caller wants to approve before they are run. The operator's rule is the least."""

    always: ToolFilter = NO_TOOLS
    never: ToolFilter = NO_TOOLS
    others: bool | None = None
    """Whether the calls that neither names need approval; None: as the operator says."""

    def asks(self, tool: str, *, read_only: bool) -> bool | None:
        """Return whether a call needs approval; None if the rule does not say."""
        if self.always.accepts(tool, read_only=read_only):
            return True
        return False if self.never.accepts(tool, read_only=read_only) else self.others


class ServerAsk(Struct, frozen=True):
    """One server of tools that a request names."""

    server: str
    """Its configured name."""
    tools: ToolFilter = ALL_TOOLS
    approval: ApprovalRule | None = None
    """None: the operator's."""
    path: str = ""
    """The JSON path in the request, for errors."""
    url: str | None = None
    """The address that the caller gave, which must be the configured one."""
    url_path: str = ""
    name_paths: tuple[str, ...] = ()
    """The JSON paths of `tools.names`. A tool that the server does not have is refused there; without paths, it is
    missing with a warning."""
    approval_path: str = ""
    """The JSON path of `approval`, where less than the operator's rule is refused."""


class ToolApproval(Struct, frozen=True):
    """The caller's answer to a call that waits for approval."""

    id: str
    """The id of the call."""
    approve: bool
    reason: str | None = None
    path: str = ""
    """The JSON path of the id in the request, for errors."""


class ServerTools(Struct, frozen=True):
    """What a request says of tools that the gateway runs."""

    asks: tuple[ServerAsk, ...] = ()
    approvals: tuple[ToolApproval, ...] = ()
    max_calls: int | None = None
    """Further calls are answered with an error and not run."""
    function_paths: tuple[str, ...] = ()
    """The JSON paths of the caller's own functions (`ChatRequest.tools`), for errors."""
    hosted: HostedAsks | None = None
    """Searches and fetches of the web, which the gateway runs if they are configured; None if the request offers
    none."""
