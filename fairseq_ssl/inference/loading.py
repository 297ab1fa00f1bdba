"""Loading of models and ensembles from checkpoints, and selection of devices."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ssl.checkpoints.ensembles import check_registered, keep_torch_state, load_models
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, MASKED_MODEL, TRANSLATION, ScoringConfig
from fairseq_ssl.io.executors import is_worker, worker_number
from fairseq_ssl.io.fingerprints import data_params, file_fingerprint
from fairseq_ssl.signature import changed_options

if TYPE_CHECKING:
    from fairseq_ssl.edits.rounds import EditRounds


def gpu_count() -> int:
    """Return the number of GPUs of this machine that torch can use."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def torch_device(name: str, worker: int = 0) -> Any:
    """Return a torch device. Raise UsageError if it is not available.

    With ``cuda``, the worker index modulo the number of GPUs selects the GPU.
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
    """Set torch's number of CPU threads in this process.

    If `threads` is None, set 1 in a worker process, and change nothing in other processes.
    """
    import torch

    if threads is not None or is_worker():
        torch.set_num_threads(threads or 1)


def check_weights(weights: Sequence[float], models: int) -> None:
    """Raise UsageError unless `weights` is empty, or has `models` values >= 0 with a sum > 0."""
    if weights and len(weights) != models:
        raise UsageError(
            f"`weights` contains {len(weights)} values. Expected {models}, one for each model."
        )
    if weights and not (min(weights) >= 0 < sum(weights) < math.inf):
        raise UsageError(
            f"`weights` is {', '.join(map(str, weights))}. Expected finite values >= 0, not all 0."
        )


def require_one_direction(model: Any, path: str | Path) -> None:
    """Raise DataError unless a model, loaded from `path`, has one encoder and one decoder."""
    from fairseq.models import FairseqEncoderDecoderModel

    if not isinstance(model, FairseqEncoderDecoderModel):
        raise DataError(
            f"{path} is not a translation model for one direction. Choose another checkpoint, or "
            "export one direction of a two-way model with fairseq-ssl export."
        )


class ConfiguredModel:
    """Base class of models that are loaded from a config.

    Pickling and copying store only the config. The files are loaded again.
    """

    config: Any
    """Dataclass passed to the constructor."""

    def __repr__(self) -> str:
        """Return the class name with the config fields that differ from their defaults."""
        changed = changed_options(self.config)
        values = (f"{name}={value!r}" for name, value in changed.items())
        return f"{type(self).__name__}({', '.join(values)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.config,)


def model_params(config: Any, models: str) -> dict[str, Any]:
    """Return the fields of a config as job parameters, with model and dictionary fingerprints.

    `threads` is omitted, because it does not affect the output.

    Args:
        config: a dataclass with the fields `threads` and `data_dir`.
        models: name of the field with the paths of the models.
    """
    params = asdict(config)
    del params["threads"]
    params[models] = [[str(path), *file_fingerprint(path)] for path in getattr(config, models)]
    return params | data_params(config.data_dir)


Taggers = tuple[list[Any], Any]
"""Edit taggers prepared for inference, and a task with their dictionaries."""


def load_taggers(
    paths: Sequence[str | Path], data_dir: str | Path | None, device: str = "cpu"
) -> Taggers:
    """Load an edit tagger, or an ensemble, from checkpoints.

    Args:
        paths: a checkpoint for each edit tagger.
        data_dir: folder of the binarized training data. Word-level models do not need it.
        device: ``cpu``, ``cuda`` for one GPU per process, or a GPU such as ``cuda:1``.
    """
    from fairseq_ssl.tasks.edit_labeling import EditLabelingTask

    models, _, task = load_models(paths, data=str(data_dir or ""))
    if not isinstance(task, EditLabelingTask):
        raise DataError(
            f"{paths[0]} is not an edit tagger. Expected a model of the task edit_labeling."
        )
    return _prepared(models, device), task


def load_gector(paths: Sequence[str | Path], encoder: Path | None, device: str = "cpu") -> Taggers:
    """Load a GECToR model, or an ensemble of GECToR models with the same labels.

    Args:
        paths: model folders or ``.th`` files.
        encoder: folder of the pretrained encoder, or None for the default; see `read_gector`.
        device: as in `load_taggers`.
    """
    from omegaconf import OmegaConf

    from fairseq_ssl.checkpoints.gector import read_labels
    from fairseq_ssl.data.oov_dictionary import OovDictionary
    from fairseq_ssl.models.edit_tagger import EditTaggerConfig
    from fairseq_ssl.tasks.edit_labeling import WORD, EditLabelingConfig, EditLabelingTask

    check_registered()
    options = EditLabelingConfig(
        edit_unit=WORD, edit_tokenizer=None if encoder is None else str(encoder)
    )
    task = EditLabelingTask(options, OovDictionary(), read_labels(Path(paths[0])).edits)
    models = []
    for number, path in enumerate(paths):
        if number and read_labels(Path(path)).edits != task.edits:
            raise DataError(
                f"The labels of {paths[0]} and {path} differ. The models of an ensemble must have "
                "the same labels."
            )
        task.encoder = None  # of the model before
        config = OmegaConf.structured(EditTaggerConfig(_name="edit_tagger", edit_init=str(path)))
        with keep_torch_state():
            models.append(task.build_model(config))
    return _prepared(models, device), task


def _prepared(models: Sequence[Any], device: str) -> list[Any]:
    """Move edit taggers to a device and prepare them for inference."""
    on_device = torch_device(device, worker_number())
    for model in models:
        model.to(on_device).eval().prepare_for_inference_(None)
    return list(models)


def torch_rounds(
    models: Sequence[Any], task: Any, weights: Sequence[float], search: CorrectionSearch
) -> EditRounds:
    """Return `EditRounds` that use edit taggers from `load_taggers` or `load_gector`.

    Args:
        models: edit taggers on the same device.
        task: task with the dictionaries of the models.
        weights: ensemble weights, one for each model, or empty for equal weights.
        search: search options that are all set, such as `CorrectionConfig.search`.
    """
    from fairseq_ssl.edits.rounds import EditRounds
    from fairseq_ssl.generation.torch_engine import TorchEngine

    device = next(models[0].parameters()).device
    engine = TorchEngine(models, task.source_dictionary, weights or None, device)
    return EditRounds(engine, task.edits, task.source_dictionary, search)


TASKS = {"language_modeling": LANGUAGE_MODEL, "masked_lm": MASKED_MODEL}
"""Kind of model by training task. All other tasks train translation models."""


@dataclass(frozen=True)
class LoadedModels:
    """The models of an ensemble, with their device and a task with their dictionaries."""

    models: list[Any]
    task: Any
    device: Any

    def average(self, by_model: Sequence[Any]) -> Any:
        """Average the models' probabilities. Inputs and result are log-probabilities."""
        import torch

        if len(by_model) == 1:
            return by_model[0]
        return torch.logsumexp(torch.stack(list(by_model)), 0) - math.log(len(by_model))

    def longest(self, side: int = 0) -> int:
        """Return the maximum sentence length in tokens that all models support.

        Args:
            side: 0 for the encoder, 1 for the decoder. It is ignored for models with one limit.
        """
        limits = [model.max_positions() for model in self.models]
        return min(
            int(min(limit[side] if isinstance(limit, (tuple, list)) else limit, sys.maxsize))
            for limit in limits
        )


