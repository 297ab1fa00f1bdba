"""Patches for fairseq bugs and for recent PyTorch versions."""

from __future__ import annotations

import atexit
import contextlib
import copy
import functools
import gc
import importlib.util
import inspect
import os
import queue
import time
import warnings
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import numpy as np

from fairseq_ssl.plugin import checkpoint_safety


def apply_patches() -> None:
    """Apply all patches, whose docstrings give the reasons. Further calls have no effect."""
    from fairseq import checkpoint_utils, options, utils
    from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
    from fairseq.data.iterators import BufferedIterator, EpochBatchIterator
    from fairseq.data.legacy import BertDictionary, MaskedLMDictionary
    from fairseq.file_io import PathManager
    from fairseq.models.ema.ema import EMA
    from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
    from fairseq.optim.adam import Adam
    from fairseq.optim.amp_optimizer import AMPOptimizer
    from fairseq.tasks import FairseqTask
    from fairseq.trainer import Trainer

    checkpoint_safety.protect_fairseq()
    _restore_numpy_long()
    _keep_objects_of_the_parent()
    _replace(checkpoint_utils, "load_checkpoint_to_cpu", checkpoint_safety.report_damage)
    _replace(checkpoint_utils, "load_checkpoint", checkpoint_safety.restore_progress)
    _replace(checkpoint_utils, "save_checkpoint", _save_at_each_interval)
    _replace(PathManager, "copy", checkpoint_safety.copy_atomically, decorator=staticmethod)
    _replace(FairseqTask, "get_batch_iterator", _fix_batch_iterator)
    _replace(EpochBatchIterator, "_get_iterator_for_epoch", _shuffle_after_curriculum)
    _replace(BufferedIterator, "_create_consumer", _stop_readers_at_exit)
    for dictionary in (MaskedLMDictionary, BertDictionary):
        _replace(dictionary, "__init__", _accept_special_symbols)
    _replace(TransformerEncoderLayerBase, "__init__", _disable_encoder_fastpath)
    _replace(LabelSmoothedCrossEntropyCriterion, "compute_loss", _smooth_labels_in_chunks)
    _replace(Adam, "step", _fuse_adam)
    _replace(utils, "clip_grad_norm_", _clip_on_cpus)
    _replace(AMPOptimizer, "__init__", _keep_loss_scale_on_cpus)
    _replace(AMPOptimizer, "step", _unscale_once)
    _replace(options, "parse_args_and_arch", _allow_bfloat16_on_gpus)
    _replace(FairseqTask, "train_step", _autocast_on_cpus)
    _replace(EMA, "_step_internal", _average_tied_weights_once)
    _replace(Trainer, "load_checkpoint", checkpoint_safety.check_loaded_state)
    _replace(Trainer, "save_checkpoint", checkpoint_safety.store_progress)
    _replace(Trainer, "get_train_iterator", _report_seed)
    _replace(Trainer, "get_valid_iterator", _keep_training_iterator)


def _replace(
    owner: Any,
    name: str,
    make_wrapper: Callable[[Callable[..., Any]], Callable[..., Any]],
    decorator: Callable[[Any], Any] = lambda function: function,
) -> None:
    """Replace the attribute `name` of `owner` with a wrapper, unless it is already replaced."""
    stock = getattr(owner, name)
    if getattr(stock, "patched_by", None) != __name__:
        wrapper = functools.wraps(stock)(make_wrapper(stock))
        vars(wrapper).update(patched_by=__name__, hooked=False)  # PyTorch adds step hooks again
        setattr(owner, name, decorator(wrapper))


def _restore_numpy_long() -> None:
    """Define `numpy.compat.long`, which numpy 2 removed and --sample-break-mode eos needs."""
    if not hasattr(np, "compat"):
        setattr(np, "compat", SimpleNamespace(long=int))  # noqa: B010


@functools.cache
def _keep_objects_of_the_parent() -> None:
    """Exclude a parent process's objects from garbage collection in forked processes.

    If a data loader worker frees a pinned batch of its parent, CUDA is called and fails.
    """
    os.register_at_fork(after_in_child=gc.freeze)


