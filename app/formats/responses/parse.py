"""Parses the items of OpenAI's Responses API.

Everything that the assistant said between two items of others is one turn: its reasoning, texts and calls. Calls of the
shell, of patches and of a search for tools, which clients run, are ordinary calls. Items with tools and settings are no
part of the conversation: `POST /v1/responses` reads them, and elsewhere they have no effect.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace
from pydantic import TypeAdapter, ValidationError

from app.chat import datauri
from app.chat.messages import UNREAD, Media, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult
from app.chat.tool_asks import ToolApproval, make_tool_name
from app.chat.turns import Turn
from app.errors import Violation
from app.formats.base import ParsedMessages, make_summary
from app.formats.entry_schemas import EntrySchema, validate_rest
from app.formats.media_urls import is_remote
from app.formats.request_memory import NOTHING_KNOWN, keep, resume
from app.formats.responses import schema as wire
from app.formats.responses.plain import PLAIN_ITEMS, PlainCall, PlainMessage, PlainOutput, PlainReasoning, PlainText
from app.formats.responses.tools import CALL_PREFIX, REQUEST_PREFIX, SEARCH_NAME, join_name
from app.formats.seal import Seal, SealedResult, read_seal
from app.validation.violations import find_unknown_keys, to_violations

_schema = EntrySchema(TypeAdapter(wire.ResponsesItems), TypeAdapter(wire.Item), "type", PLAIN_ITEMS)
_ROLES: dict[str, Role] = {"developer": "system"}
FORMAT = "openai-responses-v1"
"""The `format` of details that belong to this API, in OpenRouter's shape."""


def parse_items(lists: Mapping[str, list[Any]], *, settings_are_read: bool = False) -> ParsedMessages:
    """Parse the items of one conversation, from the lists at these JSON paths. `settings_are_read`: the caller of this
    function reads the tools and settings that items have, so that no warning says that they have no effect."""
    parser = _ItemParser(settings_are_read)
    violations: list[Violation] = []
    for path, items in lists.items():
        # Items before this list are part of what is found in it.
        what = (parse_items, settings_are_read)
        known, before, places = resume(items, what) if len(lists) == 1 else NOTHING_KNOWN
        try:
            parsed = validate_rest(items, known, _schema)
        except ValidationError as error:
            violations += to_violations(error, items, path, wire.ResponsesItems)
            continue
        if before is not None:
            parser = before.copy()
        for number, item in enumerate(parsed, known):
            parser.add(f"{path}[{number}]", item)
            if number + 1 in places and not parser.violations:
                keep(items, number + 1, what, parser.copy())
    violations += parser.violations
    if violations:
        return ParsedMessages((), violations)
    return ParsedMessages(parser.finish(), (), parser.warnings, parser.approvals, has_waiting=parser.has_waiting)


def _warn_of_unknown_keys(item: Any, path: str) -> list[str]:
    return [f"{place} is not a field of this item and was ignored" for place in find_unknown_keys(item, path)]