def check_models(scoring: ScoringConfig) -> dict[str, Any]:
    """Check the models. Return the task options that override those in the checkpoints.

    Raise UsageError if a model's kind is not `scoring.kind`, and DataError if dict.txt is missing.
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
                f"{path} was trained with the task {name}, so its kind is {kind}. Expected a model "
                f"of the kind {scoring.kind}."
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
    """Return True if the config or its checkpoints are set to generate the last token first."""
    return scoring.right_to_left or are_right_to_left(scoring.models)


def are_right_to_left(models: Iterable[str | Path]) -> bool:
    """Return True if checkpoints generate the last token first.

    Raise UsageError if they have different directions.
    """
    from fairseq_ssl.checkpoints.files import read_checkpoint, task_options

    options = [task_options(read_checkpoint(path)) for path in models]
    directions = {bool(task.get("right_to_left")) for task in options}
    if len(directions) > 1:
        raise UsageError(
            "Some of the models decode from right to left and some from left to right. Use the "
            "models of one direction."
        )
    return directions.pop()


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
    """Return the maximum source length in tokens, including </s>.

    It is infinite for models without learned positional embeddings. For a two-way model, it is the
    smaller limit of the two encoders.
    """
    from fairseq.models import FairseqEncoderDecoderModel
    from fairseq.modules import LearnedPositionalEmbedding

    modules = [module for model in models for module in model.modules()]
    encoders = [part.encoder for part in modules if isinstance(part, FairseqEncoderDecoderModel)]
    limits = [
        encoder.max_positions()
        for encoder in encoders
        if isinstance(getattr(encoder, "embed_positions", None), LearnedPositionalEmbedding)
    ]
    return min(limits, default=math.inf)


def forget_unknown_words(task: Any) -> None:
    """Remove out-of-vocabulary words from the source dictionary of a copying model's task.

    The ids of these words become invalid. Edit taggers are skipped, because they cache words by id.
    """
    from fairseq_ssl.data.oov_dictionary import OovDictionary
    from fairseq_ssl.tasks.edit_labeling import EditLabelingTask

    words = task.source_dictionary
    if isinstance(words, OovDictionary) and not isinstance(task, EditLabelingTask):
        words.forget_unknown()
