"""What is different where functions are in the prompt (nous, qwen), and where the last message is continued."""

from typing import Any

from tests.goldens.expectations import Expected, call_message, reasoning_message, text_message, user

ANY_ID = "<generated>"
PARIS = call_message("get_weather", '{"city": "Paris"}', ANY_ID)
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
AS_TEXT = "without functions, earlier calls become text of the user, as in Qwen-Agent: "


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
        messages=[text_message("Hello")],
    ),
    "03_continue_delta": Expected(
        request="a text is continued in the user's turn in delta streams too",
        output="no AssertionError",
        body={"messages": [user("q\n\nIt is")]},
        messages=[text_message("Hello")],
    ),
    "06_nofn_history_en": Expected(
        request=AS_TEXT + "a server may refuse calls of functions that the request does not have"
    ),
    "06_nofn_history_multimodal_result": Expected(
        request="a result of several items is sent completely",
        output="no crash",
        body={
            "messages": [
                user('q\n\nThe tool "get_weather" was called with these arguments: \n{}' + RESULT + "ab"),
            ]
        },
        messages=[text_message("Hello")],
    ),
    "06_nofn_history_zh": Expected(
        request=AS_TEXT + "a result without a call becomes text too, with a warning; it is refused if the request "
        "has functions"
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
        messages=[text_message("Hello")],
    ),
    "06_nous_delta": Expected(
        request="sent",
        output="functions stream as deltas too",
        body={"messages": [BOTH, user("q")]},
        messages=[text_message("Hello")],
    ),
    "06_nous_json5": Expected(
        output="text behind `</tool_call>` is kept", messages=[PARIS, text_message(" trailing text")]
    ),
    "06_nous_missing_arguments": Expected(
        output="missing arguments are none",
        messages=[call_message("get_weather", "{}", ANY_ID)],
        finish_reason="tool_calls",
    ),
    "06_nous_name_for_model": Expected(
        request="as Qwen-Agent does, the whole function is in the prompt: the caller chooses its keys"
    ),
    "06_nous_native_tools_dropped": Expected(
        output="calls that the server parsed itself are passed on",
        messages=[
            reasoning_message("I should call tools."),
            text_message("Checking both."),
            call_message("get_weather", '{"city": "Paris"}', "call_a"),
            call_message("get_time", '{"tz": "CET"}', "call_b"),
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
                    **text_message('<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>\ntxt'),
                    "reasoning_content": "r1\nr2",
                },
                user("<tool_response>\nr\n</tool_response>"),
            ]
        },
    ),
    "06_nous_string_arguments": Expected(
        output="arguments are not encoded twice", messages=[call_message("get_weather", '{"city": "P"}', ANY_ID)]
    ),
    "06_nous_think_tags": Expected(
        output="thoughts in tags are reasoning",
        messages=[reasoning_message(f"maybe {TIME_CALL} no"), text_message("OK "), PARIS],
    ),
    "06_nous_thought_in_content_never_closed": Expected(
        output="reasoning without an end is not reasoning: the calls are parsed", messages=[text_message("OK "), PARIS]
    ),
    "07_fncall_prompt_type_bad": Expected(
        output="an unknown prompt type is refused when the configuration is read",
        requests=0,
        request="nothing is sent",
        refused=("models.mock-model.defaults.fncall_prompt_type",),
    ),
    "07_qwen_code": Expected(
        output="arguments that are not JSON are passed on unchanged, and marked",
        messages=[call_message("code_interpreter", "```py\nprint(2)\n```", ANY_ID, arguments_valid=False)],
        finish_reason="tool_calls",
    ),
    "07_qwen_reasoning": Expected(
        output="reasoning is not lost", messages=[reasoning_message("Let me think."), text_message("The answer.")]
    ),
}
