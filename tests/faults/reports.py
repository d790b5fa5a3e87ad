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

_SPACED = " | DSML | "
_M3 = "]<]minimax[>["
_M3_CALL = (
    f'{_M3}<tool_call>\n{_M3}<invoke name="Read">\n{_M3}<path>/a{_M3}</path>\n{_M3}</invoke>\n{_M3}</tool_call>\n'
)
_LIST = [("Bash", {"command": "ls"})]
_HARMONY = "<|channel|>analysis<|message|>I read.<|end|><|start|>assistant<|channel|>final<|message|>Done."
LATER_TEXT_REPORTS = (
    Report(
        "CommandCodeAI/command-code#909",
        'I look.\n\n<｜｜DSML｜｜ calls>\n<｜｜DSML｜｜ invoke name="Read">\n<｜｜DSML｜｜ parameter name="path" '
        'string="true">/a</｜｜DSML｜｜ parameter>\n</｜｜DSML｜｜ invoke>\n</｜｜DSML｜｜ calls>',
        [("Read", {"path": "/a"})],
        ["I look."],
    ),
    Report(
        "AgentFlocks/flocks#687",
        f'<{_SPACED}tool_use>\n<{_SPACED}invoke name="Bash">\n<{_SPACED}parameter name="command" string="true">ls'
        f"</{_SPACED}parameter>\n</{_SPACED}invoke>\n</{_SPACED}tool_use>",
        _LIST,
        [],
    ),
    Report("vllm-project/vllm#46042", "<mm:think>I think.</mm:think>Done.", [], ["Done."], "I think."),
    Report("vllm-project/vllm#50549", "</mm:think>Hello there.", [], ["Hello there."]),
    Report(
        "ai-dynamo/frontend-crates#133",
        f"<mm:think>I need it.{_M3_CALL}",
        [("Read", {"path": "/a"})],
        [],
        "I need it.",
    ),
    Report("ml-explore/mlx-lm#1416", f"I check.{_M3_CALL}", [("Read", {"path": "/a"})], ["I check."]),
    Report("BerriAI/litellm#27483", "A thought about it.</think>Done.", [], ["A thought about it.</think>Done."]),
    Report("ggml-org/llama.cpp#21760", "thought\n<channel|>It is 4.", [], ["It is 4."]),
    Report(
        "ggml-org/llama.cpp#21760 (a closer behind the text)",
        '<|channel>thought\n<channel|>I look.<channel|><|tool_call>call:Bash{command:<|"|>ls<|"|>}<tool_call|>',
        _LIST,
        ["I look."],
    ),
    Report(
        "ggml-org/llama.cpp#21760 (two openings)",
        "<|channel><|channel>thought\nI see.<channel|>Done.",
        [],
        ["Done."],
        "I see.",
    ),
    Report(
        "OpenDigitalProductFactory/opendigitalproductfactory#118",
        '{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command": "ls"}}',
        _LIST,
        [],
    ),
    Report(
        "OpenDigitalProductFactory/opendigitalproductfactory#118 (another type)",
        '{"type":"step","id":"1","name":"Bash","input":{"command": "ls"}}',
        [],
        ['{"type":"step","id":"1","name":"Bash","input":{"command": "ls"}}'],
    ),
    Report("Gitlawb/openclaude#380", 'call:Bash{command:"ls"}', _LIST, []),
    Report("bayesimpact/bayes-platform#731 (at the start)", 'default_api:Bash{command:"ls"}', _LIST, []),
    Report(
        "vllm-project/vllm#39056",
        "<think>I need it.\n<tool_call>\n<function=Bash>\n<parameter=command>\nls\n</parameter>\n</function>\n"
        "</tool_call>\n</think>",
        _LIST,
        [],
        "I need it.",
    ),
    Report("kekzl/imp#768", _HARMONY, [], ["Done."], "I read."),
    Report("scouzi1966/maclocal-api#121", f"{_HARMONY}<|return|>", [], ["Done."], "I read."),
    Report("openai/codex#13114", 'assistant to=functions.Bash commentary json\n{"command":"ls"}', _LIST, []),
    Report(
        "zts212653/clowder-ai#1472",
        "<tool_call><function=Bash><parameter=command>ls</parameter></tool_call>",
        _LIST,
        [],
    ),
    Report(
        "ggml-org/llama.cpp#26763",
        "<tool_call>\n<function=Bash>\n<parameter=command>\nls</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
        "<function=Read>\n<parameter=path>\n/a\n</parameter>\n</function>\n</tool_call>",
        [*_LIST, ("Read", {"path": "/a"})],
        [],
    ),
    Report(
        "ai-dynamo/dynamo#9971",
        "<think>I need it.<|tool_calls_section_begin|><|tool_call_begin|>functions.Bash:0<|tool_call_argument_begin|>"
        '{"command":"ls"}<|tool_call_end|><|tool_calls_section_end|>',
        _LIST,
        [],
        "I need it.",
    ),
    Report(
        "izaart95-jpg/GLM-Free-API#35",
        'The request looks like:\nBash{"command":"ls"}\nYou can also call it like:\nBash(command="ls")\nin code.',
        [],
        ['The request looks like:\nBash{"command":"ls"}\nYou can also call it like:\nBash(command="ls")\nin code.'],
    ),
    Report("anomalyco/opencode#31247", "call read.\ncall bash.", [], ["call read.\ncall bash."]),
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
    CallReport("vllm-project/vllm#32587", "Bash<|channel|>commentary", '{"command":"ls"}', {"command": "ls"}),
    CallReport("agents-flex/agents-flex#64", "Bash", '```json\n{"command": "ls"}\n```', {"command": "ls"}),
)
