"""``fairseq-ssl position-data`` on binarized data equals binarized output on text."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from tests.cli.rewriting import refused
from tests.conftest import run_command

SPLITS = ("train", "valid", "test")

FLAGS = {
    "extrapolate": ("--limit", "12"),
    "interpolate": ("--sentences", "7", "--separator", "@sep@"),
    "swapped": ("--separator", "@sep@"),
}


def make(kind: str, source: Path, output: Path, *flags: str) -> int:
    """Run the command in this process."""
    return main(["position-data", kind, str(source), str(output), *flags])


def preprocess(*requests: str) -> None:
    for words in requests:
        run_command("fairseq-preprocess", *words.split())


def prefixes(folder: Path) -> str:
    return " ".join(f"--{split}pref {folder / split}" for split in SPLITS)


@pytest.fixture(scope="module")
def binarized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random corpus, text/vanilla and bin/vanilla, and its data sets in both formats.

    Rare words are unknown. The data sets of text are binarized to again/KIND with the dictionaries
    of the data sets of binarized data.
    """
    folder = tmp_path_factory.mktemp("routes")
    text, binary, again = (folder / name for name in ("text", "bin", "again"))
    (text / "vanilla").mkdir(parents=True)
    draw = random.Random(1)
    for (split, size), language in product(zip(SPLITS, (200, 40, 45), strict=True), ("en", "de")):
        words = [f"{language}{i}" for i in range(60)]
        weights = [1 / (i + 1) ** 2 for i in range(60)]
        lengths = [draw.randrange(20) for _ in range(size)]
        lines = [" ".join(draw.choices(words, weights, k=n)) + "\n" for n in lengths]
        (text / "vanilla" / f"{split}.{language}").write_text("".join(lines))
    base = f"-s en -t de --thresholdsrc 3 --thresholdtgt 3 {prefixes(text / 'vanilla')}"
    preprocess(f"{base} --destdir {binary / 'vanilla'}")
    for kind, flags in FLAGS.items():
        source = "interpolate" if kind == "swapped" else "vanilla"
        for form in (text, binary):
            assert make(kind, form / source, form / kind, *flags) == 0
    requests = []
    for kind in FLAGS:
        words = [
            f"--{x}dict {binary / kind}/dict.{y}.txt" for x, y in (("src", "en"), ("tgt", "de"))
        ]
        requests.append(
            f"-s en -t de {' '.join(words)} {prefixes(text / kind)} --destdir {again / kind}"
        )
    preprocess(*requests)
    return folder


@pytest.mark.parametrize("kind", FLAGS)
def test_text_and_binarized_data_give_the_same_result(kind: str, binarized: Path) -> None:
    made, again = (binarized / name / kind for name in ("bin", "again"))
    names = {path.name for path in again.iterdir()} - {"preprocess.log"}
    assert {path.name for path in made.iterdir()} == names
    assert len(names) == 14
    for name in names:
        assert (made / name).read_bytes() == (again / name).read_bytes(), name


def test_the_separator_is_the_last_word_and_all_others_keep_their_ids(binarized: Path) -> None:
    for language in ("en", "de"):
        before = (binarized / "bin/vanilla" / f"dict.{language}.txt").read_text()
        after = (binarized / "bin/interpolate" / f"dict.{language}.txt").read_text()
        assert after == f"{before}@sep@ 1\n"
        assert "madeupword0000 0\n" in before


def test_errors_of_binarized_data_are_reported(
    binarized: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vanilla, joined = binarized / "bin/vanilla", binarized / "bin/interpolate"
    for words, culprit in (
        (("swapped", vanilla), "train.en-de.en.bin:1"),
        (("interpolate", joined, "--separator", "@sep@"), "train.en-de.en.bin:1"),
        (("interpolate", vanilla, "--sentences", "41"), "valid.en-de.en.bin"),
    ):
        command = ("position-data", *words[:2], tmp_path / "out", *words[2:])
        assert culprit in refused(capsys, 1, *command)
    assert not list(tmp_path.iterdir())


def test_an_added_separator_is_reported(
    binarized: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make("interpolate", binarized / "bin/vanilla", tmp_path / "out") == 0
    shown = capsys.readouterr().err
    counts = (binarized / "bin/vanilla/dict.en.txt").read_text().count("\n")
    assert f"dict.en.txt: '<sep>' added as id {4 + counts}\n" in shown
    assert "train: 200 pairs -> 20 (0 left over)\n" in shown
    assert "test: 45 pairs -> 4 (5 left over)\n" in shown
    assert "|form:binarized|languages:en-de|" in shown
