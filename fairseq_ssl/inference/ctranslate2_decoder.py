"""Decoding by CTranslate2: beam search and sampling, fast, of fairseq's own Transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq_ssl.checkpoints.ctranslate2 import check_ctranslate2_folder
from fairseq_ssl.errors import ConfigurationError, DataError, UsageError, import_optional
from fairseq_ssl.inference.translation import DecodedLine, Decoder, DecodingConfig
from fairseq_ssl.io.atomic import build_once
from fairseq_ssl.io.resumable import file_fingerprint, is_done
from fairseq_ssl.signature import Signature

MODEL_FILE = "model.bin"
"""The file in the folder of a model that holds its weights."""


class CTranslate2Decoder:
    """One of its translators."""

    def __init__(self, decoding: DecodingConfig, worker: int) -> None:
        self.decoding = decoding
        self.place = 0
        if decoding.device == "cuda":
            self.place = worker % ctranslate2_gpus()
        self.translator = self._translator()

    def begin(self, seed: int) -> None:
        """Seed what is sampled; a thread of CTranslate2's is seeded once, so it takes a new one."""
        if self.decoding.sampling:
            _package().set_random_seed(seed % 2**32)
            self.translator = self._translator()

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[DecodedLine]:
        """Return for each sentence the lines written, best first."""
        decoding = self.decoding
        sampled: dict[str, Any] = {"beam_size": decoding.beam}
        if decoding.sampling:
            sampled = {"beam_size": 1, "sampling_topk": decoding.top_k}
            sampled["sampling_temperature"] = decoding.temperature
        try:
            found = self.translator.translate_batch(
                list(sentences),
                num_hypotheses=decoding.nbest,
                length_penalty=decoding.length_penalty,
                max_decoding_length=decoding.longest,
                max_input_length=0,
                max_batch_size=decoding.batch_tokens,
                batch_type="tokens",
                **sampled,
            )
        except (RuntimeError, ValueError, MemoryError) as error:
            if "out of memory" not in str(error):
                raise DataError(
                    f"CTranslate2 cannot decode with {decoding.models[0]}: {_line(error)}"
                ) from None
            return self._by_halves(sentences, ids)
        return [[" ".join(tokens) for tokens in one.hypotheses] for one in found]

    def _by_halves(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[DecodedLine]:
        """Decode what is too much for the GPU in halves, a sentence not at all."""
        if len(sentences) == 1:
            return [None]
        half = len(sentences) // 2
        parts = (slice(half), slice(half, None))
        return [lines for part in parts for lines in self.decode(sentences[part], ids[part])]

    def _translator(self) -> Any:
        decoding = self.decoding
        try:
            return _package().Translator(
                str(decoding.models[0]),
                device=decoding.device,
                device_index=self.place,
                compute_type=decoding.compute_type,
                inter_threads=1,
                intra_threads=decoding.threads,
            )
        except Exception as error:  # whatever the C++ library throws
            raise DataError(
                f"CTranslate2 cannot load {decoding.models[0]}: {_line(error)}. Export the model "
                "again: fairseq-ssl export --to ctranslate2"
            ) from None


def load_ctranslate2_decoder(decoding: DecodingConfig, worker: int) -> Decoder:
    """Return a decoder by CTranslate2."""
    return CTranslate2Decoder(decoding, worker)


def ctranslate2_gpus() -> int:
    """Return how many of this machine's GPUs CTranslate2 can use; torch is not loaded for it."""
    return int(_package().get_cuda_device_count())


def check_ctranslate2_model(model: Path) -> None:
    """Refuse what is neither a checkpoint nor the folder of a model of CTranslate2's."""
    expected = (
        "Expected a checkpoint, or the folder of a CTranslate2 model, as fairseq-ssl export --to "
        "ctranslate2 makes it."
    )
    if not model.exists():
        raise DataError(f"{model} does not exist. {expected}")
    if model.is_dir() and not (model / MODEL_FILE).is_file():
        raise DataError(f"{model} is a folder without {MODEL_FILE}. {expected}")
    if model.name == MODEL_FILE:
        raise DataError(f"{model} is a part of a CTranslate2 model. Give its folder.")


def converted(decoding: DecodingConfig) -> DecodingConfig:
    """Return the same with a model of CTranslate2's, which is made beside the checkpoint once."""
    model = decoding.models[0]
    if len(decoding.models) > 1:
        raise UsageError("CTranslate2 decodes with one model; --engine fairseq takes an ensemble.")
    _package()
    check_ctranslate2_model(model)
    if model.is_dir():
        check_ctranslate2_folder(model)
        return decoding
    folder = decoding.data_dir and str(decoding.data_dir.resolve())
    made_of = {
        "checkpoint_is": file_fingerprint(model),
        "data_dir": folder,
        "languages": decoding.languages,
    }
    kept = model.with_name(f"{model.name}.ctranslate2-{decoding.compute_type}")

    def convert() -> None:
        _convert(decoding, kept)
        Signature("export", {"checkpoint": str(model), **made_of}).write_beside(kept)

    hint = (
        " Convert the checkpoint elsewhere with fairseq-ssl export --to ctranslate2, and give that "
        "folder as --model."
    )
    build_once(kept, lambda: is_done([kept], made_of), convert, hint)
    check_ctranslate2_folder(kept)
    return replace(decoding, models=(kept,))


def _convert(decoding: DecodingConfig, folder: Path) -> None:
    from fairseq_ssl.checkpoints.conversion import to_stock
    from fairseq_ssl.checkpoints.ctranslate2 import write_ctranslate2
    from fairseq_ssl.checkpoints.files import read_checkpoint, task_options, training_data

    state = read_checkpoint(decoding.models[0])
    if task_options(state).get("right_to_left"):
        raise ConfigurationError(
            f"{decoding.models[0]} writes from right to left, which CTranslate2 does not know of. "
            "Use --engine fairseq."
        )
    data = training_data(state, decoding.data_dir, *decoding.languages)
    write_ctranslate2(to_stock(state), data, folder, decoding.compute_type)


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _package() -> Any:
    return import_optional("ctranslate2", "--engine ctranslate2", "ctranslate2")
