"""Recipe of chapter 4: the tiny scale runs, the paper scale follows Kiyono (2022)."""

from __future__ import annotations

import json
import math
import re
import zipfile
from itertools import chain
from pathlib import Path

import pytest

from tests.conftest import Run
from tests.recipes.gec import RECIPE, dry, trainings
from tests.recipes.recipe import are_reused, called, decoded, lines, said, step
from tests.recipes.stand_ins import learner_text

STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))
SYSTEM = "upsample-noisy-toys-300"
DIRECT = "joint-direct-toys-200-sse"


def held_out_data(folder: Path) -> Path:
    """Two held-out sets of the user, with and without gold edits."""
    folder.mkdir()
    edit = "A 1 2|||R:VERB:SVA|||goes|||REQUIRED|||-NONE-|||0"
    (folder / "mine.m2").write_text(f"S he go home\n{edit}\n\nS fine .\n\n")
    (folder / "bea.src").write_text("he go home\nfine .\nshe sleep\n")
    return folder


@pytest.mark.slow
def test_tiny_scale_runs_and_is_reused(tmp_path: Path) -> None:
    settings = {"SCALE": "tiny", "WORK": str(tmp_path), "SYSTEMS": SYSTEM, "FINAL": SYSTEM}
    settings.update(SETS="valid mine bea", METRICS="m2", UPDATES="20", PORTION="200")
    settings.update(UPSAMPLE="3", DATA_DIR=str(held_out_data(tmp_path / "own")))
    more = {**settings, "SYSTEMS": f"{SYSTEM} {DIRECT}"}
    step(STEPS[0], settings)
    step(STEPS[1], settings)
    step(STEPS[2], more)
    step(STEPS[3], settings)
    step(STEPS[4], settings)
    shown = step(STEPS[6], {**settings, "FINAL": "none"}).stdout
    assert "mine M2 F_0.5" in shown
    assert "bea M2" not in shown
    for row in ("uncorrected", SYSTEM):
        assert submitted(tmp_path / f"runs/{row}.1", 3)
    settings["SETS"] = "valid"
    shown = [step(path, settings).stdout for path in STEPS[5:]][1]
    for row in ("uncorrected", SYSTEM, "ensemble1", "reranked1"):
        assert f"| {row} | 1 |" in shown
    log = (tmp_path / f"runs/{SYSTEM}.1/train.log").read_text()
    genuine = len(lines(tmp_path / "text/train.trg"))
    assert 150 < genuine < 300  # pairs with equal sides are excluded
    assert f"train: {3 * genuine} pairs per epoch, {genuine} in total" in log
    assert "from right to left" not in log
    pairs_are_of_the_seed_corpus(tmp_path / "pseudo")
    reranked_as_it_should_be(tmp_path)
    are_reused(STEPS[2:7], settings)
    changes = "1 MERGES=50, 1 MOST=500, 3 BETA=3, 3 MASK=0.1, 3 SSE_RATE=0.03, 3 MERGES=50, "
    changes += "4 UPSAMPLE=2, 4 UPDATES=21, 5 BEAM=4, 6 LENGTH_PENALTY=0.9"
    are_reused(STEPS[:1], more, changes)


def pairs_are_of_the_seed_corpus(pseudo: Path) -> None:
    seeds = [line for path in sorted(pseudo.glob("toys/*.bpe")) for line in lines(path)]
    assert len(seeds) == 400  # two portions, enough for 300 pairs
    for name, most in (("noisy-toys-300", 300), ("direct-toys-200-sse", 200)):
        sources, targets = (lines(pseudo / f"{name}.{side}") for side in ("src", "trg"))
        assert len(sources) == len(targets) > 0.7 * most
        assert sum(a != b for a, b in zip(sources, targets, strict=True)) > 50
        assert set(targets) <= set(seeds[:most])
        if name.startswith("noisy"):
            assert set(targets) & set(seeds[200:])


def submitted(run: Path, sentences: int) -> bool:
    """Assert that the file to submit has one tokenized sentence per line."""
    with zipfile.ZipFile(run / "bea.zip") as archive:
        (name,) = archive.namelist()
        text = archive.read(name).decode("utf-8").split("\n")
    return len(text) == sentences + 1 and not text[-1] and all(text[:-1])


def reranked_as_it_should_be(work: Path) -> None:
    """Sum the scores of both directions and select the maximum."""
    runs = work / "runs"
    left: dict[int, list[tuple[str, str]]] = {}
    for number, score, text in re.findall(
        r"^H-(\d+)\t(\S+)\t(.*)$", (runs / "ensemble1.1/valid.generate").read_text(), re.M
    ):
        left.setdefault(int(number), []).append((score, text))
    assert {len(candidates) for candidates in left.values()} == {5}
    chosen = lines(runs / "reranked1.1/valid.txt")
    both = [line.split(" ||| ") for line in lines(runs / "reranked1.1/valid.nbest")]
    best: dict[int, list[tuple[float, str]]] = {}
    for number, text, scores, *_ in both:
        ahead, back = re.fullmatch(r"l2r= (\S+) r2l= (\S+)", scores.strip()).groups()  # type: ignore[union-attr]
        assert any(
            text == other and float(ahead) == pytest.approx(math.log(2) * float(score), abs=1e-3)
            for score, other in left[int(number)]
        )
        assert float(back) < 0
        best.setdefault(int(number), []).append((float(ahead) + float(back), text))
    for sentence, candidates in best.items():
        most = max(score for score, _ in candidates)
        texts = [text.replace("@@ ", "") for score, text in candidates if score > most - 1e-4]
        assert chosen[sentence] in texts
    told = json.loads((runs / "reranked1.1/valid.m2.json").read_text())
    assert 0 <= told["F_0.5"] <= 100


