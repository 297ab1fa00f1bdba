"""Entry point of ``python -m fairseq_ssl``, which runs the command ``fairseq-ssl``."""

import sys

from fairseq_ssl.cli.main import main

sys.exit(main())
