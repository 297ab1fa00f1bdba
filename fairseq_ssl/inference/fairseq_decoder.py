"""Decoding by fairseq: whatever its tasks can search with."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference.loading import device_of
from fairseq_ssl.inference.translation import DecodedLine, Decoder, DecodingConfig
from fairseq_ssl.text.batches import padded_batches

TRANSLATION = ("translation", "tagged_translation")
"""Tasks whose models are decoded in tagged_translation, which has the noisy beam."""


class FairseqDecoder:
    """Models, and the generator that their task builds."""

    def __init__(self, decoding: DecodingConfig, worker: int) -> None:
        import torch

        torch.set_num_threads(decoding.threads)
        self.most = decoding.batch_tokens
        self.nbest = decoding.nbest
        self.device = device_of(decoding.device, worker)
        self._load(configured(decoding))

    def begin(self, seed: int) -> None:
        """Seed what fairseq samples with."""
        import torch

        torch.manual_seed(seed)

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[DecodedLine]:
        """Return for each sentence the lines written, best first."""
        tokens, lengths = self.task.get_interactive_tokens_and_lengths(
            [" ".join(sentence) for sentence in sentences], lambda line: line
        )
        data = self.task.build_dataset_for_inference(tokens, lengths)
        found: list[DecodedLine] = [None] * len(sentences)
        for batch in padded_batches([len(row) for row in tokens], self.most):
            for place, lines in zip(batch, self._search(data, batch, ids), strict=True):
                found[place] = lines
        return found

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
        self.hidden = get_symbols_to_strip_from_output(self.generator)

    def _search(self, data: Any, batch: list[int], ids: Sequence[int]) -> list[DecodedLine]:
        """Decode a batch; one that is too large for the GPU in halves, a sentence not at all."""
        import torch

        sample = data.collater([data[place] for place in batch])
        places = sample["id"].tolist()
        sample["id"] = torch.tensor([ids[place] for place in places])
        sample = {**sample, **_to(self.device, {key: sample[key] for key in ("id", "net_input")})}
        try:
            found = self.task.inference_step(self.generator, self.models, sample)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            if len(batch) == 1:
                return [None]
            half = len(batch) // 2
            return [*self._search(data, batch[:half], ids), *self._search(data, batch[half:], ids)]
        lines: dict[int, DecodedLine] = dict(zip(places, map(self._lines, found), strict=True))
        return [lines[place] for place in batch]

    def _lines(self, hypotheses: list[dict[str, Any]]) -> list[str]:
        dictionary = self.task.target_dictionary
        lines = [
            dictionary.string(hypothesis["tokens"].int().cpu(), None, False, self.hidden)
            for hypothesis in hypotheses[: self.nbest]
            if hypothesis["score"] > float("-inf")  # which stands for none
        ]
        if getattr(self.task.cfg, "right_to_left", False):
            lines = [" ".join(reversed(line.split(" "))) for line in lines]
        return lines


def check_fairseq_model(model: Path) -> None:
    """Refuse what is no file."""
    if not model.exists():
        raise DataError(f"{model} does not exist. Expected a checkpoint.")
    if model.is_dir():
        made = (model / "model.bin").is_file()
        raise DataError(
            f"{model} is a folder. "
            + ("A CTranslate2 model needs --engine ctranslate2." if made else "Expected a file.")
        )


def configured(decoding: DecodingConfig) -> Any:
    """Return fairseq's configuration; what it can not be is refused, before anything is loaded."""
    import fairseq_ssl

    fairseq_ssl.register()
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    parser = options.get_interactive_generation_parser()
    try:
        given = options.parse_args_and_arch(parser, input_args=_words(decoding))
    except SystemExit:
        raise UsageError(
            f"fairseq does not understand its options: {' '.join(decoding.options)}."
        ) from None
    assert isinstance(given, Namespace)
    return convert_namespace_to_omegaconf(given)


def load_fairseq_decoder(decoding: DecodingConfig, worker: int) -> Decoder:
    """Return a decoder by fairseq."""
    return FairseqDecoder(decoding, worker)


def _words(decoding: DecodingConfig) -> list[str]:
    """Return the command line that fairseq-interactive would have."""
    from fairseq_ssl.checkpoints.files import read_checkpoint, task_options, training_data

    state = read_checkpoint(decoding.models[0])
    data = training_data(state, decoding.data_dir, *decoding.languages)
    trained = task_options(state)
    task = "tagged_translation" if trained["_name"] in TRANSLATION else str(trained["_name"])
    words = [str(data.folder), "--path", ":".join(map(str, decoding.models)), "--task", task]
    words += ["-s", data.source, "-t", data.target, "--max-len-a", "0"]
    words += ["--right-to-left"] if trained.get("right_to_left") else []
    words += ["--max-len-b", str(decoding.longest), "--lenpen", str(decoding.length_penalty)]
    beam = decoding.nbest if decoding.sampling else decoding.beam
    words += ["--beam", str(beam), "--nbest", str(decoding.nbest)]
    if decoding.sampling:
        words += ["--sampling", "--temperature", str(decoding.temperature)]
        words += ["--sampling-topk", str(decoding.top_k)] if decoding.top_k else []
    return [*words, *decoding.options]


def _to(device: Any, sample: Any) -> Any:
    if hasattr(sample, "to"):
        return sample.to(device)
    if isinstance(sample, dict):
        return {key: _to(device, value) for key, value in sample.items()}
    return sample
