"""Validation of sentences that are longer than the model, in windows as in decoding."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fairseq_ssl
from fairseq_ssl.edits.windows import Windows
from fairseq_ssl.text.spans import Spans
from tests import pretrained
from tests.conftest import PACKAGE
from tests.learning.learner_sentences import sentence, with_errors
from tests.plugin.edit_corpus import binarize
from tests.plugin.runs import parsed
from tests.unit.edits.plain_edits import is_possible

pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq import checkpoint_utils, tasks  # noqa: E402
from fairseq_cli import train  # noqa: E402

from fairseq_ssl.generation.torch_engine import TorchEngine  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
TRAINING = (
    *("--user-dir", str(PACKAGE), "--task", "edit_labeling", "--arch", "edit_tagger_small"),
    *("--criterion", "edit_cross_entropy", "--edit-detection", "--encoder-layers", "1"),
    *("--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "16", "--encoder-attention-heads"),
    *("2", "--optimizer", "adam", "--lr", "0.02", "--max-tokens", "60", "--max-update", "80"),
    *("--no-epoch-checkpoints", "--seed", "1", "--cpu", "--num-workers", "0", "--dropout", "0"),
)
UNITS = {
    "word": ("--edit-unit", "word", "--edit-tokenizer", "bert", "--max-source-positions", "50"),
    "subword": ("--max-source-positions", "14"),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences to train on, and longer ones for validation."""
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(1)
    for split, count, longest in (("train", 150, 1), ("valid", 25, 5)):
        correct = [
            [word for _ in range(draw.randint(1, longest)) for word in sentence(draw)]
            for _ in range(count)
        ]
        wrong = [with_errors(words, 0.35, draw) for words in correct]
        for side, lines in (("src", wrong), ("trg", correct)):
            (folder / f"{split}.{side}").write_text("".join(f"{' '.join(x)}\n" for x in lines))
    binarize(folder)
    pretrained.bert(folder / "bert")
    return folder


def configuration(corpus: Path, unit: str, *flags: str) -> Any:
    units = [str(corpus / "bert") if word == "bert" else word for word in UNITS[unit]]
    return parsed(corpus / "bin", *TRAINING, *units, *flags)


def by_hand(model: Any, task: Any, corpus: Path) -> dict[str, float]:
    """Return the sums of the criterion, one sentence and one window at a time."""
    edits, dictionary = task.edits, task.source_dictionary
    windows = Windows.of_model(model.max_subwords + 2)
    engine = TorchEngine([model], dictionary)
    sums = dict.fromkeys(("loss", "gold", "predicted", "correct", "exact", "windows"), 0.0)
    lines = ((corpus / f"valid.{side}").read_text().splitlines() for side in ("src", "edits"))
    for line, names in zip(*lines, strict=True):
        ids = np.array([dictionary.index(word) for word in ["<s>", *line.split()]])
        text = Spans.of([np.where(ids < len(dictionary), ids, dictionary.unk())])
        counts = None if model.subwords is None else model.subwords.lengths(text.ids)
        split = windows.split(text, counts)
        gold = [edits.names.index(name) for name in names.split()]
        predicted: list[int] = []
        for one in range(len(split.text)):
            window = split.select(np.array([one]))
            rows, errors = engine.probabilities(window.text, window.used_positions)
            for row, error in zip(rows, errors.tolist(), strict=True):
                label = gold[len(predicted)]
                token = line.split()[len(predicted) - 1] if predicted else None
                possible = (
                    at for at in row.argsort(descending=True) if is_possible(edits, at, token)
                )
                predicted.append(int(next(possible)))
                sums["loss"] -= (1.0 if label else 0.4) * math.log(row[label])
                sums["loss"] -= math.log(error if label else 1 - error)
        pairs = list(zip(predicted, gold, strict=True))
        sums["gold"] += sum(label != 0 for label in gold)
        sums["predicted"] += sum(label != 0 for label in predicted)
        sums["correct"] += sum(one == label != 0 for one, label in pairs)
        sums["exact"] += predicted == gold
        sums["windows"] += len(split.text)
    return sums


@pytest.mark.parametrize("unit", list(UNITS))
@pytest.mark.slow
def test_metrics_of_long_sentences_equal_those_by_hand(
    unit: str, corpus: Path, tmp_path: Path
) -> None:
    cfg = configuration(corpus, unit, "--save-dir", str(tmp_path))
    train.main(cfg)
    path = tmp_path / "checkpoint_last.pt"
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    model.eval()
    expected = by_hand(model, task, corpus)
    assert expected.pop("windows") > 1.5 * 25
    assert expected["correct"] > 0
    task.load_dataset("valid")
    batches = task.get_batch_iterator(
        task.dataset("valid"), max_tokens=40, max_positions=model.max_positions()
    ).next_epoch_itr(shuffle=False)
    criterion = task.build_criterion(cfg.criterion)
    logs = [task.valid_step(batch, model, criterion)[2] for batch in batches]
    assert len(logs) > 3
    found = {key: sum(float(log[key]) for log in logs) for key in expected}
    assert found == pytest.approx(expected, rel=1e-4)
    positions = sum(int(log["ntokens"]) for log in logs)
    known = torch.load(path, weights_only=False)["extra_state"]["val_loss"]
    assert known == pytest.approx(expected["loss"] / positions / math.log(2), abs=1e-3)


def test_long_sentences_can_be_skipped(corpus: Path) -> None:
    cfg = configuration(corpus, "subword")
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    task.load_dataset("valid")
    dataset, limit = task.dataset("valid"), model.max_positions()
    counts = []
    for skip in (False, True):
        batches = task.get_batch_iterator(
            dataset, 60, None, limit, skip, disable_iterator_cache=True
        ).next_epoch_itr(shuffle=False)
        counts.append(sum(len(batch["id"]) for batch in batches))
    assert counts == [25, sum(dataset.sizes <= limit)]
    assert 0 < counts[1] < 25
