#!/usr/bin/env -S python3 -IS
"""Client of `server.py` that replaces a command: sends it and exits with its exit code."""

import os
import sys

WITH_FAIRSEQ = {
    *("analyze", "average", "back-translate", "classify label", "classify predict"),
    *("classify prepare", "correct", "edits prepare", "edits tune", "export", "learned-filter"),
    *("position-data", "rerank features"),
}
"""Commands of `fairseq-ssl` that load models, or read or write binarized data."""


def server(command: str, *words: str) -> str | None:
    """Return the name of the server that runs a command, or None if it must run itself."""
    if command == "python":
        script = words[0] if words else ""
        if script.endswith("/examples/common/build_record.py"):
            return "records"
        if "/examples/" in script:
            return "text"
        is_served = "/scripts/benchmarks/" in script or script.endswith(".registers.py")
        return "fairseq" if is_served else None
    if command in ("torchrun", "fairseq-hydra-train"):
        return "stock"
    names = {" ".join(words[:2]), *words[:1]}
    return "text" if command == "fairseq-ssl" and not names & WITH_FAIRSEQ else "fairseq"


def main() -> int:
    """Send arguments, environment and open files of a command. Return its exit code."""
    command = os.path.basename(sys.argv[0])  # noqa: PTH119, pathlib is as long to import as all this
    name = server(command, *sys.argv[1:])
    if name is None:
        real = os.path.join(os.path.dirname(sys.executable), command)  # noqa: PTH118, PTH120
        os.execv(real, [real, *sys.argv[1:]])
    import _socket  # not before exec, which recipes call often; socket and json import slowly

    connection = _socket.socket(_socket.AF_UNIX)
    connection.connect(f"{os.environ['COMMAND_SERVERS']}/{name}")
    given = repr((sys.argv, dict(os.environ), os.getcwd())).encode() + b"\n"  # noqa: PTH109
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    sent = connection.sendmsg([given], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    connection.sendall(given[sent:])
    code = connection.recv(1)
    return code[0] if code else 1


if __name__ == "__main__":
    sys.exit(main())
