"""Count the files of the package that take part in a request.

Each request processes three lines: `fairseq-interactive` with an edit tagger, `fairseq-ssl noise`
and `fairseq-ssl back-translate`. It runs twice in this process, the second time under a profiler,
so that calls during the import of modules do not count.

    python scripts/trace_request.py            print the number of files
    python scripts/trace_request.py --files    also print the files in the order of their first call
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fairseq_ssl"
LINES = "a b c\nd e\nf g a b\n"
TAGGER = ("--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "8")
Calls = dict[str, set[str]]
"""Called functions by file, in the order of the first call."""


def trace(request: Callable[[], None]) -> Calls:
    """Run a request twice and return the calls of the second run."""
    calls: Calls = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & CO_OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(f"{PACKAGE}{os.sep}"):
            name = os.path.relpath(code.co_filename, PACKAGE)
            calls.setdefault(name, set()).add(f"{code.co_name}:{code.co_firstlineno}")

    request()
    sys.setprofile(note)
    try:
        request()
    finally:
        sys.setprofile(None)
    return calls


def main() -> int:
    """Print the number of files of each request."""
    options = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    options.add_argument("--files", action="store_true", help="print the files of each request")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, request in requests(Path(folder)).items():
            printed = io.TextIOWrapper(io.BytesIO())
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                calls = trace(request)
            lines = sum((PACKAGE / file).read_text("utf-8").count("\n") for file in calls)
            functions = sum(map(len, calls.values()))
            print(f"{name}: {len(calls)} files, {functions} functions, {lines} lines")
            for file in calls if args.files else ():
                print(f"  {file}")
    return 0


def requests(folder: Path) -> dict[str, Callable[[], None]]:
    """Write models with random weights and three lines. Return the requests by name."""
    sys.path.insert(0, str(ROOT))
    from fairseq_ssl.cli.main import main as command
    from tests.unit.inference import random_models

    data = random_models.data_folder(folder / "data")
    model = random_models.translation(folder / "translation.pt", data, 1)
    tagger_data = random_models.data_folder(folder / "tagger-data")
    shutil.copyfile(tagger_data / "dict.src.txt", tagger_data / "dict.trg.txt")
    tagger = random_models.encoding(folder / "tagger.pt", tagger_data, "edit_tagger_small", *TAGGER)
    Path("lines").write_text(LINES, encoding="utf-8")

    def run(*words: str) -> Callable[[], None]:
        def request() -> None:
            if command([*words, "--force"]):
                raise RuntimeError(f"fairseq-ssl {words[0]} failed")

        return request

    return {
        "fairseq-interactive with an edit tagger": lambda: interactive(tagger_data, tagger),
        "noise": run("noise", "lines", "--method", "direct", "-o", "noisy", "--jobs", "1"),
        "back-translate": run(
            *("back-translate", "lines", "--model", str(model), "--data-dir", str(data)),
            *("-o", "made", "--jobs", "1", "--device", "cpu"),
        ),
    }


def interactive(data: Path, tagger: Path) -> None:
    """Run fairseq-interactive on the three lines."""
    from fairseq import distributed_utils, options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq_cli import interactive

    words = ["--user-dir", str(PACKAGE), "--task", "edit_labeling", "-s", "src", "-t", "trg"]
    words += ["--path", str(tagger), "--input", "lines", str(data)]
    parsed = options.parse_args_and_arch(options.get_interactive_generation_parser(), words)
    config = convert_namespace_to_omegaconf(parsed)
    distributed_utils.call_main(config, interactive.main)


if __name__ == "__main__":
    sys.exit(main())
