"""Shared fixtures: real commands, a toy corpus, a trained model, a browser."""

from __future__ import annotations

import atexit
import fcntl
import gc
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("fairseq_ssl", deadline=None)  # other work may run beside
hypothesis.settings.load_profile("fairseq_ssl")

OLD_HYDRA = version("hydra-core").startswith("1.0.")
"""Stock fairseq 0.12.2 needs Hydra 1.0, in which models of a plug-in have no group."""
ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fairseq_ssl"
sys.path.append(str(ROOT / "scripts/docs"))
BIN = Path(sys.executable).parent


class Attack:
    """Unpickling it without protection creates the file `canary`."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.canary}",)


Run = Callable[..., subprocess.CompletedProcess[str]]

CORPUS = (
    *("--train-lines", "2000", "--test-lines", "20"),
    *("--numbers", "12", "--trained-length", "4", "--longest", "6"),
)
"""A corpus that a tiny model learns to write some of after a few hundred updates."""

TINY = (
    *("--source-lang", "words", "--target-lang", "digits", "--share-all-embeddings"),
    *("--encoder-normalize-before", "--decoder-normalize-before"),
    *("--optimizer", "adam", "--lr", "3e-3", "--lr-scheduler", "inverse_sqrt"),
    *("--warmup-updates", "100", "--criterion", "cross_entropy", "--max-tokens", "1000"),
    *("--log-format", "simple", "--log-interval", "50", "--seed", "1", "--cpu"),
)
"""Options of fast training runs on the CPU with the toy corpus."""


def environment(**changes: str) -> dict[str, str]:
    """The environment a command of a test gets: this Python's scripts, one thread, no Slurm job.

    Servers that have imported fairseq or the text tools run the commands of fairseq and of the
    package, and `python` with a benchmark or a script of a recipe, unless `changes` have
    REAL_COMMANDS.
    """
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    inherited = {name: value for name, value in os.environ.items() if name[:6] != "SLURM_"}
    # Without buffers, the lines of stdout and stderr are in the order in which they were printed.
    plain = {**inherited, "PATH": path, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    if "REAL_COMMANDS" not in {**os.environ, **changes}:
        folder = command_servers()
        plain |= {"PATH": f"{folder}{os.pathsep}{path}", "COMMAND_SERVERS": folder}
    return {**plain, **changes}


@cache
def command_servers() -> str:
    """The folder of stand-ins for commands; their servers run as long as the tests."""
    if "COMMAND_SERVERS" in os.environ:
        return os.environ["COMMAND_SERVERS"]
    folder = tempfile.mkdtemp(prefix="commands-")
    atexit.register(shutil.rmtree, folder)
    names = ("train", "hydra-train", "generate", "interactive", "preprocess", "validate", "ssl")
    for name in ("python", "torchrun", *(f"fairseq-{name}" for name in names)):
        (Path(folder) / name).symlink_to(ROOT / "tests/commands/client.py")
    servers = [
        subprocess.Popen(
            [sys.executable, ROOT / "tests/commands/server.py", f"{folder}/{name}"],
            env=environment(REAL_COMMANDS="1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in ("fairseq", "text")
    ]
    for server in servers:
        atexit.register(server.kill)
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n", "a server of commands did not start"
    return folder


def pytest_configure(config: pytest.Config) -> None:
    """Start one set of servers for all processes of xdist, which inherit the folder."""
    if getattr(config.option, "numprocesses", None) and "REAL_COMMANDS" not in os.environ:
        os.environ["COMMAND_SERVERS"] = command_servers()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Import all tests without garbage collection, which would take two seconds per process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def run_command(
    *words: str | Path,
    cwd: Path | None = None,
    code: int = 0,
    text: str | None = None,
    **changes: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and check its exit code; `changes` go into the environment."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment(**changes),
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    shown = f"{' '.join(map(str, words))}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    assert done.returncode == code, shown
    return done


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of skipped tests by reason, shorter than pytest's -rs."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}", yellow=True)


torch.ones(100_000 * torch.get_num_threads()).mul_(2)
"""Starts torch's threads, which else would flush denormal numbers if the first test does."""


