"""Paper scale of chapter 5: training, tuning and test data of each table."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fairseq_ssl.filters import filter_pairs
from tests.conftest import ROOT
from tests.recipes.recipe import called, printed, said, script, step
from tests.recipes.stand_ins import stub_commands

RECIPE = ROOT / "examples/wmt20"
GERMAN = {"SOURCE": "en", "TARGET": "de"}
JAPANESE = {"SOURCE": "en", "TARGET": "ja"}


def dry(name: str, scale: str = "paper", **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": scale, **settings})


def lines(name: str, scale: str = "paper", **settings: str) -> list[str]:
    """Return the commands, each with its output file."""
    (path,) = RECIPE.glob(f"?_{name}.sh")
    settings = {"DRY_RUN": "1", "DATA_DIR": "/data", "SCALE": scale, **settings}
    return step(path, settings).stdout.splitlines()


def test_rows_are_tuned_and_scored_on_years_that_are_not_fine_tuned_on() -> None:
    """Section 5.3.4: newstest2008 to 2018, original sources only; 5.4: newstest2019."""
    raw = {words[-1]: words[-2] for words in called(dry("prepare", **GERMAN), "ln")}
    held = {name: raw[f"work/wmt20/paper/raw/{name}.en"] for name in ("valid", "test")}
    assert held == {"valid": "/data/newstest2019.en", "test": "/data/newstest2020.en"}
    (fine,) = (line for line in lines("system", **GERMAN) if line.endswith("/fine/news/raw.en"))
    years = [f"/data/newstest{year}.orig-en.en" for year in range(2008, 2019)]
    assert fine.split()[1:-2] == years
    (tuned,) = (words for words in said(dry("rerank", ROWS="f"), "rerank") if "tune" in words)
    assert "/nbest/valid.all.nbest" in tuned
    scored = called(dry("rows", ROWS="f"), "sacrebleu")
    assert [Path(words[0]).name for words in scored] == ["valid.de", "test.de"]
    raw = {words[-1]: words[-2] for words in called(dry("prepare", **JAPANESE), "ln")}
    held = {name: raw[f"work/wmt20/paper-en-ja/raw/{name}.ja"] for name in ("valid", "test")}
    assert held == {"valid": "/data/newsdev2020.ja", "test": "/data/newstest2020.ja"}


@pytest.mark.parametrize(
    "settings",
    [
        {"SETS": "valid:newstest2018 test:newstest2020"},
        {"ROW_SETS": "valid test1"},
        {**JAPANESE, "SETS": "valid:news-commentary test:newstest2020"},
    ],
)
def test_a_set_that_is_fine_tuned_on_is_rejected(settings: dict[str, str]) -> None:
    shown = step(RECIPE / "7_system.sh", {"SCALE": "paper", "DRY_RUN": "1", **settings}, 2).stderr
    assert "Expected sets that no stage is trained on" in shown


def test_the_filter_learns_from_the_sets_of_all_years() -> None:
    """Section 5.5.1: newstest2009-2019, or the official validation set with Japanese."""
    for settings, names in (
        (GERMAN, [f"newstest{year}" for year in range(2009, 2020)]),
        (JAPANESE, ["newsdev2020"]),
    ):
        commands = lines("generate", SYSTEMS="tagged@50", **settings)
        (clean,) = (line for line in commands if line.endswith("filter-clean/raw.en"))
        assert clean.split()[1:-2] == [f"/data/{name}.en" for name in names]
        (fit,) = (line for line in commands if "learned-filter fit" in line)
        assert "/filter-clean/en " in fit.partition("--clean ")[2]


def test_slor_knows_the_unigrams_of_the_text_of_the_language_model() -> None:
    *_, text, unigrams = (
        words for words in called(dry("system"), "fairseq-preprocess") if "--only-source" in words
    )
    corpus = text[text.index("--trainpref") + 1]
    assert unigrams[unigrams.index("--trainpref") + 1] == corpus
    assert "--dict-only" in unigrams
    assert "--srcdict" not in unigrams
    (score,) = (words for words in said(dry("rerank", SETS="valid:v"), "rerank") if " lm " in words)
    assert "--unigrams work/wmt20/paper/data/lm/unigrams/dict.txt" in score


@pytest.mark.parametrize("settings", [GERMAN, JAPANESE, {"SOURCE": "ja", "TARGET": "en"}])
def test_a_source_without_a_translation_is_not_trained_on(settings: dict[str, str]) -> None:
    """`back-translate` writes an empty line for a source that is too long."""
    commands = dry("generate", SYSTEMS="tagged", **settings)
    (words,) = (words for words in called(commands, "fairseq-ssl") if words[0] == "filter")
    chain = ",".join(after for word, after in pairwise(words) if word == "--filter")
    pairs = [("a", "b"), ("", "b"), ("a", "")]
    assert list(filter_pairs(pairs, chain)) == pairs[:1]


def test_english_to_japanese_has_235_million_of_the_synthetic_pairs() -> None:
    """Table 5.3: the other directions use all pairs."""
    commands = lines("generate", SYSTEMS="tagged", **JAPANESE)
    (sampled,) = (line for line in commands if "sample_pairs.py" in line)
    assert "--count 235000000" in sampled
    binarized = [line for line in commands if line.startswith("fairseq-preprocess")]
    assert all("/sampled/bt/train " in line for line in binarized)
    for settings in (GERMAN, {"SOURCE": "ja", "TARGET": "en"}):
        assert not [line for line in lines("generate", **settings) if "sample_pairs" in line]


@pytest.mark.parametrize(("total", "count"), [(1000, 10), (1000, 999), (1000, 1), (5, 9), (0, 3)])
def test_a_sample_has_so_many_pairs_in_their_order(
    tmp_path: Path, total: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = script(RECIPE / "sample_pairs.py")
    for side in "st":
        (tmp_path / side).write_text("".join(f"{side}{k}\n" for k in range(total)))
    found = []
    for block in (1 << 20, 7):
        monkeypatch.setattr(module, "BLOCK", block)
        words = ["x", f"{tmp_path}/s", f"{tmp_path}/t", "-o", f"{tmp_path}/a", f"{tmp_path}/b"]
        monkeypatch.setattr(sys, "argv", [*words, "--count", str(count)])
        module.main()
        pairs = [(tmp_path / name).read_text().split() for name in "ab"]
        assert [word[1:] for word in pairs[0]] == [word[1:] for word in pairs[1]]
        found.append([int(word[1:]) for word in pairs[0]])
    assert found[0] == found[1] == sorted(set(found[0]))
    assert len(found[0]) == min(total, count)


def test_every_pair_is_sampled_equally_often() -> None:
    module = script(RECIPE / "sample_pairs.py")
    chosen = np.zeros(50)
    for seed in range(400):
        highest = module.threshold(50, 10, seed)
        chosen += np.concatenate(list(module.keys(50, seed))) <= highest
    assert chosen.sum() == 4000
    assert 45 < chosen.min() < chosen.max() < 115


def test_systems_of_other_sizes_of_subwords_have_a_folder_of_their_own() -> None:
    """Table 5.2."""
    settings = {"SYSTEMS": "base base@4000 base@16000", "SEEDS": "1", **JAPANESE}
    work = "work/wmt20/paper-en-ja"
    learned = [
        words for words in said(dry("prepare", **settings), "subwords") if " train " in words
    ]
    sizes = [words.split("--size ")[1].split()[0] for words in learned]
    assert sizes == ["32000", "32000", "4000", "4000", "16000", "16000"]
    assert f"-o {work}/size.4000/subwords.ja " in learned[3]
    for name, program in (("train", "fairseq-train"), ("decode", "fairseq-generate")):
        data = [words[0] for words in called(dry(name, **settings), program)]
        folders = [f"{work}/{size}data/genuine" for size in ("", "size.4000/", "size.16000/")]
        assert list(dict.fromkeys(data)) == folders


def test_japanese_is_scored_by_words_and_by_characters() -> None:
    """Tables 5.5 and 5.6."""
    settings = {"ROWS": "f", "ROW_SETS": "test"}
    words, characters = called(dry("rows", **settings, **JAPANESE), "sacrebleu")
    assert words[-2:] == ["--tokenize", "ja-mecab"]
    assert words[words.index("-m") + 1 :][:2] == ["bleu", "chrf"]
    assert characters[-2:] == ["--tokenize", "char"]
    (german,) = called(dry("rows", **settings), "sacrebleu")
    assert "--tokenize" not in german


STUBS = {
    "fairseq-generate": "echo H-0",
    "fairseq-preprocess": 'while [[ "$1" != --destdir ]]; do shift; done; mkdir -p "$2"',
    "fairseq-ssl": """
