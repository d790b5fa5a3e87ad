"""One call while it is parsed: which of its arguments can be emitted, and when it is certain to be a call."""

import pytest
from app.steps.tool_parsers.calls import NotACall, OpenCall


def test_a_call_is_certain_when_it_has_a_name_and_arguments() -> None:
    call = OpenCall("", "call_1")
    call.put('{"a"')
    nameless = call.certain
    call.set_name("f")
    assert (nameless, call.certain) == (False, True)


def test_blank_arguments_do_not_make_a_call_certain() -> None:
    call = OpenCall("f", "call_1")
    certain = []
    for arguments in (" \n", "{", " "):
        call.put(arguments)
        certain.append(call.certain)
    assert certain == [False, True, True]


def test_arguments_are_taken_once() -> None:
    call = OpenCall("f", "call_1")
    call.put('{"a":')
    call.put("1}")
    assert call.take_arguments() == '{"a":1}'
    assert call.take_arguments() == ""


def test_doubtful_arguments_are_emitted_only_when_the_call_is_complete() -> None:
    call = OpenCall("f", "call_1")
    call.put("a")
    call.in_doubt = True
    call.put("b")
    assert call.take_arguments() == "a"
    call.complete()
    assert not call.in_doubt
    assert call.take_arguments() == "b"


def test_forgotten_arguments_do_not_come_back() -> None:
    call = OpenCall("f", "call_1")
    call.in_doubt = True
    call.put("b")
    call.forget_doubtful()
    call.put("c")
    call.complete()
    assert call.take_arguments() == "c"


def test_a_complete_call_without_arguments_has_an_empty_object() -> None:
    for arguments in ("", " \n"):
        call = OpenCall("f", "call_1")
        call.put(arguments)
        call.complete()
        assert call.take_arguments() == "{}"
        assert call.certain


def test_a_call_without_a_name_cannot_be_completed() -> None:
    with pytest.raises(NotACall):
        OpenCall("", "call_1").complete()


def test_a_withheld_call_is_certain_only_when_it_is_complete_and_its_arguments_can_be_replaced() -> None:
    call = OpenCall("", "call_1")
    call.withheld_name = "code"
    call.set_name("code_interpreter")
    call.put("{")
    call.in_doubt = True
    call.put("}")
    withheld = not call.certain
    call.replace_arguments(lambda arguments: f"<{arguments}>")
    call.complete()
    assert (withheld, call.certain) == (True, True)
    assert call.take_arguments() == "<{}>"


def test_a_name_without_the_withheld_text_is_certain_at_once() -> None:
    call = OpenCall("", "call_1")
    call.withheld_name = "code"
    call.set_name("f")
    call.put("{")
    assert call.certain
