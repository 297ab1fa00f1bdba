"""The command ``fairseq-ssl``, one file a verb: parse the options, call one function, print.

`main` finds the verb and turns errors into a line and an exit code. `options` has the options that
verbs share, `sub_verbs` verbs with steps, `console` stdout, progress and tables.
"""

import signal
import sys

if (
    sys.argv[0].endswith(("fairseq-ssl", "fairseq_ssl/__main__.py"))
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a Ctrl-C during the imports prints nothing
