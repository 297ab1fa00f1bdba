"""Patches of fairseq: batches of resumed runs, EMA of tied weights, prefetching threads."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from argparse import Namespace
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset, ListDataset, TokenBlockDataset

import fairseq_ssl
from fairseq_ssl.checkpoints import CheckpointSelection
from fairseq_ssl.plugin import register_all
from fairseq_ssl.plugin.checkpoint_safety import check_loaded_state

fairseq_ssl.register()
from fairseq import checkpoint_utils  # noqa: E402
from fairseq.data.iterators import EpochBatchIterator  # noqa: E402
from fairseq.data.legacy import BertDictionary, MaskedLMDictionary  # noqa: E402
from fairseq.dataclass.configs import (  # noqa: E402
    CheckpointConfig,
    DatasetConfig,
    OptimizationConfig,
)
from fairseq.models import ARCH_CONFIG_REGISTRY  # noqa: E402
from fairseq.models.ema.ema import EMA  # noqa: E402
from fairseq.models.transformer import TransformerModel  # noqa: E402
from fairseq.tasks import FairseqTask  # noqa: E402
from fairseq.tasks.translation import TranslationConfig, TranslationTask  # noqa: E402
from fairseq.trainer import Trainer  # noqa: E402

from tests.conftest import ROOT, trained_only  # noqa: E402


def task_of(split: str, count: int) -> Any:
    """Return a task that has a split of `count` pairs."""
    words = Dictionary()
    words.add_symbol("a")
    sizes = np.full(count, 5)
    lines = ListDataset([torch.full((5,), 4) for _ in sizes], sizes)
    dataset = LanguagePairDataset(lines, sizes, words, lines, sizes, words)
    task = TranslationTask(TranslationConfig(), words, words)
    task.datasets[split] = dataset
    return task


def iterator(
    epoch: int | None, rebuild: bool = False, count: int = 40, split: str = "train", **options: Any
) -> Any:
    """Return the batch iterator of a run that starts or resumes in `epoch`."""
    task = task_of(split, count)
    if rebuild:
        task.cfg = Namespace(rebuild_batches=True)
    if epoch is not None:  # fairseq-generate and fairseq-validate pass no epoch
        options["epoch"] = epoch
    return task.get_batch_iterator(task.datasets[split], max_sentences=8, seed=3, **options)


def batches(*args: Any, **options: Any) -> list[list[int]]:
    """Return the batches of an epoch, in order."""
    made = iterator(*args, **options)
    assert made.seed == 3
    return [sorted(map(int, batch)) for batch in made.frozen_batches]


def test_resumed_run_keeps_the_batches_of_epoch_1() -> None:
    assert batches(epoch=4) == batches(epoch=1)


def epochs_of_a_trainer(numbers: range, updates_seed: bool, rebuild: bool) -> list[list[Any]]:
    """Return the batches of the last epoch of a run that starts or resumes in the first one."""
    task = task_of("train", 40)
    task.cfg = Namespace(rebuild_batches=rebuild)
    dataset = DatasetConfig(batch_size=8, num_workers=0)
    dataset.update_ordered_indices_seed = updates_seed
    trainer = SimpleNamespace(
        task=task,
        cfg=Namespace(dataset=dataset, optimization=OptimizationConfig(), common=Namespace(seed=3)),
        model=Namespace(max_positions=lambda: (9, 9)),
        data_parallel_world_size=1,
        data_parallel_rank=0,
        reset_dummy_batch=lambda batch: None,
    )
    task.max_positions = lambda: (9, 9)
    found: list[list[Any]] = []
    for epoch in numbers:
        made = Trainer.get_train_iterator(trainer, epoch, load_dataset=False)
        found = [batch["id"].tolist() for batch in made.next_epoch_itr()]
    return found


@pytest.mark.parametrize("updates_seed", [False, True])
@pytest.mark.parametrize("rebuild", [False, True])
def test_seeds_of_a_trainer_resume(updates_seed: bool, rebuild: bool) -> None:
    """This holds although --update-ordered-indices-seed adds the epoch to the seed."""
    whole = epochs_of_a_trainer(range(1, 4), updates_seed, rebuild)
    assert epochs_of_a_trainer(range(3, 4), updates_seed, rebuild) == whole


@pytest.mark.parametrize(
    "option",
    [{"update_epoch_batch_itr": True}, {"disable_iterator_cache": True}, {"rebuild": True}],
)
def test_rebuilt_batches_still_change_with_the_epoch(option: dict[str, Any]) -> None:
    if "seed + epoch" not in inspect.getsource(FairseqTask.get_batch_iterator):
        pytest.skip("this fairseq forms its batches from the seed alone")
    assert batches(epoch=1, **option) == batches(epoch=1)
    assert batches(epoch=4, **option) != batches(epoch=1)


def test_workers_stop_with_the_iterator_of_an_epoch() -> None:
    if "persistent_workers" not in inspect.signature(EpochBatchIterator).parameters:
        pytest.skip("this fairseq keeps them as long as the iterator")
    before = set(multiprocessing.active_children())
    made = iterator(epoch=1, update_epoch_batch_itr=True, num_workers=1, data_buffer_size=2)
    assert len(list(made.next_epoch_itr())) == 5
    until = time.monotonic() + 20
    while set(multiprocessing.active_children()) - before and time.monotonic() < until:
        time.sleep(0.05)
    assert set(multiprocessing.active_children()) <= before


@pytest.mark.parametrize("count", [3, 8, 13, 42])
def test_validation_batches_have_all_sentences(count: int) -> None:
    for split, epoch in (("valid", 1), ("test1", None), ("train", None)):
        found = batches(epoch, count=count, split=split, required_batch_size_multiple=8)
        assert sorted(line for batch in found for line in batch) == list(range(count))


def test_a_training_split_of_another_name_has_the_same_batches() -> None:
    task = task_of("genuine", 42)
    task.cfg = TranslationConfig(train_subset="genuine")
    options = {"max_sentences": 8, "required_batch_size_multiple": 8}
    training = task.get_batch_iterator(task.datasets["genuine"], seed=3, epoch=1, **options)
    found = [sorted(map(int, batch)) for batch in training.frozen_batches]
    assert found == batches(epoch=1, count=42, required_batch_size_multiple=8)


def validation_sizes(task: Any, subset: str) -> list[int]:
    """Return the sizes of the batches in which a trainer validates on a split."""
    limits = {"max_tokens_valid": None, "batch_size_valid": 8, "num_workers": 0}
    limits |= {"skip_invalid_size_inputs_valid_test": False, "data_buffer_size": 0}
    trainer = SimpleNamespace(
        task=task,
        cfg=Namespace(
            dataset=Namespace(**limits, train_subset="train", required_batch_size_multiple=8),
            common=Namespace(seed=3),
        ),
        model=Namespace(max_positions=lambda: (9, 9)),
        data_parallel_world_size=1,
        data_parallel_rank=0,
        reset_dummy_batch=lambda batch: None,
    )
    made = Trainer.get_valid_iterator(trainer, subset)
    batches = made.next_epoch_itr(shuffle=False, set_dataset_epoch=False)
    return [batch["nsentences"] for batch in batches]


def test_validation_on_the_training_split_leaves_the_training_in_its_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = task_of("train", 42)
    dataset = task.datasets["train"]
    epochs: list[int] = []
    monkeypatch.setattr(type(dataset), "set_epoch", lambda _, epoch: epochs.append(epoch))
    training = task.get_batch_iterator(dataset, max_sentences=8, seed=3, epoch=2)
    steps = training.next_epoch_itr()
    next(steps)
    assert sum(validation_sizes(task, "train")) == 42
    assert set(epochs) == {2}
    assert training.state_dict()["iterations_in_epoch"] == 1
    assert (training.next_epoch_idx, len(list(steps))) == (2, 5)
    assert list(task.datasets) == ["train"]


@pytest.mark.parametrize("split", ["valid", "train_dev"])
def test_a_trainer_validates_on_all_sentences(split: str) -> None:
    assert sum(validation_sizes(task_of(split, 42), split)) == 42


def test_padded_batches_do_not_change_encoder_outputs_in_evaluation() -> None:
    args = Namespace()
    ARCH_CONFIG_REGISTRY["transformer_tiny"](args)
    words = Dictionary()
    task = Namespace(source_dictionary=words, target_dictionary=words)
    encoder = TransformerModel.build_model(args, task).encoder.eval()
    batch = torch.tensor([[3, 3, 3, 2], [1, 1, 3, 2]])
    with torch.no_grad():
        both = encoder(batch, torch.tensor([4, 2]))["encoder_out"][0]
        alone = encoder(batch[1:, 2:], torch.tensor([2]))["encoder_out"][0]
    torch.testing.assert_close(both[2:, 1:], alone)


@pytest.mark.parametrize("fp32", [False, True])
@pytest.mark.parametrize("half", [False, True])
def test_ema_updates_tied_weights_once(fp32: bool, half: bool) -> None:
    args = Namespace()
    ARCH_CONFIG_REGISTRY["transformer_tiny"](args)
    args.share_all_embeddings = True
    words = Dictionary()
    task = Namespace(source_dictionary=words, target_dictionary=words)
    model = TransformerModel.build_model(args, task)
    model = model.half() if half else model
    options = {"ema_decay": 0.75, "ema_fp32": fp32, "ema_seed_model": None}
    average = EMA(model, Namespace(**options, ema_start_update=0, ema_update_freq=1))
    begun = {name: weight.float().clone() for name, weight in model.state_dict().items()}
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(1.0)
    for _ in range(2):
        average.step(model, updates=1)
    found = average.get_model().state_dict()
    for name in trained_only(dict(model.named_parameters(remove_duplicate=False))):
        expected = 1 + (begun[name] - 1) * 0.75**2
        torch.testing.assert_close(found[name].float(), expected, atol=2e-3, rtol=0)
    tied = ("encoder.embed_tokens.weight", "decoder.output_projection.weight")
    assert found[tied[0]].data_ptr() == found[tied[1]].data_ptr()


@pytest.mark.parametrize("fp32", [False, True])
def test_ema_copies_integers(fp32: bool) -> None:
    model = torch.nn.BatchNorm1d(2)
    options = {"ema_decay": 0.75, "ema_fp32": fp32, "ema_seed_model": None}
    average = EMA(model, Namespace(**options, ema_start_update=0, ema_update_freq=1))
    for _ in range(3):
        model(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        average.step(model, updates=1)
    found = average.get_model().state_dict()
    assert found["num_batches_tracked"] == 3
    means = [0.2, 0.38, 0.542]  # momentum 0.1, limit 2
    expected = 0.25 * (0.75**2 * means[0] + 0.75 * means[1] + means[2])
    assert found["running_mean"][0].item() == pytest.approx(expected)


@pytest.mark.parametrize("extra", [None, {"ema": 1, "ema_fp32_params": 2, "val_loss": 3}])
def test_loaded_ema_state_is_released(extra: Any) -> None:
    trainer = SimpleNamespace(task=None)
    kept = check_loaded_state(lambda *_: extra)(trainer, "checkpoint.pt")
    assert kept is None or kept == {"val_loss": 3}


@pytest.mark.parametrize("kind", [MaskedLMDictionary, BertDictionary])
def test_legacy_dictionaries_load(tmp_path: Path, kind: type[Dictionary]) -> None:
    stock = kind()
    stock.add_symbol("word", 3)
    stock.save(str(tmp_path / "dict.txt"))
    loaded = kind.load(str(tmp_path / "dict.txt"))
    assert loaded.symbols == stock.symbols
    assert loaded.mask() == stock.mask()


def test_language_model_blocks_with_break_mode_eos() -> None:
    """fairseq uses a name that numpy 2 removed."""
    rows = ListDataset([torch.ones(n, dtype=torch.long) for n in (3, 5, 9)])
    blocks = TokenBlockDataset(rows, [3, 5, 9], 64, 1, 2, break_mode="eos")
    assert blocks.sizes.tolist() == [3, 5, 9]


ENDING = """
import os
import sys
import torch
from fairseq.data.iterators import BufferedIterator
from fairseq_ssl.plugin.patches import apply_patches

