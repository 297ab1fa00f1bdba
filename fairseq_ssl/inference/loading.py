"""Loading of models and ensembles from checkpoints, devices, and batches of ids."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import (
    ConfigurationError,
    DataError,
    FairseqSslError,
    UsageError,
    nearest,
)
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, MASKED_MODEL, TRANSLATION, ScoringConfig
from fairseq_ssl.io.executors import is_worker, worker_number
from fairseq_ssl.io.text_files import require_file
from fairseq_ssl.signature import changed_options


def gpu_count() -> int:
    """Return the number of GPUs of this machine that torch can use."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def torch_device(name: str, worker: int = 0) -> Any:
    """Return a torch device. Raise UsageError if it is not available.

    For ``cuda``, each process, with index `worker` from 0, has a GPU.
    """
    import torch

    try:
        if str(name) == "cuda" and gpu_count():
            return torch.device("cuda", worker % gpu_count())
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # AssertionError if torch is built without CUDA
        raise UsageError(
            f"`device` is {str(name)!r}, which is not available. Expected cpu, or a GPU of this "
            "machine, such as cuda or cuda:1."
        ) from None
    return device


def set_threads(threads: int | None) -> None:
    """Set the number of CPU threads of torch, for the whole process.

    None sets 1 in a worker process, and otherwise keeps the number.
    """
    import torch

    if threads is not None or is_worker():
        torch.set_num_threads(threads or 1)


def check_registered() -> None:
    """Raise ConfigurationError if the plug-in is not registered with fairseq."""
    from fairseq import checkpoint_utils

    if not hasattr(checkpoint_utils.load_checkpoint_to_cpu, "patched_by"):
        raise ConfigurationError(
            "The plug-in is not registered with fairseq. Call fairseq_ssl.register first."
        )


@contextmanager
def keep_torch_state() -> Iterator[None]:
    """Restore the state of torch that fairseq and its models change while they are loaded.

    fairseq draws initial weights from the random numbers of the CPU. Classifiers and LSTMs flush
    denormal numbers, which only training needs.
    """
    import torch

    flushes = not torch.tensor(1e-310, dtype=torch.float64).mul(0.5).item()
    try:
        with torch.random.fork_rng([]):
            yield
    finally:
        torch.set_flush_denormal(flushes)


def check_weights(weights: Sequence[float], models: int) -> None:
    """Raise UsageError unless an ensemble of `models` models has equal (empty) or valid weights."""
    if weights and len(weights) != models:
        raise UsageError(
            f"`weights` has {len(weights)} {'number' if len(weights) == 1 else 'numbers'} for "
            f"{models} {'model' if models == 1 else 'models'}. Expected a number for each model."
        )
    if weights and not (min(weights) >= 0 < sum(weights) < math.inf):
        raise UsageError(f"`weights` is {tuple(weights)}. Expected 0 or more, a sum above 0.")


def is_checkpoint(path: str | Path) -> bool:
    """Return True if a file begins as a file of `torch.save`: a zip archive, or once a pickle."""
    with Path(path).open("rb") as file:
        return file.read(2).startswith((b"PK", b"\x80"))


def require_checkpoints(paths: Sequence[str | Path]) -> None:
    """Raise DataError for a path that is not a checkpoint, by the first bytes of the file."""
    for path in paths:
        require_file(path, "a checkpoint of fairseq-train")
        if not is_checkpoint(path):
            raise DataError(f"{path} is not a checkpoint. Expected a checkpoint of fairseq-train.")


def load_models(
    paths: Sequence[str | Path], task_config: Any = None, **options: Any
) -> tuple[list[Any], Any, Any]:
    """Return the models, the training configuration of the first model, and the task.

    Call `fairseq_ssl.register` first.

    Args:
        paths: checkpoints.
        task_config: configuration of the task (None: that of the first checkpoint).
        options: task options that override those of the training, such as the folder `data`.
    """
    from fairseq import checkpoint_utils, tasks

    check_registered()
    require_checkpoints(paths)
    names = [str(path) for path in paths]
    shown = ", ".join(names)
    data = options.get("data", getattr(task_config, "data", "their data"))
    try:
        with keep_torch_state():
            task = None if task_config is None else tasks.setup_task(task_config)
            models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(names, options, task)
    except FairseqSslError:
        raise
    except FileNotFoundError as error:
        if not data:
            raise DataError(
                f"{shown} cannot be loaded without the folder of its data. Only edit taggers that "
                "label words need no `data_dir`."
            ) from error
        raise DataError(f"{data} is not the data of {shown}: {error}") from error
    except Exception as error:  # fairseq and torch raise many exception types for a damaged file
        _check_architectures(paths)
        raise _loading_error(shown, data, error) from error
    return list(models), cfg, task


def require_one_direction(model: Any, path: str | Path) -> None:
    """Raise DataError unless a model, loaded from `path`, has one encoder and one decoder."""
    from fairseq.models import FairseqEncoderDecoderModel

    if not isinstance(model, FairseqEncoderDecoderModel):
        raise DataError(
            f"{path} is not a translation model of one direction. Choose another checkpoint. If "
            "the model translates in both directions, export one of them."
        )


