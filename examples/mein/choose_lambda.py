"""Select the initial lambda of a mixture by dev accuracy."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from fairseq_ssl.checkpoints.files import read_checkpoint
from fairseq_ssl.errors import FairseqSslError
from fairseq_ssl.io.outputs import atomic_lines, atomic_path


def choose(folder: Path, starts: list[str]) -> None:
    """Copy the best model to final.pt and write lambda.json. The first of equal values wins."""
    paths = {start: folder / f"lambda.{start}" / "checkpoint_best.pt" for start in starts}
    accuracies = {
        start: float(read_checkpoint(path)["extra_state"]["best"]) for start, path in paths.items()
    }
    best = max(starts, key=lambda start: accuracies[start])
    with atomic_lines(folder / "lambda.json") as file:
        json.dump({"lambda": float(best), "dev_accuracy": accuracies}, file)
    with atomic_path(folder / "final.pt") as temporary:
        shutil.copyfile(paths[best], temporary)
    shown = ", ".join(f"{start}: {accuracies[start]:.2f}" for start in starts)
    print(f"{folder.name}: lambda {best}, dev accuracy of {shown}", file=sys.stderr)


def main() -> None:
    """Parse the command line and select."""
    options = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    options.add_argument("folder", type=Path, help="folder with lambda.START/checkpoint_best.pt")
    options.add_argument("starts", nargs="+", metavar="START", help="initial values of lambda")
    args = options.parse_args()
    try:
        choose(args.folder, args.starts)
    except FairseqSslError as error:
        print(f"choose_lambda.py: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
