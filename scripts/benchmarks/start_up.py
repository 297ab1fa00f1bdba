"""Start-up of commands that load fairseq, relative to plain imports, in starts/s of CPU time.

--what: `register` imports torch, fairseq and the plug-in, as `back-translate` and `correct` do.
`floor` compares `register` with torch alone.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import harness

REGISTER = "import fairseq_ssl; fairseq_ssl.register()"
WAYS = {
    "register": (REGISTER, "import fairseq, fairseq_ssl"),
    "floor": (REGISTER, "import torch"),
}
"""Our imports and plain imports."""


def start(code: str) -> int:
    """Run a Python program."""
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)
    return 1


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument("--what", choices=WAYS, default="register")
    args = harness.parse(options)
    comparison = harness.Comparison(
        *(f"start_up-{args.what}", "deferred imports", "plain imports", "starts/s"),
        goal=2.0 if args.what == "register" else None,
        settings=vars(args),
    )
    ours, plain = (partial(start, code) for code in WAYS[args.what])
    harness.compare(comparison, ours, plain, args.pairs, clock=harness.cpu_seconds)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
