"""The library functions for strings and files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_ssl.edits import (
    EditDictionary,
    EditDictionaryConfig,
    alignment,
    apply,
    build_dictionary,
    build_dictionary_file,
    extract,
    label_file,
)
from fairseq_ssl.errors import DataError

PAIRS = [
    ("Bolt can have run race", "Bolt could have run the race"),
    ("he play in park", "He plays in the park"),
    ("a b c", "a b c"),
]
sentences = st.lists(st.sampled_from(["a_b", "%", "the", "play", "plays", "##s"])).map(" ".join)


@given(source=sentences, target=sentences)
def test_extracted_labels_restore_the_target(source: str, target: str) -> None:
    labels = extract(source, target)
    assert len(labels) == len(source.split()) + 1
    assert apply(source, labels) == target


def test_pairs_that_cannot_be_aligned_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "MAX_CELLS", 1)
    with pytest.raises(DataError):
        extract("a b c", "d e f")


def test_files_equal_pairs(tmp_path: Path) -> None:
    source, target, output = (tmp_path / name for name in ("s", "t", "edits"))
    for path, side in ((source, 0), (target, 1)):
        path.write_text("".join(f"{pair[side]}\n" for pair in PAIRS))
    config = EditDictionaryConfig(groups=("case",))
    summary = build_dictionary_file(source, target, output, config)
    dictionary = build_dictionary(PAIRS, config)
    assert EditDictionary.read(output) == summary.dictionary == dictionary
    assert summary.insertions == sum(dictionary.counts)
    labeled = label_file(source, target, tmp_path / "labels", output)
    assert labeled is not None
    lines = (tmp_path / "labels").read_text().splitlines()
    assert lines == [" ".join(extract(*pair, dictionary)) for pair in PAIRS]
    assert (labeled.coverage.pairs, labeled.coverage.incomparable) == (3, 0)
