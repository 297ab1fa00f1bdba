"""Correction of misspelled English words and missing capitals, with word and bigram counts.

Words of at least 3 lowercase letters are checked if they are rare in the counted text and missing
from lemminflect's dictionary. Such a word is replaced with the candidate c with the highest score

    log P(c | previous word) + log P(next word | c) - cost of the edits from the word to c

unless the word itself, without edits, has a higher score. P is the bigram probability, interpolated
with the unigram probability.

A lowercase word is replaced with a form with capitals, such as I or English, if almost all
occurrences of the word inside sentences have this form. The first word of a sentence that ends with
``.``, ``?`` or ``!`` is capitalized if first words are usually capitalized in the counted text.
"""

from __future__ import annotations

import importlib.metadata
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from fairseq_ssl.errors import DataError, UsageError, import_optional
from fairseq_ssl.io.executors import Executor
from fairseq_ssl.io.fingerprints import content_digest
from fairseq_ssl.io.jobs import ProgressFactory, check_distinct, counted, silent_progress
from fairseq_ssl.io.outputs import atomic_lines, exclusive, write_signature
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import path_list, read_lines
from fairseq_ssl.io.text_jobs import LineSummary, Output, rewrite_file
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.inflection import inflection
from fairseq_ssl.text.specs import parse_integer
from fairseq_ssl.text.tokenization import BuiltRewriter, LineRewriter
from fairseq_ssl.text.vocabulary import count_lines

BEGIN, END = "<s>", "</s>"
LETTERS = re.compile("[a-z]+")
DISTANCE = 2
"""Maximum edit distance in SymSpell. A transposition of adjacent letters is one edit."""
RARE = 50
"""Maximum count of a word that is checked."""
FREQUENT = 20
"""Minimum count of a suggested word, and of a form with capitals that replaces a word."""
LONG = 6
"""Minimum number of letters of a word that can be corrected with two edits."""
EDIT_COSTS = {1: 5.0, 2: 13.0}
"""Costs by number of edits. These and `FIRST_LETTER_COST` were tuned on held-out learner text."""
FIRST_LETTER_COST = 4.0
"""Additional cost of a different first letter."""
SMOOTHING = 5.0
"""Pseudocount with which bigram probabilities are smoothed toward unigram probabilities."""
CAPITALIZED = 0.9
"""Minimum fraction of a form with capitals among a word's occurrences inside sentences. Such a form
replaces the lowercase word. The value was tuned on held-out learner text."""
SENTENCE_ENDS = frozenset(".?!")
"""Final tokens of the sentences whose first word is capitalized."""