class _ItemParser:
    def __init__(self, settings_are_read: bool) -> None:
        self.warnings: list[str] = []
        self.violations: list[Violation] = []
        self._settings_are_read = settings_are_read
        self._messages: list[Message] = []
        self._turn: list[Message] = []
        """What the assistant said since the last item of others; each text item begins a message."""
        self._signatures: dict[str, Any] = {}
        """`extra_content` of calls, by their ids, that clients return in sealed reasoning."""
        self._local_shell_calls: dict[str, str] = {}
        """The `call_id` of such calls by the ids of their items, which outputs may name instead."""
        self._open_calls: dict[str, int] = {}
        """How many calls of each `call_id` have no result yet: several calls may have the same id."""
        self._results: dict[str, int] = {}
        """The places of the results in the messages, by `call_id`."""
        self._held_results: list[tuple[str, ToolResult]] = []
        """The results of the turn's calls of servers' tools, each with its path: all calls of a turn come first."""
        self._searches: list[tuple[str, wire.HostedItem | wire.McpCallItem]] = []
        """The searches of a turn whose results may be in a seal behind them, with calls of servers' tools between."""
        self._approval_requests: dict[str, str] = {}
        """The ids of calls by those of the items that ask to approve them."""
        self._approvals: dict[str, ToolApproval] = {}
        """The answers to these items that no result has followed, by the ids of the items."""

    def finish(self) -> tuple[Message, ...]:
        self._leave_out_searches()
        self._close()
        return tuple(self._messages)

    @property
    def has_waiting(self) -> bool:
        return bool(self._approval_requests)

    @property
    def approvals(self) -> tuple[ToolApproval, ...]:
        """The answers to calls that wait for approval."""
        return tuple(self._approvals.values())

    def copy(self) -> "_ItemParser":
        """Return another parser that goes on from here. There are no violations."""
        copied = _ItemParser(self._settings_are_read)
        copied.warnings, copied._messages, copied._turn = self.warnings.copy(), self._messages.copy(), self._turn.copy()
        copied._signatures, copied._local_shell_calls = self._signatures.copy(), self._local_shell_calls.copy()
        copied._open_calls, copied._results = self._open_calls.copy(), self._results.copy()
        copied._held_results, copied._searches = self._held_results.copy(), self._searches.copy()
        copied._approval_requests, copied._approvals = self._approval_requests.copy(), self._approvals.copy()
        return copied

    def add(self, path: str, item: Any) -> None:
        kind = type(item)
        if self._searches and kind not in _AMONG_SEARCHES:
            self._leave_out_searches()
        if kind not in _WITHOUT_WARNINGS:
            self.warnings += _warn_of_unknown_keys(item, path)
        _ADD[kind](self, path, item)

    def _add_message(self, path: str, item: wire.MessageItem | PlainMessage) -> None:
        if item.role == "assistant":
            self._add_text(path, item)
        else:
            self._add_others(path, item)

    def _add_setting(self, path: str, item: Any) -> None:
        self._warn_of_settings(path, item.type)

    def _add_hosted(self, path: str, item: wire.HostedItem) -> None:
        if item.type == "web_search_call":
            result, ends_turn = _read_own_result(item)
            if result is None:
                self._searches.append((path, item))
                return
            self._add_sealed_search(path, result)
            if ends_turn:
                self._close()
            return
        self._leave_out_searches()
        self._add_provider_item(path, item)

    def _leave_out_searches(self) -> None:
        """Add searches of which no results have come: what they brought is known to a provider only."""
        held, self._searches = self._searches, []
        for path, item in held:
            if isinstance(item, wire.McpCallItem):
                self._add_server_call(path, item)
            else:
                self._add_provider_item(path, item)

    def _add_results(self, seal: Seal) -> None:
        """Add the searches of a turn with the results in the seal behind them."""
        held, self._searches = self._searches, []
        for path, item in held:
            result = seal.results.get(str(getattr(item, "id", None)))
            if isinstance(item, wire.McpCallItem):
                self._add_server_call(path, item)
            elif result is None:
                self._add_provider_item(path, item)
            else:
                self._add_sealed_search(path, result)
        if seal.ends_turn:
            self._close()

    def _add_sealed_search(self, path: str, result: SealedResult) -> None:
        self._add_call(path, result.name, result.arguments, result.call_id)
        content = (Text(result.text),) if result.text else ()
        self._held_results.append((path, ToolResult(content, None, result.call_id, result.is_error or None)))

    def _add_provider_item(self, path: str, item: wire.HostedItem) -> None:
        detail = {"type": "provider.item", "item": item.model_dump(exclude_unset=True), "format": FORMAT}
        text = f"an item of type {item.type} is for a provider's own servers, and was left out"
        self._add_details(path, [detail], unread=[f"{path}: {text}"])

    def _add_function_call(self, path: str, item: wire.FunctionCallItem | PlainCall) -> None:
        self._add_call(path, join_name(item.namespace, item.name), item.arguments, item.call_id)

    def _add_custom_call(self, path: str, item: wire.CustomCallItem) -> None:
        self._add_call(path, join_name(item.namespace, item.name), _to_json({"input": item.input}), item.call_id)

    def _add_shell_call(self, path: str, item: wire.ShellCallItem) -> None:
        self._add_call(path, "shell", _to_json(item.action), item.call_id)

    def _add_shell_output(self, path: str, item: wire.ShellOutputItem) -> None:
        self._add_result(path, [_describe_output(one) for one in item.output], item.call_id)

    def _add_patch_call(self, path: str, item: wire.PatchCallItem) -> None:
        self._add_call(path, "apply_patch", _to_json(item.operation), item.call_id)

    def _add_patch_output(self, path: str, item: wire.PatchOutputItem) -> None:
        failed = item.status == "failed"
        self._add_result(path, [item.output or item.status or ""], item.call_id, is_error=failed or None)

    def _close(self) -> None:
        """End the assistant's turn."""
        self._close_turn()
        held, self._held_results = self._held_results, []
        for path, result in held:
            self._put_result(path, result)

    def _close_turn(self) -> None:
        if not self._turn:
            return
        turn = self._turn
        if self._signatures:
            turn = [replace(one, parts=tuple(map(self._sign, one.parts))) for one in turn]
        if not _are_one_turn(turn):
            turn = [replace(one, turn=turn[0].path) for one in turn]
        self._messages += turn
        self._turn, self._signatures = [], {}

    def _sign(self, part: Part) -> Part:
        if not isinstance(part, ToolCall) or part.extra or part.id not in self._signatures:
            return part
        return replace(part, extra={"extra_content": self._signatures[part.id]})

    def _add_parts(self, path: str, *parts: Part, **extra: Any) -> None:
        """Add to the last message of the turn. After results only calls go on with it."""
        if self._held_results and not all(isinstance(part, ToolCall) for part in parts):
            self._close()
        if not self._turn:
            self._turn.append(Message("assistant", (), path=path))
        last = self._turn[-1]
        self._turn[-1] = replace(last, parts=(*last.parts, *parts), extra={**last.extra, **extra})

    def _add_others(self, path: str, item: wire.MessageItem | PlainMessage) -> None:
        self._close()
        role: Role = _ROLES.get(item.role) or item.role  # type: ignore[assignment]  # the others keep their names
        extra = {"developer": True} if item.role == "developer" else {}
        self._messages.append(
            Message(role, tuple(_parse_content(item.content, f"{path}.content")), path=path, extra=extra)
        )

    def _add_agent_message(self, path: str, item: wire.AgentMessageItem) -> None:
        """Add the words of another agent as those of the user, because there is no role for an agent."""
        self._close()
        texts = [Text(part["text"]) for part in item.content if _is_text(part)]
        if len(texts) < len(item.content):
            self.warnings.append(f"{path}.content: what only a provider can read was left out")
        head = Text(f"Message from the agent {item.author} to {item.recipient}:")
        self._messages.append(Message("user", (head, *texts), path=path))

    def _add_compaction(self, path: str, item: wire.CompactionItem) -> None:
        self._close()
        seal = read_seal(item.encrypted_content or "")
        if seal is None or not seal.text:
            unread = f"{path}: a summary that another provider has encrypted was left out"
            if not item.encrypted_content:
                self.warnings.append(unread)
                return
            detail = {"type": "provider.item", "item": item.model_dump(exclude_unset=True), "format": FORMAT}
            self._add_details(path, [detail], unread=[unread])
        else:
            self._messages.append(make_summary(seal.text, path))

    def _add_text(self, path: str, item: wire.MessageItem | PlainMessage) -> None:
        if self._held_results:
            self._close()
        if self._turn and not _CONTENT.isdisjoint(map(type, self._turn[-1].parts)):
            self._turn.append(Message("assistant", (), path=path))
        fields = dict(item.extra_content or {})
        if item.phase is not None:
            known = fields.get("openai")
            fields["openai"] = {**(known if isinstance(known, dict) else {}), "phase": item.phase}
        extra: dict[str, Any] = {"extra_content": fields} if fields else {}
        if isinstance(item.content, list) and item.content and type(item.content[-1]) is wire.Refusal:
            extra["refusal"] = True
        self._add_parts(path, *_parse_content(item.content, f"{path}.content"), **extra)

    def _add_call(self, path: str, name: str, arguments: str, call_id: str) -> None:
        self._open_calls[call_id] = self._open_calls.get(call_id, 0) + 1
        self._add_parts(path, ToolCall(name, arguments, call_id, path=path))

    def _add_tool_list(self, path: str, item: wire.McpListItem) -> None:
        """A list of a server's tools says nothing to a model."""

    def _add_server_call(self, path: str, item: wire.McpCallItem) -> None:
        """Add a call that the gateway, or another provider, ran, and its result. If it was approved, only its result is
        new."""
        if self._searches:
            self._searches.append((path, item))
            return
        request_id = item.approval_request_id or ""
        call_id = self._approval_requests.get(request_id)
        self._approvals.pop(request_id, None)
        if call_id is None:
            call_id = item.id.removeprefix(CALL_PREFIX)
            self._add_served_call(path, item, call_id)
        self._held_results.append((path, _read_server_result(item, call_id)))
        if (item.parley or {}).get("ends_turn") is True:
            self._close()

    def _add_approval_request(self, path: str, item: wire.McpApprovalRequestItem) -> None:
        call_id = item.id.removeprefix(REQUEST_PREFIX)
        self._approval_requests[item.id] = call_id
        self._add_served_call(path, item, call_id, awaits_approval=True)

    def _add_approval(self, path: str, item: wire.McpApprovalResponseItem) -> None:
        call_id = self._approval_requests.get(item.approval_request_id)
        place = f"{path}.approval_request_id"
        if call_id is None:
            text = f"names no mcp_approval_request before it: {item.approval_request_id!r}"
            self.violations.append(Violation(place, f"{text}; send back the item that asked for the approval"))
        else:
            self._approvals[item.approval_request_id] = ToolApproval(call_id, item.approve, item.reason, place)

    def _add_served_call(
        self,
        path: str,
        item: wire.McpCallItem | wire.McpApprovalRequestItem,
        call_id: str,
        *,
        awaits_approval: bool = False,
    ) -> None:
        server = item.server_label
        name = make_tool_name(server, item.name) if server else item.name
        self._open_calls[call_id] = self._open_calls.get(call_id, 0) + 1
        call = ToolCall(name, item.arguments, call_id, {}, path, server, item.name, awaits_approval)
        self._add_parts(path, call)

    def _add_local_shell_call(self, path: str, item: wire.LocalShellCallItem) -> None:
        call_id = item.call_id or item.id or ""
        if item.id:
            self._local_shell_calls[item.id] = call_id
        self._add_call(path, "local_shell", _to_json(item.action), call_id)

    def _add_local_shell_output(self, path: str, item: wire.LocalShellOutputItem) -> None:
        known = item.call_id or self._local_shell_calls.get(item.id or "") or item.id
        self._add_result(path, [item.output], known)

    def _add_search(self, path: str, item: wire.SearchCallItem | wire.SearchOutputItem) -> None:
        """Add a search that the client ran. What it has found is offered as tools, whose names are the result."""
        if item.call_id is None or item.execution == "server":
            self.warnings.append(f"{path}: a search for tools that ran at a provider was left out")
        elif isinstance(item, wire.SearchCallItem):
            arguments = item.arguments if isinstance(item.arguments, str) else _to_json(item.arguments or {})
            self._add_call(path, SEARCH_NAME, arguments, item.call_id)
        else:
            self._add_result(path, [_to_json({"tools": list(_list_found(item.tools))})], item.call_id)
            if not self._settings_are_read:
                self._warn_of_settings(f"{path}.tools", "tools")

    def _add_result(self, path: str, texts: Sequence[str], call_id: str | None, is_error: bool | None = None) -> None:
        self._close()
        content = tuple(Text(text) for text in texts if text)
        self._put_result(path, ToolResult(content, None, call_id, is_error))

    def _put_result(self, path: str, result: ToolResult) -> None:
        """Add a result. Further outputs of the same call go to its first one: Codex sends what a script notifies of as
        an output, and servers take one result for each call."""
        self._close_turn()
        call_id = result.id or ""
        place = self._results.get(call_id)
        if place is None or self._open_calls.get(call_id):
            self._open_calls[call_id] = self._open_calls.get(call_id, 0) - 1
            self._results[call_id] = len(self._messages)
            self._messages.append(Message("tool", (result,), path=path))
            return
        first = self._messages[place].parts[0]
        assert isinstance(first, ToolResult)
        both = replace(first, content=(*first.content, *result.content), is_error=first.is_error or result.is_error)
        self._messages[place] = replace(self._messages[place], parts=(both,))

    def _add_output(self, path: str, item: wire.CallOutputItem | PlainOutput) -> None:
        self._close()
        output = _read_written_parts(item.output) if isinstance(item.output, str) else item.output
        content = tuple(_parse_content(output, f"{path}.output"))
        name = item.name and join_name(item.namespace, item.name)
        if item.call_id is None:  # no server takes a result without a call
            head = Text(f"Output of the tool {name}:")
            self._messages.append(Message("user", (head, *content), path=path))
        else:
            self._put_result(path, ToolResult(content, name, item.call_id))

    def _warn_of_settings(self, path: str, kind: str) -> None:
        if not self._settings_are_read:
            self.warnings.append(f"{path}: {kind} in items have an effect in POST /v1/responses only")

    def _add_reasoning(self, path: str, item: wire.ReasoningItem | PlainReasoning) -> None:
        seal = read_seal(item.encrypted_content) if item.encrypted_content else None
        if seal and seal.results:
            self._add_results(seal)
            return
        if self._searches:
            self._leave_out_searches()
        text = _join_texts(item.content) or (seal and seal.text) or _join_texts(item.summary, "\n\n")
        details = seal.details if seal else []
        unread: list[str] = []
        if item.encrypted_content and seal is None:
            details = [_make_detail(item)]
            unread = [] if text else [f"{path}: reasoning that another provider has encrypted was left out"]
        if seal and seal.calls:
            self._signatures |= seal.calls
            self._add_parts(path)
        if not text and not details:
            return
        self._add_details(path, details, *([Reasoning(text)] if text else ()), unread=unread)

    def _add_details(self, path: str, details: list[Any], *parts: Part, unread: Sequence[str]) -> None:
        """Add what only the model's server understands, at its place. `unread` says what a server of another API does
        not get."""
        if self._held_results:
            self._close()
        if details and self._turn and any(not isinstance(part, Reasoning) for part in self._turn[-1].parts):
            self._turn.append(Message("assistant", (), path=path))  # what is opaque keeps its place
        known = self._turn[-1].extra.get("reasoning_details", ()) if self._turn else ()
        extra: dict[str, Any] = {"reasoning_details": [*known, *details]} if details else {}
        if unread:
            extra[UNREAD] = [*(self._turn[-1].extra.get(UNREAD, ()) if self._turn else ()), *unread]
        self._add_parts(path, *parts, **extra)