@pytest.fixture(autouse=True)
def exact_numbers() -> Iterator[None]:
    """Let no test leave the processor flushing denormal numbers, as classifiers make it."""
    yield
    torch.set_flush_denormal(False)


@pytest.fixture(scope="session")
def run() -> Run:
    return run_command


def build_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """Build a folder in the first process of xdist that needs it. All processes read it."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, complete = root / name, root / f"{name}.complete"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            complete.touch()
    return folder


@pytest.fixture(scope="session")
def toy_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy corpus as text: lists of number words, and their digits."""
    maker = ROOT / "examples/common/number_words.py"
    return build_once(
        tmp_path_factory,
        "toy_text",
        lambda folder: run_command(sys.executable, maker, folder, *CORPUS),
    )


@pytest.fixture(scope="session")
def toy_data(toy_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy corpus, binarized with one dictionary for both sides."""
    words = ("fairseq-preprocess", "-s", "words", "-t", "digits", "--joined-dictionary")
    prefixes = [f"--{split}pref={toy_text / split}" for split in ("train", "valid", "test")]
    return build_once(
        tmp_path_factory,
        "toy_data",
        lambda folder: run_command(*words, *prefixes, "--destdir", folder),
    )


def train(data: Path, save_dir: Path, *flags: str, arch: str = "shape_transformer_tiny") -> str:
    """Train on `data` with `TINY` and these flags; returns what was printed."""
    words: list[str | Path] = ["fairseq-train", data, "--user-dir", PACKAGE, "--arch", arch]
    words += ["--save-dir", save_dir, *TINY, *flags]
    done = run_command(*words)
    return done.stdout + done.stderr


def weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The model in a checkpoint that a test has made itself, on any version of torch."""
    model: dict[str, torch.Tensor] = torch.load(checkpoint, weights_only=False)["model"]
    return trained_only(model)


def trained_only(model: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Leave out what fairseq 0.12.2 stores and never trains: a dummy, and copies of weights."""
    untrained = re.compile(r"\.(_float_tensor|(in_proj|out_proj|fc1|fc2)_(weight|bias))$")
    return {name: weight for name, weight in model.items() if not untrained.search(name)}


@pytest.fixture(scope="session")
def trained(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with a tiny SHAPE model: 5 checkpoints by update, 2 by epoch."""
    flags = ("--shape-max-shift", "8", "--dropout", "0.1")
    updates = ("--max-update", "250", "--save-interval-updates", "50")
    return build_once(
        tmp_path_factory, "trained", lambda folder: train(toy_data, folder, *flags, *updates)
    )


@pytest.fixture(scope="session")
def learner_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """{train,valid}.{src,trg,edits} of learners, binarized in bin/; a tiny bert/ and electra/."""
    from tests.plugin import edit_corpus

    return build_once(tmp_path_factory, "learner_data", edit_corpus.build_data)


@pytest.fixture(scope="session")
def taggers(learner_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Edit taggers: learned.pt, which corrects, and some after 4 updates.

    learned.pt and token.pt read tokens, and need bin/, which is that of `learner_data`.
    bert.pt, unfactorized.pt (with the same BERT) and electra.pt (unfactorized) read words.
    """
    from tests.plugin import edit_corpus

    return build_once(
        tmp_path_factory, "taggers", lambda folder: edit_corpus.build_taggers(folder, learner_data)
    )


@pytest.fixture(scope="session")
def classifiers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text classifiers: data/, and checkpoint_last.pt in expert/, imitators/ and mixture/."""
    from tests.plugin import classification

    return build_once(tmp_path_factory, "classifiers", classification.build)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver")
    path, service = shutil.which("chromium"), shutil.which("chromedriver")
    if not (path and service):
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{flag}")
    options.binary_location = path
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
    yield driver
    driver.quit()


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until a condition holds. Fail after some seconds."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds
        time.sleep(0.01)
