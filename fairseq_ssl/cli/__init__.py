"""The program ``fairseq-ssl``, with one module per command.

Each command parses its options, calls a library function and prints the result. `main` selects the
command, defines the parsers of commands and subcommands, and converts an error to one line and an
exit code. `options` defines options shared by several commands. `console` configures stdout, and
prints progress and tables.
"""

import signal
import sys

if (
    sys.argv[0].endswith(("fairseq-ssl", "fairseq_ssl/__main__.py"))
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports prints no traceback
