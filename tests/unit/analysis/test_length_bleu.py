"""BLEU of the lines in buckets of source lengths."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from fairseq_ssl.analysis.length_bleu import _bleu, _buckets
from fairseq_ssl.analysis.results import bucket_names
from fairseq_ssl.metrics.bleu import Bleu

OUTPUTS = ["the cat sat on the mat", "a dog", "it rains all day"]
REFERENCES = ["the cat sat on a mat", "the dog", "it rains all day"]


def test_each_bucket_is_scored_separately() -> None:
    sources = SimpleNamespace(src_sizes=np.array([6, 7, 10, 1]))
    indices = _buckets(sources, [4, 6])
    assert bucket_names([4, 6]) == ["1-4", "5-6", "7-"]
    assert indices.tolist() == [1, 1, 2, -1]
    scores = _bleu([OUTPUTS, REFERENCES], indices[:3], 3, "13a")
    parts = (slice(2), slice(2, 3))
    expected = [Bleu([REFERENCES[part]]).corpus_score(OUTPUTS[part]).score for part in parts]
    assert scores["by_length"] == [None, *(round(score, 2) for score in expected)]
