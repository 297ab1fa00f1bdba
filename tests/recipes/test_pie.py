"""Recipe of PIE: the tiny scale runs, the paper scale follows the paper."""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT, Run, weights
from tests.recipes.recipe import are_reused, decoded, printed, script, step, trained

RECIPE, COMMON = ROOT / "examples/pie", ROOT / "examples/common"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))

ALIGNED = 'M : m\nä : ä\n0 : i\n: : 0\n"0" : "0"\nw : vv\n\n: : :\n\n0 : "0"\n1 : 1\n'


def dry(scale: str, name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": scale, "BERT": "/bert", **settings})


def test_words_of_ocrpp_are_converted_to_two_sides(run: Run, tmp_path: Path) -> None:
    (tmp_path / "klk.0.train").write_text(ALIGNED)
    (tmp_path / "klk.0.test").write_text("0 l\t0 1\nä\tä\n")
    (tmp_path / "klk.0.dev").write_text("a : b\na b\n")
    words = (sys.executable, COMMON / "words.py", tmp_path / "klk.0.dev")
    assert "klk.0.dev:2" in run(*words, tmp_path / "a", tmp_path / "b", code=1).stderr
    assert not (tmp_path / "a").exists()
    for suffix, source, target in (
        ("train", "M ä : 0 w\n:\n1\n", "m ä i 0 v v\n:\n0 1\n"),
        ("test", "0 l\nä\n", "0 1\nä\n"),
    ):
        files = (tmp_path / f"klk.0.{suffix}", tmp_path / "out/src", tmp_path / "out/trg")
        run(sys.executable, COMMON / "words.py", *files)
        assert [path.read_text() for path in files[1:]] == [source, target]


def test_new_errors_have_the_counted_distribution() -> None:
    """One a in six is read as o, one a is lost, and one ii in two is read as n."""
    module = script(COMMON / "synthetic_words.py")
    pairs = [
        ("ao", "aa"),
        ("a", "aa"),
        ("aa", "aa"),
        ("bn", "bii"),
        ("bii", "bii"),
        ("xyzuvw", "b"),
    ]
    model = module.ErrorModel([(tuple(wrong), tuple(right)) for wrong, right in pairs])
    draw = random.Random(1)
    made = ["".join(model.misread(tuple("bcii"), draw)) for _ in range(4000)]
    assert set(made) == {"bcii", "bcn"}
    assert made.count("bcn") / len(made) == pytest.approx(1 / 2, abs=0.03)
    made = ["".join(model.misread(("a",), draw)) for _ in range(4000)]
    assert made.count("o") / len(made) == pytest.approx(1 / 6, abs=0.03)
    assert set(made) == {"a", "o"}, "a word that would be lost is right"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Folder and output of all steps at the tiny scale."""
    work = tmp_path_factory.mktemp("tiny")
    return work, [step(path, tiny_settings(work)).stdout for path in STEPS]


def tiny_settings(work: Path) -> dict[str, str]:
    few = {"UPDATES": "80", "MAX_EPOCH": "1", "SETS": "test"}
    return {"SCALE": "tiny", "WORK": str(work), **few}


@pytest.mark.slow
def test_the_tiny_scale_prints_a_table(tiny: tuple[Path, list[str]]) -> None:
    rows = [line.split(" | ") for line in tiny[1][3].splitlines()]
    found = {row[1]: float(row[2].split(" ")[0]) for row in rows[2:6]}
    assert list(found) == ["uncorrected", "transformer", "tagger", "augmented"]
    assert min(found["tagger"], found["augmented"]) > found["uncorrected"] + 5
    assert rows[3][3].endswith("(1.00 x) |")
    labels = json.loads((tiny[0] / "text/ocr.0/valid.edits.json").read_text())
    assert labels["coverage"]["exact_share"] == 1


@pytest.mark.slow
def test_complete_targets_are_reused_and_a_changed_setting_stops_the_step(
    tiny: tuple[Path, list[str]],
) -> None:
    settings = tiny_settings(tiny[0])
    are_reused(STEPS[:3], settings, "1 EDIT_SIZE=99, 2 LAYERS=3, 3 BEAM=1")


@pytest.mark.slow
def test_interrupted_targets_are_rebuilt(tiny: tuple[Path, list[str]], tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(tiny[0], work)
    settings = {**tiny_settings(work), "KINDS": "tagger"}
    data, run = work / "data/ocr.0", work / "runs/ocr.0.tagger"
    (data / "train.src-trg.trg.idx").unlink()
    data.rename(data.with_name("ocr.0.tmp"))
    step(STEPS[0], settings)
    assert (data / "train.src-trg.trg.idx").exists()
    assert not data.with_name("ocr.0.tmp").exists()
    before = weights(run / "final.pt")
    (run / "final.pt").unlink()
    record = work / "records/runs/ocr.0.tagger.json"
    record.write_text(record.read_text().replace('"finished": true', '"finished": false'))
    step(STEPS[1], settings)
    after = weights(run / "final.pt")
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())
    assert "Loaded checkpoint" in (run / "train.log").read_text()


def test_words_are_corrected_as_in_tables_12_and_13() -> None:
    for task, layers in (("ocr", 1), ("spell", 2)):
        tagger, other = trained(dry("paper", "train", TASKS=task, FOLDS="9"))
        assert (tagger.arch, tagger.max_source_positions) == ("edit_tagger_small", 40)
        sizes = (tagger.encoder_layers, tagger.encoder_embed_dim, tagger.encoder_ffn_embed_dim)
        assert (*sizes, tagger.encoder_attention_heads) == (4, 200, 400, 4)
        assert (tagger.dropout, tagger.attention_dropout) == (0.1, 0.1)
        assert tagger.edit_copy_weight == 1
        assert not hasattr(tagger, "edit_init")
        assert tagger.max_update == float(tagger.total_num_update)
        assert (tagger.best_checkpoint_metric, other.best_checkpoint_metric) == ("exact", "loss")
        assert (other.encoder_layers, other.decoder_layers) == (2, layers)
        for side in ("encoder", "decoder"):
            found = [getattr(other, f"{side}_{name}") for name in ("embed_dim", "ffn_embed_dim")]
            assert [*found, getattr(other, f"{side}_attention_heads")] == [200, 400, 4]
    flags = {"TAGGER_FLAGS": "--dropout 0.3", "UPDATES": "9", "FOLDS": "0", "KINDS": "tagger"}
    for autocast in ({}, {"AUTOCAST": ""}):
        (args,) = trained(dry("small", "train", **flags, **autocast))
        assert (args.dropout, args.max_update) == (0.3, 9)
        assert args.amp == (not autocast)


def test_taggers_take_rounds_and_the_grammar_models_are_an_ensemble() -> None:
    decoding = decoded(dry("paper", "decode", TASKS="ocr spell gec"))
    assert len(decoding) == 2 * 10 * 2 * 2 + 6 * 2
    models = []
    for args in decoding:
        if args.task == "translation":
            assert args.beam == 5
        else:
            assert args.edit_iterations == (4 if "gec" in args.path else 1)
        models.append(args.path.count(":") + 1)
    assert models == [1] * 90 + [5] * 2, "the ensemble comes last, of valid and of test"


def test_commands_for_your_data_run_as_printed(run: Run, tmp_path: Path) -> None:
    own_data = (RECIPE / "README.md").read_text().partition("## Use your data")[2]
    commands = own_data.split("```")[1].replace("--max-epoch 20", "--max-epoch 1 --cpu")
    run(sys.executable, COMMON / "toy_sentences.py", tmp_path / "all", "--lines", "60")
    sentences = (tmp_path / "all").read_text().splitlines()
    for number, split in enumerate(("train", "valid", "test")):
        correct = sentences[number * 20 : number * 20 + 20]
        (tmp_path / f"{split}.trg").write_text("\n".join(correct) + "\n")
        wrong = (line.replace("the ", "", 1).replace("s ", " ", 1) for line in correct)
        (tmp_path / f"{split}.src").write_text("\n".join(wrong) + "\n")
    done = run("bash", "-e", "-c", commands, cwd=tmp_path)
    assert done.stdout.count("\nH-") == 20
    assert "precision" in done.stdout, "edits tune"