@dataclass(frozen=True)
class SymSpell:
    """The spell checker symspellpy, with the words in `counts` as its dictionary.

    Suggestions differ from the word by at most two edits. They are sorted by number of edits, then
    by descending count, then alphabetically.
    """

    counts: Mapping[str, int]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the counts. Rebuilding the index is faster than unpickling it."""
        return SymSpell, (self.counts,)

    def version(self) -> str:
        """Return the name and version of symspellpy, or raise MissingPackageError."""
        _import_symspell()
        return f"symspellpy {importlib.metadata.version('symspellpy')}"

    def suggestions(self, words: Sequence[str]) -> Iterator[list[str]]:
        """Yield the suggestions for each word, nearest first. The index is built on first use."""
        for word in words:
            items = self._lookup(word)
            nearest = sorted((item.distance, -item.count, item.term) for item in items)
            yield list(dict.fromkeys(term for *_, term in nearest if term != word))

    @cached_property
    def _lookup(self) -> Callable[[str], Any]:
        symspellpy, comparer = _import_symspell()
        index = symspellpy.SymSpell(DISTANCE, distance_comparer=comparer)
        for word, count in self.counts.items():
            index.create_dictionary_entry(word, max(1, count))
        verbosity = symspellpy.Verbosity.ALL
        return partial(index.lookup, verbosity=verbosity, max_edit_distance=DISTANCE)


def _import_symspell() -> tuple[Any, Any]:
    """Return the package symspellpy and a distance comparer twice as fast as its default."""
    for package in ("symspellpy", "rapidfuzz"):
        import_optional(package, "The spell checker symspell", "noise")
    import symspellpy
    from rapidfuzz.distance import OSA
    from symspellpy.abstract_distance_comparer import AbstractDistanceComparer
    from symspellpy.editdistance import DistanceAlgorithm, EditDistance

    class Comparer(AbstractDistanceComparer):
        def distance(self, string_1: str, string_2: str, max_distance: int) -> int:
            edits = OSA.distance(string_1, string_2, score_cutoff=max_distance)
            return edits if edits <= max_distance else -1

    return symspellpy, EditDistance(DistanceAlgorithm.USER_PROVIDED, Comparer())


@dataclass(frozen=True)
class SpellingCounts:
    """Counts of words and of word pairs (bigrams) in correct text."""

    words: Mapping[str, int]
    """Counts of words. Forms with different case are counted separately."""
    pairs: Mapping[str, int]
    """Counts of lowercased bigrams, written as two words separated by a space. Sentences begin with
    <s> and end with </s>. Bigrams that occur once are omitted."""

    @classmethod
    def of(cls, lines: Iterable[str]) -> SpellingCounts:
        """Count the words and bigrams in tokenized sentences."""
        words: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for line in lines:
            words.update(line.split())
            pairs.update(pairwise([BEGIN, *line.lower().split(), END]))
        return cls(words, {" ".join(pair): count for pair, count in pairs.items() if count > 1})

    @classmethod
    def read(cls, path: str | Path) -> SpellingCounts:
        """Read a file written by `write`."""
        words: dict[str, int] = {}
        pairs: dict[str, int] = {}
        for number, line in enumerate(read_lines(path), 1):
            gram, _, count = line.rpartition(" ")
            times, size = parse_integer(count), len(gram.split())
            if not times or size not in (1, 2):
                raise DataError(
                    f"{path}:{number} is {line[:80]!r}. Expected one or two words, a space and a "
                    "count of 1 or more, as in the output of fairseq-ssl spelling count."
                )
            (words if size == 1 else pairs)[gram] = times
        if not words:
            raise DataError(f"{path} lists no words. Create it with: fairseq-ssl spelling count")
        return cls(words, pairs)

    def write(self, path: str | Path) -> None:
        """Write a line ``WORD COUNT`` for each word, then for each bigram, by descending count."""
        with atomic_lines(path) as file:
            file.writelines(count_lines(self.words))
            file.writelines(count_lines(self.pairs))


class SpellingCorrector:
    """Corrector of misspelled words and missing capitals in tokenized sentences."""

    def __init__(self, counts: SpellingCounts) -> None:
        """Index the possible corrections: frequent words that are mostly lowercase in `counts`."""
        self.counts: Counter[str] = Counter()
        for word, count in counts.words.items():
            self.counts[word.lower()] += count
        self.pairs = counts.pairs
        self.total = self.counts.total()
        self.is_word = inflection().is_word
        known = {
            word: count
            for word, count in self.counts.items()
            if count >= FREQUENT
            and 2 * counts.words.get(word, 0) >= count
            and LETTERS.fullmatch(word)
        }
        self.checker = SymSpell(known)
        self.costs = lru_cache(10_000)(self._costs)
        self.forms = dict(self._forms(counts.words))
        begun = (gram for gram in self.pairs if gram.startswith(f"{BEGIN} "))
        first = [gram for gram in begun if LETTERS.fullmatch(gram.split()[1])]
        capitals = sum(counts.words.get(gram.split()[1].capitalize(), 0) for gram in first)
        self.has_capitals = 2 * capitals > sum(self.pairs[gram] for gram in first)

    def correct(self, words: Sequence[str]) -> list[str]:
        """Correct the spelling and capitals of a sentence. The number of words does not change."""
        context = [BEGIN, *(word.lower() for word in words), END]
        corrected = [
            self._best(word, context[index], context[index + 2]) if self._is_checked(word) else word
            for index, word in enumerate(words)
        ]
        corrected = [self.forms.get(word, word) for word in corrected]
        ends = bool(words) and words[-1] in SENTENCE_ENDS
        if self.has_capitals and ends and LETTERS.fullmatch(corrected[0]):
            corrected[0] = corrected[0].capitalize()
        return corrected

    def _forms(self, words: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        """Yield pairs of a lowercase word and the form with capitals that replaces it."""
        for form, count in words.items():
            word = form.lower()
            if form == word or not LETTERS.fullmatch(word):
                continue
            first = self.pairs.get(f"{BEGIN} {word}", 0)
            if form == word.capitalize():
                count -= first  # all first words are capitalized
            if count >= FREQUENT and count >= CAPITALIZED * (self.counts[word] - first):
                yield word, form

    def _is_checked(self, word: str) -> bool:
        if len(word) < 3 or not LETTERS.fullmatch(word):
            return False
        return self.counts[word] <= RARE and not self.is_word(word)

    def _best(self, word: str, previous: str, following: str) -> str:
        costs = {word: 0.0, **self.costs(word)}

        def score(choice: str) -> float:
            prob = self._log_prob(previous, choice) + self._log_prob(choice, following)
            return prob - costs[choice]

        return max(costs, key=score)

    def _costs(self, word: str) -> dict[str, float]:
        """Return the cost of each suggestion. Words shorter than `LONG` allow only one edit."""
        distance = import_optional("rapidfuzz.distance", "Comparing words", "noise").OSA.distance
        costs = {}
        for choice in next(self.checker.suggestions([word])):
            edits = distance(word, choice)
            if edits == 1 or len(word) >= LONG:
                costs[choice] = EDIT_COSTS[edits] + FIRST_LETTER_COST * (word[0] != choice[0])
        return costs

    def _log_prob(self, previous: str, word: str) -> float:
        """Return log P(word | previous), plus a constant if `previous` is <s>.

        The constant does not affect comparisons. An unknown word gets a count of 0.5.
        """
        unigram = (self.counts[word] or 0.5) / self.total
        pair = self.pairs.get(f"{previous} {word}", 0)
        return math.log((pair + SMOOTHING * unigram) / (self.counts[previous] + SMOOTHING))


def spelling_corrector(
    counts: str | Path | None,
) -> Callable[[Sequence[str]], Sequence[str]]:
    """Return a function that corrects a list of words. If `counts` is None, it changes nothing."""
    if counts is None:
        return lambda words: words
    return SpellingCorrector(SpellingCounts.read(counts)).correct


def _line_corrector(counts: str | Path) -> LineRewriter:
    correct = spelling_corrector(counts)
    return BuiltRewriter(lambda line: " ".join(correct(line.split())), _line_corrector, counts)


def correct_spelling_file(
    source: str | Path | None,
    output: Output,
    counts: str | Path,
    *,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> LineSummary | None:
    """Correct the spelling of a text. Return None if this run does not complete the output.

    The output does not depend on the executor, parts or shards. Interrupted runs resume.

    Args:
        source: tokenized text file, or None for stdin
        output: file, folder of parts, or binary stream
        counts: output of `count_spelling_file`
        executor: executor that processes the blocks or parts (default: the current process)
        overwrite: replace an existing output
        progress: creates the progress report, which receives the number of processed lines
    """
    parameters = {"counts_digest": content_digest(counts)}
    return rewrite_file(
        source,
        output,
        partial(_line_corrector, counts),
        Signature("spelling-correct", parameters, {"counts": str(counts)}),
        reads=[as_path(counts)],
        executor=executor,
        overwrite=overwrite,
        progress=progress,
    )


def count_spelling_file(
    texts: Sequence[str | Path],
    output: str | Path,
    *,
    progress: ProgressFactory = silent_progress,
) -> tuple[SpellingCounts, Signature]:
    """Count the words and bigrams in correct text. Write and return the counts and a signature.

    Args:
        texts: tokenized text files.
        output: file of the counts, for `SpellingCounts.read`.
        progress: creates the progress report, which receives the number of lines counted.
    """
    texts, output = path_list(texts), as_path(output)
    if not texts:
        raise UsageError("`texts` is empty. Expected at least one file.")
    check_distinct(texts, [output])
    with exclusive(output):
        lines = counted(chain.from_iterable(map(read_lines, texts)), progress("spelling", "lines"))
        counts = SpellingCounts.of(lines)
        if not counts.words:
            raise DataError(
                f"There are no words in {', '.join(map(str, texts))}. Expected tokenized text."
            )
        counts.write(output)
        numbers = {"words": len(counts.words), "pairs": len(counts.pairs)}
        signature = Signature("spelling-count", numbers, {"texts": list(map(str, texts))})
        write_signature(signature, output)
    return counts, signature
