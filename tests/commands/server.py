"""Server that runs commands and benchmarks of tests in forks of a process with their imports.

The imports take longer than most commands of tests. The server `fairseq` has imported fairseq. The
server `text` has imported what verbs without torch need, because torch would change how they start
processes. `client.py`, which replaces a command, sends its arguments, environment, folder and three
open files. The fork adopts them and calls the entry
point. Tests of the commands themselves, or that kill them, run the real ones with
``environment(REAL_COMMANDS="1")``.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import json
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
from typing import Any

IMPORTS = {
    "fairseq": (
        "fairseq.checkpoint_utils",
        "fairseq.options",
        "fairseq.sequence_generator",
        "fairseq.trainer",
        "torch._dynamo",  # imported by every optimizer
        "fairseq_ssl",  # after fairseq, as by --user-dir: registers its names
    ),
    "text": ("numpy", "sacrebleu", "sentencepiece", "fairseq_ssl.metrics"),
}
"""Modules that a server imports, by its name."""


def preload(name: str) -> None:
    """Import the modules of a server, and the verbs for `text`."""
    for module in IMPORTS[name]:
        importlib.import_module(module)
    if name == "text":
        from fairseq_ssl.cli.main import VERBS, load_verb
        from fairseq_ssl.metrics.edit_extraction import Annotator

        for verb in VERBS:
            load_verb(verb)
        if importlib.util.find_spec("errant"):  # absent with stock fairseq
            Annotator(None)  # imports spaCy without torch
        assert "torch" not in sys.modules


def main(path: str) -> None:
    """Serve at the socket `path`, whose name is the server's, until the test closes stdin."""
    preload(Path(path).name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    gc.freeze()  # garbage collection in a fork would copy the memory it visits
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            asked, _ = listening.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listening.close()
                _serve(asked)
                return
            asked.close()


def _serve(asked: socket.socket) -> None:
    """Run a command. Kill it when its client exits."""
    data, files, _, _ = socket.recv_fds(asked, 2**16, 3)
    while not data.endswith(b"\n"):
        more = asked.recv(2**16)
        if not more:  # the client was killed
            os._exit(0)
        data += more
    words, environment, folder = json.loads(data)
    child = os.fork()
    if child == 0:
        asked.close()
        _become(words, environment, folder, files)
        return
    for file in files:
        os.close(file)
    ended = os.pidfd_open(child)
    if asked.fileno() in select.select([asked.fileno(), ended], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    asked.sendall(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def _become(words: list[str], environment: dict[str, str], folder: str, files: list[int]) -> None:
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
    if name in ("train", "ssl"):
        logging.root.handlers.clear()  # as before the import of fairseq, which creates one
    if name == "ssl":
        _end(importlib.import_module("fairseq_ssl.cli.main").main)
    elif name == "python":
        sys.argv = words[1:]
        sys.path.insert(0, str(Path(words[1]).parent))
        _end(lambda: runpy.run_path(words[1], run_name="__main__") and None)
    else:
        _end(importlib.import_module(f"fairseq_cli.{name}").cli_main)


def _end(command: Callable[[], Any]) -> None:
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