class Batches:
    def __len__(self):
        return 10**6

    def __iter__(self):
        while True:
            batch = torch.zeros(50, 400)
            yield sum(torch.cat([batch, batch]) for _ in range(20))

apply_patches()
for number in range(1, 7):
    run = os.fork()
    if not run:
        for _ in zip(range(number), BufferedIterator(10**5, Batches())):
            pass
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(run, 0)[1]))
"""


def test_process_exits_cleanly_while_batches_are_prefetched() -> None:
    """Without the patch, about half of these runs abort with "terminate called ..."."""
    done = subprocess.run(
        [sys.executable, "-u", "-c", ENDING], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0"] * 6, done.stderr


COLLECTING = """
import gc
import sys
import torch
from fairseq_ssl.plugin.patches import apply_patches

class Batch:
    def __del__(self):
        print("freed", torch.utils.data.get_worker_info() is None, file=sys.stderr)

class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return gc.collect()

apply_patches()
gc.disable()
batch = Batch()
batch.itself = batch  # only garbage collection frees it
del batch
list(torch.utils.data.DataLoader(Texts(), num_workers=1, multiprocessing_context="fork"))
print("in the parent", gc.collect() > 0, file=sys.stderr)
"""


def test_workers_do_not_free_objects_of_the_training() -> None:
    """Without the patch, the worker frees the batch, too, and aborts if its memory is pinned."""
    done = subprocess.run([sys.executable, "-c", COLLECTING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.split("\n")[-3:-1] == ["freed True", "in the parent True"]
    assert done.stderr.count("freed") == 1


def save_checkpoint(cfg: CheckpointConfig | Namespace, update: int, epoch_updates: int) -> None:
    """Save an empty checkpoint of an update under the names that fairseq chooses."""
    trainer = SimpleNamespace(
        data_parallel_rank=0,
        consolidate_optimizer=lambda: None,
        should_save_checkpoint_on_current_rank=True,
        get_num_updates=lambda: update,
        checkpoint_suffix="",
        task=None,
        save_checkpoint=lambda name, state: shutil.copyfile(os.devnull, name),
    )
    iterator = SimpleNamespace(
        epoch=(update - 1) // epoch_updates + 1,
        end_of_epoch=lambda: update % epoch_updates == 0,
        state_dict=dict,
    )
    checkpoint_utils.save_checkpoint(cfg, trainer, iterator, None)


@pytest.mark.parametrize("keep", [-1, 8])
@pytest.mark.parametrize("epoch_updates", [1, 14, 15, 20, 33, 200, 300])
def test_checkpoint_is_saved_at_each_interval(
    tmp_path: Path, epoch_updates: int, keep: int
) -> None:
    """Without the patch, there are 7 with 15 updates per epoch, and none with 20."""
    cfg = CheckpointConfig(
        save_dir=str(tmp_path),
        no_epoch_checkpoints=True,
        save_interval_updates=20,
        keep_interval_updates=keep,
    )
    for update in range(1, 201):
        if update % epoch_updates == 0 or update % 20 == 0:  # as in fairseq-train
            save_checkpoint(cfg, update, epoch_updates)
    paths = CheckpointSelection(last=8, by="update").paths([tmp_path])
    updates = [int(path.stem.rpartition("_")[2]) for path in paths]
    assert updates == list(range(60, 201, 20))
    assert len(list(tmp_path.glob("checkpoint_[0-9]*.pt"))) == (8 if keep > 0 else 10)


def test_epoch_checkpoints_keep_their_names(tmp_path: Path) -> None:
    cfg = CheckpointConfig(save_dir=str(tmp_path), save_interval_updates=20)
    save_checkpoint(cfg, 40, 20)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["checkpoint2.pt", "checkpoint_last.pt"]


def test_configuration_without_an_interval_needs_no_other_option(tmp_path: Path) -> None:
    """fairseq's own tests use such a configuration."""
    options = vars(CheckpointConfig(save_dir=str(tmp_path), save_interval_updates=0))
    del options["no_epoch_checkpoints"]
    save_checkpoint(Namespace(**options), 3, 20)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint_last.pt"]


