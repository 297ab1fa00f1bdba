"""Attacks by kind of reader: none executes code, each ends with an error that names the file.

A row of a table is an attack, and each reader of its kind is called with it. `test_every_command`
checks that commands use these readers. More tables against readers:

- options, pickles and tensors of checkpoints: `tests/plugin/test_hostile_checkpoints.py`,
  `tests/plugin/test_safe_loading.py`, `tests/unit/checkpoints/`
- Hugging Face folders: `tests/unit/checkpoints/test_untrusted_folder.py`
- GECToR models: `tests/unit/checkpoints/test_gector.py`
- ONNX folders: `tests/unit/inference/test_onnx_folder.py`
- content that `report` shows: `tests/unit/report/test_untrusted_content.py`
- HTTP: `tests/cli/test_serve.py`
"""

from __future__ import annotations

import gzip
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import fairseq_ssl
from fairseq_ssl.checkpoints import hugging_face
from fairseq_ssl.checkpoints.files import read_checkpoint
from fairseq_ssl.data.teacher_labels import open_teacher_labels
from fairseq_ssl.errors import FairseqSslError
from fairseq_ssl.filters.chain import read_filters
from fairseq_ssl.filters.key_files import BUCKETS, read_dropped, read_rows
from fairseq_ssl.inference.classification import TextClassifierPipeline
from fairseq_ssl.io import text_files
from fairseq_ssl.learned_filter.classifier import Phsic
from fairseq_ssl.learned_filter.pair_filter import PairFilter
from fairseq_ssl.noise.learner_errors import LearnerErrors
from fairseq_ssl.report.score_files import collect_files
from fairseq_ssl.rerank.weights import read_weights
from fairseq_ssl.rerank.word_vectors import read_vectors
from fairseq_ssl.text.subwords.model import subword_encoder
from tests.attacks.contents import (
    Content,
    Scene,
    archive,
    as_array,
    as_checkpoint,
    as_pickle,
    filter_json,
    index,
    npy,
    npy_claiming,
    numbers,
    phsic,
)
from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts/fuzz"))
import text_readers

fairseq_ssl.register()
from fairseq.data.indexed_dataset import MMapIndexedDataset  # noqa: E402

