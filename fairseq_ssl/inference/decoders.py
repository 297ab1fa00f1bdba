"""Decoders for blocks of sentences, based on fairseq and on CTranslate2."""

from __future__ import annotations

import io
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairseq_ssl.checkpoints.ensembles import check_registered, load_models
from fairseq_ssl.data.id_batches import padded_batches
from fairseq_ssl.errors import DataError, UsageError, first_line, import_optional
from fairseq_ssl.inference.loading import (
    TASKS,
    are_right_to_left,
    forget_unknown_words,
    gpu_count,
    max_source_length,
    set_threads,
    torch_device,
)
from fairseq_ssl.inference.translation import DecodingConfig
from fairseq_ssl.io.executors import is_worker
from fairseq_ssl.io.fingerprints import data_params, file_fingerprint
from fairseq_ssl.io.outputs import build_once, is_done, write_signature
from fairseq_ssl.io.text_files import require_file
from fairseq_ssl.signature import Signature

MODEL_FILE = "model.bin"
"""Name of the weights file in a CTranslate2 model folder."""
FAIRSEQ_ONLY = ("noisy_beam_beta", "fluency_boost_lm", "fairseq_options")
"""Search options that CTranslate2 does not support."""

TOO_LARGE = ("out of memory", "No position encodings")
"""Substrings of CTranslate2 errors for batches that exceed the memory or the maximum length."""

NOT_SUPPORTED = (
    *("constraints", "lm_path", "model_overrides", "post_process", "prefix_size"),
    *("print_alignment", "replace_unk", "score_reference", "bpe", "tokenizer", "seed"),
    *("max_tokens", "batch_size", "buffer_size", "bf16", "amp", "num_shards", "shard_id"),
)
"""fairseq-interactive options that `DecodingConfig.fairseq_options` must not contain."""

Hypotheses = list[str] | None
"""Hypotheses of a sentence, best first, or None if the search failed.

The list is empty if the search drops all hypotheses.
"""


