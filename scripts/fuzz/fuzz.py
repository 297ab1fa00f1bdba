"""Fuzz commands and recipe scripts: report tracebacks, hangs and memory growth on hostile inputs.

A finding is printed with its seed. Reproduce it with --only NAME --first SEED --inputs 1.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, cast

from hostile import NUMBERS, write
from model_targets import MODEL_TARGETS
from recipe_targets import RECIPE_TARGETS
from small_models import folder as models
from targets import TARGETS, Target

from fairseq_ssl.cli.main import main as fairseq_ssl

ALL = TARGETS | MODEL_TARGETS | RECIPE_TARGETS
ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30
"""Maximum CPU time of an input. The maximum wall time is ten times as long, for busy machines."""
GROWTH = 200 * 2**20
"""Maximum growth of the process in bytes after the first tenth of the inputs."""


class HangError(Exception):
    """An input exceeded the maximum time."""


def words_of(target: Target, folder: Path, draw: random.Random | None) -> list[str]:
    """Write the files of an input, mutated unless `draw` is None. Return its command line."""
    names = {"out": str(folder / "out")}
    for name, sample in target.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = sample if isinstance(sample, bytes) else (models() / sample).read_bytes()
        write(path, data, draw)
        names |= {name: str(path), name.partition(".")[0]: str(path)}
        names[name.partition("/")[0]] = str(folder / name.partition("/")[0])
    words = target.words.split()
    if "{models}" in target.words:
        names["models"] = str(models())
    if draw:
        for option in target.numbers:
            if draw.random() < 0.1:
                words += [f"{option}={draw.choice(NUMBERS)}"]
        words += [word for word in target.extras if draw.random() < 0.2]
    for name, place in names.items():
        words = [word.replace(f"{{{name}}}", place) for word in words]
    return words


def check_valid_input(target: Target, folder: Path) -> str | None:
    """Run a command on unchanged samples. Return an error message if it fails, else None."""
    words = words_of(target, folder, None)
    wrong = outcome(target.program, words, (0,))
    return wrong and f"{' '.join(words)}\n{wrong}"


@cache
def script(path: str) -> Callable[[], None]:
    """Import a script of a recipe. Return its function `main`."""
    sys.path.append(str((ROOT / path).parent))
    module = import_module(Path(path).stem)
    return cast(Callable[[], None], module.main)


def run(program: str, words: list[str]) -> int:
    """Run `fairseq-ssl` or a script of a recipe. Return the exit code."""
    if not program:
        return fairseq_ssl(words)
    sys.argv = [program, *words]
    script(program)()
    return 0


def outcome(program: str, words: list[str], codes: tuple[int, ...] = (0, 1, 2)) -> str | None:
    """Run a command. Return an error message if it ends with a bug, else None."""
    stream = io.TextIOWrapper(data := io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    try:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream), _alarm():
            code = run(program, words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
        if isinstance(ended.code, str):
            print(ended.code, file=stream)
    except HangError:
        return f"took more than {SECONDS} s of CPU time or {10 * SECONDS} s of wall time"
    except BaseException:
        return traceback.format_exc(limit=-10)
    stream.flush()
    output = data.getvalue().decode().strip()
    if code not in codes or (code and not output):
        return f"exit code {code}: {output[-500:]}"
    return None


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def ring(*_: Any) -> NoReturn:
        raise HangError

    timers = {signal.ITIMER_PROF: SECONDS, signal.ITIMER_REAL: 10 * SECONDS}
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, ring)
    for timer, seconds in timers.items():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer in timers:
            signal.setitimer(timer, 0)


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def fuzz(name: str, target: Target, first: int, inputs: int) -> list[str]:
    """Run a command on the inputs of consecutive seeds. Return one finding of each kind."""
    begun, size = time.time(), 0
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    findings = {"valid": wrong} if (wrong := check_valid_input(target, folder)) else {}
    for seed in range(first, first + inputs):
        shutil.rmtree(folder)
        folder.mkdir()
        words = words_of(target, folder, random.Random(f"{name} {seed}"))
        wrong = outcome(target.program, words)
        if wrong:
            kind = wrong.strip().splitlines()[-1][:80]
            findings.setdefault(kind, f"{name}, seed {seed}: {' '.join(words)}\n{wrong}")
        if seed == first + inputs // 10:
            size = resident()
    shutil.rmtree(folder)
    grown = resident() - size
    if inputs >= 1000 and grown > GROWTH:
        findings["memory"] = f"{name}: memory grew by {grown >> 20} MiB in {inputs} inputs"
    print(
        f"{name}: {inputs} inputs, {len(findings)} kinds of findings, {time.time() - begun:.0f} s, "
        f"{max(grown, 0) >> 20} MiB",
        flush=True,
    )
    return list(findings.values())


def main() -> int:
    """Fuzz all commands, or some. Return 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names or prefixes of names")
    parser.add_argument(
        "--inputs", type=int, default=10_000, help="number of inputs for each name (default: 10000)"
    )
    parser.add_argument(
        "--first", type=int, default=0, metavar="SEED", help="seed of the first input (default: 0)"
    )
    args = parser.parse_args()
    os.environ["COLUMNS"] = "100"
    only = tuple(args.only or [""])
    chosen = {name: target for name, target in ALL.items() if name.startswith(only)}
    if not chosen or args.inputs < 1:
        parser.error(f"There is nothing to run. The names are: {', '.join(ALL)}.")
    findings = []
    for name, target in chosen.items():
        findings += fuzz(name, target, args.first, args.inputs)
    print("\n".join(findings))
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
