"""Checksums and JSON files of exported model folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import UsageError
from fairseq_ssl.io.fingerprints import checksum
from fairseq_ssl.io.text_files import parse_json

CHECKSUMS = "checksums.json"


class FormatError(Exception):
    """Error in the format of a model folder. The caller adds the path and advice."""


def check_replaceable(output: Path, required: str, kind: str) -> None:
    """Raise UsageError if an output folder is a link, or exists and lacks the file `required`.

    Args:
        output: the folder.
        required: name of a file that every model folder of this kind contains.
        kind: noun phrase for the error message, such as "a CTranslate2 model".
    """
    if output.is_symlink():
        raise UsageError(f"{output} is a symbolic link, so it is not replaced. Pass its target.")
    if output.exists() and not (output / required).is_file():
        raise UsageError(
            f"{output} exists and is not {kind}, so it is not replaced. Choose another output."
        )


def write_checksums(folder: Path) -> None:
    """Write the SHA-256 checksums of all files in a folder to checksums.json."""
    names = sorted(path.name for path in folder.iterdir() if path.name != CHECKSUMS)
    sums = {name: checksum(folder / name) for name in names}
    (folder / CHECKSUMS).write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8")


def check_checksums(folder: Path) -> None:
    """Raise FormatError if a file does not match checksums.json. Do nothing without this file."""
    if not (folder / CHECKSUMS).exists():
        return
    for name, expected in read_json(folder / CHECKSUMS, dict).items():
        if Path(name).name != name or not (folder / name).is_file():
            raise FormatError(f"{CHECKSUMS} names {name[:80]!r}, which is not a file in the folder")
        if checksum(folder / name) != expected:
            raise FormatError(f"{name} does not match its checksum in {CHECKSUMS}")


def read_json(path: Path, kind: type) -> Any:
    """Return the content of a JSON file. Raise FormatError if it is invalid or not a `kind`."""
    try:
        content = parse_json(path.read_bytes())
    except ValueError as error:
        raise FormatError(f"{path.name} cannot be parsed as JSON: {error}") from None
    if not isinstance(content, kind):
        found = type(content).__name__
        raise FormatError(f"{path.name} contains a {found}, expected a {kind.__name__}")
    return content
