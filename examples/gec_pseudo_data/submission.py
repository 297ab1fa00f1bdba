"""Pack corrected sentences for CodaLab's BEA-test: a text file in a zip archive."""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path

from fairseq_ssl.errors import DataError, FairseqSslError
from fairseq_ssl.io.outputs import atomic_path
from fairseq_ssl.io.text_files import read_lines


def pack(corrected: Path, source: Path, output: Path) -> int:
    """Write the archive. Return the number of sentences.

    Each line is a tokenized sentence, in the order of the source. An empty output is replaced by
    the source sentence, since lines must not be empty.
    """
    sides = list(read_lines(corrected)), list(read_lines(source))
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            f"{corrected} has {len(sides[0])} lines but {source} has {len(sides[1])}. Both must "
            "have the same number of lines."
        )
    lines = [" ".join(new.split()) or old for new, old in zip(*sides, strict=True)]
    with (
        atomic_path(output) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        archive.writestr(zipfile.ZipInfo(corrected.name), "".join(f"{line}\n" for line in lines))
    return len(lines)


def main() -> None:
    """Parse the command line and write the archive."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("corrected", type=Path, help="tokenized text, one sentence per line")
    parser.add_argument("--source", type=Path, required=True, help="source sentences")
    parser.add_argument("-o", "--output", type=Path, required=True, help="output zip archive")
    args = parser.parse_args()
    try:
        count = pack(args.corrected, args.source, args.output)
    except FairseqSslError as error:
        sys.exit(f"submission.py: {error}")
    print(f"{args.output}: {count} sentences, to submit")


if __name__ == "__main__":
    main()
