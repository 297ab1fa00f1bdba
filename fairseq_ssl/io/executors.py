"""Executors that map functions over items with local processes or on a Ray cluster."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, check_positive, import_optional

__all__ = ["Executor", "LocalExecutor", "RayExecutor"]

SPEECH_LOGGER = "fairseq.tasks.text_to_speech"
"""Logger that emits fairseq's message about tensorboardX, which this package does not need."""
LIBRARY_WARNINGS = (
    r"Support for mismatched key_padding_mask",
    r"hydra\.experimental\.",
    r"\s*The version_base parameter",
    r"In '.*': Usage of deprecated keyword in package header",
    r"\s*'.*' is validated against ConfigStore",
    r"\s*The strict flag in the compose API",
)
"""Regular expressions that match deprecation warnings of PyTorch and Hydra about fairseq."""


def silence_library_warnings() -> None:
    """Hide deprecation warnings about fairseq, its tensorboardX message and Hydra debug logs."""
    logging.getLogger(SPEECH_LOGGER).addFilter(_is_shown)
    logging.getLogger("hydra").setLevel(logging.INFO)
    for message in LIBRARY_WARNINGS:
        warnings.filterwarnings("ignore", message, UserWarning)


def _is_shown(record: logging.LogRecord) -> bool:
    return "tensorboardX" not in record.getMessage()


Item = TypeVar("Item")
Result = TypeVar("Result")
Handle = TypeVar("Handle")


