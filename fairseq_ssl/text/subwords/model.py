"""Subword models of both kinds: training, segmentation, dictionaries, tags that stay whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.text_files import parse_json
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.subwords import (
    VOCABULARY_SUFFIX,
    TrainedSubwords,
    sample_lines,
    sentencepiece_model,
    subword_nmt_model,
    with_suffix,
)
from fairseq_ssl.text.subwords.sentencepiece_model import SentencepieceModel
from fairseq_ssl.text.subwords.subword_nmt_model import SubwordNmtModel
from fairseq_ssl.text.tokenization import LineRewriter
from fairseq_ssl.text.vocabulary import RESERVED, split_tags

SENTENCEPIECE, SUBWORD_NMT = "sentencepiece", "subword-nmt"
SUBWORD_KINDS = (SENTENCEPIECE, SUBWORD_NMT)
MODEL_SUFFIXES = (sentencepiece_model.SUFFIX, subword_nmt_model.SUFFIX)


class SubwordModel(Protocol):
    """What cuts text and knows its pieces."""

    def cut(self, text: str) -> list[str]:
        """Return the pieces of a text."""

    def pieces(self) -> Iterator[tuple[str, int]]:
        """Yield all pieces with their counts."""


def train_subwords(
    lines: Iterable[str],
    prefix: Path,
    size: int,
    kind: str = SENTENCEPIECE,
    *,
    tags: Sequence[str] = (),
    character_coverage: float | None = None,
    model_type: str | None = None,
    sample: int | None = None,
    seed: int = 1,
    source: Sequence[str] = (),
    overwrite: bool = False,
) -> tuple[TrainedSubwords, Signature]:
    """Train a model and write it with its vocabulary and signature.

    Args:
        lines: text to train on; tokenized for subword-nmt
        prefix: write PREFIX.model (sentencepiece) or PREFIX.codes (subword-nmt), and PREFIX.vocab
        size: vocabulary size with the tags (sentencepiece), or number of merges (subword-nmt)
        kind: `SENTENCEPIECE` or `SUBWORD_NMT`
        tags: tokens that are never segmented, such as ``<BT>``
        character_coverage: share of the characters in the vocabulary, for sentencepiece
            (default: 1)
        model_type: ``bpe`` or ``unigram``, for sentencepiece (default: bpe)
        sample: number of lines to draw from the text (default: all)
        seed: random seed of the drawn lines
        source: the names of the text, for the signature
        overwrite: replace a model
    """
    package = subword_nmt_model if kind == SUBWORD_NMT else sentencepiece_model
    options: dict[str, Any] = {"tags": list(dict.fromkeys(tags))}
    if kind == SENTENCEPIECE:
        options["coverage"] = 1.0 if character_coverage is None else character_coverage
        options["model_type"] = model_type or "bpe"
    elif character_coverage is not None or model_type is not None:
        raise UsageError(f"`character_coverage` and `model_type` go with {SENTENCEPIECE}.")
    for suffix in (package.SUFFIX, VOCABULARY_SUFFIX):
        path = with_suffix(prefix, suffix)
        if path.exists() and not overwrite:
            raise UsageError(
                f"{path} exists. Set `overwrite` to replace it, or choose another output."
            )
    if sample is not None:
        lines = sample_lines(lines, sample, seed)
    trained = package.train(lines, prefix, size, **options)
    params = {"kind": kind, "lines": trained.lines, "size": size, **options}
    if sample is not None:
        params["seed"] = seed
    signature = Signature("subwords", {**params, "text": list(source)})
    signature.write_beside(trained.model)
    return trained, signature


def subword_encoder(model: Path, tags: Sequence[str] = ()) -> LineRewriter:
    """Return what cuts a line into pieces; tags that it begins with stay whole.

    sentencepiece would put a piece of its own before a tag, ``▁ <BT> ▁A``; so tags are set
    aside, and the line is cut as if it had none: ``<BT> ▁A``.
    """
    path, kept = _find_model(model, tags)
    cut = _opened(path, kept).cut

    def encoded(line: str) -> str:
        found, text = split_tags(line, kept)
        return " ".join([*found, *cut(text)])

    return encoded


@lru_cache(maxsize=4)
def subword_segmenter(model: Path | None) -> LineRewriter:
    """Return what cuts a line by a model, kept for a process, or leaves it where there is none."""
    return str if model is None else subword_encoder(model)


def subword_dictionary(model: Path, tags: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a dictionary for fairseq's ``--srcdict``: all pieces, and all tags."""
    path, kept = _find_model(model, tags)
    missing = dict.fromkeys(kept)
    for piece, count in _opened(path, kept).pieces():
        if piece not in RESERVED and piece.split() == [piece]:  # fairseq ends tokens at any space
            missing.pop(piece, None)
            yield f"{piece} {count}"
    for tag in missing:
        yield f"{tag} 1"


def _opened(path: Path, tags: Sequence[str]) -> SubwordModel:
    if path.suffix == sentencepiece_model.SUFFIX:
        return SentencepieceModel(path)
    return SubwordNmtModel(path, tags)


def _find_model(model: Path, tags: Sequence[str]) -> tuple[Path, tuple[str, ...]]:
    """Return a model's file, and its tags, those it was trained with first."""
    path = _model_file(model)
    return path, tuple(dict.fromkeys([*_trained_tags(path), *tags]))


def _model_file(model: Path) -> Path:
    if model.is_file():
        return model
    found = [path for suffix in MODEL_SUFFIXES if (path := with_suffix(model, suffix)).is_file()]
    if len(found) > 1:
        raise UsageError(f"There are {found[0]} and {found[1]}. Name one of them.")
    if not found:
        raise DataError(
            f"{model} does not exist, nor does "
            f"{' or '.join(model.name + suffix for suffix in MODEL_SUFFIXES)} beside it. Train a "
            "model with `fairseq-ssl subwords train`."
        )
    return found[0]


def _trained_tags(path: Path) -> list[str]:
    """Return the tags that the signature beside a model names, if it has one."""
    signature = with_suffix(path, ".json")
    if not signature.is_file():
        return []
    try:
        return [str(tag) for tag in parse_json(signature.read_bytes()).get("tags", [])]
    except (ValueError, AttributeError):
        raise DataError(
            f"{signature} is not what `fairseq-ssl subwords train` wrote beside the model. "
            "Remove it, and set `tags`."
        ) from None
