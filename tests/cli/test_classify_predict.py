"""fairseq-ssl classify label, predict and score, on trained models."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from fairseq_ssl.cli.main import main
from fairseq_ssl.data.two_view_dataset import PIECES, WORDS
from fairseq_ssl.inference import classification
from fairseq_ssl.inference.classification import TextClassifierPipeline, leads_lost
from tests.plugin import classification as made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A briefly trained expert and mixture on lowercase text."""
    folder = tmp_path_factory.mktemp("classify")
    data = made.data_folder(folder, "--lower")
    expert = made.expert(data, folder / "expert", epochs=8)
    imitators = made.imitators(data, folder / "imitators", expert)
    made.mixture(data, folder / "mixture", expert, "--mixture-imitators", imitators)
    return folder


def call(folder: Path, step: str, model: str, *words: str | Path) -> int:
    path = folder / model / "checkpoint_last.pt"
    given = ["classify", step, "--model", path, "--data-dir", folder / "data", "--device", "cpu"]
    given += ["--batch-size", "4", *words]
    return main([str(word) for word in given])


def labels(path: Path) -> np.ndarray:
    """Return the rows of a folder of parts."""
    return np.concatenate([np.load(part) for part in sorted(path.glob("part-*.npy"))])


def expected(folder: Path) -> np.ndarray:
    """Return the probabilities of the expert, computed for single texts."""
    model, task = made.loaded(folder / "expert/checkpoint_last.pt", folder / "data")
    texts = task.unlabeled("unlabeled", [WORDS])
    rows = []
    with torch.no_grad():
        for number in range(len(texts)):
            inputs = texts.collater([texts[number]])["net_input"]
            rows.append(model(**inputs).softmax(-1)[0].numpy())
    return np.stack(rows)


def label(folder: Path, output: Path, *words: str, part_size: str = "16K") -> int:
    """Label the unlabeled texts in this process."""
    words = ("--jobs", "1", "--part-size", part_size, *words)
    return call(folder, "label", "expert", "-o", output, *words)


def test_labels_equal_the_expert_with_and_without_shards(folder: Path, tmp_path: Path) -> None:
    assert label(folder, tmp_path) == 0
    whole = labels(tmp_path / "unlabeled.npy")
    assert whole.dtype == np.float16
    np.testing.assert_allclose(whole, expected(folder), atol=1e-3)
    for shard in ("2/2", "1/2"):
        assert label(folder, tmp_path / "parts", "--shard", shard, part_size="10") == 0
    parts = labels(tmp_path / "parts/unlabeled.npy")
    np.testing.assert_allclose(parts, whole, atol=1e-3)
    manifest = json.loads((tmp_path / "parts/unlabeled.npy/manifest.json").read_text())
    assert (manifest["classes"], manifest["lines"]) == (["bad", "good"], 30)
    names = [f"part-0000{number}.npy" for number in range(3)]
    assert [(part["name"], part["lines"]) for part in manifest["parts"]] == [
        (name, 10) for name in names
    ]


