"""sentencepiece and subword-nmt models: training, segmentation and dictionaries.

Tags such as ``<BT>`` are never segmented.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.fingerprints import content_digest, file_fingerprint
from fairseq_ssl.io.jobs import ProgressFactory, check_new, silent_progress
from fairseq_ssl.io.outputs import signature_path, write_signature
from fairseq_ssl.io.text_files import read_json
from fairseq_ssl.io.text_jobs import LineSummary, Output, rewrite_file
from fairseq_ssl.options import check, option
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.subwords import (
    VOCABULARY_SUFFIX,
    TrainedSubwords,
    sentencepiece_model,
    subword_nmt_model,
)
from fairseq_ssl.text.subwords.sentencepiece_model import SentencepieceModel
from fairseq_ssl.text.subwords.subword_nmt_model import SubwordNmtModel
from fairseq_ssl.text.tokenization import MARKER, BuiltRewriter, LineRewriter
from fairseq_ssl.text.vocabulary import RESERVED, check_tag, split_tags

SENTENCEPIECE, SUBWORD_NMT = "sentencepiece", "subword-nmt"
SUBWORD_KINDS = (SENTENCEPIECE, SUBWORD_NMT)
MODEL_SUFFIXES = (sentencepiece_model.SUFFIX, subword_nmt_model.SUFFIX)
MAX_SHOWN = 5
"""Maximum number of symbols that a warning lists."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SubwordTraining:
    """Options for training a subword model."""

    size: int = option(
        MISSING,
        "vocabulary size including tags (sentencepiece) or number of BPE merges (subword-nmt)",
        low=1,
    )
    kind: str = option(SENTENCEPIECE, "subword library", choices=SUBWORD_KINDS)
    character_coverage: float | None = option(
        None,
        "for sentencepiece: fraction of the characters in the text that the vocabulary covers; "
        "Kiyono (2022) uses 1.0 for English and 0.9998 for Japanese",
        above=0,
        high=1,
        usual="1.0",
        metavar="FRACTION",
    )
    model_type: str | None = option(
        None,
        "for sentencepiece: model type, byte-pair encoding or unigram language model",
        choices=("bpe", "unigram"),
        usual="bpe",
    )
    tags: tuple[str, ...] = ()
    """Tokens that are never segmented, such as ``<BT>``."""

    def __post_init__(self) -> None:
        check(self)
        _check_tags(self.tags)
        for tag in self.tags:
            check_tag(tag)
        is_given = self.character_coverage is not None or self.model_type is not None
        if self.kind != SENTENCEPIECE and is_given:
            raise UsageError(
                f"`character_coverage` and `model_type` do not apply to {self.kind} models. "
                f"Remove them, or set `kind` to {SENTENCEPIECE}."
            )


def train_subwords(
    lines: Iterable[str],
    prefix: Path,
    config: SubwordTraining,
    *,
    source: Sequence[str] = (),
    overwrite: bool = False,
) -> tuple[TrainedSubwords, Signature]:
    """Train a subword model. Write it with its vocabulary and signature.

    Args:
        lines: training text. It must be tokenized for subword-nmt.
        prefix: prefix of the outputs PREFIX.model (sentencepiece) or PREFIX.codes (subword-nmt),
            and PREFIX.vocab.
        config: library, vocabulary size and other training options.
        source: names of the training files, for the signature.
        overwrite: replace an existing model.
    """
    package = subword_nmt_model if config.kind == SUBWORD_NMT else sentencepiece_model
    options: dict[str, Any] = {"tags": list(dict.fromkeys(config.tags))}
    if config.kind == SENTENCEPIECE:
        options["coverage"] = config.character_coverage or 1.0
        options["model_type"] = config.model_type or "bpe"
    for suffix in (package.SUFFIX, VOCABULARY_SUFFIX):
        check_new(Path(f"{prefix}{suffix}"), overwrite)
    trained = package.train(lines, prefix, config.size, **options)
    params = {"kind": config.kind, "lines": trained.lines, "size": config.size, **options}
    signature = Signature("subwords", params, {"text": list(source)})
    write_signature(signature, trained.model)
    return trained, signature


def subword_encoder(model: str | Path, tags: Sequence[str] = ()) -> LineRewriter:
    """Return a function that segments a line into subwords. Tags are not segmented.

    Tags at the beginning of a line are removed before segmentation and prepended to the result:
    ``<BT> ▁A``. This avoids the separate ▁ that sentencepiece inserts before a tag within a line:
    ``▁ <BT> ▁A``.

    Args:
        model: file or prefix of the model.
        tags: tags in addition to the tags with which the model was trained.
    """
    path, all_tags = _find_model(model, tags)
    segment = _load_model(path, all_tags).cut

    def encode(line: str) -> str:
        leading, text = split_tags(line, all_tags)
        return " ".join([*leading, *segment(text)])

    return BuiltRewriter(encode, subword_encoder, model, tags)


