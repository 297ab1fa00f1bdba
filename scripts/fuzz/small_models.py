"""Small models with random weights and their data, for the commands that read models."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fairseq_ssl.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
TAGGER = ("--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "8")


@cache
def folder() -> Path:
    """Create the models and the data in a temporary folder, once. Return the folder."""
    made = Path(tempfile.mkdtemp(prefix="fuzz-models-"))
    atexit.register(shutil.rmtree, made)
    build(made)
    return made


def build(made: Path) -> None:
    """Create the models and the data in a folder.

    t.pt, lm.pt, masked.pt, shape.pt and tagger.pt need data/, whose splits train and test are the
    same few lines. classifier.pt needs texts/. pieces.model (sentencepiece), learned/ (a filter)
    and onnx/ (tagger.pt) need no data.
    """
    sys.path.insert(0, str(ROOT))
    from tests import pretrained
    from tests.unit.inference import random_models

    data = random_models.data_folder(made / "data")
    random_models.translation(made / "t.pt", data, 1)
    random_models.language_model(made / "lm.pt", data, 1)
    random_models.masked_model(made / "masked.pt", data, 1)
    random_models.encoding(made / "shape.pt", data, "shape_transformer_tiny")
    random_models.encoding(made / "tagger.pt", data, "edit_tagger_small", *TAGGER)
    pretrained.bert(made / "bert")
    if find_spec("onnxruntime") is not None:
        export = ("export", str(made / "tagger.pt"), "--to", "onnx", "--data-dir", str(data))
        _run(*export, "-o", str(made / "onnx"))
    _classifier(made)
    _learned_filter(made)
    pieces = ["subwords", "train", "-o", str(made / "pieces"), "--kind", "sentencepiece"]
    (made / "text").write_text("the cat sat on the mat\na hat\n" * 9)
    _run(*pieces, "--size", "20", str(made / "text"))
    for split in ("train", "test"):
        lines = "b a c\nd a e\nf g a b\n", "u v\nw x y\nz\n"
        random_models.binarized_split(data, split, *lines)


def _classifier(made: Path) -> None:
    from tests.unit.inference import random_models

    labeled = [f"{label}\ta {label} film {n}\n" for n in range(20) for label in ("good", "bad")]
    (made / "labeled").write_text("".join(labeled))
    words = ("classify", "prepare", str(made / "labeled"), "--valid-size", "0.2")
    _run(
        *words,
        "--train-test-overlap",
        "keep",
        "--subword-vocab-size",
        "60",
        "-o",
        str(made / "texts"),
    )
    random_models.classifier(made / "classifier.pt", made / "texts")


def _learned_filter(made: Path) -> None:
    sides = []
    for side, words in (("src", "abcdefg"), ("trg", "tuvwxyz")):
        lines = [" ".join(words[n * m % 7] for m in range(1, 5)) for n in range(1, 40)]
        rows = [f"{word} {n} 1 {n * n % 5}\n" for n, word in enumerate(words, 1)]
        sides.append(made / f"pairs.{side}")
        sides[-1].write_text("".join(f"{line}\n" for line in lines))
        (made / f"{side}.vec").write_text("".join([f"{len(rows)} 3\n", *rows]))
    pairs = [str(side) for side in sides]
    vectors = [str(made / "src.vec"), str(made / "trg.vec")]
    fit = ("learned-filter", "fit", *pairs, "--clean", *pairs, "--vectors", *vectors)
    _run(*fit, "--jobs", "1", "-o", str(made / "learned"))


def _run(*words: str) -> None:
    if main(list(words)):
        raise RuntimeError(f"`fairseq-ssl {' '.join(words)}` did not work")
