"""Servers of tools."""

from tests.config.written_settings import mistakes
from tests.each_case import each_case


@each_case(
    ("lines", "mistake"),
    [
        ("", "mcp_servers.a: must have exactly one of `command` and `url`"),
        ('command = "x"\nurl = "http://h/mcp"', "mcp_servers.a: must have exactly one of `command` and `url`"),
        ('command = "x"\nhttp_headers = { a = "b" }', "`http_headers` is only for a server with a `url`"),
        ('url = "http://h/mcp"\nargs = ["x"]', "`args` is only for a server with a `command`"),
        ('url = "http://h/mcp"\nscopes = ["x"]', "`scopes` is not a setting: OAuth is not supported"),
        ('url = "http://h/mcp"\nbearer_token = "x"', "name that in bearer_token_env_var"),
        ('url = "http://h/mcp"\nbearer_token_env_var = "NO"', "the environment variable NO is not set"),
        ('command = "x"\ndefault_tools_approval_mode = "prompt"', "use approval ="),
        ('command = "x"\n[mcp_servers.a-b]\ncommand = "x"', "there is a server 'a' too"),
        ('command = "x"\n[mcp_servers."a b"]\ncommand = "x"', "must be 1 to 32 letters"),
        ('command = "x"\n[upstreams.u]\nbase_url = "http://h/v1"\n[models.m]\nupstreams = ["u"]\ntools = ["b"]', "'b'"),
        (
            'command = "x"\n[upstreams.u]\nbase_url = "http://h/v1"\n[models.m]\nupstreams = ["u"]\n'
            'tools = ["a", {mcp = "a", tools = ["t"]}]',
            "models.m.tools[1]: 'a' is listed twice",
        ),
    ],
)
def test_a_mistake_in_a_server_of_tools_is_explained(lines: str, mistake: str) -> None:
    assert any(mistake in found for found in mistakes(f"[mcp_servers.a]\n{lines}\n"))
