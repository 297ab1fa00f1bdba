"""``fairseq-ssl edits``: extract and apply edit labels."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

from fairseq_ssl import __version__
from fairseq_ssl.cli.main import main
from fairseq_ssl.edits import alignment
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.transforms import GROUPS
from fairseq_ssl.io import blocks
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


def test_labels_round_trip(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dictionary = made("--groups", "case")
    assert dictionary.grams == (
        ("However", ","),
        ("could",),
        ("the",),
        ("very", "long"),
    )
    assert len(dictionary.transforms.table) == 63
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(
        "6 pairs, 4 insertions, 4 q-grams for 100.0% of them, 0.0% longer than 2; 63 transforms, "
        "73 labels\n"
    )
    assert f"version:{__version__}\nwrote edits\n" in shown.err
    assert edits("label", "source", "target", "--dictionary", "edits", "-o", "labels") == 0
    assert Path("labels").read_text() == LABELS
    assert "6 pairs, 0 dropped; 7 edits, 100.0% with a label\n" in capsys.readouterr().err
    assert edits("apply", "source", "labels", "-o", "out") == 0
    lines = Path("out").read_text().splitlines()
    assert lines == [" ".join(line.split()) for line in TARGET]
    assert edits("apply", "source", "labels", "-o", "checked", "--dictionary", "edits") == 0
    assert Path("checked").read_bytes() == Path("out").read_bytes()
    assert {path.name for path in corpus.iterdir()} == {
        *("source", "target", "edits", "labels", "out", "checked"),
        *("edits.json", "labels.json", "out.json", "checked.json"),
    }
    found = json.loads(Path("labels.json").read_text())
    assert found["fingerprint"] == dictionary.fingerprint
    assert (found["method"], found["lines"], found["coverage"]["recall"]) == ("edits-label", 6, 1)


def test_sizes_and_transforms(corpus: Path) -> None:
    assert made("--max-ngram", "1").grams == (("could",), ("he",), ("plays",), ("the",))
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


@pytest.mark.parametrize(
    ("flags", "empty", "told"),
    [
        ([], [], "6 pairs, 0 dropped; 7 edits, 57.1% with a label"),
        (["--strict"], [1, 5], "6 pairs, 2 dropped"),
        (["--exact"], [0, 1, 5], "6 pairs, 3 dropped"),
        (["--exact", "--strict"], [0, 1, 5], "3 dropped"),
    ],
)
def test_pairs_that_labels_do_not_reproduce(
    corpus: Path,
    flags: list[str],
    empty: list[int],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Long and unlisted q-grams are dropped alone, or with their pair."""
    made("--max-ngram", "1", "--groups", "case")
    without = Path("edits").read_text().replace("gram could 1\n", "")
    Path("edits").write_text(without)
    assert edits("label", "source", "target", "--dictionary", "edits", "-o", "l", *flags) == 0
    lines = Path("l").read_text().splitlines()
    assert [number for number, line in enumerate(lines) if not line] == empty
    assert told in capsys.readouterr().err
    assert edits("apply", "source", "l", "-o", "out") == 0
    assert f"6 lines, {len(empty)} without labels unchanged" in capsys.readouterr().err
    out = Path("out").read_text().splitlines()
    assert [out[number] for number in empty] == [SOURCE[number] for number in empty]
    assert out[4] == "plays the game"