@pytest.mark.slow
def test_learner_text_takes_the_place_of_synthetic_errors(tmp_path: Path) -> None:
    data, work = learner_text(tmp_path / "data"), tmp_path / "work"
    settings = {"DATA_DIR": str(data), "WORK": str(work)}
    more = {**settings, "SCALE": "small", "MERGES": "40", "PORTION": "50", "FINAL": "none"}
    more |= {"SYSTEMS": "baseline joint-direct-imdb-100 joint-spell-imdb-125"}
    step(STEPS[0], more)
    assert lines(work / "words/train.src") == lines(data / "train.src")
    assert lines(work / "sets/dev/dev.levels") == list("ABCN")
    assert lines(work / "sets/jfleg/jfleg.ref3") == ["The Owl sees it ."], "cased"
    seeds = [lines(path) for path in sorted((work / "seeds/imdb").iterdir())]
    assert list(chain(*seeds)) == lines(data / "imdb.txt")
    assert [len(portion) for portion in seeds] == [50, 50, 20]
    step(STEPS[2], more)
    assert (work / "data/direct-imdb-100/train.src-trg.src.bin").exists()
    rounded = work / "pseudo/spell-imdb-125.all.trg"
    assert len(lines(rounded)) == 120, "1.4 million sentences are all 1,369,460 of SimpleWiki"
    stopped = step(STEPS[0], {**more, "PAIRS": "synthetic", "SETS": "valid"}, 2).stderr
    assert "SYSTEMS, in joint-direct-imdb-100, has 'imdb'. Expected captions, phrases" in stopped
    stopped = step(STEPS[0], {**more, "SYSTEMS": "joint-direct-imdb-130"}, 2).stderr
    assert stopped.endswith("direct-imdb-130, but the seed corpus imdb has only 120 sentences.\n")
    found = trainings("small", "train", **settings)
    assert "pretrain-noisy-imdb-1000000-sse-r2l.1" in found
    assert found["joint-noisy-imdb-100000.1"].mix_weights.count("train=") == 2
    assert {args.encoder_embed_dim for args in found.values()} == {256}
    scored = said(dry("small", "score", **settings, SPACY_MODEL="/spacy"), "score")
    assert any("dev.txt" in line and "--spacy-model /spacy" in line for line in scored)
    plain = trainings("small", "train", SYSTEMS="baseline", FINAL="none", SEEDS="1")
    assert plain["baseline.1"].encoder_embed_dim == 128, "without learner text"


def test_pseudo_data_is_mixed_by_the_kind_of_the_system() -> None:
    found = trainings("paper", "train", SEEDS="1", FINAL="none")
    assert {args.task for args in found.values()} == {"tagged_translation"}
    assert all(args.right_to_left == ("-r2l" in name) for name, args in found.items())
    weights = {name: args.mix_weights for name, args in found.items()}
    assert weights["baseline.1"] is None
    million = 14000000
    pseudo = f"../direct-gigaword-{million}/train={million}"
    assert weights[f"joint-direct-gigaword-{million}.1"] == f"train=561410,{pseudo}"
    assert weights[f"upsample-direct-gigaword-{million}.1"] == f"train=1122820,{pseudo}"
    assert weights[f"pretraining-direct-gigaword-{million}.1"] == pseudo


def test_the_paper_scale_is_that_of_tables_4_2_and_4_3() -> None:
    name = "noisy-gigaword-70000000-sse"
    found = trainings("paper", "train", SYSTEMS="baseline joint-direct-wikipedia-1400000")
    assert len(found) == 2 * 5 + 2 * 2 * 4
    for run, given in found.items():
        args = vars(given)
        sizes = [args[f"encoder_{size}"] for size in ("layers", "attention_heads", "embed_dim")]
        assert (*sizes, args["encoder_ffn_embed_dim"]) == (6, 16, 1024, 4096)
        assert (args["dropout"], args["label_smoothing"], args["clip_norm"]) == (0.3, 0.1, 1.0)
        assert args["best_checkpoint_metric"] == "ppl"
        tuned = run.startswith("pretrain-")
        assert args["optimizer"] == ("adafactor" if tuned else "adam")
        if tuned:
            assert (args["lr"], args["lr_scheduler"], args["max_epoch"]) == ([3e-5], "fixed", 30)
            first = run.replace("pretrain-", "pretraining-")
            assert str(args["finetune_from_model"]).endswith(f"{first}/checkpoint_last.pt")
        else:
            assert (args["adam_betas"], args["adam_eps"]) == ("(0.9, 0.98)", 1e-8)
            assert (args["warmup_updates"], args["lr"]) == (4000, [0.000494])
            assert args["max_epoch"] == (10 if run.startswith("pretraining-") else 40)
    assert {run for run in found if name in run and "r2l" in run} == {
        f"{kind}-{name}-r2l.{seed}" for kind in ("pretrain", "pretraining") for seed in range(1, 5)
    }
    averaged = called(dry("paper", "train", SEEDS="1", SYSTEMS="baseline"), "fairseq-ssl")
    assert "--last 20" in " ".join(averaged[0])


