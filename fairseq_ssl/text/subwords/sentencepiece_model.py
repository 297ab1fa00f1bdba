"""Subwords by sentencepiece."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, FairseqSslError, import_optional
from fairseq_ssl.io.outputs import atomic_lines, atomic_path, exclusive
from fairseq_ssl.io.text_files import open_bytes
from fairseq_ssl.text.subwords import VOCABULARY_SUFFIX, TrainedSubwords, with_suffix

SUFFIX = ".model"
MAX_LINE_BYTES_TRAINED = 4192
"""Bytes; sentencepiece passes longer lines over and tells no one."""


class SentencepieceModel:
    """Cuts text with a model of sentencepiece's."""

    def __init__(self, path: Path) -> None:
        try:
            with open_bytes(path) as file:  # its own reader does not know every file name
                model = file.read()
            self._pieces = _sentencepiece().SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise DataError(
                f"{path} is no model of sentencepiece's. Train it again, or copy it again."
            ) from None

    def cut(self, text: str) -> list[str]:
        """Return the pieces of a text."""
        return list(self._pieces.encode(text, out_type=str))

    def pieces(self) -> Iterator[tuple[str, int]]:
        """Yield all pieces, each with the count 1: sentencepiece keeps none."""
        for number in range(self._pieces.get_piece_size()):
            yield self._pieces.id_to_piece(number), 1


def train(
    lines: Iterable[str],
    prefix: Path,
    size: int,
    tags: Sequence[str] = (),
    coverage: float = 1.0,
    model_type: str = "bpe",
    size_name: str = "size",
) -> TrainedSubwords:
    """Write PREFIX.model and PREFIX.vocab, with the tags as symbols that are never cut.

    `size_name` is the parameter that errors about the size name.
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
    """Lines on their way into sentencepiece, which hides what goes wrong in reading them."""

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
    path = with_suffix(prefix, SUFFIX)
    pieces = _sentencepiece().SentencePieceProcessor(model_proto=model)
    numbers = range(pieces.get_piece_size())
    rows = (f"{pieces.id_to_piece(n)}\t{pieces.get_score(n):g}\n" for n in numbers)
    with exclusive(prefix):
        with atomic_lines(with_suffix(prefix, VOCABULARY_SUFFIX)) as file:
            file.writelines(rows)
        with atomic_path(path) as temporary:
            temporary.write_bytes(model)
    notes = (
        (f"{text.long} lines of more than {MAX_LINE_BYTES_TRAINED} bytes passed over",)
        if text.long
        else ()
    )
    return TrainedSubwords(path, text.read, len(numbers), notes)


def _training_error(error: RuntimeError, text: _TrainingText, given: str) -> DataError:
    """Say what a message of sentencepiece's means for its user."""
    if text.read == text.long:
        return DataError("There is no text to train on: every line is empty or too long.")
    most = re.search(r"too high.*<= (\d+)", str(error))
    if most:
        return DataError(
            f"{given}, and the text has not so many different pieces; expected at most {most[1]}."
        )
    least = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if least:
        return DataError(
            f"{given}, fewer than the different characters of the text; expected {least[1]} or "
            "more."
        )
    if "insert_id(" in str(error):
        return DataError(f"{given}; expected more: <unk>, <s> and </s> are pieces too.")
    return DataError(f"sentencepiece could not train: {' '.join(str(error).split())}")


def _sentencepiece() -> Any:
    return import_optional("sentencepiece", "Subwords of this kind")