_CONTENT = frozenset((Text, Media))
_AMONG_SEARCHES = frozenset((wire.HostedItem, wire.McpCallItem, wire.ReasoningItem, PlainReasoning))
"""The types of items that may stand between a search and its results."""
_WITHOUT_WARNINGS = frozenset((*PLAIN_ITEMS.values(), wire.HostedItem))
"""The types of items that have no unknown fields, or that are sent as they are."""
_ADD: dict[type, Callable[[_ItemParser, str, Any], None]] = {
    PlainMessage: _ItemParser._add_message,
    PlainReasoning: _ItemParser._add_reasoning,
    PlainCall: _ItemParser._add_function_call,
    PlainOutput: _ItemParser._add_output,
    wire.MessageItem: _ItemParser._add_message,
    wire.AgentMessageItem: _ItemParser._add_agent_message,
    wire.ReasoningItem: _ItemParser._add_reasoning,
    wire.CompactionItem: _ItemParser._add_compaction,
    wire.FunctionCallItem: _ItemParser._add_function_call,
    wire.CustomCallItem: _ItemParser._add_custom_call,
    wire.CallOutputItem: _ItemParser._add_output,
    wire.SearchCallItem: _ItemParser._add_search,
    wire.SearchOutputItem: _ItemParser._add_search,
    wire.ShellCallItem: _ItemParser._add_shell_call,
    wire.ShellOutputItem: _ItemParser._add_shell_output,
    wire.LocalShellCallItem: _ItemParser._add_local_shell_call,
    wire.LocalShellOutputItem: _ItemParser._add_local_shell_output,
    wire.PatchCallItem: _ItemParser._add_patch_call,
    wire.PatchOutputItem: _ItemParser._add_patch_output,
    wire.McpCallItem: _ItemParser._add_server_call,
    wire.McpListItem: _ItemParser._add_tool_list,
    wire.McpApprovalRequestItem: _ItemParser._add_approval_request,
    wire.McpApprovalResponseItem: _ItemParser._add_approval,
    wire.AdditionalToolsItem: _ItemParser._add_setting,
    wire.ConfigurationItem: _ItemParser._add_setting,
    wire.CompactionTriggerItem: _ItemParser._add_setting,
    wire.HostedItem: _ItemParser._add_hosted,
}
"""What adds an item, by its type. Pydantic's models answer `isinstance` in Python, if they are of another class."""