def test_held_out_sets_have_gold_or_none() -> None:
    settings = {"SYSTEMS": "baseline", "FINAL": "none", "SEEDS": "1", "SETS": "test fce bea other"}
    settings["BLIND"] = "bea other"
    prepared = [" ".join(words) for words in dry("paper", "prepare", **settings)]
    gold = {words.removeprefix("cat /data/") for words in prepared if words.endswith(".m2")}
    assert gold == {"valid.m2", "conll14.m2", "fce.m2"}  # training needs valid
    for name in ("valid", "test", "fce", "bea", "other"):
        assert any(words.endswith(f"/held-out/{name}/{name}.src-trg.src") for words in prepared)
    scored = dry("paper", "score", **settings)
    texts = {words[2].partition("runs/")[2] for words in called(scored, "fairseq-ssl")}
    assert texts == {
        f"{run}.1/{name}.txt" for run in ("uncorrected", "baseline") for name in ("test", "fce")
    }
    packed = [words[2].partition("runs/")[2] for words in scored if "submission.py" in words[1]]
    assert packed == [
        f"{run}.1/{name}.txt" for run in ("uncorrected", "baseline") for name in ("bea", "other")
    ]
    for args in decoded(dry("paper", "decode", **settings)):
        assert (args.dataset_impl, args.gen_subset) == ("raw", Path(args.data).name)


def test_a_submission_of_another_length_is_rejected(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bea.txt").write_text("a b\n\n")
    (tmp_path / "two.src").write_text("a b\nc\n")
    (tmp_path / "three.src").write_text("a b\nc\nd\n")
    words = ("python", RECIPE / "submission.py", tmp_path / "bea.txt", "-o", tmp_path / "bea.zip")
    run(*words, "--source", tmp_path / "three.src", code=1)
    assert not (tmp_path / "bea.zip").exists()
    run(*words, "--source", tmp_path / "two.src")
    with zipfile.ZipFile(tmp_path / "bea.zip") as archive:
        assert archive.read("bea.txt") == b"a b\nc\n"


def test_re_ranking_is_that_of_section_4_4_5() -> None:
    commands = dry("paper", "rerank", SETS="test")
    (args,) = decoded(commands)
    assert (args.beam, args.nbest, args.lenpen, len(args.path.split(":"))) == (5, 5, 1.0, 4)
    _, features, apply = said(commands, "rerank")
    (models,) = re.findall(r"--name r2l --translation (.*?) --", features)
    assert len(models.split()) == models.count("-sse-r2l.") == 4
    assert "--lenpen 1.0 " in features
    assert "--weight l2r=1 --weight r2l=1" in apply


def test_m2_files_become_pairs(run: Run, tmp_path: Path) -> None:
    """Held-out sets have all sentences: also equal sides, empty targets and overlapping edits."""
    (tmp_path / "a.m2").write_text(
        "S he go home\nA 1 2|||R:VERB:SVA|||goes|||REQUIRED|||-NONE-|||0\n\nS fine .\n\n"
        "S gone\nA 0 1|||U|||-NONE-|||REQUIRED|||-NONE-|||0\n\n"
        "S a b\nA 0 2|||R|||c|||REQUIRED|||-NONE-|||0\nA 1 2|||R|||d|||REQUIRED|||-NONE-|||0\n\n"
    )
    words = ("python", RECIPE / "corpora.py", "pairs", tmp_path / "a.m2", "--to")
    done = run(*words, tmp_path / "valid", "--held-out")
    assert "The target has the uncorrected sentence" in done.stderr
    assert lines(tmp_path / "valid.src") == ["he go home", "fine .", "gone", "a b"]
    assert lines(tmp_path / "valid.trg") == ["he goes home", "fine .", "", "a b"]
    (tmp_path / "a.m2").write_text((tmp_path / "a.m2").read_text().partition("S a b")[0])
    run(*words, tmp_path / "train")
    assert lines(tmp_path / "train.src") == ["he go home"]
    assert lines(tmp_path / "train.trg") == ["he goes home"]


def test_force_scores_candidates_again() -> None:
    """The list of other candidates or models, or of a killed run, is not resumed."""
    for force, count in (("", 0), ("1", 1)):
        scored = said(dry("tiny", "rerank", SETS="valid", FORCE=force), "rerank")
        assert sum("features" in words and "--force" in words for words in scored) == count