@pytest.mark.slow
def test_processes_do_not_change_labels(folder: Path, tmp_path: Path) -> None:
    for jobs in ("1", "2"):
        assert label(folder, tmp_path / jobs, "--jobs", jobs, part_size="8") == 0
    one, two = (sorted((tmp_path / jobs / "unlabeled.npy").iterdir()) for jobs in ("1", "2"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_killed_labeling_resumes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = TextClassifierPipeline.probabilities, []

    def stops(self: TextClassifierPipeline, dataset: object, first: int, *more: int) -> np.ndarray:
        asked.append(first)
        if first == 14 and asked.count(14) == 1:
            raise KeyboardInterrupt
        return real(self, dataset, first, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(TextClassifierPipeline, "probabilities", stops)
    assert label(folder, tmp_path, part_size="7") == 130
    assert not (tmp_path / "unlabeled.npy/manifest.json").exists()
    assert label(folder, tmp_path, part_size="7") == 0
    assert asked == [0, 7, 14, 14, 21, 28]
    np.testing.assert_allclose(labels(tmp_path / "unlabeled.npy"), expected(folder), atol=1e-3)
    assert label(folder, tmp_path, part_size="7") == 0
    assert len(asked) == 6


def test_a_file_of_labels_is_not_replaced(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output of version 0.2."""
    (tmp_path / "unlabeled.npy").write_text("labels")
    assert label(folder, tmp_path, "--force") == 2
    assert "unlabeled.npy is a file" in capsys.readouterr().err
    assert (tmp_path / "unlabeled.npy").read_text() == "labels"


def test_labeling_does_not_resume_with_other_texts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert label(folder, tmp_path, "--shard", "1/2", part_size="7") == 0
    index = folder / "data" / WORDS / "unlabeled.idx"
    stat = index.stat()
    os.utime(index, ns=(1, 1))
    assert label(folder, tmp_path, "--shard", "2/2", part_size="7") == 2
    assert "was written with different settings or another input" in capsys.readouterr().err
    os.utime(index, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_predictions_are_printed_and_scored(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold, output = folder / "data/text/valid.tsv", tmp_path / "mixture.txt"
    words = ("--split", "valid", "-o", output, "--windows", "2")
    assert call(folder, "predict", "mixture", *words) == 0
    wanted = [line.partition("\t")[0] for line in gold.read_text().splitlines()]
    rows = [line.split("\t") for line in output.read_text().splitlines()]
    assert len(rows) == len(wanted) == 9
    for label, named, windows in rows:
        values = dict(one.split("=") for one in named.split())
        assert max(values, key=lambda name: float(values[name])) == label
        assert sum(map(float, values.values())) == pytest.approx(1, abs=1e-3)
        assert len(windows.split(" | ")) <= 2
    capsys.readouterr()
    assert main(["classify", "score", str(gold), f"one={output}", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["systems"]["one"]
    wrong = sum(row[0] != label for row, label in zip(rows, wanted, strict=True))
    assert told["error"]["mean"] == pytest.approx(100 * wrong / 9)
    assert sum(map(sum, told["confusion"])) == 9


def test_a_split_has_the_predictions_of_its_text(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classification, "BLOCK", 4)  # 9 texts are two blocks and a part
    gold, whole, split = folder / "data/text/valid.tsv", tmp_path / "whole", tmp_path / "split"
    words = ("--windows", "2", "-o")
    texts = tmp_path / "texts"
    texts.write_text(re.sub("^.*\t", "", gold.read_text(), flags=re.MULTILINE))
    assert call(folder, "predict", "mixture", texts, *words, whole) == 0
    assert call(folder, "predict", "mixture", "--split", "valid", *words, split) == 0
    assert len(split.read_text().splitlines()) == 9
    assert split.read_text() == whole.read_text()


def test_texts_of_a_split_are_truncated_to_the_positions_of_the_model(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expert = TextClassifierPipeline.load(folder / "expert/checkpoint_last.pt", folder / "data")
    assert expert.split("valid").truncated == 0
    expert.model.max_positions = lambda: 3
    short = TextClassifierPipeline(expert.model, expert.task, expert.path, expert.folder, "cpu")
    assert short.split("valid").sizes.tolist() == [3] * 9
    assert caplog.messages[-1].startswith(
        "9 texts are longer than the model's maximum length of 3 tokens"
    )


def test_library_returns_the_same_predictions(folder: Path) -> None:
    classifier = TextClassifierPipeline.load(folder / "mixture/checkpoint_last.pt", folder / "data")
    texts = ["the film number 3 is good", "this is poor", ""]
    together = classifier.classify(texts, windows=3)
    for text, one in zip(texts, together, strict=True):
        (alone,) = classifier.classify([text], windows=3)
        assert alone.label == one.label
        assert alone.probabilities == pytest.approx(one.probabilities, abs=1e-5)
    assert any(together[0].windows)
    (loud,) = classifier.classify([texts[0].upper()], windows=3)
    assert loud == classifier.classify([texts[0]], windows=3)[0], "both views are in lower case"
    split = classifier.split("valid")
    assert [view.name for view in split.views] == [WORDS, PIECES]


@pytest.mark.parametrize(
    "logits", [[[0.3, 0.2, 0.9], [0.8, 0.1, 0.5], [0.4, 0.7, 0.6]], [[35, 0]] * 3, [[110, 0]] * 2]
)
def test_the_weight_of_a_window_is_its_contribution(logits: list[list[float]]) -> None:
    """It is computed from logarithms of probabilities, also for confident windows."""
    rows = torch.tensor(logits, dtype=torch.float64).log_softmax(-1)
    places = torch.zeros(len(rows), dtype=torch.long)
    found = leads_lost(rows.exp(), places, torch.tensor([len(rows)]), torch.tensor([[0, 1]]))
    for place in range(len(rows)):
        rest = [row for row in range(len(rows)) if row != place]
        lead = rows.logsumexp(0) - rows[rest].logsumexp(0)
        assert found[place].item() == pytest.approx((lead[0] - lead[1]).item(), abs=1e-5)


@pytest.mark.parametrize(
    ("step", "model", "words", "code", "culprit"),
    [
        ("label", "imitators", (), 1, "checkpoint_last.pt"),
        ("predict", "expert", ("--windows", "2"), 2, "--windows"),
        ("predict", "expert", ("--split", "nowhere"), 1, "nowhere.idx"),
    ],
)
def test_a_wrong_input_is_named(
    step: str,
    model: str,
    words: tuple[str, ...],
    code: int,
    culprit: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(folder, step, model, "-o", tmp_path / "out", *words) == code
    assert culprit in capsys.readouterr().err


def test_damaged_texts_are_reported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(folder / "data", data)
    ids = data / "words/unlabeled.bin"
    for content in (ids.read_bytes()[:20], b"\xff\x7f" * (ids.stat().st_size // 2)):
        ids.write_bytes(content)
        assert call(folder, "label", "expert", "-o", tmp_path / "out", "--data-dir", data) == 1
        assert str(data) in capsys.readouterr().err


def test_texts_of_the_library_are_checked(folder: Path) -> None:
    expert = TextClassifierPipeline.load(folder / "expert/checkpoint_last.pt", folder / "data")
    for texts, culprit in (("this is poor", "string"), ([None], "Line 1")):
        with pytest.raises(TypeError, match=culprit):
            expert.classify(texts)  # type: ignore[arg-type]


def test_a_classifier_is_pickled_by_its_paths(folder: Path) -> None:
    path = folder / "mixture/checkpoint_last.pt"
    mixture = TextClassifierPipeline.load(str(path), str(folder / "data"))
    copied = pickle.loads(pickle.dumps(mixture))
    assert copied.path == path
    assert copied.classify(["this is poor"], windows=1) == mixture.classify(["this is poor"], 1)