def _read_own_result(item: wire.HostedItem) -> tuple[SealedResult | None, bool]:
    """Return the result that the gateway has written into the item of a search, and whether its turn ends with it."""
    given = getattr(item, "parley", None)
    if not isinstance(given, dict):
        return None, False
    try:
        result = msgspec.convert(given.get("result"), SealedResult)
    except msgspec.ValidationError:
        return None, False
    return result, given.get("ends_turn") is True


def _make_detail(item: wire.ReasoningItem | PlainReasoning) -> dict[str, Any]:
    """Return what a server has encrypted, as a detail."""
    named = {"id": item.id} if item.id else {}
    return {"type": "reasoning.encrypted", "data": item.encrypted_content, **named, "format": FORMAT}


def _are_one_turn(messages: Sequence[Message]) -> bool:
    """Whether the parts are taken for one turn without a name of it, even when each is a message of its own."""
    turn = Turn(messages[0])
    for message in messages:
        for part in message.parts:
            if not turn.accepts(message, (part,)):
                return False
            turn.add((part,))
    return True


def _read_server_result(item: wire.McpCallItem, call_id: str) -> ToolResult:
    error = item.error
    if error is None and item.output is None and item.status not in (None, "completed"):
        error = "the call did not end"
    if error is None:
        return ToolResult((Text(item.output),) if item.output else (), None, call_id)
    if isinstance(error, str):
        text = f"Error: {error}"
    elif isinstance(error.get("content"), list):
        text = "\n".join(part["text"] for part in error["content"] if _is_text(part)) or "Error"
    else:
        message = error.get("message")
        text = f"Error: {message}" if isinstance(message, str) and message else "Error"
    return ToolResult((Text(text),), None, call_id, is_error=True)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _list_found(tools: Sequence[Any], namespace: str | None = None) -> Iterator[dict[str, str]]:
    """Yield the names and descriptions of the tools that a search has found, as the model knows them."""
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str):
            continue
        if tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
            yield from _list_found(tool["tools"], name)
            continue
        description = tool.get("description")
        yield {"name": join_name(namespace, name)} | ({"description": description} if description else {})


