"""Decoding by CTranslate2: fast beam search and sampling with fairseq's own Transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import ConfigurationError, DataError, UsageError, import_optional
from fairseq_ssl.inference.translation import DecodingConfig, Hypotheses
from fairseq_ssl.io.atomic import build_once
from fairseq_ssl.io.resumable import file_fingerprint, is_done
from fairseq_ssl.signature import Signature

MODEL_FILE = "model.bin"
"""The file with the weights in the folder of a model."""
FAIRSEQ_ONLY = ("noisy_beam_beta", "fluency_boost_lm", "fairseq_options")
"""Search options that CTranslate2 does not have."""


class CTranslate2Decoder:
    """A translator of CTranslate2."""

    def __init__(self, config: DecodingConfig, worker: int) -> None:
        self.config = config
        self.gpu = worker % self.gpu_count() if config.device == "cuda" else 0
        self.translator = self._translator()

    @staticmethod
    def gpu_count() -> int:
        """Return the number of GPUs that CTranslate2 can use. Does not import torch."""
        return int(_package().get_cuda_device_count())

    @staticmethod
    def check_model(model: Path) -> None:
        """Reject a path that is neither a checkpoint nor the folder of a CTranslate2 model."""
        expected = (
            "Expected a checkpoint, or the folder of a CTranslate2 model, as fairseq-ssl export "
            "writes it."
        )
        if not model.exists():
            raise DataError(f"{model} does not exist. {expected}")
        if model.is_dir() and not (model / MODEL_FILE).is_file():
            raise DataError(f"{model} is a folder without {MODEL_FILE}. {expected}")
        if model.name == MODEL_FILE:
            raise DataError(f"{model} is a part of a CTranslate2 model. Pass its folder.")

    @staticmethod
    def prepare(config: DecodingConfig) -> DecodingConfig:
        """Return the config of a checked CTranslate2 model.

        A checkpoint is converted once. The converted model is kept beside it.
        """
        for name in FAIRSEQ_ONLY:
            if getattr(config, name):
                raise UsageError(f"`{name}` needs the engine fairseq.")
        if len(config.model) > 1:
            raise UsageError(
                "CTranslate2 decodes with one model. For an ensemble, use the engine fairseq."
            )
        from fairseq_ssl.checkpoints.ctranslate2 import check_ctranslate2_folder

        _package()
        CTranslate2Decoder.check_model(config.model[0])
        if not config.model[0].is_dir():
            conversion = Conversion.of(config)
            conversion.run()
            config = replace(config, model=(conversion.output,))
        check_ctranslate2_folder(config.model[0])
        return config

    def set_seed(self, seed: int) -> None:
        """Seed sampling. A thread of CTranslate2 is seeded once, so load a new translator."""
        if self.config.sampling:
            _package().set_random_seed(seed % 2**32)
            self.translator = self._translator()

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[Hypotheses]:
        """Return the hypotheses of each sentence, best first."""
        config = self.config
        search: dict[str, Any] = {"beam_size": config.beam}
        if config.sampling:
            search = {"beam_size": 1, "sampling_topk": config.sampling_topk}
            search["sampling_temperature"] = config.temperature
        try:
            results = self.translator.translate_batch(
                list(sentences),
                num_hypotheses=config.nbest,
                length_penalty=config.lenpen,
                max_decoding_length=config.max_len_b,
                max_input_length=0,
                max_batch_size=config.max_tokens,
                batch_type="tokens",
                **search,
            )
        except (RuntimeError, ValueError, MemoryError) as error:
            if "out of memory" not in str(error):
                raise DataError(
                    f"CTranslate2 cannot decode with {config.model[0]}: {_first_line(error)}"
                ) from None
            return self._decode_halves(sentences, ids)
        return [[" ".join(tokens) for tokens in result.hypotheses] for result in results]

    def _decode_halves(
        self, sentences: Sequence[list[str]], ids: Sequence[int]
    ) -> list[Hypotheses]:
        """Halve a batch that does not fit into memory. A single sentence fails."""
        if len(sentences) == 1:
            return [None]
        half = len(sentences) // 2
        parts = (slice(half), slice(half, None))
        return [lines for part in parts for lines in self.decode(sentences[part], ids[part])]

    def _translator(self) -> Any:
        config = self.config
        try:
            return _package().Translator(
                str(config.model[0]),
                device=config.device,
                device_index=self.gpu,
                compute_type=config.compute_type,
                inter_threads=1,
                intra_threads=config.threads,
            )
        except Exception as error:  # the C++ library raises many types
            raise DataError(
                f"CTranslate2 cannot load {config.model[0]}: {_first_line(error)}. Export the "
                "model again with fairseq-ssl export."
            ) from None


@dataclass(frozen=True)
class Conversion:
    """A checkpoint and the CTranslate2 model that it is converted to."""

    config: DecodingConfig
    checkpoint: Path
    output: Path

    @classmethod
    def of(cls, config: DecodingConfig) -> Conversion:
        """Return the conversion of the checkpoint of a config."""
        model = config.model[0]
        return cls(
            config, model, model.with_name(f"{model.name}.ctranslate2-{config.compute_type}")
        )

    def is_done(self) -> bool:
        """Return True if the output is a model of this checkpoint."""
        return is_done([self.output], self._params())

    def run(self) -> None:
        """Convert the checkpoint, unless that is done."""
        hint = (
            " Export the checkpoint to another folder with fairseq-ssl export, and pass that "
            "folder as `model`."
        )
        build_once(self.output, self.is_done, self._convert, hint)

    def _params(self) -> dict[str, Any]:
        config = self.config
        return {
            "checkpoint_is": file_fingerprint(self.checkpoint),
            "data_dir": config.data_dir and str(config.data_dir.resolve()),
            "languages": [config.source_lang, config.target_lang],
        }

    def _convert(self) -> None:
        from fairseq_ssl.checkpoints.conversion import to_stock
        from fairseq_ssl.checkpoints.ctranslate2 import write_ctranslate2
        from fairseq_ssl.checkpoints.files import read_checkpoint, task_options, training_data

        config = self.config
        state = read_checkpoint(self.checkpoint)
        if task_options(state).get("right_to_left"):
            raise ConfigurationError(
                f"{self.checkpoint} writes from right to left, which CTranslate2 does not "
                "support. Use the engine fairseq."
            )
        data = training_data(state, config.data_dir, config.source_lang, config.target_lang)
        write_ctranslate2(to_stock(state), data, self.output, config.compute_type)
        params = {"checkpoint": str(self.checkpoint), **self._params()}
        Signature("export", params).write_beside(self.output)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _package() -> Any:
    return import_optional("ctranslate2", "The engine ctranslate2", "ctranslate2")