class CTranslate2Decoder:
    """Decoder for CTranslate2 models, limited to beam search and sampling."""

    def __init__(self, config: DecodingConfig, worker: int) -> None:
        self.config = config
        gpus = self.gpu_count() if config.device == "cuda" else 0
        if config.device not in ("cpu", *["cuda"] * bool(gpus)):
            raise UsageError(
                f"`device` is {str(config.device)!r}, which is not available. Expected cpu, or "
                "cuda on a machine with a GPU. The engine fairseq also supports cuda:N."
            )
        self.gpu = worker % gpus if gpus else 0
        self.threads = config.threads or int(is_worker())
        self.translator = self._translator()
        from fairseq_ssl.checkpoints.ctranslate2 import position_limits

        source, target = position_limits(Path(config.model[0]))
        self.longest = source - 1  # without </s>
        self.max_length = min(config.max_len_b, target - 1)

    @staticmethod
    def gpu_count() -> int:
        """Return the number of GPUs that CTranslate2 can use, without importing torch."""
        return int(_package().get_cuda_device_count())

    @staticmethod
    def check_model(model: Path) -> None:
        """Raise DataError if `model` does not exist, or is a folder without a CTranslate2 model.

        A file is accepted as a checkpoint unless it is the weights file of a CTranslate2 model.
        """
        expected = (
            "Expected a checkpoint or the folder of a CTranslate2 model, such as the output of "
            "fairseq-ssl export."
        )
        if not model.exists():
            raise DataError(f"{model} does not exist. {expected}")
        if model.is_dir() and not (model / MODEL_FILE).is_file():
            raise DataError(f"{model} is a folder without {MODEL_FILE}. {expected}")
        if model.name == MODEL_FILE:
            raise DataError(f"{model} is part of a CTranslate2 model. Pass its folder.")

    @staticmethod
    def prepare(config: DecodingConfig) -> DecodingConfig:
        """Check the options and return a config with a CTranslate2 model folder.

        A checkpoint is converted. The converted model is stored next to the checkpoint and reused.
        """
        for name in FAIRSEQ_ONLY:
            if getattr(config, name):
                raise UsageError(f"`{name}` needs the engine fairseq. Set `engine` to fairseq.")
        if len(config.model) > 1:
            raise UsageError(
                f"`model` contains {len(config.model)} models, but the engine ctranslate2 supports "
                "only one. For an ensemble, use the engine fairseq."
            )
        from fairseq_ssl.checkpoints.ctranslate2 import check_ctranslate2_folder

        _package()
        folder = Path(config.model[0])
        CTranslate2Decoder.check_model(folder)
        if not folder.is_dir():
            conversion = Conversion.of(config)
            conversion.run()
            folder = conversion.output
        check_ctranslate2_folder(folder)
        return replace(config, model=(folder,))

    def set_seed(self, seed: int) -> None:
        """Seed sampling if enabled. A new translator is loaded, because threads are seeded once."""
        if self.config.sampling:
            _package().set_random_seed(seed % 2**32)
            self.translator = self._translator()

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[Hypotheses]:
        """Return the hypotheses of each sentence.

        The result is None for a sentence that exceeds the model's maximum length or the memory. A
        batch that does not fit into memory is decoded in halves.

        Args:
            sentences: tokens of each sentence.
            ids: unique id of each sentence, which seeds noisy beam search in `FairseqDecoder`.
        """
        config = self.config
        if any(len(tokens) > self.longest for tokens in sentences):
            fitting = [row for row, tokens in enumerate(sentences) if len(tokens) <= self.longest]
            rows = self.decode([sentences[row] for row in fitting], [ids[row] for row in fitting])
            by_row = dict(zip(fitting, rows, strict=True))
            return [by_row.get(row) for row in range(len(sentences))]
        search: dict[str, Any] = {"beam_size": config.beam}
        if config.sampling:
            search = {"beam_size": 1, "sampling_topk": config.sampling_topk}
        try:
            results = self.translator.translate_batch(
                list(sentences),
                num_hypotheses=config.nbest,
                length_penalty=config.lenpen,
                max_decoding_length=self.max_length,
                max_input_length=0,
                max_batch_size=config.max_tokens,
                batch_type="tokens",
                **search,
            )
        except (RuntimeError, ValueError, MemoryError) as error:
            if not any(reason in str(error) for reason in TOO_LARGE):
                raise DataError(
                    f"CTranslate2 cannot decode with {config.model[0]}: {first_line(error)}. Use "
                    "the checkpoint with the engine fairseq."
                ) from None
            if len(sentences) == 1:
                return [None]
            half = len(sentences) // 2
            parts = (slice(half), slice(half, None))
            return [lines for part in parts for lines in self.decode(sentences[part], ids[part])]
        return [[" ".join(tokens) for tokens in result.hypotheses] for result in results]

    def _translator(self) -> Any:
        config = self.config
        try:
            return _package().Translator(
                str(config.model[0]),
                device=config.device,
                device_index=self.gpu,
                compute_type=config.compute_type,
                inter_threads=1,
                intra_threads=self.threads,  # 0: the default of CTranslate2
            )
        except Exception as error:  # the C++ library raises many exception types
            raise DataError(
                f"CTranslate2 cannot load {config.model[0]} ({first_line(error)}). Export the "
                "model again with fairseq-ssl export, or change `compute_type`."
            ) from None


@dataclass(frozen=True)
class Conversion:
    """Conversion of a checkpoint to a CTranslate2 model, stored next to the checkpoint."""

    config: DecodingConfig
    checkpoint: Path
    output: Path

    @classmethod
    def of(cls, config: DecodingConfig) -> Conversion:
        """Return the conversion of the first checkpoint in a config, without running it."""
        model = Path(config.model[0])
        return cls(
            config, model, model.with_name(f"{model.name}.ctranslate2-{config.compute_type}")
        )

    def is_done(self) -> bool:
        """Return True if the output exists and was converted from this checkpoint."""
        return is_done([self.output], self._params())

    def run(self) -> None:
        """Convert the checkpoint unless the output is up to date."""
        hint = (
            " Export the checkpoint to another folder with fairseq-ssl export, and pass that "
            "folder as `model`."
        )
        build_once(self.output, self.is_done, self._convert, hint)

    def _params(self) -> dict[str, Any]:
        config = self.config
        return {
            "checkpoint_is": file_fingerprint(self.checkpoint),
            **data_params(config.data_dir and Path(config.data_dir).resolve()),
            "languages": [config.source_lang, config.target_lang],
        }

    def _convert(self) -> None:
        from fairseq_ssl.checkpoints.conversion import to_stock
        from fairseq_ssl.checkpoints.ctranslate2 import write_ctranslate2
        from fairseq_ssl.checkpoints.files import check_finite, read_checkpoint, training_data

        config = self.config
        state = read_checkpoint(self.checkpoint)
        check_finite(state["model"], self.checkpoint)
        data = training_data(state, config.data_dir, config.source_lang, config.target_lang)
        write_ctranslate2(to_stock(state), data, self.output, config.compute_type)
        params = {"checkpoint": str(self.checkpoint), **self._params()}
        write_signature(Signature("export", params), self.output)


