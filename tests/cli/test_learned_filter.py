"""``fairseq-ssl learned-filter``: clean pairs are kept, resuming, wrong input."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io import blocks
from fairseq_ssl.io.parts import PartFolder
from fairseq_ssl.learned_filter import keep_best, learned_filter_job
from fairseq_ssl.learned_filter.pair_filter import PairFilter, score_block
from tests.cli.rewriting import refused
from tests.unit.inference import random_models

pytest.importorskip("sklearn")

WORDS = 40
FIT = ("learned-filter", "fit", "bitext.s", "bitext.t", "--clean", "clean.s", "clean.t")
VECTORS = ("--vectors", "s.vec", "t.vec", "--jobs", "1")
APPLY = ("learned-filter", "apply", "made", "mono.s", "mono.t", "--jobs", "1")


def pairs(count: int, seed: int, wrong: bool = False) -> list[tuple[str, str]]:
    """Return pairs of sentences, translated word by word or random."""
    draw = np.random.default_rng(seed)
    found = []
    for length in draw.integers(3, 9, count):
        words = draw.integers(0, WORDS, int(length))
        others = draw.integers(0, WORDS, int(length)) if wrong else words
        found.append((" ".join(f"s{n}" for n in words), " ".join(f"t{n}" for n in others)))
    return found


def write(name: str, made: list[tuple[str, str]]) -> None:
    for side, letter in enumerate("st"):
        text = "".join(f"{pair[side]}\n" for pair in made)
        Path(f"{name}.{letter}").write_text(text, encoding="utf-8")


def write_texts(count: int) -> None:
    """Write parallel text, clean pairs, vectors, and `count` pairs, every second one wrong."""
    write("bitext", pairs(900, 1))
    write("clean", pairs(120, 2))
    good, bad = pairs(count // 2, 3), pairs(count // 2, 4, wrong=True)
    write("mono", [pair for both in zip(good, bad, strict=True) for pair in both])
    draw = np.random.default_rng(5)
    for letter in "st":
        rows = [
            f"{letter}{n} {' '.join(f'{value:.4f}' for value in draw.normal(size=30))}"
            for n in range(WORDS)
        ]
        Path(f"{letter}.vec").write_text("\n".join([f"{WORDS} 30", *rows]) + "\n")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with parallel text, clean pairs, and pairs, every second one wrong."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 2000)
    write_texts(200)
    return tmp_path


def joined(folder: str) -> bytes:
    parts = sorted(Path(folder).glob("part-*"))
    assert len(parts) == 3
    return b"".join(part.read_bytes() for part in parts)


@pytest.fixture
def whole(here: Path) -> None:
    """Keep pairs, some of them with the score of another pair, in files, for comparison."""
    for letter in "st":
        path = Path(f"mono.{letter}")
        path.write_text(path.read_text() + path.read_text()[:900])
    assert main([*FIT, *VECTORS, "-o", "made"]) == 0
    assert main([*APPLY, *BEST, "x", "y"]) == 0


BEST = ("--keep", "33", "-o")
PARTS = ("--part-size", "1K")
"""It is rounded to blocks."""


@pytest.mark.parametrize("options", [(), ("--scores", "scores")])
def test_folders_of_parts_have_the_pairs_of_files(
    options: tuple[str, ...], whole: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*APPLY, *PARTS, *options]
    assert main([*words, *BEST, "X/", "Y/"]) == 0
    assert joined("X") == Path("x").read_bytes()
    assert joined("Y") == Path("y").read_bytes()
    scores = options[1] if options else "X.scores"
    assert joined(scores) == Path("x.scores").read_bytes()
    content = json.loads(Path("X/manifest.json").read_text())
    stored = json.loads(Path("x.json").read_text())
    for name in ("pairs", "kept", "keep", "threshold", "scores_digest", "filter_is"):
        assert content[name] == stored[name]
    capsys.readouterr()
    assert main([*words, *BEST, "X/", "Y/"]) == 0
    assert "X is complete" in capsys.readouterr().err
    assert main([*words, "--keep", "10", "-o", "V/", "W/", "--scores", scores]) == 0
    told = capsys.readouterr().err
    assert f"{scores} is complete" in told
    assert "kept 24 of 244 pairs" in told
    assert main([*words, "--keep", "20", "-o", "X/", "Y/", "--scores", scores, "--force"]) == 0
    assert f"{scores} is complete" in capsys.readouterr().err


def test_pairs_of_several_files_equal_one(whole: None) -> None:
    for letter in "st":
        rows = Path(f"mono.{letter}").read_text().splitlines(keepends=True)
        for number, part in enumerate((rows[:50], rows[50:51], rows[51:])):
            Path(f"part.{letter}.{number}").write_text("".join(part))
    words = ["learned-filter", "apply", "made", "part.s.?", "part.t.?", "--jobs", "1", *BEST]
    assert main([*words, "v", "w"]) == 0
    assert main([*words, "V/", "W/"]) == 0
    assert joined("V") == Path("v").read_bytes() == Path("x").read_bytes()
    assert joined("W") == Path("w").read_bytes() == Path("y").read_bytes()


def test_shards_run_stage_by_stage(whole: None) -> None:
    for shard in ("2/3", "3/3", "1/3") * 3:
        assert main([*APPLY, *PARTS, *BEST, "X/", "Y/", "--shard", shard]) == 0
    assert joined("X") == Path("x").read_bytes()
    assert joined("Y") == Path("y").read_bytes()
    assert not Path("X/_job").exists()


def test_scores_of_other_parts(whole: None) -> None:
    assert main([*APPLY, *PARTS, *BEST, "X/", "Y/"]) == 0
    sides, large = ("mono.s", "mono.t"), [PartFolder(name, part_size=2**20) for name in "VW"]
    with pytest.raises(UsageError, match=r"X\.scores has 3 parts, but mono\.s has 1"):
        keep_best(sides, "X.scores", (large[0], large[1]), 33)
    for side in sides:
        Path(side).write_text("".join(f"{line}\n" for line in _lines(Path(side))[:-1]))
    with pytest.raises(DataError, match=r"Part 2 has \d+ pairs but \d+ scores"):
        keep_best(sides, "X.scores", ("Z/", "Q/"), 33)


def test_clean_pairs_are_kept(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, *VECTORS, "-o", "made"]) == 0
    told = capsys.readouterr().err
    assert "phsic-words:" in told
    assert "on 120 clean and 120 noisy pairs in cross-validation" in told
    assert main([*APPLY, "--keep", "50", "-o", "kept.s", "kept.t"]) == 0
    assert "kept 100 of 200 pairs" in capsys.readouterr().err
    rows = list(zip(*(Path(f"mono.{x}").read_text().splitlines() for x in "st"), strict=True))
    kept = list(zip(*(Path(f"kept.{x}").read_text().splitlines() for x in "st"), strict=True))
    scores = [float(line) for line in Path("kept.s.scores").read_text().split()]
    least = sorted(scores)[100]
    assert kept == [row for row, score in zip(rows, scores, strict=True) if score >= least]
    good = {row for place, row in enumerate(rows) if place % 2 == 0}
    assert len(good & set(kept)) >= 90
    signature = json.loads(Path("kept.s.json").read_text())
    assert (signature["pairs"], signature["kept"], signature["keep"]) == (200, 100, 50)
    words = [*APPLY, "--keep", "1.2", "-o", "less.s.gz", "less.t", "--scores", "kept.s.scores"]
    assert main(words) == 0
    assert "kept.s.scores is complete" in capsys.readouterr().err
    lines = gzip.decompress(Path("less.s.gz").read_bytes()).decode().splitlines()
    assert lines == [rows[place][0] for place in sorted(np.argsort(scores)[-2:])]
    written = Path("kept.s.scores").stat().st_mtime_ns
    assert main([*APPLY, "--keep", "25", "-o", "kept.s", "kept.t", "--force"]) == 0
    assert "kept 50 of 200 pairs" in capsys.readouterr().err
    assert Path("kept.s.scores").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("mono.t", "mono.s", "so the sides are swapped. Swap source and target."),
        ("mono.s", "other", "t.vec contains no vector for any word of the text."),
    ],
)
def test_texts_of_other_languages_are_rejected(
    source: str, target: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both sides have the word ".", as most texts have."""
    for name in ("bitext", "clean", "mono"):
        for side in "st":
            text = Path(f"{name}.{side}").read_text(encoding="utf-8")
            Path(f"{name}.{side}").write_text(text.replace("\n", " .\n"), encoding="utf-8")
    for side in "st":
        rows = Path(f"{side}.vec").read_text(encoding="utf-8").replace("40 30", "41 30")
        Path(f"{side}.vec").write_text(f"{rows}.{' 0.1' * 30}\n", encoding="utf-8")
    Path("other").write_text("x y\n" * 200, encoding="utf-8")
    assert main([*FIT, *VECTORS, "-o", "made"]) == 0
    words = ["learned-filter", "apply", "made", source, target, "--jobs", "1", "--keep", "50"]
    assert main([*words, "-o", "kept.s", "kept.t"]) == 1
    assert message in capsys.readouterr().err