def _check_architectures(paths: Sequence[str | Path]) -> None:
    """Raise DataError for a model that is not registered. The error of fairseq is unclear."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    from fairseq_ssl.checkpoints.files import architecture, read_checkpoint

    for path in paths:
        name = architecture(read_checkpoint(path))
        if name not in ARCH_MODEL_REGISTRY:
            raise DataError(
                f"{path} has a model of the architecture {name!r}, which is not registered with "
                "fairseq."
            )


def _loading_error(models: str, data: object, error: Exception) -> DataError:
    """Return the error of models that do not match a data folder or that cannot be built."""
    line = (str(error).strip().splitlines() or [""])[-1].strip()
    if "state_dict" in str(error):  # weights that are missing or of other sizes
        return DataError(
            f"{models} cannot be loaded with {data}. Expected the dictionaries of the training "
            f"data. {line}"
        )
    return DataError(
        f"{models} cannot be loaded: its options are not those of a model that fairseq can build "
        f"with {data}. {type(error).__name__}: {line}"
    )


def check_fields(config: type, options: Iterable[str]) -> None:
    """Raise TypeError for an option that is not a field of the dataclass `config`."""
    known = [field.name for field in fields(config)]
    for name in options:
        if name not in known:
            raise TypeError(f"{config.__name__} has no field {name!r}.{nearest(name, known)}")


class ConfiguredModel:
    """Base class of models that are loaded by a config.

    `pickle` and `copy` store the config. They load the files of the config again.
    """

    config: Any
    """A dataclass, the argument of the class."""

    def __repr__(self) -> str:
        """Return the fields of the config that differ from their defaults."""
        changed = changed_options(self.config)
        shown = (f"{name}={value!r}" for name, value in changed.items())
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.config,)


def load_onnx_tagger(folders: Sequence[str | Path], threads: int | None, **options: Any) -> Any:
    """Return the `EditCorrector` of edit taggers in ONNX format.

    Args:
        folders: folders of exported models.
        threads: number of CPU threads. None: as many as torch uses.
        options: options of the task edit_labeling, such as `edit_iterations`.
    """
    from fairseq import tasks

    check_registered()
    return tasks.TASK_REGISTRY["edit_labeling"].load_onnx_corrector(folders, threads, **options)


def load_tagger(
    paths: Sequence[str | Path], data_dir: str | Path | None, device: str, **options: Any
) -> Any:
    """Return the `EditCorrector` of an edit tagger, or of an ensemble of edit taggers.

    Args:
        paths: checkpoints.
        data_dir: folder of the binarized training data. Models that label words do not need it.
        device: ``cpu``, ``cuda`` for one GPU per process, or a GPU such as ``cuda:1``.
        options: options of the task edit_labeling, such as `edit_iterations`.
    """
    on_device = torch_device(device, worker_number())
    models, cfg, task = load_models(paths, data=str(data_dir or ""), **options)
    if not hasattr(task, "build_corrector"):
        raise DataError(
            f"{paths[0]} is not an edit tagger. Expected a model of the task edit_labeling."
        )
    return task.build_corrector(models, cfg).to(on_device)


TASKS = {"language_modeling": LANGUAGE_MODEL, "masked_lm": MASKED_MODEL}
"""Kind of model by training task. All other tasks train translation models."""


@dataclass(frozen=True)
class LoadedModels:
    """The models of an ensemble, with their device and the task that has the dictionaries."""

    models: list[Any]
    task: Any
    device: Any

    def average(self, each: Sequence[Any]) -> Any:
        """Average probabilities over the models. Inputs and result are log-probabilities."""
        import torch

        if len(each) == 1:
            return each[0]
        return torch.logsumexp(torch.stack(list(each)), 0) - math.log(len(each))

    def longest(self, side: int = 0) -> int:
        """Return the maximum number of tokens of a sentence that fits into all models.

        Args:
            side: 0 for the encoder, 1 for the decoder. It is ignored for models with one limit.
        """
        limits = [model.max_positions() for model in self.models]
        return min(
            int(min(limit[side] if isinstance(limit, (tuple, list)) else limit, sys.maxsize))
            for limit in limits
        )


def check_models(scoring: ScoringConfig) -> dict[str, Any]:
    """Return the task options that override those of the checkpoints.

    Raise UsageError if a model is not of the configured kind.
    """
    from fairseq_ssl.checkpoints.files import (
        read_checkpoint,
        require_folder,
        task_options,
        training_data,
    )

    states = [read_checkpoint(path) for path in scoring.models]
    for path, state in zip(scoring.models, states, strict=True):
        name = task_options(state)["_name"]
        kind = TASKS.get(str(name), TRANSLATION)
        if kind != scoring.kind:
            raise UsageError(
                f"{path} was trained with the task {name}. Expected the kind of model "
                f"{scoring.kind}, but this is the kind {kind}."
            )
    if scoring.kind == TRANSLATION:
        data = training_data(states[0], scoring.data_dir, *scoring.languages)
        return {
            "data": str(data.folder),
            "source_lang": data.source,
            "target_lang": data.target,
            "eval_bleu": False,
        }
    folder = require_folder(scoring.data_dir)
    if not (folder / "dict.txt").is_file():
        raise DataError(
            f"{folder / 'dict.txt'} does not exist. Set `data_dir` to the folder of the model's "
            "training data."
        )
    return {"data": str(folder)}


def writes_right_to_left(scoring: ScoringConfig) -> bool:
    """Return True if the models of a config generate the last token first."""
    return scoring.right_to_left or are_right_to_left(scoring.models)


def are_right_to_left(models: Iterable[str | Path]) -> bool:
    """Return True if checkpoints generate the last token first.

    Raise UsageError if they have different directions.
    """
    from fairseq_ssl.checkpoints.files import read_checkpoint, task_options

    directions = {bool(task_options(read_checkpoint(one)).get("right_to_left")) for one in models}
    if len(directions) > 1:
        raise UsageError(
            "Some of the models decode from right to left and some from left to right. Use each "
            "kind separately."
        )
    return directions.pop()


def decoding_task(trained: str) -> str:
    """Return the name of the task that decodes models of the task `trained`.

    It is a task that adds searches and lists `trained` in `decodes_models_of`, or else `trained`.
    """
    from fairseq.tasks import TASK_REGISTRY

    for name, task in TASK_REGISTRY.items():
        if trained in vars(task).get("decodes_models_of", ()):
            return str(name)
    return trained


def load_scoring_models(scoring: ScoringConfig, worker: int) -> LoadedModels:
    """Load the fairseq models of a config in evaluation mode."""
    import torch

    set_threads(scoring.threads)
    device = torch_device(scoring.device, worker)
    models, _, task = load_models(scoring.models, **check_models(scoring))
    for model in models:
        model.to(device=device, dtype=torch.float16 if scoring.fp16 else torch.float32).eval()
    return LoadedModels(models, task, device)


def max_source_length(models: Iterable[Any]) -> float:
    """Return the maximum length of a source in tokens, including </s>.

    Only translation models with learned positions have a limit. A model of both directions is
    limited by both.
    """
    from fairseq.models import FairseqEncoderDecoderModel
    from fairseq.modules import LearnedPositionalEmbedding

    modules = [module for model in models for module in model.modules()]
    encoders = [one.encoder for one in modules if isinstance(one, FairseqEncoderDecoderModel)]
    limits = [
        encoder.max_positions()
        for encoder in encoders
        if isinstance(getattr(encoder, "embed_positions", None), LearnedPositionalEmbedding)
    ]
    return min(limits, default=math.inf)


def token_ids(dictionary: Any, tokens: Sequence[str]) -> list[int]:
    """Return the dictionary ids of tokens, with the id of <unk> for unknown tokens."""
    return [dictionary.index(token) for token in tokens]


def count_unknown(dictionary: Any, rows: Sequence[Sequence[int]]) -> int:
    """Return the number of ids of unknown tokens. Models that copy have ids beyond the dictionary.

    Args:
        dictionary: a dictionary of fairseq.
        rows: the ids of each sentence.
    """
    unknown, size = dictionary.unk(), len(dictionary)
    return sum(index == unknown or index >= size for row in rows for index in row)


def forget_unknown_words(task: Any) -> None:
    """Forget the words that are not in the dictionary, to which models that copy assign ids.

    The ids become invalid. Edit taggers are unchanged, because they cache words by id.
    """
    forget = getattr(task.source_dictionary, "forget_unknown", None)
    if forget is not None and not hasattr(task, "build_corrector"):
        forget()


def start_id(task: Any) -> int:
    """Return the id that precedes the first token of a language model: <s>, or else </s>."""
    words = task.target_dictionary
    has_bos = getattr(task.args, "add_bos_token", False)
    return int(words.bos() if has_bos else words.eos())


def pad_rows(rows: Sequence[Sequence[int]], pad: int, left: bool = False) -> Any:
    """Return sequences of ids as a tensor [rows, time], padded on the right or the left."""
    import numpy as np
    import torch

    lengths = np.array([len(row) for row in rows])
    positions = np.arange(lengths.max())
    if left:
        is_token = positions >= lengths.max() - lengths[:, None]
    else:
        is_token = positions < lengths[:, None]
    block = np.full(is_token.shape, pad, np.int64)
    block[is_token] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    return torch.from_numpy(block)


def padded_batches(
    sizes: Sequence[int], max_tokens: int, order: Iterable[int] | None = None
) -> list[list[int]]:
    """Group sentences into batches. Return the indices of the sentences of each batch.

    Args:
        sizes: number of tokens of each sentence.
        max_tokens: maximum number of tokens of a batch, including padding. A longer sentence is a
            batch of its own.
        order: indices of the sentences in the order of the batches (default: longest first).
    """
    if order is None:
        order = sorted(range(len(sizes)), key=lambda index: -sizes[index])
    batches: list[list[int]] = []
    max_length = 0
    for index in order:
        max_length = max(max_length, sizes[index])
        if not batches or max_length * (len(batches[-1]) + 1) > max_tokens:
            batches.append([])
            max_length = sizes[index]
        batches[-1].append(index)
    return batches
