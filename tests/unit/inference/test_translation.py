"""Translation of blocks of lines with a fake decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fairseq_ssl.inference.back_translation import DECODERS, OUTPUT, SOURCE_OUTPUT, BlockTranslator
from fairseq_ssl.inference.decoders import Hypotheses
from fairseq_ssl.inference.translation import DecodingConfig
from fairseq_ssl.io.blocks import Block, Span


class ReversingDecoder:
    """Fake decoder that reverses each sentence and appends its id.

    The first word selects special cases: no hypothesis, two hypotheses or a failure.
    """

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def set_seed(self, seed: int) -> None:
        self.seeds.append(seed)

    def decode(self, sentences: Sequence[list[str]], ids: Sequence[int]) -> list[Hypotheses]:
        return [self._lines(*pair) for pair in zip(sentences, ids, strict=True)]

    def _lines(self, sentence: list[str], number: int) -> Hypotheses:
        line = " ".join([*reversed(sentence), str(number)])
        special: dict[str, Hypotheses] = {"fail": None, "none": [], "two": [line, f"again {line}"]}
        return special.get(sentence[0], [line])


DECODER = ReversingDecoder()


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine ``fake``."""
    monkeypatch.setitem(DECODERS, "fake", lambda config, worker: DECODER)


CONFIG = DecodingConfig(("model.pt",), seed=3, max_source_tokens=4)
TRANSLATOR = BlockTranslator("fake", CONFIG, (OUTPUT, SOURCE_OUTPUT))


def block_of(data: bytes, number: int, start: int = 0, file: int = 0) -> Block:
    return Block(Span((None,), file), number, (start,), (data,))


def test_outputs_match_the_input_order() -> None:
    lines = [
        b"a b",
        b"",
        b"one two three four five",
        b"\xff",
        b"fail",
        b"two c",
        b"1 2 3 4",
        b" \t",
    ]
    result = TRANSLATOR(block_of(b"\n".join(lines) + b"\n", 7, 1000))
    output, source = (chunk.decode("utf-8", "surrogateescape") for chunk in result.outputs)
    assert output == "b a 1000\n\n\n\n\nc two 1036\nagain c two 1036\n4 3 2 1 1042\n\n"
    assert [line.encode("utf-8", "surrogateescape") for line in source.split("\n")] == [
        *lines[:6],
        *(lines[5], lines[6], lines[7], b""),
    ]
    assert result.counts == {
        **{"lines": 8, "pairs": 9, "blank": 2, "too_long": 1, "undecodable": 1, "failed": 1},
        **{"translated": 4, "read": 9, "written": 3 + 3 + 4 + 5},
    }
    assert DECODER.seeds[-1] == 3 * 1_000_003 + 7


def test_line_without_hypotheses_is_omitted() -> None:
    result = TRANSLATOR(block_of(b"a\nnone\nb", 0))  # the last line has no newline
    assert result.outputs == (b"a 0\nb 7\n", b"a\nb\n")
    assert (result.counts["lines"], result.counts["pairs"], result.counts["failed"]) == (3, 2, 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_each_block_of_each_file_has_its_own_seed_and_ids(seed: int) -> None:
    translator = replace(TRANSLATOR, config=replace(CONFIG, seed=seed))
    places = [(1, 0), (2, 0), (1, 1), (2, 1)]
    lines = {translator(block_of(b"a\n", *place)).outputs[0] for place in [(1, 9, 0), (1, 9, 1)]}
    for number, file in places:
        translator(block_of(b"a\n", number, file=file))
    assert len(set(DECODER.seeds[-4:])) == 4
    assert len(lines) == 2
