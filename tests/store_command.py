"""Run a command with short pauses between requests to a store, also in worker processes."""

import sys

from botocore.retries.standard import ExponentialBackoff

ExponentialBackoff.delay_amount = lambda *_: 0.01

if __name__ == "__main__":
    from fairseq_ssl.cli.main import main

    sys.exit(main())
