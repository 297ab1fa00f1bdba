"""``fairseq-ssl edits``: extract edit labels."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fairseq_ssl import __version__
from fairseq_ssl.cli.main import main
from fairseq_ssl.edits import alignment, apply
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.transforms import GROUPS
from fairseq_ssl.io import blocks
from fairseq_ssl.io.text_files import read_lines
from tests.conftest import Run

SOURCE = [
    "Bolt can have run race",
    "He still won race !",
    "",
    "a b c",
    "play  the\tgame",
    "the end",
]
TARGET = [
    "Bolt could have run the race",
    "However , he still won !",
    "",
    "a b c",
    "plays the game\r",
    "the very long end",
]
LABELS = """\
KEEP KEEP REPLACE_could KEEP APPEND_the KEEP
APPEND_However_, CASE_lower KEEP KEEP DELETE KEEP
KEEP
KEEP KEEP KEEP KEEP
KEEP SUFFIX_+s KEEP KEEP
KEEP APPEND_very_long KEEP
"""


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the two sides to the current folder of the commands."""
    monkeypatch.chdir(tmp_path)
    Path("source").write_text("".join(f"{line}\n" for line in SOURCE), newline="")
    Path("target").write_text("\n".join(TARGET), newline="")
    return tmp_path


def edits(*words: str) -> int:
    jobs = () if words[0] == "tune" else ("--jobs", "1")
    return main(["edits", *words, *jobs])


def made(*options: str) -> EditDictionary:
    """Build the edit dictionary of the corpus."""
    assert edits("dictionary", "source", "target", "-o", "edits", *options) == 0
    return EditDictionary.read(Path("edits"))


def applied(labels: list[str]) -> list[str]:
    """Return the source lines with their labels applied, if they have any."""
    pairs = zip(SOURCE, labels, strict=True)
    return [apply(source, names.split()) if names else source for source, names in pairs]


def test_labels_round_trip(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dictionary = made("--groups", "case")
    assert dictionary.appends == (("However", ","), ("could",), ("the",), ("very", "long"))
    told = capsys.readouterr().err
    assert told.startswith("6 pairs, 4 insertions, 4 q-grams for 100.0% of them")
    assert "63 transforms, 73 labels\n" in told
    assert f"version:{__version__}\nwrote edits\n" in told
    assert edits("label", "source", "target", "--dictionary", "edits", "-o", "labels") == 0
    assert Path("labels").read_text() == LABELS
    told = capsys.readouterr().err
    assert "\nedits           100.00% of 7 edits have a label\n" in told
    assert "\ndropped         0 pairs\n" in told
    assert applied(LABELS.splitlines()) == [" ".join(line.split()) for line in TARGET]
    assert {path.name for path in corpus.iterdir()} == {
        *("source", "target", "edits", "labels", "edits.json", "labels.json"),
    }
    found = json.loads(Path("labels.json").read_text())
    assert found["fingerprint"] == dictionary.fingerprint
    assert (found["method"], found["lines"], found["coverage"]["recall"]) == ("edits-label", 6, 1)


def test_sizes_and_transforms(corpus: Path) -> None:
    assert made("--max-ngram", "1").appends == (("could",), ("he",), ("plays",), ("the",))
    assert made("--size", "2").names[:4] == ("KEEP", "DELETE", "APPEND_However_,", "APPEND_could")
    assert made("--size", "0", "--transforms", "none").names == ("KEEP", "DELETE")
    Path("suffixes").write_text("- s\n")
    assert made("--transforms", "suffixes").names[-2:] == ("SUFFIX_+s", "SUFFIX_-s")
    assert made("--groups", "case,split", "--transforms", "none").kinds[-6:] == (
        *("case",) * 5,
        "split",
    )
    groups = [kind for kind in made("--groups", "all").kinds if kind in GROUPS]
    assert len(groups) == 16
    assert set(groups) == set(GROUPS)


def test_the_labels_as_a_dictionary_of_fairseq(corpus: Path, run: Run) -> None:
    """Ids of labels are those of the edit dictionary, after fairseq's four special symbols."""
    dictionary = made("--label-dict", "folder/labels.dict")
    lines = Path("folder/labels.dict").read_text().splitlines()
    assert lines == [f"{name} 1" for name in dictionary.names]
    assert "label_dict" not in json.loads(Path("edits.json").read_text())
    assert edits("label", "source", "target", "--dictionary", "edits", "-o", "train.edits") == 0
    words = ["fairseq-preprocess", "-s", "edits", "--only-source", "--trainpref", "train"]
    words += ["--srcdict", "folder/labels.dict", "--dataset-impl", "mmap", "--destdir", "bin"]
    shown = run(*words, cwd=corpus)
    assert "0.0% replaced" in shown.stdout + shown.stderr
    assert Path("bin/dict.edits.txt").read_text().splitlines() == lines


def test_edits_without_a_label_are_ignored(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Long and unlisted q-grams are dropped, but not the other edits of their pair."""
    made("--max-ngram", "1", "--groups", "case")
    without = Path("edits").read_text().replace("gram could 1\n", "")
    Path("edits").write_text(without)
    assert edits("label", "source", "target", "--dictionary", "edits", "-o", "l") == 0
    assert "\ndropped         0 pairs\n" in capsys.readouterr().err
    lines = applied(Path("l").read_text().splitlines())
    assert lines[4] == "plays the game"
    changed = [n for n, line in enumerate(lines) if line.split() != TARGET[n].split()]
    assert changed == [0, 1, 5]


def test_jobs_compression_and_blocks_do_not_change_the_output(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many blocks in two independent processes."""
    source = [f"{line} w{n % 977} x{n % 7}" for n in range(4000) for line in SOURCE]
    target = [f"{line} w{n % 983} x{n % 5}" for n in range(4000) for line in TARGET]
    Path("big.s").write_text("\n".join(source))
    Path("big.t.gz").write_bytes(gzip.compress("\n".join(target).encode()))
    pair = ("big.s", "big.t.gz")
    for jobs in ("1", "2"):
        labels = f"labels{jobs}.gz"
        shared = ["--dictionary", f"edits{jobs}", "--jobs", jobs, "-o"]
        assert main(["edits", "dictionary", *pair, "-o", f"edits{jobs}", "--jobs", jobs]) == 0
        assert main(["edits", "label", *pair, *shared, labels]) == 0
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 1000)
    assert edits("dictionary", *pair, "-o", "edits3") == 0
    assert edits("label", *pair, "-o", "labels3.gz", "--dictionary", "edits3") == 0
    for name in ("edits{}", "labels{}.gz"):
        first, second, small = (Path(name.format(n)) for n in (1, 2, 3))
        assert second.read_bytes() == first.read_bytes(), name
        assert list(read_lines(small)) == list(read_lines(first)), name


def test_very_different_sides_are_dropped_and_counted(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made()
    monkeypatch.setattr(alignment, "MAX_CELLS", 12)
    made()
    assert "; 1 pairs skipped" in capsys.readouterr().err
    assert edits("label", "source", "target", "--dictionary", "edits", "-o", "labels") == 0
    assert Path("labels").read_text().splitlines()[1] == ""
    assert "\ndropped         1 pairs\n" in capsys.readouterr().err
