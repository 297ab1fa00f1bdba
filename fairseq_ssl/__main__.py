"""``python -m fairseq_ssl`` is the command ``fairseq-ssl``."""

import sys

from fairseq_ssl.cli.main import main

sys.exit(main())
