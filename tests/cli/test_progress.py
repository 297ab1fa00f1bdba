"""Progress without a terminal: one line every 30 seconds."""

from __future__ import annotations

import pytest

from fairseq_ssl.cli.console import progress


def test_a_line_every_thirty_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    tell = progress("valid", "sentences", 1000, clock=lambda: now[0])
    for second in range(65):
        now[0] = 101.0 + second
        tell(2)
    shown = capsys.readouterr().err.splitlines()
    assert shown == [
        "valid: 60 of 1000 sentences (6%), 2/s, 8 min left",
        "valid: 120 of 1000 sentences (12%), 2/s, 7 min left",
    ]


def test_the_total_may_be_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    tell = progress("train", "pairs", clock=lambda: now[0])
    now[0] = 40.0
    tell(4000)
    assert capsys.readouterr().err == "train: 4000 pairs, 100/s\n"