[[ "$1" != user-dir ]] || exec echo /plugin
for word in "$@"; do
  case "${option:-}" in
    -o | --source-output) outputs+=("$word") ;;
  esac
  option="$word"
done
for output in "${outputs[@]}"; do
  [[ "$output" != */ ]] || output+=part
  mkdir -p "$(dirname "$output")"
  echo "from= l2r" >"$output"
done
echo "from= l2r"
""",
}
"""Commands that write one line to their outputs."""


def test_members_can_be_added(tmp_path: Path) -> None:
    settings = stub_commands(tmp_path / "bin", STUBS) | {"WORK": str(tmp_path), "ROW_SETS": "valid"}
    rerank = RECIPE / "8_rerank.sh"
    for members in ("1", "1 2"):
        step(rerank, {**settings, "MEMBERS": members})
    for order in ("l2r", "r2l"):
        record = (tmp_path / f"records/nbest/valid.{order}.generate.json").read_text()
        assert re.search(r"runs/fine\S*\.1/final\.pt:\S+\.2/final\.pt", record)
    again = step(rerank, {**settings, "MEMBERS": "1 2"}).stderr.splitlines()
    assert all(line.startswith(("==>", "up to date: ")) for line in again)
    assert "BEAM was '3', is '4'" in step(rerank, {**settings, "BEAM": "4"}, 2).stderr


def test_shards_write_parts_of_one_folder(tmp_path: Path) -> None:
    settings = stub_commands(tmp_path / "bin", STUBS) | {"WORK": str(tmp_path), "SYSTEMS": "bt"}
    generate = RECIPE / "3_generate.sh"
    for shard in ("1/2", "2/2"):
        step(generate, {**settings, "SHARD": shard})
        assert (tmp_path / "synthetic/bt.parts/made/part").exists()
        assert not (tmp_path / "synthetic/bt").exists()
    step(generate, settings)
    assert [path.name for path in (tmp_path / "synthetic").iterdir() if path.is_dir()] == ["bt"]
    again = step(generate, settings).stderr
    assert [Path(line).name for line in again.splitlines() if "up to date" in line] == ["bt"] * 3
    assert "BEAM was '3', is '4'" in step(generate, {**settings, "BEAM": "4"}, 2).stderr
    step(generate, {**settings, "FORCE": "1"})


def test_each_model_is_trained_once() -> None:
    for members, rows in (("1 2", "a b"), ("2 3", "a b"), ("1 2", "a")):
        commands = dry("system", SYSTEM="base", MEMBERS=members, ROWS=rows)
        folders = [
            words[words.index("--save-dir") + 1] for words in called(commands, "fairseq-train")
        ]
        assert len(folders) == len(set(folders))
        assert "work/wmt20/paper/runs/base.1" in folders


def test_force_scores_candidates_again() -> None:
    """The list of other models or of a killed run is not resumed."""
    for force, count in (("", 0), ("1", 6)):
        scored = said(dry("rerank", ROWS="f", ROW_SETS="valid", FORCE=force), "rerank")
        assert sum("features" in words and "--force" in words for words in scored) == count