LONGEST = 2**16
"""Max length of a line in these tests."""
PICKLES: dict[str, Content] = {
    "pickle": as_pickle,
    "checkpoint with a pickle": as_checkpoint,
    "array of objects": as_array,
}
TEXT: dict[str, Content] = {
    **PICKLES,
    "not UTF-8": b"a \xff\n",
    "UTF-16": "\ufeffa\n".encode("utf-16-le"),
    "line without end": bytes(LONGEST + 1),
}
JSON: dict[str, Content] = {
    **PICKLES,
    "empty": b"",
    "truncated": b'{"a": ',
    "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "huge integer": b'{"a": 1' + b"0" * 400 + b"}",
    "integer of 5,000 digits": b'{"a": 1' + b"0" * 5000 + b"}",
    "half of a surrogate pair": b'{"a": "\\ud800"}',
    "half of a surrogate pair in a name": b'{"\\uDFFF": 1}',
    "half of a surrogate pair in UTF-16": '{"a": "\\ud800"}'.encode("utf-16"),
    "not UTF-8": b'{"a": "\xff"}',
}
NO_OBJECT: dict[str, Content] = {
    **JSON,
    "list": b"[]",
    "number": b"1",
    "text": b'"a"',
    "null": b"null",
    "no names": b"{}",
    "values of other types": b'{"weights": [], "measures": 1, "deleted": [], "model": []}',
}
YAML: dict[str, Content] = {
    **PICKLES,
    "Python": lambda scene: f"!!python/object/apply:os.system [touch {scene.canary}]".encode(),
    "alias, which could grow": b"filters: [&a identical, *a]",
    "nested": b"filters: " + b"[" * 5000,
    "compressed": gzip.compress(bytes(10_000_000)),
    "not UTF-8": b"filters: [\xff]",
    "no list": b"filters: 1",
}
HALF = np.full((3, 2), 0.5, np.float32)
ARRAYS: dict[str, Content] = {
    **PICKLES,
    "code in the header": lambda scene: npy_claiming(
        f"__import__('os').system('touch {scene.canary}')"
    ),
    "archive": archive(**{"a.npy": npy(HALF)}),
    "empty": b"",
    "text": b"0.5 0.5\n",
    "truncated header": npy(HALF)[:30],
    "truncated data": npy(HALF)[:-3],
    "huge": npy_claiming("(1000000000000, 2)"),
    "larger than int64": npy_claiming("(99999999999999999999999, 2)"),
    "overflow": npy_claiming("(9223372036854775807, 2)"),
    "negative": npy_claiming("(-3, 2)"),
    "no columns": npy_claiming("(9999999999, 0)"),
    "nested": npy_claiming("(" * 2000 + ")" * 2000),
    "records": npy_claiming("(3, 2)", "[('a', '<f4')]"),
    "integers": npy(np.ones((3, 2), int)),
    "NaN": npy(np.full((3, 2), np.nan)),
    "one dimension": npy(np.full(2, 0.5)),
    "no dimension": npy(np.array(0.5)),
}
ARCHIVES: dict[str, Content] = {
    **PICKLES,
    "member outside the archive": archive(**{"../../outside": b"x"}),
    "objects in a member": lambda scene: phsic(covariance=as_array(scene))(scene),
    "huge shape": phsic(covariance=npy_claiming("(1000000000, 1000000000)", "'<f8'")),
    "negative shape": phsic(covariance=npy_claiming("(-1, 3)", "'<f8'")),
    "other shapes": phsic(covariance=np.ones((5, 5))),
    "not numbers": phsic(covariance=np.full((3, 3), "x")),
    "NaN": phsic(source_mean=np.full(3, np.nan)),
}
FILTER: dict[str, Content] = {
    **NO_OBJECT,
    "other file": lambda scene: filter_json(
        measures={"vectors": [str(scene.canary.with_name("folder") / "passwords")] * 2}
    )(scene),
    "tokenizers of other types": filter_json(measures={"tokenizers": [{}, 1]}),
    "URL": filter_json(measures={"vectors": ["s3://bucket/en.vec", "s3://bucket/de.vec"]}),
    "tokenizer that downloads a model": filter_json(measures={"tokenizers": ["none", "flores200"]}),
    "other classifier": filter_json(classifier={"weights": [1, 2, 3]}),
    "classifier of NaN": filter_json(classifier={"weights": [float("nan")] * 9}),
}
VECTORS: dict[str, Content] = {
    **PICKLES,
    "line without end": bytes(LONGEST + 1),
    "last line without end": b"1 1\n" + bytes(LONGEST + 1),
    "huge claims": b"999999999999 999999999999\na 1 2\n",
    "NaN": b"1 2\na 1 nan\n",
}
KEYS: dict[str, Content] = {
    **PICKLES,
    "empty": b"",
    "huge count": numbers(BUCKETS + 1, *[2**63] * (BUCKETS + 2)),
    "huge number of groups": numbers(2**63, *[0] * (BUCKETS + 2)),
    "decreasing offsets": numbers(BUCKETS + 1, *[1] * (BUCKETS + 1), 0),
}
ROWS: dict[str, Content] = {
    **PICKLES,
    "empty": b"",
    "huge number of parts": numbers(2**63, 0, 0),
    "huge offsets": numbers(1, 2**62, 2**63),
    "decreasing offsets": numbers(1, 1, 0),
}
INDEX: dict[str, Content] = {
    **PICKLES,
    "huge count": index(count=2**60),
    "huge sentence": index(size=2**31 - 1),
    "negative sentence": index(size=-1),
    "outside of the file": index(start=2**60),
    "unknown type": index(kind=99),
}


