"""Tools of the Responses API as functions, which is all that a model server is offered.

A custom tool becomes a function with one string, `input`; its grammar is described in words. The tools of a namespace
become functions named `<namespace>__<name>`. Tools that run at OpenAI are refused if the caller relies on them, and
left out with a warning if clients send them with every request.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from app.errors import Violation

_SEPARATOR = "__"
_LEFT_OUT = ("web_search", "tool_search", "image_generation")
"""Types, or the beginnings of types, of tools that clients offer with every request (Codex sends `web_search`)."""
_CHOICES = ("auto", "none", "required")


def join_name(namespace: str | None, name: str) -> str:
    """Return the name of a tool as the model server knows it."""
    return f"{namespace}{_SEPARATOR}{name}" if namespace else name


class OfferedTools(Struct, frozen=True):
    """The functions of a request, and how calls of them are written."""

    functions: list[dict[str, Any]] = []
    """Tool objects of OpenAI's chat completions."""
    paths: list[str] = []
    """The JSON path of each in the caller's request."""
    custom: frozenset[str] = frozenset()
    """The functions that are custom tools."""
    namespaces: dict[str, tuple[str, str]] = {}
    """(namespace, name) by the name of the function."""
    warnings: list[str] = []
    violations: list[Violation] = []


def parse_tools(tools: Sequence[Any], path: str = "tools") -> OfferedTools:
    parser = _ToolParser()
    for number, tool in enumerate(tools):
        parser.add(tool, f"{path}[{number}]", "")
    return OfferedTools(
        parser.functions,
        parser.paths,
        frozenset(parser.custom),
        parser.namespaces,
        parser.warnings,
        parser.violations,
    )


class _ToolParser:
    def __init__(self) -> None:
        self.functions: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.custom: set[str] = set()
        self.namespaces: dict[str, tuple[str, str]] = {}
        self.warnings: list[str] = []
        self.violations: list[Violation] = []
        self._names: set[str] = set()

    def add(self, tool: Any, path: str, namespace: str) -> None:
        if not isinstance(tool, dict):
            self._refuse(path, "must be a tool object with a type")
            return
        match tool.get("type"):
            case "function":
                self._add_function(tool, path, namespace)
            case "custom":
                self._add_custom(tool, path, namespace)
            case "namespace" if not namespace:
                self._add_namespace(tool, path)
            case str(kind) if kind.startswith(_LEFT_OUT):
                text = f"{kind} runs on OpenAI's servers and was not offered to the model"
                self.warnings.append(f"{path}: {text}")
            case None:
                self._refuse(f"{path}.type", "is required")
            case _:
                known = "function, custom and namespace are"
                self._refuse(f"{path}.type", f"is not supported here, because no such tool runs at Parley: {known}")

    def _refuse(self, path: str, message: str) -> None:
        self.violations.append(Violation(path, message))

    def _check_name(self, tool: dict[str, Any], path: str, namespace: str) -> str | None:
        name = tool.get("name")
        if name is None:
            self._refuse(f"{path}.name", "is required")
        elif not isinstance(name, str) or not name.strip():
            self._refuse(f"{path}.name", "must be a string that is not blank")
        elif join_name(namespace, name) in self._names:
            self._refuse(f"{path}.name", f"must be unique: there are two tools named {join_name(namespace, name)!r}")
        elif not isinstance(tool.get("description"), str | None):
            self._refuse(f"{path}.description", "must be a string")
        else:
            return name
        return None

    def _offer(self, path: str, namespace: str, name: str, function: dict[str, Any]) -> str:
        full = join_name(namespace, name)
        self._names.add(full)
        if namespace:
            self.namespaces[full] = (namespace, name)
        self.functions.append({"type": "function", "function": {"name": full, **function}})
        self.paths.append(path)
        return full

    def _add_function(self, tool: dict[str, Any], path: str, namespace: str) -> None:
        name = self._check_name(tool, path, namespace)
        if name is None:
            return
        parameters = tool.get("parameters")
        if not isinstance(parameters, dict | None):
            self._refuse(f"{path}.parameters", "must be a JSON schema")
            return
        function: dict[str, Any] = {}
        if tool.get("description") is not None:
            function["description"] = tool["description"]
        function["parameters"] = parameters if parameters is not None else {"type": "object", "properties": {}}
        if tool.get("strict") is True:
            function["strict"] = True
        self._offer(path, namespace, name, function)

    def _add_custom(self, tool: dict[str, Any], path: str, namespace: str) -> None:
        name = self._check_name(tool, path, namespace)
        if name is None:
            return
        description = [tool["description"]] if tool.get("description") else []
        description += _describe_grammar(tool.get("format"))
        function: dict[str, Any] = {"description": "\n\n".join(description)} if description else {}
        function["parameters"] = {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
            "additionalProperties": False,
        }
        self.custom.add(self._offer(path, namespace, name, function))

    def _add_namespace(self, tool: dict[str, Any], path: str) -> None:
        name = self._check_name(tool, path, "")
        members = tool.get("tools")
        if name is None:
            return
        if not isinstance(members, list):
            self._refuse(f"{path}.tools", "must be a list of tools")
            return
        for number, member in enumerate(members):
            self.add(member, f"{path}.tools[{number}]", name)


