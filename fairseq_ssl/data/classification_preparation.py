"""Prepare labeled and unlabeled texts for semi-supervised classification."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq_ssl.data import two_view_dataset as views
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import (
    ProgressFactory,
    check_outside,
    check_read_twice,
    counted,
    silent_progress,
)
from fairseq_ssl.io.outputs import atomic_folder, atomic_lines, write_signature
from fairseq_ssl.io.text_files import read_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.labeled_text import (
    DROP,
    HELD_OUT,
    KEEP,
    REJECT,
    LabeledText,
    PreparationConfig,
    duplicate_key,
    fraction_below,
    is_in_fraction,
    read_labeled_text,
    take_balanced,
    word_view,
)
from fairseq_ssl.text.subwords import sentencepiece_model
from fairseq_ssl.text.subwords.sentencepiece_model import SentencepieceModel
from fairseq_ssl.text.vocabulary import count_line_words


def prepare_folder(
    config: PreparationConfig, output: Path, progress: ProgressFactory = silent_progress
) -> Signature:
    """Write a data folder for the task semi_supervised_classification. Return the signature.

    Args:
        config: input texts, splits and tokenization.
        output: the folder to create.
        progress: creates the progress report, which receives the number of processed texts.
    """
    texts = (config.labeled, config.valid, config.test)
    check_outside(output, [*texts, *config.unlabeled, *config.extra_unlabeled])
    splits = _labeled_splits(config)
    labels = {example.label for name in ("train", *HELD_OUT) for example in splits.get(name, [])}
    unlabeled = []
    for path in config.unlabeled:
        lines = list(read_lines(path))  # read once, because the file may be a pipe
        check_unlabeled(path, lines, labels)
        unlabeled += [line.strip() for line in lines]
    for path in config.extra_unlabeled:
        check_read_twice(path)
        check_unlabeled(path, read_lines(path), labels)
    unlabeled += splits.pop("rest_texts")
    if config.lower:
        unlabeled = [text.lower() for text in unlabeled]
    held = {
        duplicate_key(example.text): name for name in HELD_OUT for example in splits.get(name, [])
    }
    overlap = _remove_overlap(config, splits, unlabeled, held)
    for name in ("train", *HELD_OUT):
        if splits.get(name) == []:
            raise DataError(f"The {name} split contains no texts. Expected at least one text.")
    with atomic_folder(output) as folder:
        extra = _ExtraTexts(config.extra_unlabeled, config.train_test_overlap, config.lower, held)
        report = _write(config, folder, splits, unlabeled, extra, progress)
        counts = {name: len(texts) for name, texts in splits.items()}
        kind, colon, bert = config.tokenizer.partition(":")
        parameters = {
            **counts,
            "unlabeled": len(unlabeled),
            **({"extra": len(extra)} if extra else {}),
            "tokenizer": f"{kind}:{content_digest(bert)}" if colon else kind,
            "lower": config.lower,
            "min_count": config.minimum,
            **report,
            "train_test_overlap": config.train_test_overlap,
            "overlapping": overlap,
        }
        details = {"labeled": str(config.labeled), "tokenizer": config.tokenizer}
        signature = Signature("classify-prepare", parameters, details)
    write_signature(signature, output)
    return signature


def _labeled_splits(config: PreparationConfig) -> dict[str, Any]:
    """Return the labeled texts of each split.

    `rest_texts` contains the training texts beyond `train_lines`, which become unlabeled.
    """
    splits: dict[str, Any] = {"train": list(read_labeled_text(config.labeled))}
    for name in HELD_OUT:
        if getattr(config, name):
            splits[name] = list(read_labeled_text(getattr(config, name)))
    below = 0.0
    for name in reversed(HELD_OUT):  # test texts have the lowest hash values
        texts, size = splits["train"], getattr(config, f"{name}_size") or 0
        if 0 < size < 1:
            below += size
            splits[name] = [example for example in texts if is_in_fraction(example.text, below)]
            splits["train"] = [
                example for example in texts if not is_in_fraction(example.text, below)
            ]
        elif size:
            if size >= len(texts):
                raise DataError(
                    f"`{name}_size` is {size:.0f}, but {config.labeled} has only {len(texts)} "
                    f"texts for the splits train and {name}. Expected a smaller number."
                )
            splits[name], splits["train"] = take_balanced(texts, int(size))
            below = max((fraction_below(example.text) for example in splits[name]), default=0.0)
    splits["rest_texts"] = []
    if config.train_lines is not None:
        if config.train_lines > len(splits["train"]):
            raise DataError(
                f"`train_lines` is {config.train_lines}, but {config.labeled} has only "
                f"{len(splits['train'])} texts for training. Expected a smaller number."
            )
        # Sort by the end of the hash, because its beginning selects validation and test texts.
        order = sorted(splits["train"], key=lambda example: duplicate_key(example.text)[::-1])
        kept = set(map(id, order[: config.train_lines]))
        splits["rest_texts"] = [
            example.text for example in splits["train"] if id(example) not in kept
        ]
        splits["train"] = [example for example in splits["train"] if id(example) in kept]
    return splits


def check_unlabeled(path: str | Path, lines: Iterable[str], labels: set[str]) -> None:
    """Raise DataError if all nonblank lines among the first 100 start with a label and a tab."""
    first = [line for line in islice(lines, 100) if line.strip()]
    if first and all("\t" in line and line.partition("\t")[0] in labels for line in first):
        raise DataError(
            f"{path} contains labeled texts, such as {first[0][:80]!r}. Expected only texts. "
            "Remove the first column, for example with: cut -f 2-"
        )


def _remove_overlap(
    config: PreparationConfig,
    splits: dict[str, list[LabeledText]],
    unlabeled: list[str],
    held: dict[bytes, str],
) -> int:
    """Count the training and unlabeled texts that are also validation or test texts.

    `config.train_test_overlap` selects whether to keep them, drop them or raise DataError.
    """
    leaked = [text for text in unlabeled if duplicate_key(text) in held]
    trained = [example.text for example in splits["train"] if duplicate_key(example.text) in held]
    both = leaked + trained
    if both and config.train_test_overlap == REJECT:
        counts = f"{len(leaked)} unlabeled and {len(trained)} training texts are also"
        raise _overlap_error(f"{counts} validation or test texts, the first", both[0], held)
    if both and config.train_test_overlap == DROP:
        unlabeled[:] = [text for text in unlabeled if duplicate_key(text) not in held]
        splits["train"] = [
            example for example in splits["train"] if duplicate_key(example.text) not in held
        ]
    return len(both)


def _overlap_error(subject: str, text: str, held: dict[bytes, str]) -> DataError:
    return DataError(
        f"{subject} in the {held[duplicate_key(text)]} split: {text[:80]!r}. Scores on this split "
        "would be too high. Set `train_test_overlap` to drop, which removes such "
        "texts from training, or to keep."
    )


class _ExtraTexts:
    """Extra unlabeled texts. They may not fit in memory, so each iteration reads the files."""

    def __init__(
        self, paths: Sequence[Path], overlap: str, lower: bool, held: dict[bytes, str]
    ) -> None:
        self.paths, self.overlap, self.lower, self.held = paths, overlap, lower, held
        self.count = sum(1 for _ in self)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            for number, line in enumerate(read_lines(path), 1):
                text = line.strip()
                if self.overlap == KEEP or duplicate_key(text) not in self.held:
                    yield text.lower() if self.lower else text
                elif self.overlap == REJECT:
                    raise _overlap_error(f"{path}:{number} is also", text, self.held)


def _write(
    config: PreparationConfig,
    folder: Path,
    splits: dict[str, list[LabeledText]],
    unlabeled: list[str],
    extra: _ExtraTexts,
    progress: ProgressFactory,
) -> dict[str, Any]:
    """Write the data folder's views, texts and settings. Return statistics for the signature."""
    cut = views.load_segmenter(config.tokenizer)
    texts: dict[str, Iterable[str]] = {
        name: [example.text.lower() if config.lower else example.text for example in labeled]
        for name, labeled in splits.items()
    }
    if unlabeled:
        texts[views.UNLABELED] = unlabeled
    vocabulary_texts = [*texts["train"], *texts.get(views.UNLABELED, [])]
    counts = count_line_words(word_view(vocabulary_texts, cut))
    words = views.ViewWriter(folder / views.WORDS, views.build_dictionary(counts, config.minimum))
    trained = sentencepiece_model.train(
        iter(vocabulary_texts),
        folder / "pieces",
        config.subword_vocab_size,
        size_name="subword_vocab_size",
    )
    model = SentencepieceModel(trained.model)
    pieces = views.ViewWriter(
        folder / views.PIECES,
        views.build_dictionary(
            count_line_words(" ".join(model.cut(text)) for text in vocabulary_texts)
        ),
    )
    labels = sorted({example.label for example in splits["train"]})
    if len(labels) < 2:
        raise DataError(
            f"All training texts in {config.labeled} have the label {labels[0]}. Expected at least "
            "two labels."
        )
    _check_labels(splits, labels)
    label = views.ViewWriter(folder / views.LABEL, views.build_dictionary(Counter(labels)))
    unknown = 0
    if extra:
        texts[views.EXTRA] = extra
    for name, lines in texts.items():
        report = progress(f"classify prepare, {name}", "texts")
        unknown += words.write(name, counted(word_view(lines, cut), report))
        pieces.write(name, (" ".join(model.cut(text)) for text in lines))
        if name in splits:
            label.write(name, (example.label for example in splits[name]))
    views.link_language_model(folder)
    _write_text(config, folder, splits)
    return {
        "classes": len(labels),
        "words": len(words.dictionary),
        "pieces": len(pieces.dictionary),
        "unknown_words": unknown,
    }


def _write_text(
    config: PreparationConfig, folder: Path, splits: dict[str, list[LabeledText]]
) -> None:
    """Write the labeled splits as text and the tokenization settings as JSON."""
    for name, texts in splits.items():
        with atomic_lines(folder / "text" / f"{name}.tsv") as file:
            file.writelines(f"{example.label}\t{example.text}\n" for example in texts)
    settings = {"tokenizer": config.tokenizer, "lower": config.lower}
    (folder / views.VIEWS_FILE).write_text(json.dumps(settings) + "\n", encoding="utf-8")


def _check_labels(splits: dict[str, list[LabeledText]], labels: list[str]) -> None:
    for name, texts in splits.items():
        for number, example in enumerate(texts, 1):
            if example.label not in labels:
                raise DataError(
                    f"Text {number} of the {name} split has the label {example.label!r}, which no "
                    f"training text has. Expected one of {', '.join(labels)}."
                )
