"""Files of teacher labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairseq_ssl.data.teacher_labels import open_teacher_labels


def test_array_of_probabilities_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "train.npy", np.full((3, 2), 0.5, np.float32))
    labels = open_teacher_labels(tmp_path, "train", 2)
    assert labels is not None
    assert len(labels) == 3