def _describe_grammar(format_: Any) -> Iterator[str]:
    if isinstance(format_, dict) and format_.get("type") == "grammar":
        yield f"The input must match this {format_.get('syntax', '')} grammar:\n{format_.get('definition', '')}"


class ToolChoice(Struct, frozen=True):
    value: str | dict[str, Any] | None = None
    """`tool_choice` of OpenAI's chat completions."""
    allowed: frozenset[str] | None = None
    """The only functions that are offered; None: all of them."""
    violations: list[Violation] = []


def parse_tool_choice(choice: Any, tools: OfferedTools) -> ToolChoice:
    names = {function["function"]["name"] for function in tools.functions}
    match choice:
        case None:
            return ToolChoice()
        case "required" if not names:
            return _refuse_choice("tool_choice", "is required, but the request offers no tool that could be called")
        case str() if choice in _CHOICES:
            return ToolChoice(choice if names else None)
        case {"type": "function" | "custom"}:
            found = _find_name(choice, tools, names)
            if found is None:
                return _refuse_choice("tool_choice.name", f"names no tool of this request: {choice.get('name')!r}")
            return ToolChoice({"type": "function", "function": {"name": found}})
        case {"type": "allowed_tools", "tools": list(allowed)}:
            return _parse_allowed(choice.get("mode", "auto"), allowed, tools, names)
        case {"type": "allowed_tools"}:
            return _refuse_choice("tool_choice.tools", "must be a list of tools")
        case {"type": kind}:
            text = f"is not supported here: {kind!r} is not function, custom or allowed_tools"
            return _refuse_choice("tool_choice.type", text)
        case _:
            return _refuse_choice("tool_choice", "must be auto, none, required or an object with a type")


def _refuse_choice(path: str, message: str) -> ToolChoice:
    return ToolChoice(violations=[Violation(path, message)])


def _find_name(tool: Any, tools: OfferedTools, names: set[str]) -> str | None:
    """Return the function that a choice names; inside a namespace it may be named with or without it."""
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str):
        return None
    namespace = tool.get("namespace")
    full = join_name(namespace if isinstance(namespace, str) else None, name)
    if full in names:
        return full
    return next((known for known, (_, inner) in tools.namespaces.items() if inner == name), None)


def _parse_allowed(mode: Any, allowed: list[Any], tools: OfferedTools, names: set[str]) -> ToolChoice:
    if mode not in ("auto", "required"):
        return _refuse_choice("tool_choice.mode", "must be auto or required")
    found = [_find_name(tool, tools, names) for tool in allowed]
    violations = [
        Violation(f"tool_choice.tools[{number}].name", "names no tool of this request")
        for number, (tool, name) in enumerate(zip(allowed, found, strict=True))
        if name is None and not _is_left_out(tool)
    ]
    kept = frozenset(name for name in found if name is not None)
    if not kept and not violations:
        violations = [Violation("tool_choice.tools", "names no tool that this request can offer to the model")]
    return ToolChoice(mode, kept, violations)


def _is_left_out(tool: Any) -> bool:
    kind = tool.get("type") if isinstance(tool, dict) else None
    return isinstance(kind, str) and kind.startswith(_LEFT_OUT)


class _CustomInput(Struct, frozen=True):
    input: str


def unwrap_input(arguments: str) -> str:
    """Return the one string of a custom tool's arguments; the arguments as they are if they have another form."""
    try:
        found = msgspec.json.decode(arguments, type=_CustomInput)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return arguments
    return found.input
