"""Training and segmentation with sentencepiece."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, FairseqSslError, import_optional
from fairseq_ssl.io.text_files import read_document
from fairseq_ssl.text.subwords import TrainedSubwords, replace_model
from fairseq_ssl.text.tokenization import MARKER

SUFFIX = ".model"
MAX_LINE_BYTES_TRAINED = 4192
"""Maximum number of bytes in a training line. sentencepiece silently skips longer lines."""


class SentencepieceModel:
    """Subword model trained with sentencepiece.

    Args:
        path: model file
        tags: words that are not segmented, in addition to the model's user-defined symbols
    """

    def __init__(self, path: Path, tags: Sequence[str] = ()) -> None:
        try:
            self._processor = _sentencepiece().SentencePieceProcessor()
            # sentencepiece cannot open some file names, and accepts an empty `model_proto`.
            self._processor.LoadFromSerializedProto(read_document(path))
            ids = range(self._processor.get_piece_size())
            self._pieces = list(map(self._processor.id_to_piece, ids))
        except (RuntimeError, UnicodeDecodeError):
            raise DataError(
                f"{path} is not a sentencepiece model. Train or copy the model again."
            ) from None
        self._tags = [tag for tag in tags if tag not in self._encode(tag)]
        self._separate = re.compile(rf"(?<!\S)({'|'.join(map(re.escape, self._tags))})(?!\S)")

    def cut(self, text: str) -> list[str]:
        """Segment a text into subwords. Tags become ``▁ <BT>``, as user-defined symbols do."""
        if not any(tag in text for tag in self._tags):
            return self._encode(text)
        subwords: list[str] = []
        for index, part in enumerate(self._separate.split(text)):
            subwords += [MARKER, part] if index % 2 else self._encode(part)
        return subwords

    def user_symbols(self) -> list[str]:
        """Return the user-defined symbols, whose score is 0.0. The first BPE merge has -0.0."""
        processor = self._processor
        kinds = processor.is_unknown, processor.is_control, processor.is_unused, processor.is_byte
        return [
            piece
            for index, piece in enumerate(self._pieces)
            if str(processor.get_score(index)) == "0.0" and not any(kind(index) for kind in kinds)
        ]

    def _encode(self, text: str) -> list[str]:
        return list(self._processor.encode(text, out_type=str))

    def pieces(self) -> Iterator[tuple[str, int]]:
        """Yield the subwords of the vocabulary with a count of 1. The model stores no counts."""
        for piece in self._pieces:
            yield piece, 1


def train(
    lines: Iterable[str],
    prefix: Path,
    size: int,
    tags: Sequence[str] = (),
    coverage: float = 1.0,
    model_type: str = "bpe",
    size_name: str = "size",
) -> TrainedSubwords:
    """Train a model. Write PREFIX.model and PREFIX.vocab.

    Args:
        lines: training text.
        prefix: prefix of the outputs.
        size: vocabulary size, including tags.
        tags: symbols that are never segmented.
        coverage: fraction of the characters in the text that the vocabulary covers.
        model_type: ``bpe`` or ``unigram``.
        size_name: name of the parameter `size` in error messages.
    """
    model = io.BytesIO()
    text = _TrainingText(lines)
    try:
        _sentencepiece().SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_writer=model,
            vocab_size=size,
            model_type=model_type,
            character_coverage=coverage,
            user_defined_symbols=list(tags),
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise text.failure or _training_error(error, text, f"`{size_name}` is {size}") from None
    return _write_model(model.getvalue(), prefix, text)


class _TrainingText:
    """Iterable over training lines. It counts lines and stores the error that `lines` raises.

    sentencepiece replaces such an error with its own RuntimeError.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = lines
        self.read = self.long = 0
        self.failure: FairseqSslError | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self.lines:
                self.read += 1
                self.long += len(line.encode()) > MAX_LINE_BYTES_TRAINED
                yield line
        except FairseqSslError as error:
            self.failure = error
            raise


def _write_model(model: bytes, prefix: Path, text: _TrainingText) -> TrainedSubwords:
    processor = _sentencepiece().SentencePieceProcessor(model_proto=model)
    ids = range(processor.get_piece_size())
    rows = (f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n" for i in ids)
    with replace_model(prefix, SUFFIX) as (temporary, vocabulary):
        vocabulary.write_text("".join(rows), "utf-8")
        temporary.write_bytes(model)
    skipped = f"{text.long} lines of more than {MAX_LINE_BYTES_TRAINED} bytes skipped"
    notes = (skipped,) if text.long else ()
    return TrainedSubwords(Path(f"{prefix}{SUFFIX}"), text.read, len(ids), notes)


def _training_error(error: RuntimeError, text: _TrainingText, size: str) -> DataError:
    """Convert a sentencepiece error to a DataError.

    Messages about the vocabulary size begin with `size`, such as ``"`size` is 8000"``.
    """
    if text.read == text.long:
        expected = f"nonempty line of at most {MAX_LINE_BYTES_TRAINED} bytes"
        return DataError(f"No line can be used for training. Expected at least one {expected}.")
    maximum = re.search(r"too high.*<= (\d+)", str(error))
    if maximum:
        return DataError(
            f"{size}, more than the number of distinct subwords in the text. Expected at most "
            f"{maximum[1]}."
        )
    minimum = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if minimum:
        return DataError(
            f"{size}, too small for the distinct characters in the text and the special symbols. "
            f"Expected {minimum[1]} or more."
        )
    if "insert_id(" in str(error):
        return DataError(
            f"{size}, too small for <unk>, <s> and </s>, which are included. Set a larger size."
        )
    reason = " ".join(str(error).split())
    return DataError(f"sentencepiece cannot train on this text ({reason}). Provide more text.")


def _sentencepiece() -> Any:
    return import_optional("sentencepiece", "A sentencepiece model")
