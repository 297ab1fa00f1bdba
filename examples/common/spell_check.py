"""Correct misspelled English words, with counts of words and pairs of words in correct text.

Words of at least 3 lowercase letters are checked if they are rare in that text and not in the
dictionary of lemminflect. Such a word is replaced by the word c with the highest score

    log P(c | previous word) + log P(next word | c) - cost of the edits from one to the other

unless its own score, without edits, is higher. P are bigram probabilities, interpolated with
unigram probabilities.

Examples:
  python spell_check.py count imdb.txt train.trg -o counts.json.gz
  python spell_check.py correct counts.json.gz < text > corrected
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import lemminflect
from rapidfuzz.distance import OSA

from fairseq_ssl.noise.confusion_sets import SymSpell

BEGIN, END = "<s>", "</s>"
LETTERS = re.compile("[a-z]+")
RARE = 50
"""Maximum count of a checked word."""
FREQUENT = 20
"""Minimum count of a suggested word."""
LONG = 6
"""Minimum letters of a word with two edits."""
EDIT_COSTS = {1: 5.0, 2: 13.0}
"""Cost of one and of two edits. Chosen on held-out sentences of learners, as the next."""
FIRST_LETTER_COST = 4.0
"""Additional cost if the first letter differs."""
SMOOTHING = 5.0
"""Weight of the unigram probabilities, in counts."""


class Counts(NamedTuple):
    """Counts of correct text."""

    words: dict[str, int]
    """Counts of words, lowercased."""
    pairs: dict[str, int]
    """Counts of pairs of words, lowercased and separated by a space. Unique pairs are left out."""
    suggested: list[str]
    """Frequent words, mostly lowercase in the text."""

    @classmethod
    def of(cls, lines: Iterable[str]) -> Counts:
        """Count tokenized lines."""
        cased: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for line in lines:
            cased.update(line.split())
            pairs.update(pairwise([BEGIN, *line.lower().split(), END]))
        words: Counter[str] = Counter()
        for word, count in cased.items():
            words[word.lower()] += count
        suggested = [
            word
            for word, count in words.items()
            if count >= FREQUENT and 2 * cased[word] >= count and LETTERS.fullmatch(word)
        ]
        return cls(words, {" ".join(pair): n for pair, n in pairs.items() if n > 1}, suggested)


class SpellChecker:
    """Spell checker of tokenized sentences."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.total = sum(counts.words.values())
        self.known = SymSpell({word: counts.words[word] for word in counts.suggested})
        self.suggestions = cache(self._suggestions)

    def correct(self, words: Sequence[str]) -> list[str]:
        """Return the words of a sentence, with misspelled words replaced."""
        context = [BEGIN, *(word.lower() for word in words), END]
        return [
            self._best(word, context[index], context[index + 2]) if self._is_checked(word) else word
            for index, word in enumerate(words)
        ]

    def _is_checked(self, word: str) -> bool:
        if len(word) < 3 or not LETTERS.fullmatch(word):
            return False
        return self.counts.words.get(word, 0) <= RARE and not lemminflect.getAllLemmas(word)

    def _best(self, word: str, left: str, right: str) -> str:
        costs = {word: 0.0, **self.suggestions(word)}
        return max(
            costs,
            key=lambda one: self._log_prob(left, one) + self._log_prob(one, right) - costs[one],
        )

    def _suggestions(self, word: str) -> dict[str, float]:
        """Return the costs of the edits to each suggested word."""
        costs = {}
        for one in next(self.known.suggestions([word])):
            edits = OSA.distance(word, one)
            if edits == 1 or len(word) >= LONG:
                costs[one] = EDIT_COSTS[edits] + FIRST_LETTER_COST * (word[0] != one[0])
        return costs

    def _log_prob(self, left: str, word: str) -> float:
        """Return log P(word | left)."""
        words, pairs, _ = self.counts
        unigram = words.get(word, 0.5) / self.total
        count = pairs.get(f"{left} {word}", 0)
        return math.log((count + SMOOTHING * unigram) / (words.get(left, 0) + SMOOTHING))


def main() -> None:
    """Count correct text, or correct the standard input."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    count = commands.add_parser("count", help="count the words of correct text")
    count.add_argument("text", type=Path, nargs="+", help="tokenized text")
    count.add_argument("-o", "--output", type=Path, required=True, help="file of the counts")
    correct = commands.add_parser("correct", help="correct the standard input")
    correct.add_argument("counts", type=Path, help="output of count")
    args = parser.parse_args()
    if args.command == "count":
        lines = (line for path in args.text for line in path.open(encoding="utf-8"))
        with gzip.open(args.output, "wt", encoding="utf-8") as file:
            json.dump(Counts.of(lines), file)
        return
    with gzip.open(args.counts, "rt", encoding="utf-8") as file:
        checker = SpellChecker(Counts(*json.load(file)))
    for line in sys.stdin:
        print(" ".join(checker.correct(line.split())))


if __name__ == "__main__":
    main()
