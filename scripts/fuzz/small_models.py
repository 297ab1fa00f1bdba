"""Small models at random, and the data that they read, for the verbs that work with models."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

from fairseq_ssl.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


@cache
def folder() -> Path:
    """Make t.pt, lm.pt, masked.pt, pieces.model, and data/ with the splits train and test.

    Both splits are the same few lines.
    """
    sys.path.insert(0, str(ROOT))
    from tests.unit.engines import random_models

    made = Path(tempfile.mkdtemp(prefix="fuzz-models-"))
    atexit.register(shutil.rmtree, made)
    data = random_models.data_folder(made / "data")
    random_models.translation(made / "t.pt", data, 1)
    random_models.language_model(made / "lm.pt", data, 1)
    random_models.masked_model(made / "masked.pt", data, 1)
    pieces = ["subwords", "train", "-o", str(made / "pieces"), "--kind", "sentencepiece"]
    (made / "text").write_text("the cat sat on the mat\na hat\n" * 9)
    if main([*pieces, "--size", "20", str(made / "text")]):
        raise RuntimeError("no subwords were made")
    for split in ("train", "test"):
        _binarise(data, f"{split}.src-trg", "src", "b a c\nd a e\nf g a b\n")
        _binarise(data, f"{split}.src-trg", "trg", "u v\nw x y\nz\n")
    return made


def _binarise(data: Path, split: str, side: str, text: str) -> None:
    from fairseq.data import Dictionary, indexed_dataset

    dictionary = Dictionary.load(str(data / f"dict.{side}.txt"))
    name = str(data / f"{split}.{side}")
    builder = indexed_dataset.make_builder(f"{name}.bin", impl="mmap", vocab_size=len(dictionary))
    for line in text.splitlines():
        builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
    builder.finalize(f"{name}.idx")
