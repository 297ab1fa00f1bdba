"""Training, resuming, distributed training, validation and tuning of edit taggers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_ssl
from fairseq_ssl.cli.main import main as fairseq_ssl_command
from fairseq_ssl.edits.coverage import agreement
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.errors import ConfigurationError, DataError
from tests.conftest import OLD_HYDRA, PACKAGE, ROOT, Run, weights
from tests.learning.learner_sentences import write
from tests.plugin.edit_corpus import binarize

fairseq_ssl.register()
from fairseq import checkpoint_utils, options, tasks  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402
from fairseq_cli import train  # noqa: E402

from fairseq_ssl.generation import edit_corrector  # noqa: E402
from fairseq_ssl.models.edit_tagger import EditTagger  # noqa: E402
from fairseq_ssl.tasks.edit_labeling import EditLabelingConfig, EditLabelingTask  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
TASK = ("--user-dir", str(PACKAGE), "--task", "edit_labeling")
TRAINING = (
    *(*TASK, "--criterion", "edit_cross_entropy", "--arch", "edit_tagger_small"),
    *("--encoder-layers", "1", "--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "32"),
    *("--max-source-positions", "32", "--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1"),
    *("--max-tokens", "500", "--no-epoch-checkpoints", "--seed", "1", "--cpu"),
    *("--num-workers", "0"),  # workers of a training in this process would stop 5 s later
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A binarized corpus of 400 sentences with labels."""
    folder = tmp_path_factory.mktemp("corpus")
    write(folder, "train", 400, seed=1)
    write(folder, "valid", 60, seed=2)
    binarize(folder)
    return folder / "bin"


def trained(data: Path, folder: Path, *flags: str) -> Path:
    words = [str(data), *TRAINING, *flags, "--save-dir", str(folder)]
    parsed = options.parse_args_and_arch(options.get_training_parser(), words)
    train.main(convert_namespace_to_omegaconf(parsed))
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def model(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(data, tmp_path_factory.mktemp("run"), "--max-update", "60", "--edit-detection")


def same(one: Path, other: Path) -> bool:
    found, wanted = weights(one), weights(other)
    return all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_checkpoint_stores_its_edit_dictionary_and_rejects_others(
    data: Path, model: Path, tmp_path: Path
) -> None:
    known = torch.load(model, weights_only=False)["task_state"]
    assert known["edit_dictionary"] == (data / "edits.txt").read_text()
    other = tmp_path / "bin"
    shutil.copytree(data, other)
    edits = EditDictionary.read(data / "edits.txt")
    edits = EditDictionary(edits.grams[::-1], edits.counts, edits.max_ngram, edits.transforms)
    edits.write(other / "edits.txt")
    edits.write_for_fairseq(other / "dict.edits.txt")
    with pytest.raises(ConfigurationError, match="edit dictionary of the checkpoint differs"):
        checkpoint_utils.load_model_ensemble_and_task([str(model)], {"data": str(other)})
    flags = ("--edit-detection", "--max-update", "61")
    with pytest.raises(ConfigurationError, match=rf"edit dictionary of {model} differs"):
        trained(other, tmp_path / "tuned", *flags, "--finetune-from-model", str(model))
    with pytest.raises(ConfigurationError, match=rf"edit dictionary of {model} differs"):
        trained(other, tmp_path / "resumed", *flags, "--restore-file", str(model))


def test_checkpoint_rejects_another_token_dictionary(
    data: Path, model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "bin"
    shutil.copytree(data, other)
    first, *rest = (data / "dict.src.txt").read_text().splitlines(keepends=True)
    for side in ("src", "trg"):
        (other / f"dict.{side}.txt").write_text("".join([*rest, first]))
    with pytest.raises(ConfigurationError, match=r"token dictionary of the checkpoint \(\d+ symb"):
        checkpoint_utils.load_model_ensemble_and_task([str(model)], {"data": str(other)})
    flags = ("--edit-detection", "--max-update", "61")
    with pytest.raises(ConfigurationError, match=rf"token dictionary of {model} \(\d+ symbols"):
        trained(other, tmp_path / "tuned", *flags, "--finetune-from-model", str(model))
    state = torch.load(model, weights_only=False)
    del state["task_state"]["token_dictionary"]
    torch.save(state, tmp_path / "older.pt")
    checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "older.pt")], {"data": str(data)})