def dropped(path: Path) -> None:
    """Read a file of dropped rows with an empty key file."""
    keys = path.with_name("keys")
    keys.write_bytes(numbers(BUCKETS + 1, *[0] * (BUCKETS + 2)))
    read_dropped(0, keys, [path])


@dataclass(frozen=True)
class Reader:
    """A function that reads a file, and the attacks on it."""

    read: Callable[[Path], object]
    attacks: Mapping[str, Content]
    file: str = "file"
    """Name of the file."""
    folder: str = ""
    """Folder of `small_models` with the other files, which is copied."""


def classify(path: Path) -> None:
    model = path.parent.with_name("models") / "classifier.pt"
    pipeline = TextClassifierPipeline.load(model, path.parent)
    pipeline.classify(["a good film"])


READERS = {
    **{
        f"text: {name}": Reader(read, TEXT, name)
        for name, (read, _) in text_readers.READERS.items()
        if name not in ("weights", "learner-errors", "filters", "it.vec")
    },
    "JSON": Reader(text_files.read_json, JSON),
    "JSON: manifest of a folder of parts": Reader(
        lambda path: text_files.text_files(path.parent), NO_OBJECT, "manifest.json"
    ),
    "JSON: learner errors": Reader(LearnerErrors.read, NO_OBJECT),
    "JSON: weights of n-best lists": Reader(read_weights, NO_OBJECT),
    "JSON: scores of a report": Reader(lambda path: collect_files([path.parent]), JSON, "x.json"),
    "JSON: settings of a Hugging Face folder": Reader(
        lambda path: hugging_face.read_config(path.parent), JSON, "config.json", "bert"
    ),
    "JSON: tokenization": Reader(
        classify,
        {name: NO_OBJECT[name] for name in ("nested", "list", "no names")},
        "views.json",
        "texts",
    ),
    "JSON: learned filter": Reader(
        lambda path: PairFilter.read(path.parent, {}).scores([("a", "b")]),
        FILTER,
        "filter.json",
        "learned",
    ),
    "YAML": Reader(read_filters, YAML),
    "array": Reader(lambda path: open_teacher_labels(path.parent, "a", 2), ARRAYS, "a.npy"),
    "archive of arrays": Reader(Phsic.read, ARCHIVES),
    "word vectors": Reader(lambda path: read_vectors(path, {"a"}), VECTORS, "a.vec"),
    "fastText model": Reader(lambda path: read_vectors(path, {"a"}), PICKLES, "a.bin"),
    "keys of rows": Reader(read_rows, KEYS),
    "dropped rows": Reader(dropped, ROWS),
    "index": Reader(
        lambda path: MMapIndexedDataset(str(path.with_suffix(""))),
        INDEX,
        "test.src-trg.src.idx",
        "data",
    ),
    "subword model": Reader(
        subword_encoder, {**PICKLES, "empty": b"", "text": b"hello"}, "a.model"
    ),
    "checkpoint": Reader(read_checkpoint, {**PICKLES, "empty": b"", "text": b"hello"}),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.filterwarnings("ignore")
def test_attacks_are_rejected(
    kind: str,
    scene: Scene,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(text_files, "MAX_LINE_BYTES", LONGEST)
    reader = READERS[kind]
    path = tmp_path / "folder" / reader.file
    path.parent.mkdir()
    if reader.folder:
        shutil.copytree(scene.models / reader.folder, path.parent, dirs_exist_ok=True)
        (tmp_path / "models").symlink_to(scene.models)
    for attack, content in reader.attacks.items():
        path.write_bytes(content if isinstance(content, bytes) else content(scene))
        outcome = "was read"
        try:
            reader.read(path)
        except FairseqSslError as error:
            outcome = str(error)
        assert str(path.parent) in outcome, attack
        assert len(outcome.splitlines()) == 1, attack
        assert not scene.canary.exists(), attack
        assert not (tmp_path.parent / "outside").exists(), attack
    assert "Traceback" not in "".join(capfd.readouterr())
