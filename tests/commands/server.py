"""Runs commands and benchmarks for tests, each in a fork of a process that knows fairseq already.

The import takes longer than most of what tests ask of a command. `client.py`, which stands in a
command's place, sends the words, the environment, the folder and the three open files; the fork
takes them all over and calls what the command calls. Where a command itself is what is tested, or
is killed, tests run the real one: ``environment(REAL_COMMANDS="1")``.
"""

from __future__ import annotations

import atexit
import gc
import importlib
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

import fairseq.checkpoint_utils
import fairseq.options
import fairseq.sequence_generator
import fairseq.trainer
import torch._dynamo  # which every optimizer imports when it is made

import fairseq_ssl  # as --user-dir does

del fairseq, torch, fairseq_ssl


def main(path: str) -> None:
    """Serve at the socket `path` until stdin, which the asking test holds open, is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that serve
    gc.freeze()  # a collection in a fork would copy all that it looks at
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
    """Run one command; it ends when its client is gone."""
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
    """Be the command, and end as it does."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    command = Path(sys.executable).with_name(Path(words[0]).name)
    sys.modules["__main__"].__file__ = str(command)  # what worker processes that it spawns import
    name = command.name.removeprefix("fairseq-")
    if name in ("train", "ssl"):
        logging.root.handlers.clear()  # as it is before the import of fairseq, which makes one
    if name == "ssl":
        _end(importlib.import_module("fairseq_ssl.cli.main").main)
    elif name == "python":
        sys.argv = words[1:]
        sys.path.insert(0, str(Path(words[1]).parent))
        _end(lambda: runpy.run_path(words[1], run_name="__main__") and None)
    else:
        _end(importlib.import_module(f"fairseq_cli.{name}").cli_main)


def _end(command: Callable[[], Any]) -> None:
    """Run a command and leave as Python does, but for tearing down all that the server had."""
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