def encode_subwords_file(
    source: str | Path | None,
    output: Output,
    model: str | Path,
    *,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> LineSummary | None:
    """Segment a text into subwords. Return None if this run does not complete the output.

    The output does not depend on the executor, parts or shards. Interrupted runs resume.

    Args:
        source: text, tokenized like the training text of the model; None for stdin
        output: a file, a folder of parts, or a binary stream
        model: file or prefix of the model
        executor: executor that processes the blocks or parts (default: the current process)
        overwrite: replace an existing output
        progress: creates the progress report, which receives the number of processed lines
    """
    file = model_file(model)
    parameters = {"model_digest": content_digest(file)}
    return rewrite_file(
        source,
        output,
        partial(subword_encoder, model),
        Signature("subwords-encode", parameters, {"model": str(model)}),
        reads=[file],
        executor=executor,
        overwrite=overwrite,
        progress=progress,
    )


def subword_segmenter(model: str | Path | None) -> LineRewriter:
    """Return the cached `subword_encoder(model)`, or the identity function if `model` is None."""
    return str if model is None else _cached_encoder(model, *file_fingerprint(model_file(model)))


@lru_cache(maxsize=4)
def _cached_encoder(model: str | Path, size: int, written: int) -> LineRewriter:
    """Return a cached encoder. A file with a new size or modification time is loaded again."""
    return subword_encoder(model)


def subword_dictionary(model: str | Path, tags: Sequence[str] = ()) -> Iterator[str]:
    """Yield fairseq dictionary lines for tags and subwords, except special symbols and spaces."""
    path, all_tags = _find_model(model, tags)
    missing = dict.fromkeys(all_tags)
    for subword, count in _load_model(path, all_tags).pieces():
        # fairseq splits lines at all Unicode spaces, so a subword with such a space is never used.
        if subword not in RESERVED and subword.split() == [subword]:
            missing.pop(subword, None)
            yield f"{subword} {count}"
    for tag in missing:
        yield f"{tag} 1"


def _load_model(path: Path, tags: Sequence[str]) -> SentencepieceModel | SubwordNmtModel:
    if path.suffix != sentencepiece_model.SUFFIX:
        return SubwordNmtModel(path, tags)
    model, signature = SentencepieceModel(path, tags), signature_path(path)
    symbols = [] if signature.is_file() else set(model.user_symbols()).difference(tags)
    if symbols:
        logger.warning(
            "%s does not exist, so tags at the beginning of a line get a separate %s. Copy this "
            "file together with %s. Symbols that can be tags: %s",
            *(signature, MARKER, path, " ".join(sorted(symbols)[:MAX_SHOWN])),
        )
    return model


def _find_model(model: str | Path, tags: Sequence[str]) -> tuple[Path, tuple[str, ...]]:
    """Return the model file and all tags: the tags used in training, then `tags`."""
    _check_tags(tags)
    path = model_file(model)
    return path, tuple(dict.fromkeys([*_trained_tags(path), *tags]))


def _check_tags(tags: Sequence[str]) -> None:
    if isinstance(tags, str):
        raise TypeError(f"`tags` is the string {tags!r}. Expected a list of tags.")


def model_file(model: str | Path) -> Path:
    """Return the path of a model file. `model` is this path, with or without its suffix."""
    model = Path(model)
    if model.is_file():
        return model
    paths = [path for suffix in MODEL_SUFFIXES if (path := Path(f"{model}{suffix}")).is_file()]
    if len(paths) > 1:
        raise UsageError(f"Both {paths[0]} and {paths[1]} exist. Pass one of them.")
    if not paths:
        raise DataError(
            f"There is no subword model {model}: neither this file nor "
            f"{' or '.join(model.name + suffix for suffix in MODEL_SUFFIXES)} exists. Train a "
            "model with `fairseq-ssl subwords train`."
        )
    return paths[0]


def _trained_tags(path: Path) -> list[str]:
    """Return the tags in a model's signature, or [] if there is no signature."""
    signature = signature_path(path)
    if not signature.is_file():
        return []
    try:
        return [str(tag) for tag in read_json(signature).get("tags", [])]
    except (DataError, AttributeError, TypeError):
        raise DataError(
            f"{signature} is not a signature written by fairseq-ssl subwords train. Remove it."
        ) from None
