"""The command ``fairseq-ssl``, one file per verb: parse options, call a function, print.

`main` selects the verb, has the parsers of verbs and their steps, and converts errors to a line and
an exit code. `options` has options shared by several verbs, `console` stdout, progress and tables.
"""

import signal
import sys

if (
    sys.argv[0].endswith(("fairseq-ssl", "fairseq_ssl/__main__.py"))
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports prints no traceback