def _describe_output(output: wire.ShellOutput) -> str:
    """Write what a command has printed, and how it ended if it did not succeed."""
    lines = [output.stdout, output.stderr]
    outcome = output.outcome or {}
    if outcome.get("type") == "timeout":
        lines.append("(the command timed out)")
    elif outcome.get("exit_code"):
        lines.append(f"(exit code {outcome['exit_code']})")
    return "\n".join(line.removesuffix("\n") for line in lines if line)


def _join_texts(parts: Sequence[Any] | None, joiner: str = "\n") -> str:
    return joiner.join([part.text for part in parts if type(part) in (PlainText, wire.InputText)]) if parts else ""


def _parse_content(content: "str | Sequence[PlainText | wire.Part]", path: str) -> "list[Text | Media]":
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_parse_part(part, f"{path}[{place}]") for place, part in enumerate(content)]


_written_parts: TypeAdapter[list[wire.InputText | wire.InputImage]] = TypeAdapter(
    list[wire.InputText | wire.InputImage]
)


def _read_written_parts(output: str) -> str | list[wire.InputText | wire.InputImage]:
    """Return the parts of an output that a client has written as JSON within a text, as Codex does with images: as
    words an image has a million tokens (router-for-me/CLIProxyAPI#4699 and #4902). A text that names an address stays
    a text, because it may be of anyone."""
    if output[:1] != "[" or '"input_image"' not in output:
        return output
    try:
        parts = _written_parts.validate_json(output)
    except ValidationError:
        return output
    images = [part.image_url or "" for part in parts if isinstance(part, wire.InputImage)]
    return parts if all(url.startswith("data:image/") for url in images) else output