class Executor(Protocol):
    """Interface of executors, which map a function over items, possibly in several processes."""

    def imap(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[Result, None, None]:
        """Yield the result of `work` for each item, in order.

        `work` must be picklable, and is sent to each process once. Items are read as needed, so
        that memory does not grow with their number. Closing the generator ends the processes.
        """


def imap_in_order(
    begin: Callable[[Item], Handle],
    end: Callable[[Handle], Result],
    items: Iterable[Item],
    most: int,
) -> Iterator[Result]:
    """Yield the results of asynchronous tasks in the order of the items.

    Args:
        begin: function that starts the task for an item and returns its handle
        end: function that waits for a task and returns its result
        items: arguments of `begin`, one for each task
        most: max number of concurrent tasks
    """
    begun: deque[Handle] = deque()
    for item in items:
        begun.append(begin(item))
        if len(begun) >= most:
            yield end(begun.popleft())
    while begun:
        yield end(begun.popleft())


_work: Callable[[Any], Any] | None = None
_number = 0


def cpu_count() -> int:
    """Return the number of CPUs that this process can use."""
    return len(os.sched_getaffinity(0))


def worker_number() -> int:
    """Return the index of this worker process, from 0. Return 0 in the parent process."""
    return _number


def is_worker() -> bool:
    """Return True in a worker process of `LocalExecutor`."""
    return _work is not None


Initializer = Callable[[], object]
"""Function that prepares a process for items. It must be safe to call repeatedly."""


@dataclass(frozen=True)
class LocalExecutor:
    """Executor that uses processes on this machine.

    With one job, or for a single item, it uses the calling process.
    """

    jobs: int
    """Number of processes, 1 or more."""
    initializer: Initializer | None = None
    """Function called in each process, such as `fairseq_ssl.register` for fairseq models."""

    def __post_init__(self) -> None:
        check_positive("jobs", self.jobs)

    def imap(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[Result, None, None]:
        """Yield the result of `work` for each item, in order.

        After an error or Ctrl-C, wait for the items in progress.
        """
        items = iter(items)
        head = list(islice(items, 2)) if self.jobs > 1 else []
        items = chain(head, items)
        if len(head) < 2:
            if self.initializer is not None:
                self.initializer()
            yield from map(work, items)
            return
        context = _context()
        numbers = context.Value("i", 0)
        pool = ProcessPoolExecutor(
            self.jobs, context, _initialize_worker, (work, numbers, self.initializer)
        )
        done = 0
        try:
            for result in imap_in_order(
                lambda item: pool.submit(_call, item), Future[Result].result, items, 2 * self.jobs
            ):
                done += 1
                yield result
            pool.shutdown()
        except OSError:  # a process could not be started, and the others would wait forever
            for process in list((pool._processes or {}).values()):
                process.terminate()
            raise
        except BrokenProcessPool:
            is_first = not done and context.get_start_method() == "spawn"
            hint = (
                " In a Python script, start the job below `if __name__ == '__main__':`. In a "
                "notebook, import your functions and classes from a module."
            ) * is_first
            raise DataError(
                "A worker process ended early, possibly because memory was full. Run the job "
                f"again, with a smaller value of `jobs` if memory was full.{hint}"
            ) from None
        finally:
            # Without waiting, Python 3.10 can deadlock: its manager thread waits for its own lock
            # if it deletes the pool during garbage collection.
            pool.shutdown(cancel_futures=True)


def _context() -> multiprocessing.context.BaseContext:
    """Return the multiprocessing context: fork, or spawn if other threads run or torch is loaded.

    A forked process could wait forever for a lock that another thread held during the fork.
    """
    threads = threading.active_count() > 1 or "torch" in sys.modules
    return multiprocessing.get_context("spawn" if threads else "fork")


def _initialize_worker(
    work: Callable[[Any], Any], numbers: Any, initializer: Initializer | None
) -> None:
    global _work, _number  # one value per worker process
    _work = work
    with numbers.get_lock():
        _number = numbers.value
        numbers.value += 1
    silence_library_warnings()
    logging.getLogger("fairseq_ssl").setLevel(logging.ERROR)  # the parent logs warnings
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if initializer is not None:
        initializer()


def _end_with_parent() -> None:
    """Exit when the parent process ends, even if it is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _call(item: Any) -> Any:
    assert _work is not None
    try:
        return _work(item)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # the parent would take it for a killed process
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        raise


CONNECT = 10
"""Timeout in seconds for connecting to the cluster address."""
RETRIES = 20
"""Max number of retries per item after machine failures."""


@dataclass(frozen=True)
class RayExecutor:
    """Executor that uses all machines of a Ray cluster.

    This package must be installed on all machines. If a machine fails, its unfinished items are
    processed on other machines.
    """

    address: str | None = None
    """Address of the cluster (default: $RAY_ADDRESS, or a new cluster on this machine)."""
    cpus: float = 1
    """Number of CPUs per item."""
    gpus: float = 0
    """Number of GPUs per item."""
    initializer: Initializer | None = None
    """Function called before each item, such as `fairseq_ssl.register` for fairseq models."""

    def imap(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Generator[Result, None, None]:
        """Yield the result of `work` for each item, in order."""
        ray = self._connected()
        sent = ray.put(pickle.dumps((work, self.initializer)))
        task = ray.remote(_call_remote).options(
            num_cpus=self.cpus, num_gpus=self.gpus, max_retries=RETRIES
        )
        most = 2 * max(1, self._parallel_items(ray.cluster_resources()))
        try:
            yield from imap_in_order(
                lambda item: task.remote(__version__, str(Path.cwd()), sent, item),
                ray.get,
                items,
                most,
            )
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise DataError(f"The Ray cluster failed: {error}. Run the job again.") from None

    def _parallel_items(self, resources: Mapping[str, float]) -> int:
        """Return the number of items that the cluster can process in parallel."""
        name, needed = ("GPU", self.gpus) if self.gpus else ("CPU", self.cpus)
        return int(resources.get(name, 1) / needed)

    def _connected(self) -> Any:
        ray = import_optional("ray", "Running on a Ray cluster", "ray")
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        try:
            if not ray.is_initialized():
                _check_port(address)
                own = {"include_dashboard": False} if address == "local" else {}
                ray.init(address, log_to_driver=False, configure_logging=False, **own)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"Ray failed with the cluster address {address}: {error}. Expected HOST:PORT of a "
                "running cluster, or local to start one on this machine."
            ) from None
        return ray


def _check_port(address: str) -> None:
    """Raise OSError if HOST:PORT does not accept connections. Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=CONNECT).close()


def _call_remote(version: str, folder: str, sent: bytes, item: Any) -> Any:
    """Call a function in a Ray worker. Change to the caller's working folder if it exists."""
    if version != __version__:
        raise DataError(
            f"A machine of the Ray cluster has version {__version__} of fairseq_ssl. Expected "
            f"{version}. Install the same version on all machines."
        )
    with suppress(OSError):
        os.chdir(folder)
    work, initializer = _unpickled(sent)
    if initializer is not None:
        initializer()
    return work(item)


@lru_cache(maxsize=1)
def _unpickled(sent: bytes) -> Any:
    """Return the unpickled function and initializer. Each worker process caches them."""
    return pickle.loads(sent)
