#!/usr/bin/env -S python3 -IS
"""Stands in the place of a command: `server.py` runs it, and this ends as it does.

Verbs of `fairseq-ssl` that start without fairseq are sooner run than forked from what has it.
"""

import json
import os
import socket
import sys

SERVED = {
    *("average", "back-translate", "classify label", "classify predict", "edits tune", "export"),
    *("filter learned", "rerank features", "shift-similarity", "token-wins"),
}
"""The verbs of `fairseq-ssl` that load models."""


def served(command: str, *words: str) -> bool:
    """Whether a command is slow to start by itself."""
    if command == "python":
        return any("/scripts/benchmarks/" in word for word in words[:1])
    return command != "fairseq-ssl" or not SERVED.isdisjoint((" ".join(words[:2]), *words[:1]))


def main() -> int:
    """Send what a command is given, and return its exit code."""
    command = os.path.basename(sys.argv[0])  # noqa: PTH119, pathlib is as long to import as all this
    if not served(command, *sys.argv[1:]):
        real = os.path.join(os.path.dirname(sys.executable), command)  # noqa: PTH118, PTH120
        os.execv(real, [real, *sys.argv[1:]])
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(os.environ["COMMAND_SERVER"])
        folder = os.getcwd()  # noqa: PTH109
        given = json.dumps([sys.argv, dict(os.environ), folder]).encode() + b"\n"
        sent = socket.send_fds(server, [given[:1]], [0, 1, 2])
        server.sendall(given[sent:])
        code = server.recv(1)
    return code[0] if code else 1


if __name__ == "__main__":
    sys.exit(main())
