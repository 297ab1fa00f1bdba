"""The recipe of chapter 4: its tiny scale runs, its paper scale is what the thesis says."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from tests.conftest import ROOT, Run
from tests.recipes.recipe import called, printed, step

fairseq_ssl.register()
from fairseq import options  # noqa: E402

RECIPE = ROOT / "examples/gec_pseudo_data"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))
SYSTEM = "upsample-noisy-toys-300"


def dry(scale: str, name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": scale, **settings})


def trainings(scale: str, name: str, **settings: str) -> dict[str, Any]:
    """The options of each training of a step, by the name of its folder."""
    found = {}
    for words in called(dry(scale, name, **settings), "fairseq-train"):
        args = options.parse_args_and_arch(options.get_training_parser(), words)
        found[Path(args.save_dir).name] = args
    return found


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_the_tiny_scale_runs_and_is_found_done(tmp_path: Path) -> None:
    settings = {"SCALE": "tiny", "WORK": str(tmp_path), "SYSTEMS": SYSTEM, "FINAL": SYSTEM}
    settings.update(SETS="valid", METRICS="m2", UPDATES="20")
    step(STEPS[0], settings)
    step(STEPS[1], settings)
    step(STEPS[2], {**settings, "SYSTEMS": f"{SYSTEM} joint-direct-toys-200-sse"})
    shown = [step(path, settings).stdout for path in STEPS[3:]][3]
    for row in ("untouched", SYSTEM, "ensemble1", "reranked1"):
        assert f"| {row} | 1 |" in shown
    log = (tmp_path / f"runs/{SYSTEM}.1/train.log").read_text()
    genuine = len(lines(tmp_path / "text/train.trg"))
    assert 150 < genuine < 300  # pairs of equal sides are left out
    assert f"{2 * genuine} pairs an epoch of the {genuine} of train" in log
    assert "from right to left" not in log
    pseudo = tmp_path / "pseudo"
    seeds = lines(pseudo / "toys.bpe")
    for name, most in (("noisy-toys-300", 300), ("direct-toys-200-sse", 200)):
        sources, targets = (lines(pseudo / f"{name}.{side}") for side in ("src", "trg"))
        assert len(sources) == len(targets) > 0.8 * most
        assert sum(a != b for a, b in zip(sources, targets, strict=True)) > 50
        assert set(targets) <= set(seeds[:most])
    reranked_as_it_should_be(tmp_path)
    for path in STEPS[3:6]:
        again = step(path, settings).stderr
        done = {line for line in again.splitlines() if not line.startswith("==>")}
        assert done, path
        assert all(line.startswith("there already: ") for line in done), again


def reranked_as_it_should_be(work: Path) -> None:
    """Add up the scores of both directions, and look for the best."""
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


def test_each_scale_has_its_systems() -> None:
    for scale in ("tiny", "small", "paper"):
        found = trainings(scale, "train", SEEDS="1", ENSEMBLES="1")
        for name, args in found.items():
            assert args.task == "tagged_translation"
            assert args.right_to_left == ("-r2l" in name)
            kind = name.partition("-")[0].partition(".")[0]
            mixed = args.mix_weights
            assert (mixed is None) == (kind in ("baseline", "pretrain"))
            if kind == "pretraining":
                assert mixed.startswith("../")
    weights = {
        name: args.mix_weights
        for name, args in trainings("paper", "train", SEEDS="1", FINAL="none").items()
    }
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


def said(commands: list[list[str]], verb: str) -> list[str]:
    return [" ".join(words) for words in called(commands, "fairseq-ssl") if words[0] == verb]


def test_pseudo_data_is_that_of_section_4_3() -> None:
    prepare = dry("paper", "prepare")
    (bpe,) = [words for words in said(prepare, "subwords") if words.startswith("subwords train")]
    assert re.search(r"/words/train\.trg .*--kind subword-nmt --size 8000", bpe)
    pairs = [" ".join(words) for words in prepare if "pairs" in words]
    assert ["--held-out" in words for words in pairs] == [False, True, True]
    commands = dry("paper", "pseudo")
    (plain,) = {
        words for words in said(commands, "back-translate") if "noisy-gigaword.src" in words
    }
    assert "--noisy-beam-beta 6 " in plain
    noises = said(commands, "noise")
    assert any("direct:keep=0.2:mask=0.3 " in words for words in noises)
    assert any("direct:keep=0.2:mask=0.7 " in words for words in noises)
    assert any("spelling:rate=0.003 " in words for words in noises)
    assert any("--noise spell " in words for words in noises)


def test_re_ranking_is_that_of_section_4_4_5() -> None:
    commands = dry("paper", "rerank", SETS="test")
    (search,) = called(commands, "fairseq-generate")
    args = options.parse_args_and_arch(options.get_generation_parser(), search)
    assert (args.beam, args.nbest, args.lenpen, len(args.path.split(":"))) == (5, 5, 1.0, 4)
    _, features, apply = said(commands, "rerank")
    (models,) = re.findall(r"--name r2l --translation (.*?) --", features)
    assert len(models.split()) == models.count("-sse-r2l.") == 4
    assert "--lenpen 1.0 " in features
    assert "--weight l2r=1 --weight r2l=1" in apply


def test_m2_files_become_pairs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.m2").write_text(
        "S he go home\nA 1 2|||R:VERB:SVA|||goes|||REQUIRED|||-NONE-|||0\n\nS fine .\n\n"
        "S gone\nA 0 1|||U|||-NONE-|||REQUIRED|||-NONE-|||0\n\n"
    )
    words = ("python", RECIPE / "corpora.py", "pairs", tmp_path / "a.m2", "--to")
    done = run(*words, tmp_path / "train")
    assert "1 pairs of the 3 sentences" in done.stdout
    assert (tmp_path / "train.src").read_text() == "he go home\n"
    assert (tmp_path / "train.trg").read_text() == "he goes home\n"


def test_held_out_sets_keep_every_sentence(run: Run, tmp_path: Path) -> None:
    """Also one that is wholly taken out, and one whose edits overlap."""
    (tmp_path / "a.m2").write_text(
        "S gone\nA 0 1|||U|||-NONE-|||REQUIRED|||-NONE-|||0\n\n"
        "S a b\nA 0 2|||R|||c|||REQUIRED|||-NONE-|||0\nA 1 2|||R|||d|||REQUIRED|||-NONE-|||0\n\n"
    )
    words = ("python", RECIPE / "corpora.py", "pairs", tmp_path / "a.m2")
    done = run(*words, "--to", tmp_path / "valid", "--held-out")
    assert "2 pairs of the 2 sentences" in done.stdout
    assert "It stays uncorrected" in done.stderr
    assert (tmp_path / "valid.src").read_text() == "gone\na b\n"
    assert (tmp_path / "valid.trg").read_text() == "\na b\n"


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"SCALE": "large"}, 2, "SCALE has 'large'; expected tiny, small, paper."),
        ({"SYSTEMS": "jiont-direct-toys-3"}, 2, "SYSTEMS has 'jiont'; expected baseline, joint,"),
        ({"SYSTEMS": "joint-drect-toys-3"}, 2, "has 'drect'; expected noisy, direct, spell"),
        ({"SYSTEMS": "joint-direct-toy-3"}, 2, "has 'toy'; expected toys"),
        ({"SYSTEMS": "joint-direct-toys-9000"}, 2, "at most 600"),
        ({"SYSTEMS": "joint-direct-toys-3-ses"}, 2, "has 'ses'; expected sse"),
        ({"SCALE": "small", "DATA_DIR": ""}, 2, "folder with multi30k, small_parallel_enja"),
    ],
)
def test_a_wrong_setting_is_refused(
    settings: dict[str, str], code: int, message: str, tmp_path: Path
) -> None:
    given = {"WORK": str(tmp_path), **settings}
    assert message in step(STEPS[0], given, code).stderr
