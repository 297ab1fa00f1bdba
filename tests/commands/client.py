#!/usr/bin/env -S python3 -IS
"""Client of `server.py` that replaces a command: sends it and exits with its exit code.

Verbs of `fairseq-ssl` that do not import fairseq run directly, which is faster than a fork.
"""

import json
import os
import socket
import sys

SERVED = {
    *("average", "back-translate", "classify label", "classify predict", "edits tune", "export"),
    *("filter learned", "rerank features", "shift-similarity", "token-wins"),
}
"""Verbs of `fairseq-ssl` that load models."""


def served(command: str, *words: str) -> bool:
    """Return True if a command is slow to start."""
    if command == "python":
        return any("/scripts/benchmarks/" in word for word in words[:1])
    return command != "fairseq-ssl" or not SERVED.isdisjoint((" ".join(words[:2]), *words[:1]))


def main() -> int:
    """Send arguments, environment and open files of a command. Return its exit code."""
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