def test_stats(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made("--groups", "case", "--max-ngram", "1")
    capsys.readouterr()
    command = ("stats", "source", "target", "--dictionary", "edits")
    assert edits(*command) == 0
    shown = capsys.readouterr()
    assert "ceiling         F0.5 92.59, token accuracy 91.67, exact 66.67%\n" in shown.out
    assert "append, too long 2\n" in shown.out
    assert "edits-stats|fingerprint:" in shown.err
    assert edits(*command, "--format", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["f0.5"] == pytest.approx(1.25 * (5 / 7) / (0.25 + 5 / 7))
    assert report["exact_pairs"] == 4
    assert report["signature"].startswith("edits-stats|")


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
        assert main(["edits", "apply", "big.s", labels, *shared, f"out{jobs}"]) == 0
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 1000)
    assert edits("dictionary", *pair, "-o", "edits3") == 0
    assert edits("label", *pair, "-o", "labels3.gz", "--dictionary", "edits3") == 0
    assert edits("apply", "big.s", "labels3.gz", "-o", "out3") == 0
    for name in ("edits{}", "labels{}.gz", "out{}"):
        first, *others = (Path(name.format(n)).read_bytes() for n in (1, 2, 3))
        assert others == [first, first], name


def test_very_different_sides_are_dropped_and_counted(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made()
    monkeypatch.setattr(alignment, "MAX_CELLS", 12)
    made()
    assert "; 1 pairs skipped, too long and too different" in capsys.readouterr().err
    assert edits("label", "source", "target", "--dictionary", "edits", "-o", "labels") == 0
    assert Path("labels").read_text().splitlines()[1] == ""
    told = capsys.readouterr().err
    assert "6 pairs, 1 dropped" in told
    assert "1 pairs skipped" in told
    assert edits("stats", "source", "target", "--dictionary", "edits") == 0
    assert "pairs           6, 1 too long and too different\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a b\n\nc d\n", "source and other are equal in all 3 pairs"),
        ("", "source is empty. Expected one sentence or more."),
    ],
)
def test_sides_without_an_edit_are_reported(
    text: str, told: str, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("source", "other"):
        (corpus / name).write_text(text)
    assert edits("dictionary", "source", "other", "-o", "edits") == 1
    assert told in capsys.readouterr().err
    assert not Path("edits").exists()


def test_share_without_insertions_is_undefined(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "source").write_text("a b c\n")
    (corpus / "target").write_text("a c\n")
    made()
    assert "1 pairs, 0 insertions; 58 transforms, 60 labels\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["dictionary", "source", "target"], 2, "required: -o/--output"),
        (["label", "source", "target", "-o", "x"], 2, "required: --dictionary"),
        (["stats", "source", "target"], 2, "required: --dictionary"),
        (
            ["stats", "source", "target", "--dictionary", "e", "-o", "x"],
            2,
            "unknown argument '-o'",
        ),
        (["apply", "source", "labels", "-o", "x", "--strict"], 2, "unknown argument '--strict'."),
        (["tune", "source", "target"], 2, "required: --model"),
        (
            ["tune", "source", "gold.m2", "--model", "a.pt"],
            1,
            "one. gold.m2 is an M2 file. Convert",
        ),
        (
            ["label", "gold.m2", "target", "--dictionary", "edits", "-o", "x"],
            1,
            "lines. gold.m2 is an M2 file. Convert it with: fairseq-ssl m2 to-text",
        ),
        (
            ["tune", "--model", "a.pt", "source", "target"],
            2,
            "are required: SOURCE, TARGET. Write SOURCE, TARGET before --model.",
        ),
        (["tune", "--model", "a.pt"], 2, "are required: SOURCE, TARGET\n"),
        (
            ["tune", "source", "target", "--model", "a.pt", "target"],
            2,
            "target is not a checkpoint. Write SOURCE and TARGET before --model.",
        ),
        (
            ["tune", "source", "target", "--model", "a.pt", "b.pt", "--weights", "1"],
            2,
            "--weights has 1 number for 2 models. Expected a number for each model.",
        ),
        (
            ["dictionary", "source", "target", "-o", "x", "--size", "-1"],
            2,
            "Expected 0 or more",
        ),
        (
            ["dictionary", "source", "target", "-o", "x", "--max-ngram", "0"],
            2,
            "Expected 1 or more",
        ),
        (["dictionary", "source", "target", "-o", "source"], 2, "source is an input"),
        (
            ["label", "source", "target", "-o", "edits", "--dictionary", "edits"],
            2,
            "edits is an input",
        ),
        (
            ["dictionary", "source", "target", "-o", "x", "--label-dict", "target"],
            2,
            "target is an input. Choose another output.",
        ),
        (
            ["dictionary", "source", "target", "-o", "x", "--label-dict", "x"],
            2,
            "-o and --label-dict are both x",
        ),
        (["nope", "source", "target"], 2, "invalid choice: 'nope'"),
        (["dictionary", "source", "short", "-o", "x"], 1, "short ends after line 2, but source"),
        (["dictionary", "source", "gone", "-o", "x"], 1, "gone does not exist"),
        (["dictionary", "empty", "empty", "-o", "x"], 1, "empty is empty. Expected"),
        (["dictionary", "source", "latin", "-o", "x"], 1, "latin:2 is not valid UTF-8: byte 4"),
        (["dictionary", "source", "target", "-o", "x", "--transforms", "latin"], 1, "latin:2"),
        (["dictionary", "source", "target", "-o", "x", "--transforms", "engl"], 1, "engl does not"),
        (
            ["label", "source", "target", "-o", "x", "--dictionary", "target"],
            1,
            "is not an edit dict",
        ),
        (["apply", "source", "target", "-o", "x"], 1, "target:1: 'Bolt' is not a label"),
        (["apply", "source", "labels", "-o", "x"], 1, "labels:3: There are 2 labels for 0 tokens"),
        (
            ["apply", "source", "unfit", "-o", "x"],
            1,
            "unfit:2: The label SUFFIX_-s cannot change the token",
        ),
        (
            ["apply", "source", "unfit", "-o", "x", "--dictionary", "edits"],
            1,
            "unfit:1: The label APPEND_new is not in the dictionary",
        ),
    ],
)
def test_wrong_requests_and_input(
    corpus: Path, words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made()
    before = Path("source").read_bytes()
    Path("empty").touch()
    Path("short").write_text("a\nb\n")
    block = "S a\nA 0 1|||R:OTHER|||b|||REQUIRED|||-NONE-|||0\n\n"
    Path("gold.m2").write_text(block * 9)
    Path("latin").write_bytes(b"e ing\nfur\xff r\n" + b"\n" * 4)
    Path("labels").write_text("\n\nKEEP KEEP\n\n\n\n")
    Path("unfit").write_text("KEEP KEEP KEEP KEEP KEEP APPEND_new\nKEEP SUFFIX_-s" + " KEEP" * 4)
    with Path("unfit").open("a") as file:
        file.write("\n" * 5)
    assert edits(*words) == code
    assert told in capsys.readouterr().err
    assert not Path("x").exists()
    assert not list(corpus.glob("*.tmp"))
    assert Path("source").read_bytes() == before


def test_votes(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, line in (("in", "a b c"), ("one", "a x c d"), ("two", "a x c"), ("three", "b c d")):
        Path(name).write_text(f"{line}\n")
    assert main(["edits", "vote", "in", "one", "two", "three"]) == 0
    assert capsys.readouterr().out == "a x c d\n"
    assert main(["edits", "vote", "in", "one", "two", "three", "--min-votes", "1", "-o", "x"]) == 0
    assert Path("x").read_text() == "x c d\n"
    assert "edits-vote|systems:3|min_votes:1" in capsys.readouterr().err
    Path("gold.m2").write_text("S a\nA 0 1|||R:OTHER|||b|||REQUIRED|||-NONE-|||0\n")
    for words, code, message in (
        (["in", "gold.m2"], 1, "lines. gold.m2 is an M2 file. Convert it with: fairseq-ssl m2 to"),
        (["in", "one", "two", "--min-votes", "3"], 2, "is 3 for 2 corrections"),
        (["in", "one", "-o", "one"], 2, "one is an input"),
        (["in", "source"], 1, "Both must have the same number of lines"),
        (["in"], 2, "required: CORRECTED"),
    ):
        assert main(["edits", "vote", *words]) == code
        assert message in capsys.readouterr().err


def test_jobs_must_be_one_or_more(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edits", "dictionary", "source", "target", "-o", "x", "--jobs", "0"]) == 2
    assert "--jobs: 0 is out of range. Expected 1 to 1000" in capsys.readouterr().err


def test_the_command_needs_no_torch_and_no_fairseq(run: Run, corpus: Path) -> None:
    script = corpus / "without.py"
    script.write_text(
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "from fairseq_ssl.cli.main import main\n"
        "assert main(sys.argv[1:]) == 0\n"
        "assert 'fairseq' not in sys.modules\n"
    )
    command = ("edits", "dictionary", "source", "target", "-o", "edits", "--jobs", "1")
    run(sys.executable, script, *command, cwd=corpus)
    assert EditDictionary.read(corpus / "edits").grams
