"""The program ``fairseq-ssl``, one file per command: parse options, call a function, print.

`main` selects the command, defines the parsers of commands and subcommands, and converts an error
to one line and an exit code. `options` defines options shared by several commands. `console` writes
to stdout and reports progress.
"""

import signal
import sys

if (
    sys.argv[0].endswith(("fairseq-ssl", "fairseq_ssl/__main__.py"))
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports prints no traceback
