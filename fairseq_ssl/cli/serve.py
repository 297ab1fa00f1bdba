"""``fairseq-ssl serve``: an HTTP server that corrects text with an edit tagger."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import options
from fairseq_ssl.cli.console import print_lines
from fairseq_ssl.cli.correct import (
    EXPLAIN,
    add_corrector,
    corrector_config,
    register,
    tagger_device,
)
from fairseq_ssl.errors import import_optional
from fairseq_ssl.inference.correction import CorrectionConfig, Corrector
from fairseq_ssl.inference.server import ServerLimits, correction_app, open_listener, run_app
from fairseq_ssl.options import add_options, integer, passed

EXAMPLES = """\
  fairseq-ssl serve --model run/checkpoint_best.pt --explain     (then open http://127.0.0.1:8000)
  fairseq-ssl serve --model a.pt b.pt --weights 2,1 --port 9000
  curl http://127.0.0.1:8000/correct --json '{"text": "He go to school."}'
  curl http://127.0.0.1:8000/correct --json '{"lines": ["He go.", "She go."]}'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``serve`` to the parser."""
    server = parser.add_argument_group("server")
    server.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on; the server has neither TLS nor authentication "
        "(default: %(default)s)",
    )
    server.add_argument(
        "--port",
        type=integer,
        default=8000,
        metavar="N",
        help="port, 0 to 65535; 0 selects a free port (default: %(default)s)",
    )
    add_options(server, ServerLimits)
    add_options(server, CorrectionConfig, EXPLAIN)
    add_corrector(parser)
    options.add_one_device(parser.add_argument_group("parallelism"))


def run(args: argparse.Namespace) -> None:
    """Load the models, print the address and serve until SIGTERM or Ctrl-C."""
    for package in ("starlette", "uvicorn"):  # before the models are loaded
        import_optional(package, "fairseq-ssl serve", "serve")
    limits = ServerLimits(**passed(args, ServerLimits))
    with open_listener(args.host, args.port) as listener:
        device = options.one_device(tagger_device(args))
        config = corrector_config(args, device=device)
        register(config)
        app = correction_app(Corrector(config), limits)
        host, port = listener.getsockname()[:2]
        print_lines(f"serving on http://{f'[{host}]' if ':' in host else host}:{port}")
        run_app(app, listener, limits)
