"""Between which languages a model translates, and where its dictionaries are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fairseq_ssl.checkpoints.reading import State, task_options
from fairseq_ssl.errors import DataError, UsageError

BINARISED = re.compile(r"[^.]+\.(?P<source>[^.]+)-(?P<target>[^.]+)\.[^.]+\.idx")


@dataclass(frozen=True)
class TrainingData:
    """A folder with ``dict.SOURCE.txt`` and ``dict.TARGET.txt``."""

    folder: Path
    source: str
    target: str

    @property
    def dictionaries(self) -> tuple[Path, Path]:
        """The files of both sides."""
        return self.folder / f"dict.{self.source}.txt", self.folder / f"dict.{self.target}.txt"


def require_folder(folder: Path | None) -> Path:
    """Return the folder of a model's dictionaries, which a checkpoint must not name."""
    if folder is None:
        raise UsageError(
            "Pass --data-dir with the folder of the model's dictionaries. The folder that a "
            "checkpoint was trained on is not read."
        )
    return folder


def training_data(
    state: State, folder: Path | None, source: str | None = None, target: str | None = None
) -> TrainingData:
    """Return what a checkpoint was trained on.

    Args:
        state: the checkpoint
        folder: of the dictionaries; None is rejected
        source: language, as target (None: the one it names, or else that of the folder's data)
        target: language
    """
    task = task_options(state)
    folder = require_folder(folder)
    source, target = source or task.get("source_lang"), target or task.get("target_lang")
    if not (source and target):
        found = [match for path in sorted(folder.glob("*.idx")) if (match := _named(path))]
        if not found:
            raise DataError(
                f"The checkpoint does not say between which languages it translates, nor does "
                f"{folder}. Name them: -s SOURCE -t TARGET, and the folder of dict.SOURCE.txt and "
                "dict.TARGET.txt: --data-dir."
            )
        source, target = source or found[0]["source"], target or found[0]["target"]
    data = TrainingData(folder, str(source), str(target))
    for dictionary in data.dictionaries:
        if not dictionary.is_file():
            raise DataError(
                f"{dictionary} does not exist. Pass --data-dir with the folder of binarised data "
                f"that holds dict.{source}.txt and dict.{target}.txt."
            )
    return data


def _named(path: Path) -> re.Match[str] | None:
    return BINARISED.fullmatch(path.name)
