"""Parallel work: the processes of this machine, or the machines of a Ray cluster."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, Protocol, TypeVar

from fairseq_ssl.errors import DataError, import_optional

SPEECH_LOGGER = "fairseq.tasks.text_to_speech"
"""Who logs, when it is imported, that a package is missing which no verb needs."""
HYDRA_DEPRECATIONS = (
    r"hydra\.experimental\.",
    r"\s*The version_base parameter",
    r"In '.*': Usage of deprecated keyword in package header",
    r"\s*'.*' is validated against ConfigStore",
    r"\s*The strict flag in the compose API",
)
"""What Hydra says of the way in which fairseq calls it."""


def silence_library_warnings() -> None:
    """Keep it from standing above what a verb says; all else of these libraries is shown."""
    logging.getLogger(SPEECH_LOGGER).addFilter(_is_shown)
    logging.getLogger("hydra").setLevel(logging.INFO)
    for message in HYDRA_DEPRECATIONS:
        warnings.filterwarnings("ignore", message, UserWarning)


def _is_shown(record: logging.LogRecord) -> bool:
    return "tensorboardX" not in record.getMessage()


Item = TypeVar("Item")
Result = TypeVar("Result")
Handle = TypeVar("Handle")


class Executor(Protocol):
    """Spreads work over processes."""

    def imap(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what `work` makes of each item, in the items' order.

        `work` is sent to each process once. Only a few items are under way at a time, so that
        memory does not grow with their number.
        """


def imap_in_order(
    begin: Callable[[Item], Handle],
    end: Callable[[Handle], Result],
    items: Iterable[Item],
    most: int,
) -> Iterator[Result]:
    """Keep at most so many items begun, and end them in their order."""
    begun: deque[Handle] = deque()
    for item in items:
        begun.append(begin(item))
        if len(begun) >= most:
            yield end(begun.popleft())
    while begun:
        yield end(begun.popleft())


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h."""
KEPT_BYTES = 2**28

_work: Callable[[Any], Any] | None = None
_number = 0


def cpu_count() -> int:
    """Return how many this process may use."""
    return len(os.sched_getaffinity(0))


def worker_number() -> int:
    """Return which of the processes this one is, from 0."""
    return _number


Initializer = Callable[[], object]
"""Called in each process before it works. Calls after the first must do nothing."""


@dataclass(frozen=True)
class LocalExecutor:
    """Processes of this machine. One job works in the calling process."""

    jobs: int
    initializer: Initializer | None = None
    """For example `fairseq_ssl.register`, where models of fairseq are loaded."""

    def imap(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what `work` makes of each item, in the items' order."""
        if self.jobs == 1:
            _keep_freed_memory()
            if self.initializer is not None:
                self.initializer()
            yield from map(work, items)
            return
        context = _context()
        numbers = context.Value("i", 0)
        pool = ProcessPoolExecutor(
            self.jobs, context, _initialize_worker, (work, numbers, self.initializer)
        )
        try:
            yield from imap_in_order(
                lambda item: pool.submit(_call, item), Future[Result].result, items, 2 * self.jobs
            )
            pool.shutdown()
        except BrokenProcessPool:
            raise DataError(
                "A worker process was killed, perhaps for memory. Run the same command again. "
                "It needs less memory with fewer `jobs`."
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _context() -> multiprocessing.context.BaseContext:
    """Fork, which is quick, unless there are threads: a fork of a lock they hold would hang."""
    threads = threading.active_count() > 1 or "torch" in sys.modules
    return multiprocessing.get_context("spawn" if threads else "fork")


def _initialize_worker(
    work: Callable[[Any], Any], numbers: Any, initializer: Initializer | None
) -> None:
    global _work, _number  # one for each worker process
    _work = work
    with numbers.get_lock():
        _number = numbers.value
        numbers.value += 1
    _keep_freed_memory()
    silence_library_warnings()
    logging.getLogger("fairseq_ssl").setLevel(logging.ERROR)  # notices are the parent's to show
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if initializer is not None:
        initializer()


def _keep_freed_memory() -> None:
    """Let glibc keep what arrays of the next item need again.

    By default it hands the end of the heap back after each item, and the kernel has to clear
    every page of it anew for the next.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)


def _end_with_parent() -> None:
    """Leave no process behind when the one that asked is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _call(item: Any) -> Any:
    assert _work is not None
    return _work(item)


RETRIES = 20
"""How often an item is begun again when the machine that had it goes away."""


@dataclass(frozen=True)
class RayExecutor:
    """All CPUs of the cluster at `address`; None: one started here, or that RAY_ADDRESS names.

    This package must be installed on every machine. What a lost machine was doing, or had
    done and not yet handed over, is done again elsewhere.
    """

    address: str | None = None
    cpus: float = 1
    """What an item takes of a machine."""
    gpus: float = 0
    initializer: Initializer | None = None

    def imap(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what `work` makes of each item, in the items' order."""
        ray = self._connected()
        sent = ray.put(work)
        task = ray.remote(_call_remote).options(
            num_cpus=self.cpus, num_gpus=self.gpus, max_retries=RETRIES
        )
        most = 2 * max(1, self._at_a_time(ray.cluster_resources()))
        try:
            yield from imap_in_order(
                lambda item: task.remote(sent, item, self.initializer), ray.get, items, most
            )
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise DataError(
                f"The Ray cluster lost too much: {error}. Run the same command again."
            ) from None

    def _at_a_time(self, there: Mapping[str, float]) -> int:
        """Return how many items the cluster can work on; Ray gives each its own GPU."""
        name, needed = ("GPU", self.gpus) if self.gpus else ("CPU", self.cpus)
        return int(there.get(name, 1) / needed)

    def _connected(self) -> Any:
        ray = import_optional("ray", "Work on a Ray cluster", "ray")
        try:
            if not ray.is_initialized():
                ray.init(self.address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise DataError(f"There is no Ray cluster at {self.address}: {error}") from None
        return ray


def _call_remote(work: Callable[[Any], Any], item: Any, initializer: Initializer | None) -> Any:
    if initializer is not None:
        initializer()
    return work(item)