def _parse_part(part: Any, path: str) -> Text | Media:
    if type(part) in (PlainText, wire.InputText):
        return Text(part.text)
    match part:
        case wire.Refusal():
            return Text(part.refusal)
        case wire.InputImage():
            detail = None if part.detail == "auto" else part.detail  # "auto" is the default
            return Media("image", (part.image_url or "",), detail=detail, path=f"{path}.image_url")
        case wire.InputFile():
            field = "file_url" if part.file_data is None else "file_data"
            url = part.file_url or ""
            if part.file_data is not None:
                url = part.file_data if is_remote(part.file_data) else _make_data_uri(part.file_data, part.filename)
            return Media("file", (url,), name=part.filename, path=f"{path}.{field}")
        case wire.InputAudio(input_audio=wire.AudioBody() as audio):
            return Media("audio", (audio.data,), format=audio.format, path=f"{path}.input_audio")
        case wire.InputAudio():
            return Media("audio", (part.audio_url or "",), path=f"{path}.audio_url")
        case wire.InputVideo():
            return Media("video", (part.video_url,), path=f"{path}.video_url")
    assert_never(part)


def _make_data_uri(base64: str, filename: str | None) -> str:
    """Name the media type of bare base64 after the file's extension."""
    extension = (filename or "").rpartition(".")[2].lower()
    types = (media_type for media_type, known in datauri.EXTENSIONS.items() if known == extension)
    return f"data:{next(types, 'application/octet-stream')};base64,{base64}"
