"""The command that starts this program, as it can be typed in the directory where it was started."""

import shlex
import shutil
import sys
from pathlib import Path


def find_own_command() -> str:
    program = Path(sys.argv[0])
    if program.name != "parley" or shutil.which("parley") == str(program):
        return "parley"
    try:
        return shlex.quote(str(program.absolute().relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(program))
