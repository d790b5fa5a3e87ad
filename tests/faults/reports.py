"""Public reports of 2026 of calls in texts and of mangled structured calls: the wire text of each, rebuilt, and what it
was meant to be. They were chosen before the first of them was tried."""

from typing import Any, NamedTuple

Json = dict[str, Any]
_BASH = '<invoke name="Bash">\n<parameter name="command">git status</parameter>\n</invoke>'


def _dsml(bars: str) -> str:
    """A call with these bars at the names of its tags."""
    mark = f"{bars}DSML{bars}"
    parameter = f'<{mark}parameter name="path" string="true">/a</{mark}parameter>'
    return f'<{mark}tool_calls>\n<{mark}invoke name="Read">\n{parameter}\n</{mark}invoke>\n</{mark}tool_calls>'


_ATEM = (
    '<atem:function_calls>\n<atem:invoke name="Read">\n<atem:parameter name="path">/a</atem:parameter>\n'
    "</atem:invoke>\n</atem:function_calls>"
)
_K3 = (
    '<|open|>tools<|sep|><|open|>call tool="Read" index="1"<|sep|><|open|>argument key="path" type="string"<|sep|>/a'
    "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
)


class Report(NamedTuple):
    source: str
    text: str
    calls: list[tuple[str, Json]]
    prose: list[str]
    reasoning: str = ""


TEXT_REPORTS = (
    Report(
        "anthropics/claude-code#71508",
        'Let me read the file.\n\n<invoke name="Read">\n<parameter name="path">C:\\a.md</parameter>\n</invoke>',
        [("Read", {"path": "C:\\a.md"})],
        ["Let me read the file."],
    ),
    Report("anthropics/claude-code#64179", f"call\n{_BASH}", [("Bash", {"command": "git status"})], ["call"]),
    Report(
        "anthropics/claude-code#77061",
        f"Prose.\n\ncount\n{_BASH}",
        [("Bash", {"command": "git status"})],
        ["Prose.\n\ncount"],
    ),
    Report(
        "github/app#1499",
        f"Of course<function_calls>\n{_BASH}\n</function_calls>",
        [("Bash", {"command": "git status"})],
        ["Of course"],
    ),
    Report(
        "signalnine/q27#24",
        "<name>Bash\n</parameter>\n<parameter=command>\ngit status\n</parameter>\n</function>",
        [("Bash", {"command": "git status"})],
        [],
    ),
    Report(
        "vllm-project/vllm#54971",
        "<tool_call>Read<arg_key>path</arg_key></arg_key><arg_value>/tmp/x</arg_value></tool_call>",
        [("Read", {"path": "/tmp/x"})],
        [],
    ),
    Report(
        "vllm-project/vllm-ascend#13794",
        'I look.\n\n<｜DSML｜toolcall>Read\n\n```json\n{"path":"/tmp/a.js"}\n```',
        [("Read", {"path": "/tmp/a.js"})],
        ["I look."],
    ),
    Report(
        "lsdefine/GenericAgent#804",
        _dsml("‖"),
        [("Read", {"path": "/a"})],
        [],
    ),
    Report(
        "cline/cline#13348",
        f"Let me see.\n\n{_dsml('｜')}",
        [("Read", {"path": "/a"})],
        ["Let me see."],
    ),
    Report(
        "xorbitsai/xagent#790",
        _dsml("|"),
        [("Read", {"path": "/a"})],
        [],
    ),
    Report(
        "lablup/mlxcel#654",
        "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary to=functions.Read "
        '<|constrain|>json<|message|>{"path":"/etc/hosts"}<|call|>',
        [("Read", {"path": "/etc/hosts"})],
        [],
        "Need it.",
    ),
    Report("NousResearch/hermes-agent#84231", 'to=functions.Read {"path": "/a"}', [("Read", {"path": "/a"})], []),
    Report(
        "NousResearch/hermes-agent#48412",
        '<|channel>thought\nI\'ll read.\n<channel|><|tool_call>call:Read{path:<|"|>/a<|"|>}<tool_call|>',
        [("Read", {"path": "/a"})],
        [],
        "I'll read.",
    ),
    Report(
        "NousResearch/hermes-agent#7449",
        '<|tool_call>call:Read(path: "/a")<tool_call|>',
        [("Read", {"path": "/a"})],
        [],
    ),
    Report(
        "jundot/omlx#844",
        "I'll check.\n\n<function=Bash>\n<parameter=command>\necho $A\n</parameter>\n</function>\n</tool_call>",
        [("Bash", {"command": "echo $A"})],
        ["I'll check."],
    ),
    Report(
        "can1357/oh-my-pi#10376",
        '<tool_call| {"name": "Read", "arguments": {"path": "/a"}}</tool_call',
        [("Read", {"path": "/a"})],
        [],
    ),
    Report(
        "FlashML-org/FreeToken#346",
        '<|tool_call>call:Read{path:<|"|>/a<|"|>}<tool_call|><|tool_call',
        [("Read", {"path": "/a"})],
        [],
    ),
    Report(
        "ggml-org/llama.cpp#24329",
        '{"type": "function", "name": "Read", "parameters": {"path": "/a"}}',
        [("Read", {"path": "/a"})],
        [],
    ),
    Report(
        "lmstudio-ai/lmstudio-bug-tracker#1669",
        '<think>I list.</think>\n\n{"name": "Bash", "arguments": {"command": "ls"}}\n',
        [("Bash", {"command": "ls"})],
        [],
        "I list.",
    ),
    Report(
        "Gitlawb/openclaude#1076",
        '{"type":"function","function":{"name":"Bash","arguments":{"command":"ls"}}}',
        [("Bash", {"command": "ls"})],
        [],
    ),
    Report("vllm-project/vllm#40801", _dsml("｜")[1:], [("Read", {"path": "/a"})], []),
    Report(
        "vllm-project/vllm#54273",
        f"<|open|>think<|sep|>I need it.{_K3}",
        [("Read", {"path": "/a"})],
        [],
        "I need it.",
    ),
    Report("ggml-org/llama.cpp#29240", f" to=Read<|message|>{_ATEM}", [("Read", {"path": "/a"})], []),
    Report(
        "ggml-org/llama.cpp#26879",
        f"Here it is.<|eom|><|start|>assistant to=Read<|message|>{_ATEM}<|eot|>",
        [("Read", {"path": "/a"})],
        ["Here it is."],
    ),
    Report(
        "SearchSavior/OpenArc#163",
        f"to=self<|message|>I read.<|eom|><|start|>assistant to=Read<|message|>{_ATEM}",
        [("Read", {"path": "/a"})],
        [],
        "I read.",
    ),
    Report(
        "tashfeenahmed/freellmapi#291",
        '<function=Read={"path": "/a"}</function>',
        [("Read", {"path": "/a"})],
        [],
    ),
    Report(
        "areal-project/AReaL#1458",
        "<tool_call>\n<function=Bash>\n<parameter=command>\necho '<parameter=x>1</parameter>' > a\n</parameter>\n"
        "</function>\n</tool_call>",
        [("Bash", {"command": "echo '<parameter=x>1</parameter>' > a"})],
        [],
    ),
)