def _package() -> Any:
    return import_optional("ctranslate2", "The engine ctranslate2", "ctranslate2")


class FairseqDecoder:
    """Decoder that uses fairseq models and their task's sequence generator."""

    def __init__(self, config: DecodingConfig, worker: int) -> None:
        check_registered()
        set_threads(config.threads)
        self.max_tokens = config.max_tokens
        self.nbest = config.nbest
        self.seed = int(config.seed)
        self.device = torch_device(config.device, worker)
        self._load(config.model, fairseq_config(config))
        if config.sampling_topk > len(self.task.target_dictionary):
            raise UsageError(
                f"`sampling_topk` is {config.sampling_topk}, more than the "
                f"{len(self.task.target_dictionary)} symbols of the dictionary. Decrease it."
            )

    gpu_count = staticmethod(gpu_count)

    @staticmethod
    def check_model(model: Path) -> None:
        """Raise DataError unless `model` is a file."""
        is_exported = (model / MODEL_FILE).is_file()
        hint = ". A CTranslate2 model needs the engine ctranslate2" if is_exported else ""
        require_file(model, f"a checkpoint{hint}")

    @staticmethod
    def prepare(config: DecodingConfig) -> DecodingConfig:
        """Return the config. Raise UsageError if fairseq does not support its `compute_type`."""
        if config.compute_type not in ("float32", "float16"):
            raise UsageError(
                f"`compute_type` is {config.compute_type}. Expected float32 or float16 for the "
                "engine fairseq."
            )
        return config

    def set_seed(self, seed: int) -> None:
        """Set the random seed with which each following call of `decode` starts."""
        self.seed = int(seed)

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[Hypotheses]:
        """Return the hypotheses of each sentence, as in `CTranslate2Decoder.decode`.

        The state of torch's random number generators is preserved, for callers that train a model.
        """
        import torch

        is_cuda = self.device.type == "cuda"
        with torch.random.fork_rng([self.device] if is_cuda else []):
            torch.default_generator.manual_seed(self.seed)  # manual_seed of torch seeds all GPUs
            if is_cuda:
                with torch.cuda.device(self.device):
                    torch.cuda.manual_seed(self.seed)
            return self._decode(sentences, ids)

    def _decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[Hypotheses]:
        """Decode in batches. The result is None for sentences that exceed length or memory."""
        tokens, lengths = self.task.get_interactive_tokens_and_lengths(
            [" ".join(sentence) for sentence in sentences], lambda line: line
        )
        data = self.task.build_dataset_for_inference(tokens, lengths)
        decoded: list[Hypotheses] = [None] * len(sentences)
        sizes = [data.num_tokens(index) for index in range(len(data))]
        fitting = [index for index, size in enumerate(sizes) if size <= self.max_length]
        order = sorted(fitting, key=lambda index: -sizes[index])
        for batch in padded_batches(sizes, self.max_tokens, order):
            for index, hypotheses in zip(batch, self._search(data, batch, ids), strict=True):
                decoded[index] = hypotheses
        forget_unknown_words(self.task)
        return decoded

    def _load(self, paths: Sequence[str | Path], config: Any) -> None:
        from fairseq_cli.generate import get_symbols_to_strip_from_output

        self.models, _, self.task = load_models(paths, config.task)
        for model in self.models:
            if config.common.fp16:
                model.half()
            model.to(self.device)
            model.prepare_for_inference_(config)
        self.max_length = max_source_length(self.models)
        try:
            self.generator = self.task.build_generator(self.models, config.generation)
        except AssertionError as error:
            raise UsageError(f"fairseq rejects the search options: {error}. Change them.") from None
        self.stripped = get_symbols_to_strip_from_output(self.generator)

    def _search(self, data: Any, batch: list[int], ids: Sequence[int]) -> list[Hypotheses]:
        """Decode a batch, or its halves if it does not fit into GPU memory.

        The result is None for a single sentence that does not fit.
        """
        import torch
        from fairseq import utils

        sample = data.collater([data[index] for index in batch])
        indices = sample["id"].tolist()
        sample["id"] = torch.tensor([ids[index] for index in indices])
        inputs = {key: sample[key] for key in ("id", "net_input")}
        sample = {**sample, **utils.move_to_cuda(inputs, self.device)}
        try:
            results = self.task.inference_step(self.generator, self.models, sample)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            if len(batch) == 1:
                return [None]
            half = len(batch) // 2
            return [*self._search(data, batch[:half], ids), *self._search(data, batch[half:], ids)]
        lines: dict[int, Hypotheses] = dict(zip(indices, map(self._lines, results), strict=True))
        return [lines[index] for index in batch]

    def _lines(self, hypotheses: list[dict[str, Any]]) -> list[str]:
        dictionary = self.task.target_dictionary
        lines = [
            dictionary.string(hypothesis["tokens"].int().cpu(), None, False, self.stripped)
            for hypothesis in hypotheses[: self.nbest]
            if hypothesis["score"] > float("-inf")  # -inf marks hypotheses dropped by the search
        ]
        if getattr(self.task.cfg, "right_to_left", False):
            lines = [" ".join(reversed(line.split(" "))) for line in lines]
        return lines


