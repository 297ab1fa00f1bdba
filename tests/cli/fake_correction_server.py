"""`fairseq-ssl serve` with rules in place of a model: python fake_correction_server.py [OPTION...].

Each call of the corrector prints its lines as JSON. A line that contains "wait" is corrected when
the file `gate` exists in the working directory. A line that contains "fail" raises an exception,
and one that contains "panic" an exception that is not a subclass of `Exception`. The environment
variables CLIENT_SECONDS, MAX_CONNECTIONS, MAX_REQUESTS and BATCH_LINES set the fields of
`ServerLimits`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fairseq_ssl
from fairseq_ssl.cli import options, serve
from fairseq_ssl.cli.main import main
from fairseq_ssl.inference.correction import CorrectedLine, CorrectionConfig, Edit
from fairseq_ssl.inference.server import correction_app, run_app
from fairseq_ssl.text.raw_text import LineSegmenter, TokenEdit, apply_line_edits, line_edits

RULES = {
    "go": (("goes",), "R:VERB:SVA"),
    "childs": (("children", "there"), "R:NOUN:NUM"),
    "very": ((), "U:ADV"),
    "but": ((",", "but"), "R:OTHER"),
}
BEFORE = {"end": (("the",), "M:DET"), "!": ((",", "😀"), None)}
"""Insertions before a token."""


class FakeCorrector:
    """Edits tokens by rules."""

    def __init__(self, config: CorrectionConfig) -> None:
        self.segment = LineSegmenter.of(None if config.tokenizer == "none" else "moses")

    def correct(self, lines: Sequence[str]) -> list[CorrectedLine]:
        sys.stdout.write(f"{json.dumps(list(lines))}\n")
        sys.stdout.flush()
        while any("wait" in line for line in lines) and not Path("gate").exists():
            time.sleep(0.005)
        if any("fail" in line for line in lines):
            raise ValueError(f"a message with the text: {lines}")
        if any("panic" in line for line in lines):
            raise BaseException(f"a message with the text: {lines}")
        return [self.correct_line(line) for line in lines]

    def correct_line(self, line: str) -> CorrectedLine:
        text, edits = [], []
        for sentence in self.segment(line):
            changes: list[TokenEdit] = []
            for index, token in enumerate(sentence.tokens):
                rule = RULES.get(token) or BEFORE.get(token)
                if rule is None or (changes and changes[-1].end == index):
                    continue  # adjacent edits would have to be joined
                change = TokenEdit(index, index + (token in RULES), rule[0])
                changes.append(change)
                start = sentence.starts[index]
                end = sentence.ends[index] if token in RULES else start
                if start == end and index:
                    start = end = sentence.ends[index - 1]
                words = (line[start:end], " ".join(rule[0]))
                edits.append(Edit(start, end, *words, 0.91, rule[1]))
            text += line_edits(line, sentence, changes)
        return CorrectedLine(line, apply_line_edits(line, text), tuple(edits))


if __name__ == "__main__":
    variables = {
        "client_seconds": 1000.0,
        "max_connections": 500,
        "max_requests": 100,
        "batch_lines": 64,
    }
    limits: dict[str, Any] = {
        name: type(default)(os.environ.get(name.upper(), default))
        for name, default in variables.items()
    }
    vars(serve)["Corrector"] = FakeCorrector
    vars(serve)["correction_app"] = lambda corrector, some: correction_app(
        corrector, replace(some, **limits)
    )
    vars(serve)["run_app"] = lambda app, listener, some: run_app(
        app, listener, replace(some, **limits)
    )
    options.one_device = lambda name: "cpu"
    fairseq_ssl.register = lambda: None
    sys.exit(main(["serve", "--model", __file__, "--port", "0", *sys.argv[1:]]))
