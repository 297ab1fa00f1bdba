"""Write more pairs to train on: right words, with errors as they are in the pairs given.

Each run of characters that was read as others is counted, and divided by how often it is in the
right words; a new error is drawn at that rate, each place of each copy apart.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from rapidfuzz.distance import Levenshtein

LONGEST = 3
"""The most characters of a right word that are read as others at once."""
MOST_WRONG = 4
"""A pair with more errors, and more than it has letters, is of two words that are not the same."""
START = "<s>"

Word = tuple[str, ...]


@dataclass
class Readings:
    """What a run of characters is read as, and how often it is misread."""

    rate: float
    as_what: list[Word]
    times: list[int]

    def draw(self, draw: random.Random) -> Word | None:
        """Return what it is read as this time, if it is misread."""
        if draw.random() >= self.rate:
            return None
        return draw.choices(self.as_what, self.times)[0]


class ErrorModel:
    """How right words become wrong."""

    def __init__(self, pairs: list[tuple[Word, Word]]) -> None:
        """Count the errors of pairs of a wrong and a right word."""
        seen: Counter[Word] = Counter()
        replaced: defaultdict[Word, Counter[Word]] = defaultdict(Counter)
        inserted: defaultdict[Word, Counter[Word]] = defaultdict(Counter)
        for wrong, right in pairs:
            marked = (START, *right)
            for length in range(1, LONGEST + 1):
                seen.update(marked[i : i + length] for i in range(len(marked) - length + 1))
            for begin, end, written in errors(wrong, right):
                if begin == end:
                    inserted[marked[begin : begin + 1]][written] += 1
                elif end - begin <= LONGEST:
                    replaced[right[begin:end]][written] += 1
        self.replaced = {run: _readings(found, seen[run]) for run, found in replaced.items()}
        self.inserted = {run: _readings(found, seen[run]) for run, found in inserted.items()}

    def misread(self, word: Word, draw: random.Random) -> Word:
        """Return a word as it may come out; never nothing."""
        out: list[str] = list(self._after((START,), draw))
        place = 0
        while place < len(word):
            for end in range(min(place + LONGEST, len(word)), place, -1):
                readings = self.replaced.get(word[place:end])
                read_as = None if readings is None else readings.draw(draw)
                if read_as is not None:
                    out += read_as
                    place = end
                    break
            else:
                out.append(word[place])
                place += 1
                out += self._after(word[place - 1 : place], draw)
        return tuple(out) or word

    def _after(self, character: Word, draw: random.Random) -> Word:
        """Return what is read after a character where there is nothing."""
        readings = self.inserted.get(character)
        return (None if readings is None else readings.draw(draw)) or ()


def errors(wrong: Word, right: Word) -> list[tuple[int, int, Word]]:
    """Return begin and end in `right`, and what is in their place in `wrong`, of each error."""
    steps = Levenshtein.opcodes(right, wrong)
    found: list[tuple[int, int, Word]] = []
    for step in steps:
        if step.tag == "equal":
            continue
        written = wrong[step.dest_start : step.dest_end]
        if found and found[-1][1] == step.src_start:
            begin, _, before = found.pop()
            found.append((begin, step.src_end, before + written))
        else:
            found.append((step.src_start, step.src_end, written))
    size = sum(max(end - begin, len(written)) for begin, end, written in found)
    return [] if size > max(MOST_WRONG, len(right)) else found


def _readings(found: Counter[Word], seen: int) -> Readings:
    return Readings(found.total() / seen, list(found), list(found.values()))


def read(path: Path) -> list[Word]:
    """Return the words of a file, characters with spaces between."""
    return [tuple(line.split()) for line in path.read_text(encoding="utf-8").splitlines()]


def write(words: list[Word], path: Path) -> None:
    """Write words, whole or not at all."""
    aside = path.with_name(f"{path.name}.tmp")
    aside.write_text("".join(f"{' '.join(word)}\n" for word in words), encoding="utf-8")
    aside.replace(path)


def main() -> None:
    """Write the pairs given, and copies of them with new errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wrong", type=Path, help="words as they were read, a word a line")
    parser.add_argument("right", type=Path, help="the same words as they should be")
    parser.add_argument("to_wrong", type=Path, help="where to write all wrong words")
    parser.add_argument("to_right", type=Path, help="where to write all right words")
    parser.add_argument("--copies", type=int, default=5, help="new errors for each word")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    wrong, right = read(args.wrong), read(args.right)
    draw = random.Random(args.seed)
    model = ErrorModel(list(zip(wrong, right, strict=True)))
    misread = [model.misread(word, draw) for _ in range(args.copies) for word in right]
    args.to_wrong.parent.mkdir(parents=True, exist_ok=True)
    write(misread + wrong, args.to_wrong)
    write(right * (args.copies + 1), args.to_right)


if __name__ == "__main__":
    main()
