"""`read_json`: the one reader that decides what JSON is, for the bodies of all endpoints alike."""

from typing import Any

from pydantic_core import from_json


def read_json(text: bytes | bytearray) -> Any:
    """Return the value of a JSON text. Raises ValueError.

    JSON has no `NaN` and no `Infinity`, which Python writes. Objects have the last value of a key that is repeated, at
    its first place. A number beyond a double is infinite: `find_invalid_values` refuses it with its path.
    """
    return from_json(bytes(text), allow_inf_nan=False, cache_strings="keys")
