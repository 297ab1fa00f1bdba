"""``fairseq-ssl analyze``: output, tables and rejected options."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ssl.analysis.shift_similarity import ShiftSimilarity
from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import MissingPackageError
from fairseq_ssl.signature import Signature
from tests.cli.rewriting import refused
from tests.conftest import train

PNG = b"\x89PNG"
LENGTHS = ("--length-bounds", "2,4", "--subwords", "none", "--beam", "1")
TOKENS = ("--rank-bounds", "6", "--position-bounds", "2,4")


@pytest.fixture(scope="module")
def joined(toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Binarized data of three joined sentences per line."""
    folder = tmp_path_factory.mktemp("joined") / "data"
    words = ["position-data", "interpolate", str(toy_data), str(folder), "--sentences", "3"]
    assert main(words) == 0
    return folder


@pytest.fixture(scope="module")
def models(joined: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Barely trained models of joined sentences with two kinds of positions."""
    folder = tmp_path_factory.mktemp("joined-models")
    for kind in ("absolute", "relative"):
        flags = ("--shape-positions", kind, "--max-update", "20", "--no-epoch-checkpoints")
        train(joined, folder / kind, *flags)
    return {kind: folder / kind / "checkpoint_last.pt" for kind in ("absolute", "relative")}


def analyze(kind: str, data: Path, output: Path, *flags: str, **models: Path) -> dict[str, Any]:
    """Run an analysis. Return its JSON output, and assert that there is a figure."""
    chosen = [word for name, path in models.items() for word in ("-c", f"{name}={path}")]
    words = ["analyze", kind, str(data), "-o", str(output), "--device", "cpu", *flags, *chosen]
    assert main(words) == 0
    assert output.with_name(f"{output.name}.png").read_bytes().startswith(PNG)
    found: dict[str, Any] = json.loads(output.with_name(f"{output.name}.json").read_text())
    assert found["signature"].startswith(f"{kind}|")
    assert list(output.parent.glob("*.tmp*")) == []
    return found


def test_swapped_bleu(
    joined: Path, models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--lines", "30", "--subwords", "none", "--beam", "1")
    found = analyze("swapped-bleu", joined, tmp_path / "new/swapped", *flags, **models)
    for name, path in models.items():
        (run,) = found["models"][name]["runs"]
        assert (run["checkpoint"], run["lines"]) == (str(path), 30)
        assert run["drop"] == pytest.approx(run["original"] - run["swapped"])
        assert found["models"][name]["drop"] == {"mean": run["drop"], "sd": 0.0}
        assert 0 <= run["original_miscounted"] <= 30
    assert capsys.readouterr().out.split()[:3] == ["original", "swapped", "drop"]


@pytest.mark.slow
def test_shift_similarity(
    toy_data: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trained / "checkpoint_last.pt"
    flags = ("--offsets", "0,5,300", "--format", "png")
    found = analyze("shift-similarity", toy_data, tmp_path / "s", *flags, shifted=path)
    matrix = found["models"]["shifted"]["similarity"]
    assert [row[i] for i, row in enumerate(matrix)] == pytest.approx([1, 1, 1], abs=1e-3)
    assert matrix[0][1] > matrix[0][2], "5 was within the shifts of training, 300 was not"
    assert found["models"]["shifted"]["least"] == min(map(min, matrix))
    assert "k=300" in capsys.readouterr().out


def test_results_do_not_need_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    similarity = {"offsets": [0, 1], "models": {"a": {"similarity": [[1, 0], [0, 1]]}}}
    result = ShiftSimilarity(Signature("shift-similarity", {"offsets": [0, 1]}), similarity)
    with pytest.raises(MissingPackageError):
        result.write(tmp_path / "s")
    assert json.loads((tmp_path / "s.json").read_text())["models"] == similarity["models"]


def test_length_bleu_takes_means_over_seeds(toy_data: Path, trained: Path, tmp_path: Path) -> None:
    (first,) = trained.glob("checkpoint_*_50.pt")
    last = trained / "checkpoint_last.pt"
    words = ("analyze", "length-bleu", str(toy_data), "-o", str(tmp_path / "l"), *LENGTHS)
    chosen = ("-c", f"a={first}", "-c", f"b={last}", "-c", f"b={first}")
    assert main([*words, "--subset", "test", *chosen]) == 0
    found = json.loads((tmp_path / "l.json").read_text())
    assert found["buckets"] == ["1-2", "3-4", "5-"]
    assert sum(found["training_pairs"]) == 2000
    b = found["models"]["b"]
    scores = [one["bleu"] for one in b["runs"]]
    assert b["bleu"]["mean"] == pytest.approx(sum(scores) / 2)
    assert scores[1] == found["models"]["a"]["bleu"]["mean"]
    assert found["gains"]["a"] == [0.0, 0.0, 0.0]


def test_token_wins(
    toy_data: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (early,) = trained.glob("checkpoint_*_50.pt")
    late = trained / "checkpoint_last.pt"
    found = analyze("token-wins", toy_data, tmp_path / "t", *TOKENS, early=early, late=late)
    table = found["models"]["late"]
    assert found["positions"] == ["1-2", "3-4", "5-"]
    assert table["all"] > 0.5, "the model trained for longer knows more tokens better"
    assert table["share"][0][2] is None, "no target is that long"
    assert "late > early" in capsys.readouterr().out


def test_several_splits_are_pooled(
    toy_data: Path, toy_text: Path, trained: Path, tmp_path: Path
) -> None:
    (early,) = trained.glob("checkpoint_*_50.pt")
    models = {"early": early, "late": trained / "checkpoint_last.pt"}
    tokens, scores = {}, {}
    for subset in ("valid", "test", "valid,test"):
        for kind, flags in (("token-wins", TOKENS), ("length-bleu", LENGTHS)):
            more = ("--subset", subset)
            found = analyze(kind, toy_data, tmp_path / kind, *flags, *more, **models)
            if kind == "token-wins":
                tokens[subset] = np.array(found["models"]["late"]["tokens"])
            else:
                scores[subset] = found["models"]["late"]["bleu"]["mean"]
    assert (tokens["valid,test"] == tokens["valid"] + tokens["test"]).all()
    assert tokens["test"].sum() == len((toy_text / "test.digits").read_text().split())
    low, high = sorted((scores["valid"], scores["test"]))
    assert low < scores["valid,test"] < high


def test_damaged_data_is_reported(
    toy_data: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, last = tmp_path / "data", trained / "checkpoint_last.pt"
    shutil.copytree(toy_data, data)
    index, ids = (data / f"valid.words-digits.digits.{suffix}" for suffix in ("idx", "bin"))
    words = ("analyze", "token-wins", data, "-c", f"a={last}", "-c", f"b={last}", "--device", "cpu")
    ids.write_bytes(b"\xff\x7f" * (ids.stat().st_size // 2))
    assert str(data) in refused(capsys, 1, *words, "-o", tmp_path / "out")
    index.write_bytes(index.read_bytes()[:20])
    assert str(data) in refused(capsys, 1, *words, "-o", tmp_path / "out")