def applied_patches() -> Counter[str]:
    """Return the number of wrappers of each function and method of fairseq."""
    patches: Counter[str] = Counter()
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "fairseq"]
    owners: list[Any] = list(modules)
    seen = set()
    while owners:
        for value in list(vars(owners.pop()).values()):
            value = getattr(value, "__func__", value)
            is_stock = str(getattr(value, "__module__", "")).startswith("fairseq.")
            if not is_stock or id(value) in seen:
                continue
            seen.add(id(value))
            if inspect.isclass(value):
                owners.append(value)
            while inspect.isfunction(value):
                file = value.__code__.co_filename  # that of torch for its decorators
                inner = getattr(value, "__wrapped__", None)
                is_patch = hasattr(value, "patched_by") and not hasattr(inner, "patched_by")
                if "/fairseq_ssl/" in file or is_patch:
                    patches[f"{value.__module__}.{value.__qualname__}"] += 1
                value = inner
    return patches


def test_registration_hides_hydra_warnings_about_fairseq() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        register_all()
        warnings.warn("hydra.experimental.compose() is no longer experimental", stacklevel=1)
        warnings.warn("another warning", stacklevel=1)
    assert [str(warning.message) for warning in shown] == ["another warning"]


def test_the_page_of_patches_has_all_of_them() -> None:
    page = (ROOT / "docs/patches.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    names = Counter(name for row in rows for name in re.findall(r"`(.*?)`", row))
    patches = applied_patches()
    assert patches["fairseq.checkpoint_utils.save_checkpoint"] == 1
    for patch, wrappers in patches.items():
        parts = patch.split(".")
        known = [".".join(parts[start:end]) for end in (-1, None) for start in range(len(parts))]
        assert sum(names[name] for name in known) >= wrappers, patch
