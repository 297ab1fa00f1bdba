"""Server that runs commands and benchmarks of tests in forks of a process with their imports.

The imports take longer than most commands of tests. The server `fairseq` has imported fairseq and
the package. The server `stock`, its fork, has not imported the package: it runs torchrun and
fairseq-hydra-train, which reads options before it imports the package. The server `text` has
imported what commands and recipes without torch need, because torch would change how they start
processes. The server `records`, its fork before these imports, runs build_record.py. `client.py`,
which replaces a command, sends its arguments, environment, folder and three open files. The fork
adopts them and calls the entry point. Tests of the commands themselves run the real ones with
``environment(REAL_COMMANDS="1")``. `REAL_COMMANDS=1 python -m pytest` starts a process for each
command.

A fork takes 0.03 s of CPU time for `fairseq-ssl user-dir` and 0.64 s for three updates of
`fairseq-train`. Each process that imports torch and fairseq takes 2.5 s. So new tests

- pass `--jobs 1` to a command with a model, unless the test is about several processes;
- use `run("fairseq-...")` or call a function, instead of `python -c` with fairseq;
- train in a fixture of the module, with the fewest updates with which the test can fail.

All test processes share the servers and the fixtures of `build_once`, so no test writes into them.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import gc
import importlib.util
import logging
import os
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

IMPORTS = {
    "stock": (
        "fairseq.checkpoint_utils",
        "fairseq.options",
        "fairseq.sequence_generator",
        "fairseq.trainer",
        "torch._dynamo",  # imported by every optimizer
        "torch.distributed.run",
    ),
    "records": ("argparse", "difflib", "glob", "hashlib", "json", "shlex", "shutil", "dataclasses"),
    "text": ("numpy", "sacrebleu", "sentencepiece", "fairseq_ssl.metrics"),
}
"""Modules that a server imports, by its name."""


def preload(name: str) -> None:
    """Import the modules of a server, and let its commands start no processes by default.

    Each process with torch would import it again, and processes of fairseq's data loader take
    longer than a few batches.
    """
    for module in IMPORTS[name]:
        importlib.import_module(module)
    if name == "stock":
        from fairseq.dataclass.configs import DatasetConfig

        DatasetConfig.__dataclass_fields__["num_workers"].default = 0
    elif name == "text":
        preload_commands()


def preload_commands() -> None:
    """Import all commands and spaCy, without torch."""
    from fairseq_ssl.cli.main import COMMANDS, load_command
    from fairseq_ssl.metrics.edit_extraction import Annotator

    for command in COMMANDS:
        load_command(command)
    if importlib.util.find_spec("errant"):  # absent with stock fairseq
        Annotator(None)  # imports spaCy without torch
    assert "torch" not in sys.modules


class Command(NamedTuple):
    """A running command."""

    client: socket.socket
    process: int
    ended: int
    """A file descriptor of the process, readable when it has ended."""


def main(path: str) -> None:
    """Serve at the socket `path`, whose name is the server's, until the test closes stdin."""
    first = "stock" if Path(path).name == "fairseq" else "records"
    preload(first)
    gc.freeze()  # garbage collection in a fork would copy the memory it visits
    listening = _listen(str(Path(path).with_name(first)))
    if os.fork() == 0:
        _serve(listening)
        return
    listening.close()
    if first == "records":
        preload("text")
    from fairseq_ssl.io import executors  # registers its names after fairseq, as with --user-dir

    executors.cpu_count = lambda: 1
    gc.freeze()
    listening = _listen(path)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    _serve(listening)


def _listen(path: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    return listening


def _serve(listening: socket.socket) -> None:
    running: list[Command] = []
    while True:
        files = [file for command in running for file in (command.client, command.ended)]
        ready = select.select([listening, sys.stdin, *files], [], [])[0]
        if sys.stdin in ready:
            return
        for command in list(running):
            if command.client in ready or command.ended in ready:
                running.remove(command)
                _finish(command)
        if listening in ready:
            running += _start(listening, running)


def _start(listening: socket.socket, running: list[Command]) -> list[Command]:
    """Start the command that a client sends, if it sends one. Return it."""
    client, _ = listening.accept()
    data, files, _, _ = socket.recv_fds(client, 2**16, 3)
    while not data.endswith(b"\n"):
        more = client.recv(2**16)
        if not more:  # the client was killed
            for file in (*files, client.detach()):
                os.close(file)
            return []
        data += more
    process = os.fork()
    if process == 0:
        listening.close()
        client.close()
        for other in running:
            other.client.close()
        words, environment, folder = ast.literal_eval(data.decode())
        _become(words, environment, folder, files)
    for file in files:
        os.close(file)
    return [Command(client, process, os.pidfd_open(process))]


def _finish(command: Command) -> None:
    """Send the exit code of a command to its client. Kill it if its client has exited before."""
    os.kill(command.process, signal.SIGKILL)  # without effect on a command that has ended
    _, status = os.waitpid(command.process, 0)
    os.close(command.ended)
    code = os.waitstatus_to_exitcode(status)
    with command.client, contextlib.suppress(BrokenPipeError):
        command.client.sendall(bytes([code if code >= 0 else 128 - code]))


def _become(
    words: list[str], environment: dict[str, str], folder: str, files: list[int]
) -> NoReturn:
    """Become the command and exit with its exit code."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    added = [str(Path(entry).resolve()) for entry in environment.get("PYTHONPATH", "").split(":")]
    sys.path[:0] = [entry for entry in added if entry not in sys.path]
    sys.argv = words
    command = Path(sys.executable).with_name(Path(words[0]).name)
    sys.modules["__main__"].__file__ = str(command)  # imported by the worker processes it spawns
    name = command.name.removeprefix("fairseq-")
    if name in ("train", "ssl", "torchrun"):
        logging.root.handlers.clear()  # as before the import of fairseq, which creates one
    if name == "ssl":
        _end(importlib.import_module("fairseq_ssl.cli.main").main)
    elif name == "python":
        sys.executable = words[0]  # for benchmarks that start others
        sys.argv = words[1:]
        sys.path.insert(0, str(Path(words[1]).parent))
        _end(lambda: runpy.run_path(words[1], run_name="__main__") and None)
    elif name == "torchrun":
        _end(importlib.import_module("torch.distributed.run").main)
    else:
        _end(importlib.import_module(f"fairseq_cli.{name.replace('-', '_')}").cli_main)


def _end(command: Callable[[], Any]) -> NoReturn:
    """Run a command and exit as Python does, without the cleanup of the server's modules."""
    try:
        code = command()
    except SystemExit as told:
        code = told.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    main(sys.argv[1])
