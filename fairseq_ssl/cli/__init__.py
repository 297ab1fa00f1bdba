"""The command ``fairseq-ssl``, one file a verb; `main` finds the verb and tells errors.

VERB.py declares options and checks them, VERB_job.py does the work; VERB_STEP.py is a step of a
verb that has several. What verbs share: `*_options` their flags, `block_input` a text in shards,
`growing_job` work that goes on after a kill, `line_stream` lines in and out, `output_paths` where
one may write, `columns` tables, `progress`.
"""

import signal
import sys

if (
    sys.argv[0].endswith(("fairseq-ssl", "fairseq_ssl/__main__.py"))
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a Ctrl-C during the imports prints nothing
