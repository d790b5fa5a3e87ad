"""Packages that are installed only with an extra of Parley."""

from importlib.util import find_spec


def is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of a package that would contain it
        return False


def how_to_install(extra: str) -> str:
    return (
        f"run `make serve EXTRAS={extra}` in a checkout, build the image with `--build-arg EXTRAS={extra}`, or install "
        f"a wheel with `pip install 'WHEEL[{extra}]'`"
    )