def test_labels_in_another_order_than_the_edit_dictionary_are_rejected(
    data: Path, tmp_path: Path
) -> None:
    other = tmp_path / "bin"
    shutil.copytree(data, other)
    with (other / "dict.edits.txt").open("a") as file:
        file.write("madeupword0000 0\n")  # fairseq-preprocess --padding-factor
    cfg = EditLabelingConfig(data=str(other), train_subset="train", dataset_impl=None, seed=1)
    cfg.required_seq_len_multiple = 1
    EditLabelingTask.setup_task(cfg).load_dataset("train")
    lines = (other / "dict.edits.txt").read_text().splitlines(keepends=True)
    (other / "dict.edits.txt").write_text("".join(reversed(lines)))
    with pytest.raises(DataError, match=r"dict\.edits\.txt differs from the labels of edits"):
        EditLabelingTask.setup_task(cfg).load_dataset("train")


def test_sentences_without_labels_are_reported_for_validation(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("edits.txt", "dict.src.txt", "dict.trg.txt"):
        shutil.copy(data / name, tmp_path)
    (tmp_path / "valid.src-trg.src").write_text("a b\na\nb\n")
    (tmp_path / "valid.edits-None.edits").write_text("KEEP KEEP KEEP\n\n\n")
    cfg = EditLabelingConfig(data=str(tmp_path), dataset_impl="raw", train_subset="train", seed=1)
    cfg.required_seq_len_multiple = 1
    task = EditLabelingTask.setup_task(cfg)
    with caplog.at_level("WARNING"):
        task.load_dataset("valid")
    assert "2 of 3 sentences of valid have no labels and are skipped" in caplog.text


def test_resumed_training_equals_uninterrupted_training(
    data: Path, tmp_path: Path, run: Run
) -> None:
    """This holds with a new sample in each epoch, with workers, and with a frozen encoder."""
    flags = (
        "--edit-unchanged-share",
        "0.5",
        "--num-workers",
        "2",
        "--edit-freeze-encoder-updates",
        "5",
    )

    def until(updates: str, folder: Path) -> Path:
        words = [*TRAINING, *flags, "--max-update", updates, "--save-dir", folder]
        run("fairseq-train", data, *words)
        return folder / "checkpoint_last.pt"

    whole = until("24", tmp_path / "whole")
    last = [until(updates, tmp_path / "broken") for updates in ("4", "11", "24")][-1]
    assert same(last, whole)


def test_frozen_encoder_does_not_change(data: Path, tmp_path: Path) -> None:
    begun = weights(trained(data, tmp_path / "begun", "--max-update", "1", "--lr", "0"))
    flags = ("--edit-freeze-encoder-updates", "6", "--max-update")
    cold = weights(trained(data, tmp_path / "cold", *flags, "6"))
    warm = weights(trained(data, tmp_path / "warm", *flags, "8"))
    for name, weight in begun.items():
        if name.startswith("encoder."):
            assert torch.equal(cold[name], weight), name
    assert not torch.equal(cold["scores.edits.weight"], begun["scores.edits.weight"])
    assert not torch.equal(warm["encoder.mask"], begun["encoder.mask"])


@pytest.mark.parametrize(
    "flag", ["--edit-unfactorized", "--edit-gap-inserts", "--amp", "--sentence-avg"]
)
@pytest.mark.slow
def test_training_options_learn(flag: str, data: Path, tmp_path: Path) -> None:
    losses = [
        torch.load(trained(data, tmp_path, "--max-update", updates, flag), weights_only=False)[
            "extra_state"
        ]["val_loss"]
        for updates in ("2", "40")
    ]
    assert losses[1] < 0.5 * losses[0]


def test_two_processes_equal_one_with_double_accumulation(
    run: Run, data: Path, tmp_path: Path
) -> None:
    flags = ("--dropout", "0", "--attention-dropout", "0", "--max-update", "12")
    one = weights(trained(data, tmp_path / "one", *flags, "--update-freq", "2"))
    launcher = f'source "{ROOT}/examples/common/launch.sh"; launch_train "$@"'
    words = ("bash", "-euo", "pipefail", "-c", launcher, "launch", data, *TRAINING, *flags)
    run(*words, "--save-dir", tmp_path / "two", LAUNCH="cpu", PROCESSES="2")
    for name, weight in weights(tmp_path / "two/checkpoint_last.pt").items():
        torch.testing.assert_close(one[name], weight, atol=2e-5, rtol=0, msg=name)


def test_python_interface_equals_the_command(run: Run, data: Path, model: Path) -> None:
    lines = (data.parent / "valid.src").read_text().splitlines()[:8]
    lines += ["never seen before !", ""]
    words = ("fairseq-interactive", data, *TASK, "--path", model, "--cpu")
    shown = run(*words, text="".join(f"{line}\n" for line in lines)).stdout
    wanted = re.findall(r"^H-\d+\t(\S+)\t(.*)$", shown, re.M)
    corrector = EditTagger.from_pretrained(str(model.parent), model.name, str(data))
    found = corrector.correct(lines, batch_size=3)
    assert [one.text for one in found] == [text for _, text in wanted]
    assert [one.score for one in found] == pytest.approx(
        [float(score) * 0.6931472 for score, _ in wanted], abs=1e-4
    )
    assert any(one.edits for one in found)
    assert all((one.rounds == 1) == (not one.edits) for one in found)
    both = EditTagger.from_pretrained(
        str(model.parent), f"{model.name}:{model.name}", str(data), edit_iterations=1
    )
    assert {one.rounds for one in both.correct(lines)} == {1}
    with pytest.raises(ConfigurationError, match="no option edit_keep_bia"):
        corrector.set_options(edit_keep_bia=0.1)
    for prints_edits in (True, False):
        corrector.set_options(print_edits=prints_edits)
    with pytest.raises(ConfigurationError, match="--edit-iterations is 0"):
        corrector.set_options(edit_keep_bias=0.9, edit_iterations=0)
    assert [one.text for one in corrector.correct(lines)] == [text for _, text in wanted]
    corrector.set_options()
    assert [one.text for one in corrector.correct(lines)] == [text for _, text in wanted]
    with pytest.raises(ConfigurationError, match="list of strings"):
        corrector.correct("one")


def test_int8_changes_probabilities_slightly(data: Path, model: Path) -> None:
    lines = (data.parent / "valid.src").read_text().splitlines()
    exact, fast = (
        EditTagger.from_pretrained(str(model.parent), model.name, str(data), edit_int8=is_int8)
        for is_int8 in (False, True)
    )
    with pytest.raises(ConfigurationError, match="--edit-window-overlap is 999"):
        exact.set_options(edit_int8=True, edit_window_overlap=999)
    assert "quantized" not in repr(exact.models[0]).lower()
    texts = [[one.text for one in corrector.correct(lines)] for corrector in (exact, fast)]
    with pytest.raises(ConfigurationError, match="int8, which is permanent"):
        fast.set_options(edit_int8=False)
    agree = sum(one == other for one, other in zip(*texts, strict=True))
    assert agree > 0.9 * len(lines)
    assert "quantized" in repr(fast.models[0]).lower()


@pytest.mark.parametrize(
    ("is_int8", "max_unknown_words"), [(False, edit_corrector.MAX_UNKNOWN_WORDS), (True, 0)]
)
def test_tune_prints_flags_that_improve_the_score(
    data: Path,
    model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    is_int8: bool,
    max_unknown_words: int,
) -> None:
    monkeypatch.setattr(edit_corrector, "MAX_UNKNOWN_WORDS", max_unknown_words)
    sides = [str(tmp_path / side) for side in ("src", "trg")]
    for side in sides:
        text = (data.parent / f"valid.{Path(side).name}").read_text()
        Path(side).write_text(f"{text}never seen before !\n")
    words = ["edits", "tune", *sides, "--model", str(model), "--data-dir", str(data)]
    assert fairseq_ssl_command([*words, *["--int8"] * is_int8]) == 0
    shown = capsys.readouterr()
    assert re.fullmatch(r"((^| )--edit-[a-z-]+ -?[\d.]+)*\n", shown.out)
    assert "109200 combinations of 4 options" in shown.err
    sources, targets = (Path(side).read_text().splitlines() for side in sides)
    scores = []
    for flags in ({}, chosen(shown.out)):
        flags["edit_int8"] = is_int8
        corrector = EditTagger.from_pretrained(str(model.parent), model.name, str(data), **flags)
        texts = [one.text for one in corrector.correct(sources)]
        scores.append(agreement(zip(sources, texts, targets, strict=True)).scores["f0.5"])
    before, after = (float(score) for score in re.findall(r"f0\.5 ([\d.]+)", shown.err))
    assert (before, after) == pytest.approx(tuple(scores), abs=0.01)
    assert after > before
    argv = [str(data), *TASK, "--path", str(model), *shown.out.split()]
    assert options.parse_args_and_arch(options.get_generation_parser(), argv)


def test_minimal_script_corrects(run: Run, data: Path, model: Path) -> None:
    program = (
        "import sys, fairseq_ssl; fairseq_ssl.register(); "
        "from fairseq_ssl.models.edit_tagger import EditTagger; "
        "corrector = EditTagger.from_pretrained(*sys.argv[1:]); "
        "print(corrector.correct(['two ☃ sees .'])[0].text)"
    )
    shown = run("python", "-c", program, model.parent, model.name, data, PYTHONPATH=str(ROOT))
    assert "☃" in shown.stdout


def chosen(flags: str) -> dict[str, Any]:
    pairs = re.findall(r"--(\S+) (\S+)", flags)
    return {name.replace("-", "_"): float(value) for name, value in pairs}


def test_validate_reports_the_loss_of_training(run: Run, data: Path, model: Path) -> None:
    words = ("fairseq-validate", data, *TASK, "--path", model, "--cpu", "--max-tokens", "500")
    done = run(*words, "--valid-subset", "valid", "--log-format", "simple")
    (loss,) = re.findall(r"\| valid on 'valid' subset \| loss ([\d.]+)", done.stdout + done.stderr)
    known = torch.load(model, weights_only=False)["extra_state"]["val_loss"]
    assert float(loss) == pytest.approx(known, abs=2e-3)


@pytest.mark.skipif(OLD_HYDRA, reason="Hydra 1.0 has no group for a model of a plug-in")
def test_hydra_train_accepts_model_task_and_criterion(run: Run, data: Path, tmp_path: Path) -> None:
    run(
        *("fairseq-hydra-train", f"common.user_dir={PACKAGE}", f"+task.data={data}"),
        *("+task._name=edit_labeling", "+task.edit_unchanged_share=0.5"),
        *("criterion._name=edit_cross_entropy", "+criterion.edit_copy_weight=0.7"),
        *("+model._name=edit_tagger", "+model.encoder_layers=1", "+model.encoder_embed_dim=24"),
        *("optimizer=adam", "optimization.lr=[0.001]", "optimization.max_update=2"),
        *("dataset.max_tokens=500", "common.cpu=true", f"checkpoint.save_dir={tmp_path / 'run'}"),
        *("checkpoint.no_epoch_checkpoints=true", f"hydra.run.dir={tmp_path / 'hydra'}"),
        cwd=tmp_path,
        HYDRA_FULL_ERROR="1",
    )
    cfg = torch.load(tmp_path / "run/checkpoint_last.pt", weights_only=False)["cfg"]
    assert (cfg["task"]["edit_unchanged_share"], cfg["criterion"]["edit_copy_weight"]) == (0.5, 0.7)
    assert (cfg["model"]["encoder_layers"], cfg["model"]["encoder_embed_dim"]) == (1, 24)


def test_invalid_data_is_rejected(data: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(data, bare, ignore=shutil.ignore_patterns("*.edits.*"))
    with pytest.raises(ConfigurationError, match="no labels for train"):
        task(bare).load_dataset("train")
    with pytest.raises(ConfigurationError, match="or of edits prepare with --test"):
        task(data).load_dataset("test")
    with pytest.raises(ConfigurationError, match="missing does not exist"):
        task(tmp_path / "missing")
    apart = tmp_path / "apart"
    shutil.copytree(data, apart)
    with (apart / "dict.trg.txt").open("a") as dictionary:
        dictionary.write("one_more 1\n")
    with pytest.raises(ConfigurationError, match="joined-dictionary"):
        task(apart)
    with pytest.raises(ConfigurationError, match="has no binarized text"):
        task(tmp_path)
    with pytest.raises(ConfigurationError, match="expected 0 to 1"):
        task(data, "--edit-unchanged-share", "1.5")


def task(data: Path, *flags: str) -> Any:
    words = [str(data), *TRAINING, *flags]
    parsed = options.parse_args_and_arch(options.get_training_parser(), words)
    return tasks.setup_task(convert_namespace_to_omegaconf(parsed).task)
