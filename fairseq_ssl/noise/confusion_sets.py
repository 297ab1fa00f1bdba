"""Confusion sets: the corrections that a spell checker suggests for each word in a vocabulary."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path

from fairseq_ssl.errors import DataError, MissingPackageError
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.jobs import ProgressFactory, check_beside, check_new, counted, silent_progress
from fairseq_ssl.io.outputs import atomic_lines, exclusive, write_signature
from fairseq_ssl.io.remote import as_path
from fairseq_ssl.io.text_files import path_list, read_lines
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.spelling import SymSpell
from fairseq_ssl.text.tokenization import match_case
from fairseq_ssl.text.vocabulary import count_line_words


@dataclass(frozen=True)
class Aspell:
    """The spell checker GNU Aspell, with its dictionary for a language.

    Aspell has no suggestions for correct words. Words are therefore sent in a case that is never
    correct ("tHEIR"), and the suggestions are converted to the case of the word. Words in scripts
    without case get suggestions only if they are not in Aspell's dictionary.
    """

    language: str = "en"

    def version(self) -> str:
        """Return name, version and language for the signature, such as ``aspell 0.60.8 en``.

        Raise MissingPackageError if aspell is not installed.
        """
        if shutil.which("aspell") is None:
            raise MissingPackageError(
                "aspell",
                "Building confusion sets with aspell",
                f"apt install aspell aspell-{self.language} (package names differ between "
                "systems). Or use SymSpell, the default",
            )
        first = self._ask("").partition("\n")[0]
        return f"aspell {first.partition('Aspell ')[2].rstrip(')')} {self.language}"

    def suggestions(self, words: Sequence[str]) -> Iterator[list[str]]:
        """Yield the list of suggestions for each word. One aspell process checks all words."""
        queries = [word[:1].lower() + word[1:].upper() for word in words]
        lines = iter(self._ask("".join(f"^{word}\n" for word in queries)).split("\n")[1:])
        for word, form in zip(words, queries, strict=True):
            answers = list(takewhile(bool, lines))
            yield [match_case(word, other) for other in _parse_suggestions(form, answers)]

    def _ask(self, lines: str) -> str:
        options = ("--mode=none", "--encoding=utf-8", f"--lang={self.language}")
        try:
            done = subprocess.run(
                ["aspell", "-a", *options, "--dont-use-other-dicts"],
                input=lines.encode(),
                capture_output=True,
                check=True,
            )
        except subprocess.CalledProcessError as error:
            message = error.stderr.decode("utf-8", "replace").strip().rstrip(".")
            raise DataError(
                f"aspell failed: {message or f'exit code {error.returncode}'}. Check that "
                f"`aspell dicts` lists a dictionary for {self.language!r}, or install one."
            ) from None
        return done.stdout.decode("utf-8", "replace")


def _parse_suggestions(word: str, answers: Iterable[str]) -> list[str]:
    """Return the suggestions for `word` in the lines of Aspell's answer, or an empty list.

    Suggestions are in the line ``& word count offset: other, other``. Lines for a part of the word
    are skipped.
    """
    for answer in answers:
        head, _, others = answer.partition(": ")
        if head.split()[:2] == ["&", word]:
            return others.split(", ")
    return []


BATCH_WORDS = 500
"""Number of words in a batch for the spell checker."""
MAX_CANDIDATES = 20
"""Maximum number of words in a confusion set."""


@dataclass(frozen=True)
class ConfusionFinder:
    """Picklable function that returns the confusion sets for a batch of words."""

    checker: SymSpell | Aspell
    vocabulary: frozenset[str]
    """Words allowed in confusion sets."""

    def __call__(self, words: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Return each word that has suggestions in the vocabulary, with these suggestions."""
        sets = []
        for word, suggestions in zip(words, self.checker.suggestions(words), strict=True):
            allowed = [
                suggestion
                for suggestion in dict.fromkeys(suggestions)
                if suggestion != word and suggestion in self.vocabulary
            ]
            if allowed:
                sets.append((word, allowed[:MAX_CANDIDATES]))
        return sets


def known_words(counts: Mapping[str, int], min_count: int = 1) -> dict[str, int]:
    """Return the counts of the words that contain a letter and occur `min_count` times or more.

    Words that contain a digit or a NUL character are omitted.
    """
    return {
        word: count
        for word, count in sorted(counts.items())
        if count >= min_count
        and _letters(word)
        and "\0" not in word
        and not any(map(str.isdigit, word))
    }


