"""The programs of examples/: what each prints with the demo model, and how it ends with an HTTP error."""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from checks import PARLEY, equal, holds
from interop.examples import EXAMPLES, Example, tidy


def try_example(example: Example) -> None:
    folder = Path(sys.prefix) / "build" / example.path.parent.name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        example.make(folder)
    except subprocess.CalledProcessError as error:
        raise AssertionError(error.stderr.decode("utf-8", "replace")[-300:]) from None
    whole = example.run(folder, PARLEY)
    equal((whole.returncode, tidy(whole.stdout)), (0, example.answer))
    refused = example.run(folder, f"{PARLEY}/nowhere")
    holds(refused.returncode != 0 and "no such path" in refused.stdout + refused.stderr, refused)


for example in EXAMPLES:
    if example.file.endswith(".mts"):  # it is compiled and run with the generated client of its language
        continue
    if (missing := example.find_missing()) is not None:
        sys.stderr.write(f"{example.title} is left out: {missing} is not installed\n")
        continue
    title = f"{example.title} ({example.find_version()})"
    what = f"{title}: it prints reasoning, text and call, answers the call, and reports an HTTP error"
    line = {"client": "examples", "version": "", "check": what, "ok": True, "detail": ""}
    try:
        try_example(example)
    except Exception as error:
        line |= {"ok": False, "detail": f"{type(error).__name__}: {error}"[:900]}
    sys.stdout.write(f"\n{json.dumps(line)}\n")
    sys.stdout.flush()
