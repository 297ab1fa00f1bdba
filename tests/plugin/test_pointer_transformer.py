"""The pointer Transformer in fairseq's commands: unknown words, EMA, initialization of one side."""

from __future__ import annotations

import copy
import json
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_ssl
from fairseq_ssl.errors import FairseqSslError

fairseq_ssl.register()
from fairseq import tasks  # noqa: E402
from fairseq.criterions.cross_entropy import CrossEntropyCriterion  # noqa: E402

from tests.conftest import PACKAGE, Run, trained_only, weights  # noqa: E402
from tests.learning.names import preprocess  # noqa: E402
from tests.plugin.runs import parsed  # noqa: E402

RAW = ("--dataset-impl", "raw")
TASK = ("--user-dir", PACKAGE, "--task", "copying_translation")
TRAINING = (
    *(*TASK, "--arch", "pointer_transformer_tiny", "--dropout", "0.1", "--cpu"),
    *("--optimizer", "nag", "--lr", "0.05", "--lr-scheduler", "reduce_lr_on_plateau"),
    *("--lr-shrink", "0.5", "--clip-norm", "2", "--criterion", "cross_entropy"),
    *("--max-tokens", "1000", "--log-format", "simple", "--seed", "1"),
)


@pytest.fixture
def data(named: Path) -> Path:
    return named / "raw"


