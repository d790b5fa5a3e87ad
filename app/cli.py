"""The program `parley`: it parses the command line and runs one command.

A command is the function `run` of its module in `app/commands`, which is loaded only when it is named. The module has
the name of the command, unless the parser names another one.
"""

import os
import sys
from importlib import import_module

from app.commands.command_line import UsageError, make_parser, parse_arguments

USAGE_ERROR, INTERRUPTED = 2, 130
_COMPLETING = "_ARGCOMPLETE"
"""Set by the script of `parley completion` when the shell completes a command."""


def main(argv: list[str] | None = None) -> int:
    """Run the command and return the exit status."""
    parser = make_parser()
    if _COMPLETING in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)  # prints the words that the shell offers, and exits
    arguments = parse_arguments(parser, sys.argv[1:] if argv is None else argv)
    module = getattr(arguments, "module", arguments.command.replace("-", "_"))
    command = import_module(f"app.commands.{module}")
    try:
        status: int = command.run(arguments)
        sys.stdout.flush()
    except UsageError as error:
        for line in error.lines:
            print(f"parley: {line}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has left (`parley models | head`): nothing may be flushed at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
