"""Recipe of MEIN: the tiny scale runs, the paper scale follows Kiyono (2022)."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.conftest import PACKAGE, ROOT, run_command
from tests.recipes.recipe import are_reused, called, printed, step, trained

RECIPE = ROOT / "examples/mein"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))


def dry(name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": "paper", **settings})


@pytest.mark.slow
def test_tiny_runs_from_texts_to_a_table(tmp_path: Path) -> None:
    settings = {"WORK": str(tmp_path), "EXPERTS": "lstm", "EPOCHS": "1", "FINE_EPOCHS": "1"}
    settings |= {"KINDS": "alone lines.500", "IMITATOR_UPDATES": "4"}
    shown = [step(path, settings).stdout for path in STEPS]
    rows = [line.split(" | ") for line in shown[-1].splitlines() if line.startswith("| toy")]
    assert [row[2] for row in rows] == ["alone", "continued", "lines.500"]
    for baseline in ("alone", "continued"):
        scores = json.loads((tmp_path / f"scores/{baseline}/toy.lstm.json").read_text())["systems"]
        assert scores["lines.500"]["against"]["baseline"] == baseline
    choice = json.loads((tmp_path / "runs/toy.lstm.1.lines.500/lambda.json").read_text())
    accuracies = choice["dev_accuracy"]
    assert list(accuracies) == ["0", "3"]
    assert accuracies[f"{choice['lambda']:g}"] == max(accuracies.values())
    assert [row[6].strip() for row in rows] == ["", "", f"{choice['lambda']:g}"]
    assert [[bool(cell.strip()) for cell in row[4:6]] for row in rows] == [
        *([False, True], [True, False], [True, True]),
    ]
    assert (tmp_path / "figures/toy.lstm.lines.png").stat().st_size > 1000
    changes = "1 PIECES=900, 2 HIDDEN=64, 3 IMITATOR_DECAY=1, 4 LAMBDA=0 1, 5 PIECES=900"
    are_reused(STEPS[:4], settings, changes)


def test_the_paper_scale_is_that_of_table_3_2() -> None:
    lm, *experts = trained(dry("expert", TASKS="rcv1", SEEDS="1"))
    assert (lm.task, lm.arch, lm.criterion) == (
        "language_modeling",
        "recurrent_lm",
        "adaptive_loss",
    )
    assert [one.criterion.partition("_")[0] for one in experts] == [
        *("classification", "classification", "adversarial", "virtual"),
    ]
    for args in experts:
        assert args.user_dir == str(PACKAGE)
        assert (args.recurrent_embed_dim, args.recurrent_hidden_dim) == (256, 1024)
        assert (args.classifier_mlp_dim, args.recurrent_dropout) == (128, 0.5)
        assert (args.lr, args.lr_decay, args.lr_deacy_period) == ([0.001], 0.9998, 1)
        assert (args.batch_size, args.max_epoch) == (32, 30)
        assert hasattr(args, "classifier_lm") == (args is not experts[0])
    assert experts[2].adversarial_epsilon == 5
    assert experts[3].classification_unlabeled_per_labeled == 1


def test_imitators_and_mixtures_of_the_paper_scale() -> None:
    settings = {"TASKS": "elec", "SEEDS": "1", "EXPERTS": "adv"}
    found = trained(dry("imitate", **settings))
    windows = [one.imitator_windows for one in found]
    assert windows[1:8] == ["1", "1,2", "1,2,3", "2,3,4", "3,4", "4", "1,2,3,4,5"]
    assert {windows[0], *windows[8:]} == {"1,2,3,4"}
    assert {(one.imitator_embed_dim, one.imitator_channels) for one in found} == {(512, 512)}
    assert {(one.lr[0], one.lr_decay) for one in found} == {(0.001, 0.9998)}
    found = trained(dry("mixture", **settings))
    continued, *mixtures = found
    assert {(one.lr[0], one.lr_decay, one.max_epoch, one.criterion) for one in found} == {
        (0.0001, 0.9998, 30, "adversarial_cross_entropy")
    }
    assert [one.mixture_lambda for one in mixtures] == 16 * [0, 1, 3]
    assert [one.mixture_random for one in mixtures if hasattr(one, "mixture_random")] == [4] * 3
    assert (continued.arch, continued.classification_stage) == ("lstm_classifier", "supervised")
    assert continued.finetune_from_model == mixtures[0].mixture_expert
    assert not hasattr(continued, "classifier_lm")


def test_figure_3_3_has_equal_updates_and_one_expert() -> None:
    """Extra texts are not in the vocabularies and not in the language model."""
    settings = {"TASKS": "elec", "SEEDS": "1", "EXPERTS": "adv"}
    found = trained(dry("imitate", **settings))
    lines = [one for one in found if getattr(one, "classification_unlabeled_lines", None)]
    assert [one.classification_unlabeled_lines for one in lines] == [
        *(5_000, 20_000, 50_000, 100_000, 2_000_000, 4_000_000, 6_000_000),
    ]
    assert all(hasattr(one, "classification_full_epochs") for one in lines[:4])
    assert {one.max_epoch for one in found} == {1}
    more = trained(dry("imitate", **settings, IMITATOR_UPDATES="187500"))
    assert {(one.max_update, one.max_epoch) for one in more} == {(187_500, 0)}
    (words,) = called(dry("prepare", **settings), "fairseq-ssl")
    assert dict(pairwise(words))["--extra-unlabeled"] == "/data/elec/extra.txt"
    labeled = [words[3] for words in called(dry("imitate", **settings), "fairseq-ssl")]
    assert labeled == ["unlabeled", "valid", "extra"]
    other = {**settings, "TASKS": "imdb"}
    (words,) = called(dry("prepare", **other), "fairseq-ssl")
    assert "--extra-unlabeled" not in words, "only where there are such texts"


def test_a_pretrained_encoder_is_an_expert_with_its_own_subwords() -> None:
    """All steps read its data folder and continue its network; no language model is trained."""
    settings = {"SCALE": "small", "TASKS": "imdb", "EXPERTS": "bert lstm", "BERT": "/bert"}
    settings |= {"SEEDS": "1", "PRECISION": "--amp", "LAMBDA": "3"}
    prepared = called(dry("prepare", **settings), "fairseq-ssl")
    tokenizers = {one[-1]: dict(pairwise(one)).get("--tokenizer") for one in prepared}
    folders = ["work/mein/small/data/imdb.bert", "work/mein/small/data/imdb"]
    assert tokenizers == dict(zip(folders, ("bert:/bert", None), strict=True))
    names = ("expert", "imitate", "mixture")
    found = [one for name in names for one in trained(dry(name, **settings))]
    assert [one.arch for one in found] == [
        *("bert_classifier", "lstm_classifier", "imitators", "imitators"),
        *("bert_classifier", "expert_and_imitators", "expert_and_imitators"),
        *("lstm_classifier", "expert_and_imitators", "expert_and_imitators"),
    ]
    bert = [found[at] for at in (0, 2, 4, 5, 6)]
    assert {one.data for one in bert} == {folders[0]}
    assert {one.data for one in found if one not in bert} == {folders[1]}
    assert [found[0].lr, found[4].lr] == [[5e-5], [1e-5]]
    assert {one.classifier_bert for one in (found[0], found[4])} == {"/bert"}
    assert all(one.amp for one in found)
    for name, option in (("imitate", "--data-dir"), ("score", "--data-dir")):
        words = called(dry(name, **settings), "fairseq-ssl")
        assert {dict(pairwise(one)).get(option) for one in words} >= set(folders)


def test_splits_have_the_sizes_of_table_3_1() -> None:
    commands = called(dry("prepare"), "fairseq-ssl")
    flags = {Path(words[2]).parent.name: dict(pairwise(words)) for words in commands}
    assert {task: found["--valid-size"] for task, found in flags.items()} == {
        **{"elec": "2500", "imdb": "3754", "rotten_tomatoes": "960", "rcv1": "1557"},
    }
    assert flags["rotten_tomatoes"]["--test-size"] == "1066"


@pytest.mark.parametrize("kinds", ["", "alone random", "imitators lines.5", "alone"])
def test_continued_training_is_always_a_row(kinds: str) -> None:
    commands = called(dry("score", TASKS="rcv1", EXPERTS="lm", KINDS=kinds), "fairseq-ssl")
    scored = [words for words in commands if words[:2] == ["classify", "score"]]
    names = {word.partition("=")[0] for word in scored[-1] if "=" in word}
    assert ("continued" in names) == (kinds != "alone")
    baselines = {dict(pairwise(words))["--baseline"] for words in scored}
    assert baselines == {"alone", "continued"} & names


PRAISE, BLAME = ([f"{word} {number} ." for number in range(50)] for word in ("fine", "dull"))
PROS = ["Easy to use", "easy to use!", "None", "it\u2019s small", *map(str, range(60))]


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """Small corpora in the format of nltk_data."""
    made = tmp_path / "nltk_data/corpora"
    for folder in ("sentence_polarity", "movie_reviews/pos", "movie_reviews/neg", "pros_cons"):
        (made / folder).mkdir(parents=True)
    (made / "sentence_polarity/rt-polarity.pos").write_text("\n".join([*PRAISE, ""]))
    (made / "sentence_polarity/rt-polarity.neg").write_text(" \n".join([*BLAME, "", ""]))
    (made / "movie_reviews/pos/b.txt").write_text("never seen\nFine 3\n")
    (made / "movie_reviews/neg/a.txt").write_bytes("caf\u00e9  scenes \n\n".encode("latin-1"))
    pros = "".join(f" <Pros>{text}</Pros>\n" for text in PROS)
    (made / "pros_cons/IntegratedPros.txt").write_bytes(pros.encode("cp1252"))
    (made / "pros_cons/IntegratedCons.txt").write_text(
        "<Cons>none</Cons>\n<Cons></Cons>\n\nno tag\n<Cons>Slow</Cons>\n"
    )
    return made


def made_of(corpora: Path, folder: str, *words: str) -> str:
    """Run the script in the folder above nltk_data. Return its output."""
    home = corpora.parent.parent
    maker = RECIPE / "nltk_reviews.py"
    return run_command("python", maker, "nltk_data", folder, *words, cwd=home).stdout


def read(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [(label, text) for label, _, text in (line.partition("\t") for line in lines)]


def test_corpora_of_nltk_become_the_folders_of_the_small_scale(
    corpora: Path, tmp_path: Path
) -> None:
    assert made_of(corpora, "data").splitlines() == [
        "wrote data/rotten_tomatoes: train 81, dev 9, test 10, unlabeled 2",
        "wrote data/pros_cons: train 56, test 7",
    ]
    films, phrases = tmp_path / "data/rotten_tomatoes", tmp_path / "data/pros_cons"
    found = [row for name in ("train", "dev", "test") for row in read(films / f"{name}.tsv")]
    wanted = [*(("1", text) for text in PRAISE), *(("0", text) for text in BLAME)]
    assert sorted(found) == sorted(wanted)
    sentences = (films / "unlabelled.txt").read_text(encoding="utf-8")
    assert sentences == "caf\u00e9 scenes\nnever seen\n"
    kept = [*read(phrases / "train.tsv"), *read(phrases / "test.tsv")]
    wanted = [("0", "Slow"), *(("1", PROS[number]) for number in (0, 3, *range(4, 64)))]
    assert sorted(kept) == sorted(wanted)
    for folder, seed in (("again", "1"), ("other", "2")):
        made_of(corpora, folder, "--seed", seed)
        test = (tmp_path / folder / "rotten_tomatoes/test.tsv").read_bytes()
        assert (test == (films / "test.tsv").read_bytes()) == (folder == "again")
