"""`context_management` of Anthropic's Messages: what a request asks for, and what was done, in the API's own words.

The defaults are the API's (platform.claude.com/docs/en/build-with-claude/context-editing).
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.chat.context_edits import AppliedEdit, ClearThinking, ClearToolUses, Compact, ContextEdit
from app.errors import Violation
from app.validation.violations import find_unknown_keys, to_violations

_STRICT = ConfigDict(extra="allow", strict=True)
_FIELD = "context_management"
Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Amount(BaseModel):
    model_config = _STRICT

    type: Literal["input_tokens", "tool_uses"]
    value: Count


class _Tokens(BaseModel):
    model_config = _STRICT

    type: Literal["input_tokens"]
    value: Count


class _ToolUses(BaseModel):
    model_config = _STRICT

    type: Literal["tool_uses"]
    value: Count


class _Turns(BaseModel):
    model_config = _STRICT

    type: Literal["thinking_turns"]
    value: Annotated[int, Field(ge=1, lt=2**63)]


class _All(BaseModel):
    model_config = _STRICT

    type: Literal["all"]


class _ClearToolUses(BaseModel):
    model_config = _STRICT

    type: Literal["clear_tool_uses_20250919"]
    trigger: _Amount | None = None
    keep: _ToolUses | None = None
    clear_at_least: _Tokens | None = None
    exclude_tools: list[str] | None = None
    clear_tool_inputs: bool | list[str] | None = None

    def read(self, path: str) -> ClearToolUses:
        default, inputs = ClearToolUses(), self.clear_tool_inputs
        return ClearToolUses(
            default.trigger if self.trigger is None else self.trigger.type,
            default.above if self.trigger is None else self.trigger.value,
            default.keep if self.keep is None else self.keep.value,
            default.at_least if self.clear_at_least is None else self.clear_at_least.value,
            frozenset(self.exclude_tools or ()),
            frozenset(inputs) if isinstance(inputs, list) else inputs is True,
            path,
        )


class _ClearThinking(BaseModel):
    model_config = _STRICT

    type: Literal["clear_thinking_20251015"]
    keep: Literal["all"] | _All | _Turns | None = None

    def read(self, path: str) -> ClearThinking:
        match self.keep:
            case None:
                return ClearThinking()
            case _Turns():
                return ClearThinking(self.keep.value)
            case _:
                return ClearThinking(None)


class _MinTokens(BaseModel):
    model_config = _STRICT

    type: Literal["input_tokens"]
    value: Annotated[int, Field(ge=1000, lt=2**63)]


class _Compact(BaseModel):
    model_config = _STRICT

    type: Literal["compact_20260112"]
    trigger: _MinTokens | None = None
    instructions: str | None = None
    pause_after_compaction: bool | None = None

    def read(self, path: str) -> Compact:
        above = Compact().above if self.trigger is None else self.trigger.value
        return Compact(above, self.instructions or None, self.pause_after_compaction is True, path)


_EDITS: dict[str, type[_ClearToolUses] | type[_ClearThinking] | type[_Compact]] = {
    "compact_20260112": _Compact,
    "clear_tool_uses_20250919": _ClearToolUses,
    "clear_thinking_20251015": _ClearThinking,
}
_NAMES = {
    "tool_uses": ("clear_tool_uses_20250919", "cleared_tool_uses"),
    "thinking": ("clear_thinking_20251015", "cleared_thinking_turns"),
}


class ReadEdits(Struct, frozen=True):
    edits: tuple[ContextEdit, ...] | None = None
    """None: the request does not ask for any."""
    violations: tuple[Violation, ...] = ()
    warnings: tuple[str, ...] = ()


def read_edits(management: Any) -> ReadEdits:
    """Read the field of a request. Edits of unknown types are left out with a warning: new ones appear."""
    if management is None:
        return ReadEdits()
    if not isinstance(management, dict):
        return ReadEdits(violations=(Violation(_FIELD, "must be an object"),))
    given = management.get("edits")
    if not isinstance(given, list | None):
        return ReadEdits(violations=(Violation(f"{_FIELD}.edits", "must be a list"),))
    edits: list[ContextEdit] = []
    violations: list[Violation] = []
    warnings: list[str] = []
    seen: set[str] = set()
    for place, value in enumerate(given or ()):
        path = f"{_FIELD}.edits[{place}]"
        word: Any = value.get("type") if isinstance(value, dict) else None
        if not isinstance(word, str):
            violations.append(Violation(f"{path}.type" if isinstance(value, dict) else path, _describe(value)))
        elif word in seen:
            violations.append(Violation(f"{path}.type", f"there is an edit of the type {word} already"))
        elif word not in _EDITS:
            warnings.append(f"{path} was ignored: the type is not known here")
        else:
            seen.add(word)
            schema = _EDITS[word]
            try:
                read = schema.model_validate(value)
            except ValidationError as error:
                violations += to_violations(error, value, path, schema)
                continue
            edits.append(read.read(path))
            warnings += (f"{one} is not known here and was ignored" for one in find_unknown_keys(read, path))
    return ReadEdits(tuple(edits), tuple(violations), tuple(warnings))


def _describe(value: Any) -> str:
    return "is required: the type of the edit" if isinstance(value, dict) else "must be an object"


def write_applied(applied: Sequence[AppliedEdit]) -> dict[str, Any]:
    """Write what was done, as it stands beside the usage."""
    edits = []
    for one in applied:
        name, counted = _NAMES[one.kind]
        edits.append({"type": name, counted: one.count, "cleared_input_tokens": one.tokens})
    return {"applied_edits": edits}
