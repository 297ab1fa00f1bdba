"""Coverage-guided fuzzing of the readers of files (atheris).

Needs `pip install atheris`, and a folder for the corpus of inputs:

    python scripts/fuzz/readers.py m2 --seconds 60 --corpus corpus

Without a name, all readers are fuzzed one after another. A crash is printed with its traceback, and
its input is stored next to the corpus.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit("readers.py needs the package atheris. Install it with: pip install atheris")
with (
    contextlib.redirect_stderr(io.StringIO()),  # atheris prints a line for each module
    atheris.instrument_imports(include=["fairseq_ssl"]),
):
    from text_readers import READERS

    from fairseq_ssl.errors import FairseqSslError


def one_reader(name: str, seconds: int, folder: Path) -> None:
    """Fuzz a reader for `seconds` in this process, which atheris then ends."""
    read, sample = READERS[name]
    file = Path(tempfile.mkdtemp(dir="/dev/shm")) / name
    file.write_bytes(sample)
    read(file)  # a rejected sample would be useless as a start

    def try_it(data: bytes) -> None:
        file.write_bytes(data)
        with contextlib.suppress(FairseqSslError):  # the expected errors
            read(file)

    (folder / "sample").write_bytes(sample)
    words = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2000", "-max_len=6000"]
    atheris.Setup([name, str(folder), f"-artifact_prefix={folder}-", *words], try_it)
    atheris.Fuzz()


def broken(names: list[str], seconds: int, corpus: Path) -> Iterator[str]:
    """Fuzz the readers in child processes. Yield the traceback of each crash."""
    for name in names:
        words = [sys.executable, __file__, name, "--alone", "--corpus", str(corpus)]
        words += ["--seconds", str(seconds)]
        ended = subprocess.run(words, capture_output=True, text=True, check=False)
        output = ended.stderr + ended.stdout
        tried = re.findall(r"^#(\d+)\t", output, re.MULTILINE) or ["no"]
        outcome = "crashed" if ended.returncode else "passed"
        print(f"{name}: {outcome}, {tried[-1]} inputs", flush=True)
        if ended.returncode:
            trace = output[max(output.find(" === Uncaught Python exception"), 0) :]
            kept = [line for line in trace.splitlines() if not line.startswith(("#", "INFO"))]
            yield "\n".join([f"{name}:", *kept[-20:]])


def main() -> int:
    """Fuzz all readers, or some. Return 1 if a reader crashed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"readers: {', '.join(READERS)}")
    parser.add_argument(
        "--seconds", type=int, default=60, help="time for each reader in seconds (default: 60)"
    )
    parser.add_argument("--corpus", type=Path, help="folder for inputs that reach new code")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if wrong := set(args.names) - set(READERS):
        parser.error(
            f"There is no reader {sorted(wrong)[0]!r}. The readers are: {', '.join(READERS)}."
        )
    corpus = args.corpus or Path(tempfile.mkdtemp(prefix="readers-"))
    if args.alone:
        folder = corpus / args.names[0]
        folder.mkdir(parents=True, exist_ok=True)
        one_reader(args.names[0], args.seconds, folder)
    findings = list(broken(args.names or list(READERS), args.seconds, corpus))
    print("\n".join(findings))
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
