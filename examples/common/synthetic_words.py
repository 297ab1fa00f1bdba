"""Generate synthetic pairs of wrong and correct words with the error distribution of given pairs.

The error rate of a character n-gram is the number of its errors divided by its count in the correct
words. New errors are drawn at these rates, independently at each position.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from rapidfuzz.distance import Levenshtein

LONGEST = 3
"""Maximum length of a replaced character n-gram."""
MOST_WRONG = 4
"""Maximum errors of a pair, or its length if larger. Other pairs are different words."""
START = "<s>"

Word = tuple[str, ...]


@dataclass
class Readings:
    """Error rate of a character n-gram, and the counts of its replacements."""

    rate: float
    as_what: list[Word]
    times: list[int]

    def draw(self, draw: random.Random) -> Word | None:
        """Draw a replacement, or None for no error."""
        if draw.random() >= self.rate:
            return None
        return draw.choices(self.as_what, self.times)[0]


class ErrorModel:
    """Error rates of character n-grams."""

    def __init__(self, pairs: list[tuple[Word, Word]]) -> None:
        """Count the errors in pairs of a wrong and a correct word."""
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
        """Return a word with random errors, which is never empty."""
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
        """Draw the insertion after a character, often empty."""
        readings = self.inserted.get(character)
        return (None if readings is None else readings.draw(draw)) or ()


def errors(wrong: Word, right: Word) -> list[tuple[int, int, Word]]:
    """Return start and end in `right`, and the replacement in `wrong`, of each error."""
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
    """Read words with spaces between characters."""
    return [tuple(line.split()) for line in path.read_text(encoding="utf-8").splitlines()]


def write(words: list[Word], path: Path) -> None:
    """Write words atomically, with spaces between characters."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text("".join(f"{' '.join(word)}\n" for word in words), encoding="utf-8")
    temporary.replace(path)


def main() -> None:
    """Write the input pairs and synthetic pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wrong", type=Path, help="words with errors, one per line")
    parser.add_argument("right", type=Path, help="corrected words, one per line")
    parser.add_argument("to_wrong", type=Path, help="output file of the words with errors")
    parser.add_argument("to_right", type=Path, help="output file of the corrected words")
    parser.add_argument(
        "--copies", type=int, default=5, help="synthetic pairs for each word (default: %(default)s)"
    )
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