class CallReport(NamedTuple):
    source: str
    name: str
    arguments: str
    meant: Json


CALL_REPORTS = (
    CallReport("fw-ai-external/python-sdk#119", "List</arg_value>", "{}", {}),
    CallReport(
        "ormandj/sglang-glm53-flash-sm120#5",
        'Bash<tool_call>command</arg_key><arg_value>echo "whoami"</arg_value>',
        "",
        {"command": 'echo "whoami"'},
    ),
    CallReport(
        "vllm-project/vllm-ascend#10182",
        "Bash",
        '<｜DSML｜invoke name="Bash">\n<｜DSML｜parameter name="command" string="true">ls</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>",
        {"command": "ls"},
    ),
    CallReport("vllm-project/vllm#45877", "Bash", '{"command": "ls 2>&1</｜DSML｜parameter', {"command": "ls 2>&1"}),
    CallReport("vllm-project/vllm#51701", "Read", '{"path": "/a"}}</s', {"path": "/a"}),
    CallReport("vllm-project/vllm#51697", "Read", '{"path": "/a"}{"path": "/a"}', {"path": "/a"}),
    CallReport("vllm-project/vllm#51697 (a brace ahead)", "Read", '{{"path": "/a"}', {"path": "/a"}),
    CallReport("vllm-project/vllm#47977", "Read", ', "arguments": {"path": "/a 😀"}}', {"path": "/a 😀"}),
    CallReport("earendil-works/pi#8858", "Read", '```json\n{"path":"/a"}\n```', {"path": "/a"}),
)
