"""Pack corrected sentences as CodaLab takes them for BEA-test: a text file in a zip archive."""

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

    Each line is a sentence with spaces between its tokens, in the order of the source. Where the
    model wrote nothing, the sentence stays as in the source, so that no line is empty.
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
    """Read the options and pack."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip())
    parser.add_argument("corrected", type=Path, help="tokenized text, a sentence a line")
    parser.add_argument("--source", type=Path, required=True, help="the sentences to correct")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the zip archive")
    args = parser.parse_args()
    try:
        count = pack(args.corrected, args.source, args.output)
    except FairseqSslError as error:
        sys.exit(f"submission.py: {error}")
    print(f"{args.output}: {count} sentences, to submit")


if __name__ == "__main__":
    main()
