"""Decoding by fairseq: all searches of its tasks, ensembles, noisy beam search.

The models' tasks must be registered: call `fairseq_ssl.register` first.
"""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.loading import gpu_count, torch_device
from fairseq_ssl.inference.translation import DecodingConfig, Hypotheses
from fairseq_ssl.text.batches import padded_batches


class FairseqDecoder:
    """Models, and the generator that their task builds."""

    def __init__(self, config: DecodingConfig, worker: int) -> None:
        import torch

        torch.set_num_threads(config.threads)
        self.max_tokens = config.max_tokens
        self.nbest = config.nbest
        self.device = torch_device(config.device, worker)
        self._load(fairseq_config(config))

    @staticmethod
    def gpu_count() -> int:
        """Return the number of GPUs of this machine that torch can use."""
        return gpu_count()

    @staticmethod
    def check_model(model: Path) -> None:
        """Reject a path that is not a file."""
        if not model.exists():
            raise DataError(f"{model} does not exist. Expected a checkpoint.")
        if model.is_dir():
            hint = "Expected a file."
            if (model / "model.bin").is_file():
                hint = "A CTranslate2 model needs the engine ctranslate2."
            raise DataError(f"{model} is a folder. {hint}")

    @staticmethod
    def prepare(config: DecodingConfig) -> DecodingConfig:
        """Reject a data type that fairseq does not have."""
        if config.compute_type not in ("float32", "float16"):
            raise UsageError(
                f"`compute_type` is {config.compute_type}. The engine fairseq computes in float32 "
                "or float16."
            )
        return config

    def set_seed(self, seed: int) -> None:
        """Seed the random numbers of sampling."""
        import torch

        torch.manual_seed(seed)

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[Hypotheses]:
        """Return the hypotheses of each sentence, best first."""
        tokens, lengths = self.task.get_interactive_tokens_and_lengths(
            [" ".join(sentence) for sentence in sentences], lambda line: line
        )
        data = self.task.build_dataset_for_inference(tokens, lengths)
        decoded: list[Hypotheses] = [None] * len(sentences)
        for batch in padded_batches([len(row) for row in tokens], self.max_tokens):
            for index, hypotheses in zip(batch, self._search(data, batch, ids), strict=True):
                decoded[index] = hypotheses
        return decoded

    def _load(self, config: Any) -> None:
        from fairseq import checkpoint_utils, tasks, utils
        from fairseq_cli.generate import get_symbols_to_strip_from_output

        self.task = tasks.setup_task(config.task)
        self.models, _ = checkpoint_utils.load_model_ensemble(
            utils.split_paths(config.common_eval.path), task=self.task
        )
        for model in self.models:
            if config.common.fp16:
                model.half()
            model.to(self.device)
            model.prepare_for_inference_(config)
        self.generator = self.task.build_generator(self.models, config.generation)
        self.stripped = get_symbols_to_strip_from_output(self.generator)

    def _search(self, data: Any, batch: list[int], ids: Sequence[int]) -> list[Hypotheses]:
        """Decode a batch. Halve it if it does not fit into memory; a single sentence fails."""
        import torch

        sample = data.collater([data[index] for index in batch])
        indices = sample["id"].tolist()
        sample["id"] = torch.tensor([ids[index] for index in indices])
        sample = {**sample, **_to(self.device, {key: sample[key] for key in ("id", "net_input")})}
        try:
            found = self.task.inference_step(self.generator, self.models, sample)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            if len(batch) == 1:
                return [None]
            half = len(batch) // 2
            return [*self._search(data, batch[:half], ids), *self._search(data, batch[half:], ids)]
        lines: dict[int, Hypotheses] = dict(zip(indices, map(self._lines, found), strict=True))
        return [lines[index] for index in batch]

    def _lines(self, hypotheses: list[dict[str, Any]]) -> list[str]:
        dictionary = self.task.target_dictionary
        lines = [
            dictionary.string(hypothesis["tokens"].int().cpu(), None, False, self.stripped)
            for hypothesis in hypotheses[: self.nbest]
            if hypothesis["score"] > float("-inf")  # of hypotheses that a search drops
        ]
        if getattr(self.task.cfg, "right_to_left", False):
            lines = [" ".join(reversed(line.split(" "))) for line in lines]
        return lines


def fairseq_config(config: DecodingConfig) -> Any:
    """Return the configuration of fairseq-interactive."""
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    parser = options.get_interactive_generation_parser()
    try:
        parsed = options.parse_args_and_arch(parser, input_args=_command_line(config))
    except SystemExit:
        raise UsageError(
            f"fairseq does not understand its options: {' '.join(config.fairseq_options)}."
        ) from None
    assert isinstance(parsed, Namespace)
    return convert_namespace_to_omegaconf(parsed)


def _command_line(config: DecodingConfig) -> list[str]:
    """Return the arguments of fairseq-interactive."""
    from fairseq_ssl.checkpoints.files import read_checkpoint, task_options, training_data

    state = read_checkpoint(config.model[0])
    data = training_data(state, config.data_dir, config.source_lang, config.target_lang)
    trained = task_options(state)
    options: dict[str, Any] = {
        "path": ":".join(map(str, config.model)),
        "task": _decoding_task(str(trained["_name"])),
        "source_lang": data.source,
        "target_lang": data.target,
        "max_len_a": 0,
        "right_to_left": bool(trained.get("right_to_left")),
        "max_len_b": config.max_len_b,
        "lenpen": config.lenpen,
        "beam": config.nbest if config.sampling else config.beam,
        "nbest": config.nbest,
        "fp16": config.compute_type == "float16",
    }
    if config.sampling:
        options |= {"sampling": True, "temperature": config.temperature}
        options |= {"sampling_topk": config.sampling_topk} if config.sampling_topk else {}
    return [str(data.folder), *_words(options | _own_options(config)), *config.fairseq_options]


def _own_options(config: DecodingConfig) -> dict[str, Any]:
    """Return the options of this package's searches."""
    options: dict[str, Any] = {}
    if config.noisy_beam_beta:
        options["noisy_beam_beta"] = config.noisy_beam_beta
        options["noisy_beam_granularity"] = config.noisy_beam_granularity
        options["noisy_beam_seed"] = config.seed
    if config.fluency_boost_lm:
        options["fluency_boost_lm"] = config.fluency_boost_lm
        options["fluency_boost_ratio"] = config.fluency_boost_ratio
        if config.fluency_boost_data:
            options["fluency_boost_data"] = config.fluency_boost_data
    return options


def _decoding_task(trained: str) -> str:
    """Return the registered task that decodes models of a task with more searches, or that task."""
    from fairseq.tasks import TASK_REGISTRY

    for name, task in TASK_REGISTRY.items():
        if trained in vars(task).get("decodes_models_of", ()):
            return str(name)
    return trained


def _words(options: Mapping[str, Any]) -> list[str]:
    """Return options as command-line arguments."""
    words = []
    for name, value in options.items():
        if value is not False:
            option = f"--{name.replace('_', '-')}"
            words += [option] if value is True else [option, str(value)]
    return words


def _to(device: Any, sample: Any) -> Any:
    if hasattr(sample, "to"):
        return sample.to(device)
    if isinstance(sample, dict):
        return {key: _to(device, value) for key, value in sample.items()}
    return sample
