"""What is different where functions stand in the prompt (nous, qwen), and where the last message is continued."""

from typing import Any

from tests.goldens.expectations import Expected, called, said, thought, user

ANY_ID = "<generated>"
PARIS = called("get_weather", '{"city": "Paris"}', ANY_ID)
TIME_CALL = '<tool_call>\n{"name": "get_time", "arguments": {"tz": "CET"}}\n</tool_call>'
WEATHER = (
    '{"type": "function", "function": {"name": "get_weather", "description": "Get weather.", "parameters": '
    '{"type": "object", "properties": {"city": {"type": "string", "description": "城市"}}, "required": ["city"]}}}\n'
)
TIME = (
    '{"type": "function", "function": {"name": "get_time", "description": "Get time.", "parameters": '
    '{"type": "object", "properties": {"tz": {"type": "string"}}, "required": ["tz"]}}}\n'
)
FORCED = "\n\nYou must call the function get_time in this reply: answer with a <tool_call> that names it."
RESULT = "\n\nThe tool has returned the following result: \n"
IN_WORDS = "without functions, old calls are told in the user's words, as Qwen-Agent does: "


def nous(*functions: str) -> dict[str, Any]:
    """The system message that explains them."""
    text = (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        f"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n{''.join(functions)}"
        "</tools>\n\nFor each function call, return a json object with function name and arguments within "
        '<tool_call></tool_call> XML tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n'
        "</tool_call>"
    )
    return {"role": "system", "content": text}


BOTH = nous(WEATHER, TIME)

PROMPTED: dict[str, Expected] = {
    "03_continue_assistant_reasoning": Expected(
        request="a text is continued in the user's turn also where a thought stands before it; the thought is not sent",
        output="no crash",
        body={"messages": [user("what is 1+1?\n\nIt is")]},
        messages=[said("Hello")],
    ),
    "03_continue_delta": Expected(
        request="a text is continued in the user's turn in delta streams too",
        output="no AssertionError",
        body={"messages": [user("q\n\nIt is")]},
        messages=[said("Hello")],
    ),
    "06_nofn_history_en": Expected(request=IN_WORDS + "a server may refuse calls of functions that it is not sent"),
    "06_nofn_history_multimodal_result": Expected(
        request="a result of several items is told whole",
        output="no crash",
        body={
            "messages": [
                user('q\n\nThe tool "get_weather" was called with these arguments: \n{}' + RESULT + "ab"),
            ]
        },
        messages=[said("Hello")],
    ),
    "06_nofn_history_zh": Expected(
        request=IN_WORDS + "there a result that answers no call is words as well, with a warning; it is refused where "
        "functions are sent or explained"
    ),
    "06_nous_choice_invalid": Expected(
        output="an HTTP error that names the parameter, in place of the ValueError",
        requests=0,
        request="nothing is sent",
        error={"status": 422, "param": "generate_cfg.function_choice"},
    ),
    "06_nous_choice_name": Expected(
        request="a named function is demanded in the prompt",
        output="no NotImplementedError",
        body={"messages": [{"role": "system", "content": BOTH["content"] + FORCED}, user("q")]},
        messages=[said("Hello")],
    ),
    "06_nous_delta": Expected(
        request="sent",
        output="functions stream as deltas too",
        body={"messages": [BOTH, user("q")]},
        messages=[said("Hello")],
    ),
    "06_nous_json5": Expected(output="text behind `</tool_call>` is kept", messages=[PARIS, said(" trailing text")]),
    "06_nous_missing_arguments": Expected(
        output="missing arguments are none", messages=[called("get_weather", "{}", ANY_ID)], finish_reason="tool_calls"
    ),
    "06_nous_name_for_model": Expected(
        request="as Qwen-Agent does, the whole function is told: its keys are the caller's choice"
    ),
    "06_nous_native_tools_dropped": Expected(
        output="calls that the server read itself are honoured",
        messages=[
            thought("I should call tools."),
            said("Checking both."),
            called("get_weather", '{"city": "Paris"}', "call_a"),
            called("get_time", '{"tz": "CET"}', "call_b"),
        ],
        finish_reason="tool_calls",
    ),
    "06_nous_openai_tools_shape": Expected(
        request="functions that are wrapped already are wrapped once", body={"messages": [nous(WEATHER), user("q")]}
    ),
    "06_nous_reasoning_between_steps": Expected(
        request="every thought of a turn goes back, not only its first",
        body={
            "messages": [
                BOTH,
                user("q"),
                {
                    **said('<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>\ntxt'),
                    "reasoning_content": "r1\nr2",
                },
                user("<tool_response>\nr\n</tool_response>"),
            ]
        },
    ),
    "06_nous_string_arguments": Expected(
        output="arguments are not encoded twice", messages=[called("get_weather", '{"city": "P"}', ANY_ID)]
    ),
    "06_nous_think_tags": Expected(
        output="thoughts in tags are reasoning", messages=[thought(f"maybe {TIME_CALL} no"), said("OK "), PARIS]
    ),
    "06_nous_thought_in_content_never_closed": Expected(
        output="a thought that never ends was none: the calls are read", messages=[said("OK "), PARIS]
    ),
    "07_fncall_prompt_type_bad": Expected(
        output="a prompt that is none is refused where the configuration is read",
        requests=0,
        request="nothing is sent",
        refused=("models.mock-model.defaults.fncall_prompt_type",),
    ),
    "07_qwen_code": Expected(
        output="arguments that are no JSON come as they are, and marked",
        messages=[called("code_interpreter", "```py\nprint(2)\n```", ANY_ID, arguments_valid=False)],
        finish_reason="tool_calls",
    ),
    "07_qwen_reasoning": Expected(
        output="reasoning is not lost", messages=[thought("Let me think."), said("The answer.")]
    ),
}
