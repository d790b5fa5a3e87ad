import os
import subprocess
import sys

import pytest
from app.runtime.own_process import find_prctl

HIDE = (
    "import sys; from app.runtime.own_process import hide_process; hide_process(); print('ready', flush=True); "
    "sys.stdin.read()"
)


@pytest.mark.skipif(find_prctl() is None, reason="prctl is Linux's")
def test_a_hidden_process_keeps_its_environment_from_other_processes() -> None:
    """Root reads it anyway, so the reader is another user there."""
    pipe, environment = subprocess.PIPE, {**os.environ, "SECRET": "x"}
    with subprocess.Popen([sys.executable, "-c", HIDE], stdin=pipe, stdout=pipe, env=environment) as hidden:
        assert hidden.stdout is not None and hidden.stdout.readline() == b"ready\n"
        user = 65534 if os.getuid() == 0 else None
        found = subprocess.run(["/bin/cat", f"/proc/{hidden.pid}/environ"], capture_output=True, user=user, check=False)
        assert found.returncode != 0 and found.stdout == b""
        hidden.kill()
