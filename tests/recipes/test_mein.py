"""Recipe of MEIN: the tiny scale runs, the paper scale follows the thesis."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from tests.conftest import PACKAGE, ROOT, run_command
from tests.recipes.recipe import called, printed, script, step

fairseq_ssl.register()
from fairseq import options  # noqa: E402

RECIPE = ROOT / "examples/mein"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))


def dry(name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": "paper", **settings})


def training(words: list[str]) -> Any:
    return options.parse_args_and_arch(options.get_training_parser(), words)


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
    for number, changed, shown_change in (
        (0, {"PIECES": "900"}, "PIECES was '1000', is '900'"),
        (1, {"HIDDEN": "64"}, "HIDDEN was '32', is '64'"),
        (2, {"IMITATOR_DECAY": "1"}, "IMITATOR_DECAY was '0.9998', is '1'"),
        (3, {"LAMBDA": "0 1"}, "LAMBDA was '0 3', is '0 1'"),
        (4, {"PIECES": "900"}, "PIECES was '1000', is '900'; $WORK/data/toy is from 1_prepare.sh"),
    ):
        assert shown_change in step(STEPS[number], settings | changed, 2).stderr
    for path in STEPS[:4]:
        again = step(path, settings).stderr.splitlines()
        done = [line for line in again if not line.startswith("==>")]
        assert done, path
        assert all(line.startswith("up to date: ") for line in done), again


def test_the_paper_scale_is_that_of_table_3_2() -> None:
    commands = called(dry("expert", TASKS="rcv1", SEEDS="1"), "fairseq-train")
    lm, *experts = [training(words) for words in commands]
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
    found = [training(one) for one in called(dry("imitate", **settings), "fairseq-train")]
    windows = [one.imitator_windows for one in found]
    assert windows[1:8] == ["1", "1,2", "1,2,3", "2,3,4", "3,4", "4", "1,2,3,4,5"]
    assert {windows[0], *windows[8:]} == {"1,2,3,4"}
    assert {(one.imitator_embed_dim, one.imitator_channels) for one in found} == {(512, 512)}
    assert {(one.lr[0], one.lr_decay) for one in found} == {(0.001, 0.9998)}
    found = [training(one) for one in called(dry("mixture", **settings), "fairseq-train")]
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
    found = [training(one) for one in called(dry("imitate", **settings), "fairseq-train")]
    lines = [one for one in found if getattr(one, "classification_unlabeled_lines", None)]
    assert [one.classification_unlabeled_lines for one in lines] == [
        *(5_000, 20_000, 50_000, 100_000, 2_000_000, 4_000_000, 6_000_000),
    ]
    assert all(hasattr(one, "classification_full_epochs") for one in lines[:4])
    assert {one.classification_unlabeled for one in lines[4:]} == {"unlabeled:extra"}
    assert {one.max_epoch for one in found} == {1}
    more = called(dry("imitate", **settings, IMITATOR_UPDATES="187500"), "fairseq-train")
    assert {(one.max_update, one.max_epoch) for one in map(training, more)} == {(187_500, 0)}
    (words,) = called(dry("prepare", **settings), "fairseq-ssl")
    assert dict(pairwise(words))["--extra-unlabeled"] == "/data/elec/extra.txt"
    labeled = [words[3] for words in called(dry("imitate", **settings), "fairseq-ssl")]
    assert labeled == ["unlabeled", "valid", "extra"]
    other = {**settings, "TASKS": "imdb"}
    (words,) = called(dry("prepare", **other), "fairseq-ssl")
    assert "--extra-unlabeled" not in words, "only where there are such texts"


def test_experts_of_several_tasks_can_start_from_one_language_model() -> None:
    settings = {"SCALE": "small", "TASKS": "imdb rotten", "EXPERTS": "lm", "SEEDS": "1"}
    lines = dry("expert", **settings, LM_TASK="imdb")
    lm, *experts = map(training, called(lines, "fairseq-train"))
    assert lm.arch == "recurrent_lm"
    assert {one.classifier_lm for one in experts} == {f"{lm.save_dir}/final.pt"}
    assert {one.classifier_lm_dict for one in experts} == {f"{lm.data}/dict.txt"}
    assert [Path(one.data).name for one in (lm, *experts)] == ["lm", "imdb", "rotten"]


def test_initial_embeddings_by_task() -> None:
    settings = {"SCALE": "small", "TASKS": "imdb rotten", "EXPERTS": "lstm", "SEEDS": "1"}
    for more, expected in (({}, [1, 0.06]), ({"EMBED_STD": "0.5"}, [0.5, 0.5])):
        found = map(training, called(dry("expert", **settings, **more), "fairseq-train"))
        assert [one.recurrent_embed_std for one in found] == expected
    paper = map(training, called(dry("expert", EXPERTS="lm", SEEDS="1"), "fairseq-train"))
    assert {one.recurrent_embed_std for one in paper if one.arch == "lstm_classifier"} == {1}


def test_a_batch_can_be_labeled_in_training() -> None:
    settings = {"TASKS": "imdb", "EXPERTS": "lstm", "SEEDS": "1", "KINDS": "alone imitators"}
    lines = dry("imitate", **settings, LABELING="online")
    assert called(lines, "fairseq-ssl") == []
    (words,) = called(lines, "fairseq-train")
    (expert,) = called(dry("expert", **settings), "fairseq-train")
    folder = dict(pairwise(expert))["--save-dir"]
    assert training(words).imitator_teacher == f"{folder}/final.pt"


def test_imitators_are_validated_several_times() -> None:
    """The best on dev is kept, also of imitators that repeat few texts."""
    for scale, interval in (("small", 250), ("paper", 2000)):
        settings = {"SCALE": scale, "TASKS": "imdb", "EXPERTS": "lstm", "SEEDS": "1"}
        words = called(dry("imitate", **settings, KINDS="lines.5000"), "fairseq-train")[-1]
        args = training(words)
        assert (args.save_interval_updates, args.keep_interval_updates) == (interval, 1)


def test_a_pretrained_encoder_is_an_expert_with_its_own_subwords() -> None:
    """All steps read its data folder and continue its network; no language model is trained."""
    settings = {"SCALE": "small", "TASKS": "imdb", "EXPERTS": "bert lstm", "BERT": "/bert"}
    settings |= {"SEEDS": "1", "PRECISION": "--amp", "LAMBDA": "3"}
    prepared = called(dry("prepare", **settings), "fairseq-ssl")
    tokenizers = {one[-1]: dict(pairwise(one)).get("--tokenizer") for one in prepared}
    folders = ["work/mein/small/data/imdb.bert", "work/mein/small/data/imdb"]
    assert tokenizers == dict(zip(folders, ("bert:/bert", None), strict=True))
    found = [
        training(words)
        for name in ("expert", "imitate", "mixture")
        for words in called(dry(name, **settings), "fairseq-train")
    ]
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
    assert {task: found["--valid-lines"] for task, found in flags.items()} == {
        **{"elec": "2500", "imdb": "3754", "rotten_tomatoes": "960", "rcv1": "1557"},
    }
    assert flags["rotten_tomatoes"]["--test-lines"] == "1066"


@pytest.mark.parametrize(("task", "widest"), [("elec", 5), ("imdb", 5), ("rotten", 4)])
def test_windows_of_1_to_5_are_tried_as_in_the_thesis(task: str, widest: int) -> None:
    commands = called(dry("imitate", TASKS=task, SEEDS="1", EXPERTS="adv"), "fairseq-train")
    windows = {training(words).imitator_windows for words in commands}
    assert max(int(one[-1]) for one in windows) == widest


@pytest.mark.parametrize("kinds", ["", "alone random", "imitators lines.5", "alone"])
def test_continued_training_is_always_a_row(kinds: str) -> None:
    commands = called(dry("score", TASKS="rcv1", EXPERTS="lm", KINDS=kinds), "fairseq-ssl")
    scored = [words for words in commands if words[:2] == ["classify", "score"]]
    names = {word.partition("=")[0] for word in scored[-1] if "=" in word}
    assert ("continued" in names) == (kinds != "alone")
    baselines = {dict(pairwise(words))["--baseline"] for words in scored}
    assert baselines == {"alone", "continued"} & names


def test_each_training_command_of_each_scale_is_understood_by_fairseq() -> None:
    for scale, count in (("tiny", 2), ("small", 2 + 18), ("paper", 4 + 80)):
        commands = called(dry("expert", SCALE=scale), "fairseq-train")
        assert len(commands) == count
        for words in commands:
            training(words)
    labels = called(dry("imitate", SCALE="small"), "fairseq-ssl")
    assert len(labels) == 2 * 3 * 3 * 2
    assert all(words[:2] == ["classify", "label"] for words in labels)


@pytest.mark.parametrize(("labels", "kept"), [("", [None, "1000"]), ("500", ["500", "500"])])
def test_few_labels_are_kept(labels: str, kept: list[str | None]) -> None:
    commands = called(dry("prepare", SCALE="small", LABELS=labels), "fairseq-ssl")
    found = [dict(pairwise(words)).get("--train-lines") for words in commands]
    assert found == kept


def test_figures_have_all_imitators_in_order() -> None:
    kinds = ("alone", "windows.3-4", "windows.1", "windows.1-2-3-4-5", "imitators", "windows.1-2")
    table = script(RECIPE / "table.py")
    systems = {kind: {"error": {"mean": len(kind), "sd": 1.0}} for kind in kinds}
    found = table.points(systems, ("windows.",), "1-2-3-4")
    assert [one[0] for one in found] == ["1", "1-2", "1-2-3-4", "1-2-3-4-5", "3-4"]
    assert found[2][1] == len("imitators")
    amounts = ("lines.", "extra.")
    assert table.points(systems, amounts, "27330") == []
    systems["lines.20000"] = systems["lines.5000"] = systems["extra.50000"] = systems["alone"]
    found = table.points(systems, amounts, "27330")
    assert [one[0] for one in found] == ["5000", "20000", "27330", "50000"]
    (words,) = [one for one in dry("score", TASKS="elec") if one[1].endswith("table.py")]
    assert words[-2:] == ["--windows", "1,2,3,4"]


def test_the_axis_of_figure_3_3_is_logarithmic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = script(RECIPE / "table.py")
    drawn: list[Any] = []
    real = table.legend_above

    def kept(ax: Any, **more: Any) -> None:
        drawn.append(ax)
        real(ax, **more)

    monkeypatch.setattr(table, "legend_above", kept)
    systems = {"alone": {"error": {"mean": 5.0}}, "continued": {"error": {"mean": 4.5}}}
    found = [("5000", 5.0, 0.1), ("200000", 4.0, 0.1), ("2000000", 3.0, 0.1)]
    table.draw(tmp_path / "one.png", systems, found, "unlabeled texts", is_amount=True)
    (ax,) = drawn
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["5,000", "200,000", "2,000,000"]
    lines = [line.get_ydata()[0] for line in ax.get_lines() if len(line.get_ydata()) == 2]
    assert lines == [5.0, 4.5], "the expert alone, and trained on"


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"SCALE": "large"}, 2, "SCALE has 'large'. Expected tiny, small, paper."),
        ({"EXPERTS": "cnn"}, 2, "EXPERTS has 'cnn'. Expected lstm, lm, adv, vat, bert."),
        ({"TASKS": "imdb"}, 2, "TASKS has 'imdb'. Expected toy."),
        (
            {"KINDS": "lines.x"},
            2,
            "KINDS has 'lines.x'. Expected alone, continued, imitators, random, lines.N, extra.N",
        ),
        ({"EXPERTS": "bert"}, 2, "BERT is not set. Expected the folder of a BERT or RoBERTa"),
        ({"SCALE": "small", "DATA_DIR": ""}, 2, "folder with rotten_tomatoes/train.tsv"),
    ],
)
def test_a_wrong_setting_is_rejected(
    settings: dict[str, str], code: int, message: str, tmp_path: Path
) -> None:
    assert message in step(STEPS[0], {"WORK": str(tmp_path), **settings}, code).stderr


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


def made_of(corpora: Path, folder: str, *words: str, code: int = 0) -> str:
    """Run the script in the folder above nltk_data. Return its output."""
    home = corpora.parent.parent
    maker = RECIPE / "nltk_reviews.py"
    done = run_command("python", maker, "nltk_data", folder, *words, cwd=home, code=code)
    return done.stdout or done.stderr


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


def test_the_split_of_these_corpora_is_drawn_by_the_seed(corpora: Path, tmp_path: Path) -> None:
    for folder, seed in (("data", "1"), ("again", "1"), ("other", "2")):
        made_of(corpora, folder, "--seed", seed)
    for name in ("rotten_tomatoes/test.tsv", "pros_cons/train.tsv"):
        first, again, other = (
            (tmp_path / folder / name).read_bytes() for folder in ("data", "again", "other")
        )
        assert first == again
        assert first != other


def test_missing_corpora_are_reported(corpora: Path, tmp_path: Path) -> None:
    (tmp_path / "there/pros_cons").mkdir(parents=True)
    assert "there/pros_cons exists. Delete it" in made_of(corpora, "there", code=2)
    (corpora / "movie_reviews/neg/a.txt").unlink()
    (corpora / "movie_reviews/pos/b.txt").unlink()
    assert "has no neg/*.txt and pos/*.txt. Get them" in made_of(corpora, "data", code=1)
    (corpora / "sentence_polarity/rt-polarity.neg").unlink()
    shown = made_of(corpora, "data", code=1)
    assert "rt-polarity.neg cannot be read: No such file or directory" in shown
    assert "python -m nltk.downloader -d FOLDER sentence_polarity" in shown
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("settings", "windows"), [({}, "1,2"), ({"WINDOWS": "2,3"}, "2,3")])
def test_windows_are_a_setting_at_the_tiny_scale(settings: dict[str, str], windows: str) -> None:
    commands = called(
        printed(RECIPE, "imitate", {"KINDS": "imitators", **settings}), "fairseq-train"
    )
    assert {words[words.index("--imitator-windows") + 1] for words in commands} == {windows}
