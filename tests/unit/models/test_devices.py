"""No model mixes tensors of two devices: losses, gradients and searches on a simulated device."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_ssl

fairseq_ssl.register()
from fairseq import options, tasks, utils  # noqa: E402
from fairseq.data import indexed_dataset  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402

from fairseq_ssl.edits.dictionary import EditDictionary  # noqa: E402
from fairseq_ssl.edits.transforms import Transforms  # noqa: E402
from tests.unit.inference.random_models import HEADS, SIZES, data_folder  # noqa: E402
from tests.unit.models.simulated_device import (  # noqa: E402
    DEVICE,
    DeviceTensor,
    move,
    move_model,
    simulated_device,
)
from tests.unit.models.tiny_models import PAD, batch, previous  # noqa: E402

TRANSLATION = ("--task", "translation", "-s", "src", "-t", "src", "--criterion", "cross_entropy")
TAGGING = ("--task", "edit_labeling", "-s", "src", "-t", "src", "--criterion", "edit_cross_entropy")
PBD = ("--arch", "pseudo_bidirectional_transformer", *SIZES, *HEADS)
SHAPE = ("--arch", "shape_transformer_tiny", "--shape-positions")
TAGGER = ("--arch", "edit_tagger", *SIZES, *HEADS)
CLASSIFICATION = ("--task", "semi_supervised_classification", "--arch", "lstm_classifier")
SMALL = ("--recurrent-embed-dim", "8", "--recurrent-hidden-dim", "6")
CASES = {
    "shifted": (*TRANSLATION, *SHAPE, "shifted"),
    "relative": (*TRANSLATION, *SHAPE, "relative"),
    "pointer": (
        *(*TRANSLATION, "--task", "copying_translation", "--arch", "pointer_transformer_tiny"),
        *("--copy-attention-heads", "2", "--copy-vocabulary", "8"),
    ),
    "pseudo-bidirectional": (*TRANSLATION, *PBD),
    "aligned": (*TRANSLATION, *PBD, "--pseudo-future-alignment", "prefix"),
    "bytenet": (
        *(*TRANSLATION, "--arch", "bytenet_digits", "--bytenet-unfold", "1.2,1"),
        *("--bytenet-sets", "1", "--bytenet-dilations", "1,2"),
    ),
    "tagger": (*TAGGING, *TAGGER, "--edit-detection"),
    "unfactorized": (*TAGGING, *TAGGER, "--edit-unfactorized", "--edit-gap-inserts"),
    "lstm": (*CLASSIFICATION, *SMALL, "--criterion", "adversarial_cross_entropy"),
    "denoising": (
        *("--task", "denoising_pretraining", "-s", "src", "--arch", "transformer_tiny"),
        *("--criterion", "denoising_cross_entropy"),
    ),
}
BEAM = ("--beam", "3", "--max-len-b", "8")
GREEDY = ("--beam", "1", "--max-len-b", "8")
NOISY = (*BEAM, "--noisy-beam-beta", "6")
SEARCHES = {
    **{f"{case}-beam": (case, None, BEAM) for case in tuple(CASES)[:6]},
    "tagger": ("tagger", None, ()),
    "unfactorized": ("unfactorized", None, ()),
    "shifted-noisy": ("shifted", "tagged_translation", NOISY),
    "shifted-aggressive": ("shifted", "local_transduction", (*GREEDY, "--aggressive")),
    "aligned-aggressive": ("aligned", "local_transduction", (*GREEDY, "--aggressive")),
    "pointer-aggressive": ("pointer", None, (*GREEDY, "--aggressive")),
}
"""Flags of a model in `CASES`, of the task, if it is not that of training, and of the search."""
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of Hydra
SENTENCES = [[4, 9, 6, 7, 8], [9, 4, 5], [6, 7]]
LABELS = 2
"""Number of labels to use: keep and delete."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dictionaries of all tasks, and a text for denoising."""
    folder = data_folder(tmp_path_factory.mktemp("data"))
    EditDictionary.of_counts({("a",): 3}, 2, 1, Transforms()).write(folder / "edits.txt")
    text = indexed_dataset.make_builder(f"{folder}/train.src-None.src.bin", "mmap", 20)
    text.add_item(torch.tensor([4, 5, 2]))
    text.finalize(f"{folder}/train.src-None.src.idx")
    for name in ("words", "label"):
        (folder / name).mkdir()
        (folder / name / "dict.txt").write_text((folder / "dict.src.txt").read_text())
    return folder