def write_model_words() -> None:
    """Replace the words of all text by those of `random_models`."""
    names = {"s": "SOURCE_WORDS", "t": "TARGET_WORDS"}
    for letter, name in names.items():
        words = getattr(random_models, name)
        for stem in ("bitext", "clean", "mono"):
            path = Path(f"{stem}.{letter}")
            text = [[words[int(w[1:]) % 6] for w in line.split()] for line in _lines(path)]
            path.write_text("".join(f"{' '.join(line)}\n" for line in text))
        rows = [f"{w} {n} {n * n - 5}" for n, w in enumerate(words)]
        Path(f"{letter}.vec").write_text("\n".join([f"{len(words)} 2", *rows]) + "\n")


@pytest.mark.slow
def test_a_new_process_registers_the_plug_in(here: Path) -> None:
    write_model_words()
    data = random_models.data_folder(here / "data")
    model = random_models.translation(here / "m.pt", data, 1)
    words = [*FIT, "--translation", str(model), "--data-dir", str(data), "--jobs", "2"]
    command = [sys.executable, "-m", "fairseq_ssl", *words, "-o", "made"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cross-entropy:" in done.stderr


def test_all_features_together(here: Path) -> None:
    write_model_words()
    data = random_models.data_folder(here / "data")
    model = random_models.masked_model(here / "m.pt", data, 1)
    trees = random_models.data_folder(here / "other")
    (trees / "dict.txt").write_text((trees / "dict.src.txt").read_text())
    other = random_models.masked_model(here / "o.pt", trees, 2)
    translation = random_models.translation(here / "t.pt", data, 3)
    models = ("--masked-models", str(other), str(model), "--translation", str(translation))
    folders = ("--masked-data", str(trees), str(data), "--data-dir", str(data))
    assert main([*FIT, *VECTORS, *models, *folders, "-o", "made", "-s", "src", "-t", "trg"]) == 0
    found = PairFilter.read(here / "made", {"max_tokens": 100})
    assert found.classifier.names == ("phsic-words", "phsic-states", "cross-entropy")
    sides = _lines(Path("mono.s")), _lines(Path("mono.t"))
    both = list(zip(sides[0], sides[1], strict=True))
    features = found.features.features(both, found.phsic)
    assert features.shape == (200, 3)
    assert (features.std(0) > 0).all()
    assert main([*APPLY, "--keep", "25", "-o", "kept.s", "kept.t"]) == 0
    scores = [float(line) for line in _lines(Path("kept.s.scores"))]
    assert scores == pytest.approx(found.scores(both).tolist(), rel=1e-4, abs=1e-5)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_interrupted_run_resumes(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*FIT, *VECTORS, "-o", "made"]) == 0
    words = [*APPLY, "--keep", "30", "-o"]
    assert main([*words, "whole.s", "whole.t"]) == 0
    calls = []

    def breaking(pair_filter: PairFilter, block: Any) -> Any:
        calls.append(block.span.before + block.first + 1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return score_block(pair_filter, block)

    monkeypatch.setattr(learned_filter_job, "score_block", breaking)
    assert main([*words, "kept.s", "kept.t"]) == 130
    assert not Path("kept.s.scores").exists()
    capsys.readouterr()
    assert main([*words, "kept.s", "kept.t"]) == 0
    assert f"resuming after line {calls[2] - 1}" in capsys.readouterr().err
    assert calls[3] == calls[2] > 1
    for name in ("s", "t", "s.scores"):
        assert Path(f"kept.{name}").read_bytes() == Path(f"whole.{name}").read_bytes()


def test_changed_vectors_are_another_job(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, *VECTORS, "-o", "made"]) == 0
    words = [*APPLY, "--keep", "30", "-o", "kept.s", "kept.t"]
    assert main(words) == 0
    before = _lines(Path("kept.s.scores"))
    Path("s.vec").write_bytes(Path("t.vec").read_bytes().replace(b"t", b"s"))
    assert "kept.s.scores exists, and is not an output of this job" in refused(capsys, 2, *words)
    assert main([*words, "--force"]) == 0
    assert _lines(Path("kept.s.scores")) != before