def fairseq_config(config: DecodingConfig) -> Any:
    """Return the fairseq-interactive configuration for the model and search options of `config`."""
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    parser = options.get_interactive_generation_parser()
    printed, words = io.StringIO(), _command_line(config)
    try:
        with redirect_stderr(printed):
            parsed = options.parse_args_and_arch(parser, input_args=words)
    except OSError as error:  # --user-dir of a folder that does not exist
        raise UsageError(
            f"`fairseq_options` contains a path that cannot be read: {error}. Correct the path."
        ) from None
    except SystemExit:
        problem = (printed.getvalue().splitlines() or [""])[-1].partition(": error: ")[2]
        given = " ".join([*option_words(_own_options(config)), *config.fairseq_options])
        raise UsageError(
            f"fairseq-interactive rejects the task of {config.model[0]} or the options "
            f"{given or '(none)'}: {problem}. Correct the options, or use another checkpoint."
        ) from None
    assert isinstance(parsed, Namespace)
    defaults = {name: parser.get_default(name) for name in NOT_SUPPORTED}
    for name, default in (defaults | {"nbest": config.nbest}).items():
        if getattr(parsed, name) != default:
            raise UsageError(
                f"`fairseq_options` contains --{name.replace('_', '-')}, which is not supported. "
                "Remove it, or use fairseq-interactive."
            )
    return convert_namespace_to_omegaconf(parsed)


def _command_line(config: DecodingConfig) -> list[str]:
    """Return the fairseq-interactive arguments for `config`."""
    from fairseq_ssl.checkpoints.files import read_checkpoint, task_options, training_data

    state = read_checkpoint(config.model[0])
    trained = task_options(state)
    if trained["_name"] in TASKS:
        raise DataError(
            f"{config.model[0]} was trained with the task {trained['_name']}. Expected a "
            "translation model."
        )
    data = training_data(state, config.data_dir, config.source_lang, config.target_lang)
    options: dict[str, Any] = {
        "path": ":".join(map(str, config.model)),
        # tagged_translation adds noisy beam search and fluency boost to the same models
        "task": "tagged_translation" if trained["_name"] == "translation" else trained["_name"],
        "source_lang": data.source,
        "target_lang": data.target,
        "max_len_a": 0,
        "right_to_left": are_right_to_left(config.model),
        "max_len_b": config.max_len_b,
        "lenpen": config.lenpen,
        "beam": config.nbest if config.sampling else config.beam,
        "nbest": config.nbest,
        "fp16": config.compute_type == "float16",
    }
    if config.sampling:
        options["sampling"] = True
        options |= {"sampling_topk": config.sampling_topk} if config.sampling_topk else {}
    return [
        str(data.folder),
        *option_words(options | _own_options(config)),
        *config.fairseq_options,
    ]


def _own_options(config: DecodingConfig) -> dict[str, Any]:
    """Return the options of noisy beam search and fluency boost, which fairseq lacks."""
    options: dict[str, Any] = {}
    if config.noisy_beam_beta:
        options["noisy_beam_beta"] = config.noisy_beam_beta
        options["noisy_beam_seed"] = config.seed
    if config.fluency_boost_lm:
        options["fluency_boost_lm"] = config.fluency_boost_lm
        options["fluency_boost_data"] = config.fluency_boost_data
    return options


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Return options as command-line arguments. Options with the value False are omitted."""
    words = []
    for name, value in options.items():
        if value is not False:
            option = f"--{name.replace('_', '-')}"
            words.append(option if value is True else f"{option}={value}")
    return words