def built(folder: Path, flags: tuple[str, ...]) -> tuple[Any, Any]:
    """Return the model and the loss of a training, with the same weights for each call."""
    words = [str(folder), *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    config = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(config.task)
    torch.manual_seed(1)
    return task.build_model(config.model), task.build_criterion(config.criterion)


def sample_for(flags: tuple[str, ...]) -> dict[str, Any]:
    """Return a padded batch for the task of `flags`."""
    tokens = batch(SENTENCES)
    lengths = tokens.ne(PAD).sum(1)
    inputs = {"src_tokens": tokens, "src_lengths": lengths}
    found = {"net_input": inputs, "ntokens": int(lengths.sum()), "nsentences": len(tokens)}
    if "edit_labeling" in flags:
        found["labels"] = torch.arange(int((lengths - 1).sum())) % LABELS
    elif "semi_supervised_classification" in flags:
        found["target"] = torch.tensor([0, 1, 1])
    else:
        found["target"] = tokens
        found["changed"] = tokens == 4
        inputs["prev_output_tokens"] = previous(SENTENCES)
    return found


def test_the_device_rejects_tensors_of_the_cpu() -> None:
    with simulated_device():
        ours = torch.arange(3, device=DEVICE)
        assert isinstance(ours + 1, DeviceTensor)
        with pytest.raises(RuntimeError, match="two devices"):
            ours + torch.arange(3)


def test_gradients_on_a_cpu_are_clipped_on_a_machine_with_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.current_device", lambda: DEVICE)
    weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(3)]
    for weight, gradient in zip(weights, (3.0, 4.0, None), strict=True):
        weight.grad = None if gradient is None else torch.tensor([gradient])
    with simulated_device():
        norm = utils.clip_grad_norm_(weights, 1.0)
    assert norm == 5
    assert not isinstance(norm, DeviceTensor)
    clipped = [weight.grad for weight in weights if weight.grad is not None]
    torch.testing.assert_close(torch.cat(clipped), torch.tensor([0.6, 0.8]))


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_on_a_device(case: str, folder: Path) -> None:
    flags = CASES[case]
    model, criterion = built(folder, flags)
    sample = sample_for(flags)
    torch.manual_seed(3)
    expected, _, _ = criterion(model, sample)
    expected.backward()
    moved, criterion = built(folder, flags)
    move_model(moved)
    sample = move(sample_for(flags))
    torch.manual_seed(3)
    with simulated_device():
        found, _, _ = criterion(moved, sample)
        found.backward()
    assert isinstance(found, DeviceTensor)
    assert expected.isfinite()
    torch.testing.assert_close(found.stored, expected.detach())
    for (name, weight), on_cpu in zip(moved.named_parameters(), model.parameters(), strict=True):
        if on_cpu.grad is None:
            assert weight.grad is None, name
        else:
            assert isinstance(weight.grad, DeviceTensor), name
            torch.testing.assert_close(weight.grad.stored, on_cpu.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("case", SEARCHES)
def test_search_on_a_device(case: str, folder: Path) -> None:
    name, task_name, flags = SEARCHES[case]
    training = [str(folder), *CASES[name], *(("--task", task_name) if task_name else ())]
    args = options.parse_args_and_arch(options.get_training_parser(), training)
    task_flags = ["--task", args.task, "-s", "src", "-t", "src"]
    words = [str(folder), "--path", "model.pt", *task_flags, *flags]
    search = options.parse_args_and_arch(options.get_generation_parser(), words)
    found = []
    for is_moved in (False, True):
        task = tasks.setup_task(search)
        torch.manual_seed(1)
        model = task.build_model(convert_namespace_to_omegaconf(args).model).eval()
        sample = {**sample_for(CASES[name]), "id": torch.arange(3)}
        if is_moved:
            move_model(model)
            sample = move(sample)
        with simulated_device() if is_moved else nullcontext():
            generator = task.build_generator([model], search)
            hypotheses = task.inference_step(generator, [model], sample)
        best = [each[0] for each in hypotheses]
        found.append([(one["tokens"].tolist(), float(one["score"])) for one in best])
    expected, on_device = found
    assert [tokens for tokens, _ in on_device] == [tokens for tokens, _ in expected]
    scores = [score for _, score in expected]
    assert [score for _, score in on_device] == pytest.approx(scores, abs=1e-4)
