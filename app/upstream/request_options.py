"""What the writers of options for the APIs of Messages, Responses and Gemini share: which parameters a request has,
which of its functions are sent, and what is said of what is not."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from app.chat.messages import ChatRequest
from app.errors import Violation
from app.params import SERVER_PARAMS
from app.profiles import Profile
from app.upstream.api import WriteTool, merge_extra
from app.validation.violations import json_path

NO_PARAMETER = "this model's server has no such parameter"


class WrittenOptions(Struct, frozen=True):
    """What a request asks for, without its conversation."""

    body: dict[str, Any]
    warnings: list[str]
    violations: list[Violation]


class OptionsWriter:
    """Writes the options of one request, and collects warnings and violations."""

    reserved: tuple[str, ...] = ()
    """Fields that `extra_body` cannot have."""

    def __init__(self, request: ChatRequest, profile: Profile, write: WriteTool) -> None:
        """`write` writes a tool."""
        self._request = request
        self._profile = profile
        self._write = write
        self._params = request.params
        self._paths = request.paths
        self.body: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.violations: list[Violation] = []

    def _warn_unsent(self, name: str, why: str = NO_PARAMETER) -> None:
        self.warnings.append(f"{self._paths.param(name)} was not sent: {why}")

    def _refuse(self, path: str, why: str) -> None:
        self.violations.append(Violation(path, why))

    def _first_given(self, *names: str) -> tuple[str, Any]:
        """Return the first of these parameters that has a value, with the value."""
        found = ((name, value) for name in names if (value := self._params.get(name)) is not None)
        return next(found, (names[0], None))

    @property
    def _extra_body(self) -> Mapping[str, Any]:
        extra: Mapping[str, Any] = self._params.get("extra_body") or {}
        return extra

    def _read_choice(self) -> tuple[str, Any] | None:
        """Return the parameter that chooses a function, with its value; None if no functions are sent."""
        name, choice = self._first_given("function_choice", "tool_choice")
        if not self._request.tools:
            if choice not in (None, "auto", "none"):
                self._refuse(self._paths.param(name), "needs functions to choose from, but the request has none")
            return None
        return None if choice == "none" and not self._profile.tool_choice_none else (name, choice)

    def _is_offered(self, param: str, function: str) -> bool:
        """Whether the request has the function that this parameter names. If not, that is a violation."""
        names = {tool.name for tool in self._request.tools}
        if function in names:
            return True
        text = f"must be auto, none, required or one of the functions ({', '.join(sorted(names))}), not {function!r}"
        self._refuse(self._paths.param(param), text)
        return False

    def _write_only(self, function: str) -> list[Any]:
        """Return the tools of a request that must call this function: without another one the model calls it."""
        return [self._write(tool) for tool in self._request.tools if tool.name == function]

    def _lacks(self, name: str) -> bool:
        """Whether the API has no such field, which other servers have."""
        return name in SERVER_PARAMS

    def _add_extra_body(self) -> None:
        extra = self._extra_body
        for name in sorted(extra):
            path, value = json_path([name], self._paths.extra_body), extra[name]
            if name in self.reserved:
                self._refuse(path, "is set by the gateway: leave it out of extra_body")
            elif self._profile.extra_fields is not None and name not in self._profile.extra_fields:
                self._refuse(path, "is not a field that this model's server accepts")
            elif self._lacks(name):
                if value is not None and (name, value) != ("store", False):  # nothing is stored
                    self.warnings.append(f"{path} was not sent: {NO_PARAMETER}")
            else:
                self.body[name] = merge_extra(name, self.body.get(name), value)


def find_chosen_function(choice: Any) -> str | None:
    """Return the function that must be called; None for `auto`, `none` and `required`. The object form can name a
    function called `auto`."""
    if isinstance(choice, dict):
        function = choice.get("function")
        return str(function.get("name")) if isinstance(function, dict) else ""
    return None if choice in ("auto", "none", "required") else str(choice)
