"""Work spread over the processes of this machine."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, TypeVar

from fairseq_ssl.engines.engine import in_order
from fairseq_ssl.engines.library_advice import hide_library_advice
from fairseq_ssl.errors import DataError

Item = TypeVar("Item")
Result = TypeVar("Result")

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h."""
KEPT = 2**28

_work: Callable[[Any], Any] | None = None
_number = 0


def cores() -> int:
    """Return how many this process may use."""
    return len(os.sched_getaffinity(0))


def worker_number() -> int:
    """Return which of the processes this one is, from 0."""
    return _number


@dataclass(frozen=True)
class LocalEngine:
    """So many processes; with one, the work is done where it is asked for."""

    jobs: int

    def ordered(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what `work` makes of each item, in the items' order."""
        if self.jobs == 1:
            _keep_freed_memory()
            yield from map(work, items)
            return
        context = _context()
        numbers = context.Value("i", 0)
        pool = ProcessPoolExecutor(self.jobs, context, _begin, (work, numbers))
        try:
            yield from in_order(
                lambda item: pool.submit(_do, item), Future[Result].result, items, 2 * self.jobs
            )
            pool.shutdown()
        except BrokenProcessPool:
            raise DataError(
                "A worker process was killed, perhaps for memory. Run the same command again; with "
                "fewer --jobs it needs less."
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _context() -> multiprocessing.context.BaseContext:
    """Fork, which is quick, unless there are threads: a fork of a lock they hold would hang."""
    threads = threading.active_count() > 1 or "torch" in sys.modules
    return multiprocessing.get_context("spawn" if threads else "fork")


def _begin(work: Callable[[Any], Any], numbers: Any) -> None:
    global _work, _number  # one for each worker process
    _work = work
    with numbers.get_lock():
        _number = numbers.value
        numbers.value += 1
    _keep_freed_memory()
    hide_library_advice()
    logging.getLogger("fairseq_ssl").setLevel(logging.ERROR)  # notices are the parent's to show
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asked
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _keep_freed_memory() -> None:
    """Let glibc keep what arrays of the next item need again.

    By default it hands the end of the heap back after each item, and the kernel has to clear
    every page of it anew for the next.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT)
        mallopt(M_MMAP_THRESHOLD, KEPT)


def _end_with_parent() -> None:
    """Leave no process behind when the one that asked is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _do(item: Any) -> Any:
    assert _work is not None
    return _work(item)