def _save_at_each_interval(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Save a checkpoint every --save-interval-updates, even if the update ends an epoch.

    At the end of an epoch, fairseq saves only an epoch checkpoint. With --no-epoch-checkpoints, it
    saves none, so the checkpoint for this interval is missing. The patch does not change runs that
    save epoch checkpoints.
    """

    def save_checkpoint(cfg: Any, trainer: Any, epoch_itr: Any, val_loss: Any) -> Any:
        interval = cfg.save_interval_updates
        # Check the interval first: a configuration without one may lack `no_epoch_checkpoints`.
        if interval > 0 and not trainer.get_num_updates() % interval and cfg.no_epoch_checkpoints:
            epoch_itr = _WithinEpoch(epoch_itr)
        return stock(cfg, trainer, epoch_itr, val_loss)

    return save_checkpoint


class _WithinEpoch:
    """A wrapper around an epoch iterator that never reports the end of the epoch."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator

    def __getattr__(self, name: str) -> Any:
        return getattr(self.iterator, name)

    def end_of_epoch(self) -> bool:
        """Return False, so that fairseq saves a checkpoint as it does within an epoch."""
        return False


def _disable_encoder_fastpath(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Disable the fused encoder layers of fairseq 0.12.2.

    With PyTorch 2, the layers fail on padded batches ("Mask Type should be defined"). They also
    bypass custom attention modules.
    """

    def init(self: Any, *args: Any, **options: Any) -> None:
        stock(self, *args, **options)
        self.can_use_fastpath = False

    return init


def _smooth_labels_in_chunks(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Compute the smoothed loss in chunks. fairseq stores log-probabilities for a whole batch."""
    from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion

    from fairseq_ssl.criterions.criterion import smoothed_cross_entropy
    from fairseq_ssl.modules.functional import is_plain_softmax

    flatten = LabelSmoothedCrossEntropyCriterion.get_lprobs_and_target

    def compute_loss(
        self: Any, model: Any, net_output: Any, sample: Any, reduce: bool = True
    ) -> Any:
        if type(self).get_lprobs_and_target is not flatten or not is_plain_softmax(model):
            return stock(self, model, net_output, sample, reduce)
        unnormalized = SimpleNamespace(
            get_normalized_probs=lambda output, log_probs: output[0].contiguous(),
            get_targets=model.get_targets,
        )
        logits, target = flatten(self, unnormalized, net_output, sample)
        return smoothed_cross_entropy(logits, target, self.eps, self.padding_idx, reduce)

    return compute_loss


def _fuse_adam(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Use PyTorch's fused Adam kernel if possible. fairseq's Adam makes ten passes over memory."""
    from fairseq_ssl.optim.adam import can_fuse, fused_step

    def step(self: Any, closure: Callable[[], Any] | None = None) -> Any:
        if not can_fuse(self):
            return stock(self, closure)
        loss = None if closure is None else closure()
        fused_step(self)
        return loss

    return step


def _clip_on_cpus(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Clip CPU gradients on the CPU. fairseq moves their norm to the GPU if CUDA is available."""
    import torch

    def clip_grad_norm_(params: Any, max_norm: Any, aggregate_norm_fn: Any = None) -> Any:
        params = [params] if isinstance(params, torch.Tensor) else list(params)
        gradients = [weight.grad.detach() for weight in params if weight.grad is not None]
        if not gradients or gradients[0].device.type != "cpu":
            return stock(params, max_norm, aggregate_norm_fn)
        norm = stock(params, 0.0, aggregate_norm_fn).cpu()
        if max_norm > 0:
            torch._foreach_mul_(gradients, (float(max_norm) / (norm + 1e-6)).clamp(max=1))
        return norm

    return clip_grad_norm_


def _keep_loss_scale_on_cpus(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Do not scale the loss if the weights are on a CPU: bfloat16 has the range of float32.

    If a gradient is not finite, fairseq multiplies the loss scale by a backoff factor, which a
    disabled scaler lacks. A factor of 1 keeps the scale at its minimum, so fairseq raises an error.
    """
    import torch

    class Unscaled(torch.amp.GradScaler):
        def get_backoff_factor(self) -> float:
            return 1.0

    def init(self: Any, config: Any, weights: Any, *args: Any, **options: Any) -> None:
        weights = list(weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the stock scaler warns that CUDA is missing
            stock(self, config, weights, *args, **options)
        if all(weight.device.type == "cpu" for weight in weights):
            self._grad_scaler = Unscaled("cpu", enabled=False)
            self.min_loss_scale = 1.0

    return init


def _unscale_once(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Divide the gradients by the loss scale only once with --amp.

    fairseq passes the same optimizer to the scaler as two different objects, so the scaler divides
    the gradients again after clipping. They become so small that Adam's epsilon dominates.
    """

    def step(self: Any) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    return step


def _allow_bfloat16_on_gpus(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Allow --bf16 on a GPU. fairseq also sets --tpu, which fails without torch_xla."""

    def parse_args_and_arch(*args: Any, **options: Any) -> Any:
        parsed = stock(*args, **options)
        namespace = parsed[0] if isinstance(parsed, tuple) else parsed
        if getattr(namespace, "bf16", False) and importlib.util.find_spec("torch_xla") is None:
            namespace.tpu = False
        return parsed

    return parse_args_and_arch


def _autocast_on_cpus(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Support --amp on a CPU, in bfloat16 with float32 weights. fairseq requires CUDA."""
    import torch
    from fairseq.optim.amp_optimizer import AMPOptimizer

    from fairseq_ssl.modules import functional
    from fairseq_ssl.modules.attention import float32_attention

    def train_step(
        self: Any, sample: Any, model: Any, criterion: Any, optimizer: Any, *more: Any, **named: Any
    ) -> Any:
        on_cpu = next(model.parameters()).device.type == "cpu"
        if not on_cpu or not isinstance(optimizer, AMPOptimizer):
            return stock(self, sample, model, criterion, optimizer, *more, **named)

        @torch.autocast("cpu", torch.bfloat16, enabled=functional.has_bfloat16_units())
        @float32_attention()
        def compute_loss(model: Any, sample: Any) -> Any:
            return criterion(model, sample)

        plain = optimizer.fp32_optimizer
        return stock(self, sample, model, compute_loss, plain, *more, **named)

    return train_step


def _average_tied_weights_once(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Average a tied weight once per step, not once per name. Copy integer tensors.

    fairseq's EMA cannot average integer tensors.
    """
    from fairseq_ssl.checkpoints.averaging import ties

    def _step_internal(self: Any, new_model: Any, updates: Any = None) -> Any:
        state = new_model.state_dict()
        state = {name: value for name, value in state.items() if type(value) is not dict}
        weights = {names[0]: state[names[0]] for names in ties(state)}
        self.skip_keys |= {name for name, w in weights.items() if not w.is_floating_point()}
        return stock(self, SimpleNamespace(state_dict=lambda: weights), updates)

    return _step_internal


def _fix_batch_iterator(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Use all sentences in validation and generation, and the same batches after resuming.

    fairseq after 0.12.2 drops the remainder of a split whose size is not a multiple of 8, even in
    validation and generation. With the patch, only training may drop it.

    fairseq forms batches with the seed plus the epoch number. If all epochs share an iterator, its
    batches depend on the epoch in which it was built, so a resumed run would get different batches.
    With the patch, all epochs use the batches of epoch 1, as in an uninterrupted run.
    """
    signature = inspect.signature(stock)
    seeds_by_epoch = "seed + epoch" in inspect.getsource(stock)

    def get_batch_iterator(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        has_epoch = "epoch" in call.arguments
        call.apply_defaults()
        arguments = call.arguments
        task, dataset, later = arguments["self"], arguments["dataset"], arguments["epoch"] - 1
        if not (has_epoch and _is_training_split(task, dataset)):
            arguments["required_batch_size_multiple"] = 1
        is_renewed = arguments["disable_iterator_cache"] or arguments["update_epoch_batch_itr"]
        is_kept = not is_renewed and task.can_reuse_epoch_itr(dataset)
        if is_kept and getattr(task, "epoch_in_seed", False):
            arguments["seed"] -= later
        seed = arguments["seed"]
        if is_kept and seeds_by_epoch and not getattr(task.cfg, "rebuild_batches", False):
            arguments["seed"] -= later
        iterator = stock(*call.args, **call.kwargs)
        iterator.seed = seed
        if not is_kept:
            iterator.reuse_dataloader = iterator.persistent_workers = False
        return iterator

    return get_batch_iterator


def _report_seed(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Store --update-ordered-indices-seed in the task, where `_fix_batch_iterator` reads it.

    With this option, fairseq adds the epoch number to the seed.
    """

    def get_train_iterator(self: Any, epoch: int, *args: Any, **options: Any) -> Any:
        self.task.epoch_in_seed = getattr(self.cfg.dataset, "update_ordered_indices_seed", False)
        return stock(self, epoch, *args, **options)

    return get_train_iterator


def _keep_training_iterator(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Validate on a copy of the training split, for example with --valid-subset valid,train.

    fairseq caches one iterator per dataset. Validation would consume an epoch of the training
    iterator, so every second epoch would be skipped, and runs could not resume within an epoch.
    All splits that `_fix_batch_iterator` treats as training splits are copied, so that validation
    drops no sentence.
    """

    def get_valid_iterator(self: Any, subset: str, disable_iterator_cache: bool = False) -> Any:
        if not subset.startswith(("train", self.cfg.dataset.train_subset)):
            return stock(self, subset, disable_iterator_cache)
        name = f"valid-{subset}"
        dataset = self.task.datasets[name] = copy.copy(self.task.dataset(subset))
        dataset.set_epoch = lambda epoch: None  # the rest of the epoch must not become epoch 1
        try:
            return stock(self, name, disable_iterator_cache=True)
        finally:
            del dataset.set_epoch, self.task.datasets[name]

    return get_valid_iterator


def _shuffle_after_curriculum(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Shuffle batches after the --curriculum epochs. fairseq keeps the unshuffled sampler."""

    def iterate(self: Any, epoch: int, shuffle: bool, *args: Any, **options: Any) -> Any:
        sampler = getattr(self, "epoch_batch_sampler", self.batch_sampler)  # the latter in 0.12.2
        if hasattr(sampler, "make_batches_for_epoch"):
            sampler.shuffle = shuffle
        return stock(self, epoch, shuffle, *args, **options)

    return iterate


def _stop_readers_at_exit(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Stop fairseq's prefetching threads before Python exits.

    If a thread still runs PyTorch code at exit, the process aborts with "terminate called without
    an active exception". Without the patch, a run that ends within an epoch may fail after saving.
    """
    readers: WeakSet[Any] = WeakSet()
    atexit.register(_stop_readers, readers)

    def _create_consumer(self: Any) -> None:
        stock(self)
        readers.add(self._consumer)

    return _create_consumer


def _stop_readers(readers: Iterable[Any], timeout: float = 10) -> None:
    """Stop all threads after their current batch. Wait at most `timeout` seconds in total."""
    deadline = time.monotonic() + timeout
    for reader in readers:
        reader._max_len = 0
    for reader in readers:
        while reader.is_alive() and time.monotonic() < deadline:
            # Make room in the queue for the current batch and the end marker.
            with contextlib.suppress(queue.Empty):
                reader._queue.get_nowait()
            reader.join(0.01)


def _accept_special_symbols(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Add the parameter `add_special_symbols` to the constructors of fairseq's legacy dictionaries.

    `Dictionary.load` passes the parameter in fairseq versions after 0.12.2.
    """

    def init(self: Any, *args: Any, add_special_symbols: bool = True, **options: Any) -> None:
        if not add_special_symbols:
            options["add_special_symbols"] = False  # unsupported: raises a TypeError
        stock(self, *args, **options)

    return init


def _is_training_split(task: Any, dataset: Any) -> bool:
    """Return True if the split name of `dataset` starts with ``train`` or with --train-subset."""
    prefixes = ("train", getattr(task.cfg, "train_subset", None) or "train")
    splits = task.datasets.items()
    return any(split is dataset and name.startswith(prefixes) for name, split in splits)
