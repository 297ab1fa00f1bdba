"""Local processes: order of results, errors, and killed workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from fairseq_ssl.errors import DataError
from fairseq_ssl.io.executors import LocalExecutor


def squared(number: int) -> int:
    time.sleep(0.01 * (number % 3))
    return number * number


def process_of(number: int) -> int:
    return os.getpid()


def dying(number: int) -> int:
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def failing(number: int, two_parts: bool = False) -> int:
    if two_parts:
        raise TwoPartsError("wrong", number)
    if number == 5:
        raise DataError("five")
    return number


def test_a_process_that_cannot_be_started_is_an_error() -> None:
    code = (
        "from fairseq_ssl.io.executors import LocalExecutor\n"
        "import os, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir('/dev/fd')) + 8,) * 2)\n"
        "list(LocalExecutor(9).imap(str, range(20)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.endswith("OSError: [Errno 24] Too many open files\n")


def test_a_single_item_needs_no_other_process() -> None:
    assert list(LocalExecutor(2).imap(process_of, [0])) == [os.getpid()]
    assert os.getpid() not in LocalExecutor(2).imap(process_of, [0, 1])


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_come_in_order(jobs: int) -> None:
    assert list(LocalExecutor(jobs).imap(squared, range(20))) == [n * n for n in range(20)]


def test_processes_end_before_an_outer_block() -> None:
    """They may still write to files that the end of the outer block deletes."""
    running: list[int] = []

    @contextmanager
    def files() -> Iterator[None]:
        try:
            yield
        finally:
            running.append(len(multiprocessing.active_children()))

    def results() -> Iterator[int]:
        with files(), closing(LocalExecutor(2).imap(squared, range(20))) as found:
            for result in found:
                yield -result  # not `yield from`, which would close `found`

    begun = results()
    next(begun)
    assert multiprocessing.active_children()
    begun.close()  # type: ignore[attr-defined]
    assert running == [0]


def initialize() -> None:
    os.environ["INITIALIZED"] = "yes"


def initialized(number: int) -> str | None:
    return os.environ.get("INITIALIZED")


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_process_is_initialized(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INITIALIZED", "")
    assert set(LocalExecutor(jobs).imap(initialized, range(5))) == {""}
    assert set(LocalExecutor(jobs, initialize).imap(initialized, range(5))) == {"yes"}


class TwoPartsError(Exception):
    """An error that pickle cannot create again."""

    def __init__(self, what: str, where: int) -> None:
        super().__init__(f"{what} at {where}")


def test_an_error_that_cannot_be_pickled_is_raised_in_the_caller() -> None:
    with pytest.raises(RuntimeError, match="TwoPartsError: wrong at 0"):
        list(LocalExecutor(2).imap(partial(failing, two_parts=True), [0, 1]))


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_are_raised_in_the_caller_after_the_processes_have_ended(jobs: int) -> None:
    threads = set(threading.enumerate())
    with pytest.raises(DataError, match="five"):
        list(LocalExecutor(jobs).imap(failing, range(9)))
    assert not multiprocessing.active_children()
    assert set(threading.enumerate()) <= threads


def test_a_killed_worker_is_reported() -> None:
    with pytest.raises(DataError, match="worker process ended early"):
        list(LocalExecutor(2).imap(dying, range(9)))


def test_a_script_that_cannot_be_imported_gets_advice(tmp_path: Path) -> None:
    """Other threads make new processes import the script."""
    script = tmp_path / "script.py"
    script.write_text(
        "import threading\n"
        "from fairseq_ssl.io.executors import LocalExecutor\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "list(LocalExecutor(2).imap(abs, [1, 2]))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert "if __name__ == '__main__':" in done.stderr.splitlines()[-1]


def test_items_are_read_lazily() -> None:
    taken = []

    def items() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    results = LocalExecutor(2).imap(squared, items())
    next(results)
    assert len(taken) == 4  # two for each process
