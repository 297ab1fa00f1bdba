"""Decisions on the arrays of a block equal those on single rows."""

from __future__ import annotations

import random
from hashlib import blake2b
from pathlib import Path

import pytest

from fairseq_ssl.filters.block_filter import DropCount, DroppedRow, filter_block, filter_rows
from fairseq_ssl.filters.chain import build_filters
from fairseq_ssl.filters.deduplication import DuplicateFilter
from fairseq_ssl.filters.rules import Row
from fairseq_ssl.io.blocks import Block, Span
from fairseq_ssl.io.parts import EXAMPLES, BlockResult

SENTENCES = {
    "en": "the committee will meet again on Tuesday to discuss a new proposal for this city",
    "de": "der Ausschuss wird am Dienstag über den neuen Vorschlag für die Stadt beraten",
    "sr": "одбор ће се поново састати да разговара о новом предлогу",  # noqa: RUF001
    "ja": "委員会は 火曜日に 再び 会合を 開きます",
    "": f"12 -- \u3000 ... {'x' * 30} {'ü' * 20}",
}
WORDS = {language: sentence.split(" ") for language, sentence in SENTENCES.items()}
CHAINS = (
    "clean",
    "clean:min=2:max=6:ratio=1.5",
    "clean:max-word-length=25",
    "clean:max-word-length=39",
    "max-length:source=6:target=40",
    "max-length:source=0:target=30:target-unit=characters",
    "identical",
    "identical:ignore-case=true",
    "identical:ignore-spaces=true",
    "clean:max=9,identical,max-length:target=50",
)


def line(draw: random.Random) -> str:
    """Return a line of one language, of two or of none, some in capitals."""
    words = WORDS[draw.choice([*WORDS])] + WORDS[""] * draw.randrange(2)
    drawn = (" " * draw.randint(1, 2)).join(draw.choices(words, k=draw.randrange(9)))
    return drawn.upper() if draw.random() < 0.2 else drawn


def rows(count: int, seed: int = 1) -> list[Row]:
    draw = random.Random(seed)
    drawn = [(line(draw), line(draw)) for _ in range(count)]
    return [
        (one, draw.choice([one, f" {one}", one.upper()]) if draw.random() < 0.2 else other)
        for one, other in drawn
    ]


def block_of(given: list[Row]) -> Block:
    sides = zip(*given, strict=True)
    data = tuple(
        "".join(f"{one}\n" for one in side).encode("utf-8", "surrogateescape") for side in sides
    )
    return Block(Span((Path("a"), Path("b"))), 0, (0, 0), data)


def drops(result: BlockResult, names: tuple[str, ...]) -> list[DropCount]:
    """Return the counts and examples of a result, as `filter_rows` returns them."""
    return [
        DropCount(
            name,
            result.counts[str(index)],
            tuple(DroppedRow(**example) for example in result.examples[str(index)]),
        )
        for index, name in enumerate(names)
    ]


@pytest.mark.parametrize("chain", CHAINS)
def test_rows_and_examples_equal_those_of_single_rows(chain: str) -> None:
    given, built = rows(300), build_filters(chain, 2)
    left, dropped = filter_rows(built, given)
    done = filter_block(built, block_of(given))
    assert drops(done, built.names) == dropped
    for count in dropped:
        assert len(count.examples) == min(EXAMPLES, count.count)
        for one in count.examples:
            assert one == DroppedRow.of(one.line, given[one.line - 1], one.score)
    assert (done.counts["lines"], done.counts["kept"]) == (300, len(left))
    assert 0 < len(left) < 300
    kept = ("".join(f"{given[row][side]}\n" for row in left.tolist()).encode() for side in (0, 1))
    assert done.outputs == tuple(kept)


@pytest.mark.parametrize(
    "chain", ["encoding,clean:max=6", "max-length:source=9:source-unit=characters,encoding"]
)
def test_blocks_that_are_not_utf8_are_judged_row_by_row(chain: str) -> None:
    given = [*rows(80), ("caf\udce9 is open", "Das Caf\udce9 ist offen"), ("a\udc85bcdefghi", "c")]
    built = build_filters(chain, 2)
    left, dropped = filter_rows(built, given)
    done = filter_block(built, block_of(given))
    assert drops(done, built.names) == dropped
    assert done.outputs[0].count(b"\n") == len(left)
    assert sum(one.count for one in dropped) == 82 - len(left)
    assert not {80, 81} & set(left.tolist())


@pytest.mark.parametrize(("by", "text"), [("pair", "a\nü"), ("source", "a"), ("target", "ü")])
def test_keys_of_the_compared_text(by: str, text: str) -> None:
    keys = DuplicateFilter(2, by).keys([(b"a", "ü".encode())])
    assert keys.astype("<u8").tobytes() == blake2b(text.encode(), digest_size=16).digest()
