"""A subword model of either kind, found by its name, with the tags that it never cuts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io.json_files import parse_json
from fairseq_ssl.text.subwords import sentencepiece_model, subword_nmt_model
from fairseq_ssl.text.subwords.sentencepiece_model import SentencepieceModel
from fairseq_ssl.text.subwords.subword_nmt_model import SubwordNmtModel
from fairseq_ssl.text.subwords.training import with_suffix
from fairseq_ssl.text.tags import split_tags
from fairseq_ssl.text.tokenization import LineRewriter
from fairseq_ssl.text.vocabulary import RESERVED

SENTENCEPIECE, SUBWORD_NMT = "sentencepiece", "subword-nmt"
SUBWORD_KINDS = (SENTENCEPIECE, SUBWORD_NMT)
MODEL_SUFFIXES = (sentencepiece_model.SUFFIX, subword_nmt_model.SUFFIX)


class SubwordModel(Protocol):
    """What cuts text and knows its pieces."""

    def cut(self, text: str) -> list[str]:
        """Return the pieces of a text."""

    def pieces(self) -> Iterator[tuple[str, int]]:
        """Yield all pieces with their counts."""


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
            "Remove it, and name the tags with --tags."
        ) from None
