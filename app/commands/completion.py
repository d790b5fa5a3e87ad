"""`parley completion`: print the script that completes commands in a shell.

The script asks the program itself with each press of Tab, so it fits every version.
"""

import argparse

from argcomplete.shell_integration import shellcode


def run(arguments: argparse.Namespace) -> int:
    print(shellcode(["parley"], shell=arguments.shell))
    return 0
