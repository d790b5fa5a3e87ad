"""Issuers of JWTs."""

from tests.config.written_settings import mistakes, written
from tests.each_case import each_case

ISSUER = 'issuer = "https://idp.test"\naudience = "parley"\n'


@each_case(
    ("lines", "mistake"),
    [
        ("", "jwt.a.issuer: "),
        ('issuer = "https://idp.test"', "jwt.a.audience: "),
        ('issuer = "https://idp.test"\naudience = []', "jwt.a.audience: "),
        ('issuer = "kubernetes"\naudience = "x"', "jwt.a: needs jwks_url or jwks_file, because `issuer` is no URL"),
        (ISSUER + 'jwks_url = "https://idp.test/k"\njwks_file = "k"', "has jwks_url and jwks_file: remove one of them"),
        (ISSUER + 'jwks_url = "file:///etc/keys"', "jwt.a.jwks_url: must be an http or https URL"),
        (ISSUER + 'jwks_file = "/no/such/file"', "jwt.a.jwks_file: /no/such/file cannot be read (No such file"),
        (ISSUER + 'algorithms = ["HS256"]', "jwt.a.algorithms"),
        (ISSUER + 'algorithms = ["none"]', "jwt.a.algorithms"),
        (ISSUER + "algorithms = []", "jwt.a.algorithms"),
        (ISSUER + "refresh_seconds = 1", "jwt.a.refresh_seconds"),
        (ISSUER + "leeway_seconds = 3600", "jwt.a.leeway_seconds"),
        (ISSUER + 'admin_claim = "roles"', "jwt.a: needs both of admin_claim and admin_value"),
        (ISSUER + "admin_value = true", "jwt.a: needs both of admin_claim and admin_value"),
        (ISSUER + 'team = "serch"\n[teams.search]', "jwt.a.team: there is no team 'serch'; did you mean `search`?"),
        (ISSUER + 'team_claim = "team"', "jwt.a.team_claim: there are no teams"),
        (ISSUER + 'ca_file = "/no/such/file"', "jwt.a: the certificates in /no/such/file cannot be used"),
        (ISSUER + f"[jwt.b]\n{ISSUER}", "jwt.b.issuer: 'a' has the same; list all audiences in one of them"),
        (ISSUER + f'[jwt."b:c"]\n{ISSUER}', "must be 1 to 64 letters"),
        (
            ISSUER
            + "limits = { spend_per_day = 1 }\n[upstreams.u]\nbase_url = 'http://h/v1'\n[models.m]\nupstreams = ['u']",
            "jwt.a.limits: limits spending, and the model 'm' is without a price",
        ),
        (
            ISSUER + "team_claim = 't'\n[upstreams.u]\nbase_url = 'http://h/v1'\n[models.m]\nupstreams = ['u']\n"
            "[teams.x]\nlimits = { spend_per_day = 1 }",
            "teams.x.limits: limits spending, and the model 'm' is without a price",
        ),
    ],
)
def test_a_mistake_in_an_issuer_of_tokens_is_explained(lines: str, mistake: str) -> None:
    found = mistakes(f"[jwt.a]\n{lines}\n")
    assert any(mistake in one for one in found), found


def test_an_issuer_makes_callers_known_and_has_the_proxy_of_the_environment() -> None:
    text = f'[jwt.a]\n{ISSUER}admin_claim = "admin"\nadmin_value = true\n'
    found = written(text, HTTPS_PROXY="http://user:secret@proxy.test:3128")
    assert (found.names_callers, found.requires_keys, found.separate_callers, found.has_admin) == (True,) * 4
    assert not found.serves_this_machine_only
    assert found.jwt["a"].admin_value is True
    proxy = found.jwt["a"].connections.proxy
    assert proxy is not None
    assert (proxy.host, proxy.port) == ("proxy.test", 3128)
    assert "secret" not in repr(found)
    assert written(f'[jwt.a]\n{ISSUER}proxy = "none"', HTTPS_PROXY="http://p:1").jwt["a"].connections.proxy is None
    assert written(f"[jwt.a]\n{ISSUER}", HTTPS_PROXY="http://p:1", NO_PROXY="idp.test").jwt["a"].proxy is None
    assert not written(f"[jwt.a]\n{ISSUER}").has_admin
    environ = {"PARLEY_JWT__A__ISSUER": "https://idp.test/", "PARLEY_JWT__A__AUDIENCE": "x, y"}
    assert written("", **environ).jwt["a"].audience == ("x", "y")
    assert any("jwt.a.proxy" in line for line in mistakes(f"[jwt.a]\n{ISSUER}", HTTPS_PROXY="socks5://p:1"))