def word_batches(words: Mapping[str, int]) -> list[list[str]]:
    """Return the words that contain two letters or more, in batches for the spell checker."""
    long = [word for word in words if _letters(word) > 1]
    return [long[at : at + BATCH_WORDS] for at in range(0, len(long), BATCH_WORDS)]


def _letters(word: str) -> int:
    return sum(map(str.isalpha, word))


def build_confusion_sets(
    counts: Mapping[str, int],
    *,
    checker: SymSpell | Aspell | None = None,
    min_count: int = 1,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> dict[str, tuple[str, ...]]:
    """Return the confusion set of each word in a vocabulary. Words with empty sets are omitted.

    Args:
        counts: word counts; words with two or more letters and no digits can get a set
        checker: `SymSpell` or `Aspell` (default: SymSpell with these words)
        min_count: min count of a word, both for words with a set and for words in a set
        executor: executor that checks the word batches (default: the current process does)
        progress: creates the progress report, which receives the number of words looked up

    >>> build_confusion_sets({"their": 2, "there": 3, "house": 1})
    {'their': ('there',), 'there': ('their',)}
    """
    words = known_words(counts, min_count)
    checker = checker or SymSpell(words)
    finder = ConfusionFinder(checker, frozenset(words))
    batches = word_batches(words)
    report = progress("confusion sets", "words", sum(map(len, batches)))
    sets: dict[str, tuple[str, ...]] = {}
    results = (executor or LocalExecutor(1)).imap(finder, batches)
    for batch, pairs in zip(batches, results, strict=True):
        sets.update((word, tuple(others)) for word, others in pairs)
        report(len(batch))
    return sets


def build_confusion_sets_file(
    inputs: Sequence[str | Path],
    output: str | Path,
    *,
    aspell: str | None = None,
    min_count: int = 1,
    overwrite: bool = False,
    executor: Executor | None = None,
    progress: ProgressFactory = silent_progress,
) -> Signature:
    """Build confusion sets for the words in text files and write them to a file.

    Return the signature, which contains the numbers of checked words, sets and confusable words.

    Args:
        inputs: tokenized text files, decompressed according to their suffixes
        output: file with one line per set: word, tab, confusable words separated by spaces
        aspell: language of Aspell's dictionary (default: use SymSpell instead)
        min_count: min count of a word, both for words with a set and for words in a set
        overwrite: whether to replace an existing output
        executor: executor that checks the word batches (default: the current process does)
        progress: creates the progress report, which receives the numbers of lines and of words
    """
    inputs, output = path_list(inputs), as_path(output)
    check_beside(output, inputs)
    check_new(output, overwrite)
    with exclusive(output):
        lines = chain.from_iterable(map(read_lines, inputs))
        words = count_line_words(counted(lines, progress("count words", "lines")))
        known = known_words(words, min_count)
        checker = SymSpell(known) if aspell is None else Aspell(aspell)
        looked_up = sum(map(len, word_batches(known)))
        if not looked_up:
            raise DataError(
                f"No word of two or more letters occurs at least {min_count} times in "
                f"{', '.join(map(str, inputs))}. Use more text or a lower `min_count`."
            )
        checker.version()  # fail early if the spell checker is not installed
        with atomic_lines(output) as file:
            sets = build_confusion_sets(
                known, checker=checker, executor=executor, progress=progress
            )
            file.writelines(format_sets(sets))
        confusions = sum(map(len, sets.values()))
        numbers = {"words": looked_up, "sets": len(sets), "confusions": confusions}
        options = {"checker": checker.version(), "min_count": min_count}
        names = {"inputs": list(map(str, inputs))}
        signature = Signature("confusion-sets", {**options, **numbers}, names)
        write_signature(signature, output)
    return signature


def format_sets(sets: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield one line per set: the word, a tab, and the confusable words separated by spaces."""
    return (f"{word}\t{' '.join(others)}\n" for word, others in sets.items())


def read_confusion_sets(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Read a file that `build_confusion_sets_file` wrote. Return the confusion set of each word.

    Raise DataError if a line is invalid or the file is empty.
    """
    sets: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(read_lines(path), 1):
        word, tab, rest = line.partition("\t")
        others = tuple(rest.split(" "))
        if (
            not tab
            or "\0" in line
            or any(part.split() != [part] for part in (word, *others))
            or word in others
            or word in sets
        ):
            raise DataError(
                f"{path}:{number} is {line[:80]!r}. Expected a word that begins no earlier line, a "
                "tab, and other words separated by single spaces."
            )
        sets[word] = others
    if not sets:
        raise DataError(
            f"{path} contains no confusion sets. Create them with: fairseq-ssl confusion-sets"
        )
    return sets
