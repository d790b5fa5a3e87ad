"""What a program that the gateway starts gets of the gateway's environment."""

from collections.abc import Iterable, Mapping

_INHERITED = ("PATH", "HOME", "LANG", "TERM", "USER", "LOGNAME", "SHELL")


def make_child_environment(environ: Mapping[str, str], named: Iterable[str]) -> dict[str, str]:
    """Return what any program needs, and the variables that the settings name. One that is not set is not handed on."""
    wanted = {*_INHERITED, *named}
    return {name: value for name, value in environ.items() if name in wanted or name.startswith("LC_")}