@pytest.fixture(scope="module")
def trained(run: Run, named: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training of 24 updates with --store-ema."""
    folder = tmp_path_factory.mktemp("run")
    average = ("--store-ema", "--ema-decay", "0.9", "--max-update", "24", "--save-dir", folder)
    done = run("fairseq-train", named / "raw", *RAW, *TRAINING, *average)
    (folder / "log").write_text(done.stdout + done.stderr, encoding="utf-8")
    return folder


def valid_loss(shown: str) -> str:
    """Return the last validation loss that was logged."""
    *_, last = re.finditer(r"valid on 'valid' subset \| loss ([\d.]+)", shown)
    return last[1]


@pytest.mark.slow
def test_averaged_weights_are_validated_and_can_be_exported(
    run: Run, data: Path, trained: Path, tmp_path: Path
) -> None:
    last, mean = trained / "checkpoint_last.pt", tmp_path / "mean.pt"
    run("fairseq-ssl", "average", last, "--ema", "-o", mean)
    words = ("fairseq-validate", data, *RAW, *TASK, "--cpu", "--valid-subset", "valid")
    losses = []
    for path in (mean, last):
        done = run(*words, "--max-tokens", "1000", "--path", path)
        losses.append(valid_loss(done.stdout + done.stderr))
    assert losses[0] == valid_loss((trained / "log").read_text("utf-8"))
    assert losses[0] != losses[1]


def test_fine_tuning_from_a_checkpoint_without_ema(
    run: Run, data: Path, trained: Path, tmp_path: Path
) -> None:
    mean = tmp_path / "mean.pt"
    run("fairseq-ssl", "average", trained / "checkpoint_last.pt", "--ema", "-o", mean)
    average = ("--store-ema", "--ema-decay", "0.9", "--finetune-from-model", mean)
    still = ("--max-update", "1", "--lr", "0", "--no-epoch-checkpoints")
    run("fairseq-train", data, *RAW, *TRAINING, *average, *still, "--save-dir", tmp_path)
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)
    wanted = weights(mean)
    for found in (state["model"], state["extra_state"]["ema"]):
        assert all(wanted[name].allclose(weight) for name, weight in trained_only(found).items())


def test_eval_bleu_uses_the_averaged_weights(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trained model itself outputs nothing, and all batches share one generator."""
    search = {"beam": 2, "max_len_b": 10}
    task, model = built(data, *RAW, "--eval-bleu", "--eval-bleu-args", json.dumps(search))
    task.load_dataset("valid")
    sample = task.datasets["valid"].collater([task.datasets["valid"][n] for n in range(30)])
    average = copy.deepcopy(model)
    with torch.no_grad():
        average.decoder.copy_attention.gate.bias.fill_(-9)  # makes the model copy
    generator = task.build_generator([average], Namespace(**search))
    expected = task._inference_with_bleu(generator, sample, average)
    assert expected.counts[0] > 0
    monkeypatch.setattr(model.encoder, "forward", None)
    criterion = CrossEntropyCriterion(task, sentence_avg=False)
    searches = set()
    for _ in range(2):
        _, _, shown = task.valid_step(sample, model, criterion, ema_model=average)
        found = [shown[f"_bleu_counts_{n}"] for n in range(4)]
        assert (found, shown["_bleu_sys_len"]) == (expected.counts, expected.sys_len)
        searches.add(task.sequence_generator)
    assert len(searches) == 1


def test_unknown_words_are_printed(run: Run, named: Path, data: Path, trained: Path) -> None:
    path = trained / "checkpoint_last.pt"
    shown = run("fairseq-generate", data, *RAW, *TASK, "--cpu", "--path", path).stdout
    for mark, side in (("S", "src"), ("T", "trg")):
        lines = (named / f"test.{side}").read_text("utf-8").splitlines()
        found = dict(re.findall(rf"^{mark}-(\d+)\t(.*)$", shown, re.M))
        assert [found[str(number)] for number in range(30)] == lines
    words = ("fairseq-interactive", data, *TASK, "--cpu", "--path", path)
    sampling = ("--sampling", "--beam", "3", "--nbest", "3", "--temperature", "0.7")
    shown = run(*words, *sampling, text="Never w3 Seen w4 Never\n").stdout
    assert re.search(r"^S-0\tNever w3 Seen w4 Never$", shown, re.M)
    assert len(re.findall(r"^H-0\t", shown, re.M)) == 3


def built(data: Path, *flags: str | Path) -> tuple[Any, Any]:
    """Return the task and the model as fairseq-train builds them."""
    cfg = parsed(data, *TRAINING, *flags)
    torch.manual_seed(1)
    task = tasks.setup_task(cfg.task)
    return task, task.build_model(cfg.model)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_one_side_is_initialized_from_a_checkpoint(data: Path, trained: Path, side: str) -> None:
    from_there = trained / "checkpoint_last.pt"
    there = weights(from_there)
    half = built(data, *RAW, f"--init-{side}-only", from_there)[1].state_dict()
    none = built(data, *RAW)[1].state_dict()
    for name, weight in trained_only(half).items():
        begun = name.startswith(side) or "embed_tokens" in name or "output_proj" in name
        assert weight.equal(there[name] if begun else none[name]), name


def test_data_binarized_with_all_words_equals_raw_text(
    named: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    preprocess(named, tmp_path)
    task, model = built(tmp_path, "--copy-vocabulary", "40")
    assert model.copy_vocabulary == 40
    task.load_dataset("train")
    assert "<unk>" not in caplog.text
    pairs = task.datasets["train"]
    assert max(int(pairs[number]["source"].max()) for number in range(20)) >= 40
    lines = (named / "train.src").read_text("utf-8").splitlines()
    assert [task.source_dictionary.string(pairs[n]["source"]) for n in range(20)] == lines[:20]


def test_unk_in_the_data_is_warned_about(
    named: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    preprocess(named, tmp_path, "--srcdict", named / "dict.txt")
    built(tmp_path)[0].load_dataset("train")
    assert re.search(r"<unk> occurs \d+ times in the first 300 sources", caplog.text)


def test_truncation_of_long_sources_and_targets_is_logged(
    named: Path, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    cut = ("--truncate-source-words", "5", "--truncate-target-words", "4")
    task, _ = built(data, *RAW, *cut)
    for split in ("train", "valid"):
        task.load_dataset(split)
        most = {"source": 5, "target": 4 if split == "train" else 8}
        for side, short in (("source", "src"), ("target", "trg")):
            lines = (named / f"{split}.{short}").read_text("utf-8").splitlines()
            for number, line in enumerate(lines):
                ids = task.datasets[split][number][side]
                words = line.split()[: most[side]]
                assert task.source_dictionary.string(ids) == " ".join(words)
                assert ids[-1] == task.source_dictionary.eos()
                place = ("source", "target").index(side)
                assert task.datasets[split].sizes[number][place] == len(ids)
    longer = sum(len(line.split()) > 5 for line in (named / "train.src").open(encoding="utf-8"))
    assert f"Truncated {longer} of 300 sources of train to 5 tokens" in caplog.text
    assert "targets of valid" not in caplog.text
    given = [torch.tensor([4, 5, 6, 7, 8, 9, 2]), torch.tensor([4, 2])]
    batch = task.build_dataset_for_inference(given, [7, 2])
    assert [batch[i]["source"].tolist() for i in range(2)] == [[4, 5, 6, 7, 8, 2], [4, 2]]
    assert given[0].tolist() == [4, 5, 6, 7, 8, 9, 2]


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        (("--arch", "transformer_tiny", "--share-all-embeddings"), "can copy"),
        (("--truncate-source-words", "0"), "--truncate-source-words"),
        (("--init-encoder-only", "nowhere.pt"), r"nowhere.pt \(--init-enc"),
        (("--init-decoder-only", "nowhere.pt"), r"nowhere.pt \(--init-dec"),
        (("--copy-vocabulary", "1000"), "5 to 44"),
    ],
)
def test_invalid_options_are_rejected(data: Path, flags: tuple[str, ...], culprit: str) -> None:
    with pytest.raises(FairseqSslError, match=culprit):
        built(data, *RAW, *flags)


def test_alignments_are_rejected_in_generation(data: Path) -> None:
    task, model = built(data, *RAW)
    with pytest.raises(FairseqSslError, match="--print-alignment"):
        task.build_generator([model], Namespace(print_alignment="hard"))
