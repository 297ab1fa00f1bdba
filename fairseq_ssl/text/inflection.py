"""Forms of English verbs and nouns, from lemminflect."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from fairseq_ssl.errors import import_optional
from fairseq_ssl.text.tokenization import match_case

PURPOSE = "Changing verbs and nouns"


class Inflection:
    """Forms of verbs and nouns. Only words that consist of letters have forms, so "'s" has none.

    Every word that can be a verb is treated as a verb ("people", "well"), and every word that can
    be a noun is treated as a noun. The forms have the same letter case as the word.
    """

    def __init__(self) -> None:
        with _without_spacy():
            package = import_optional("lemminflect", PURPOSE, "noise")
        self._lemmas_of, self._forms_of = package.getAllLemmas, package.getAllInflections

    def is_word(self, word: str) -> bool:
        """Return True if a lowercase word is in lemminflect's dictionary."""
        return bool(self._lemmas_of(word))

    def verb_forms(self, word: str) -> list[str]:
        """Return the other forms of all verbs with the form `word`, in alphabetical order."""
        forms_of_word = {
            form
            for inflections in self._inflections(word, ("VERB", "AUX"))
            for forms in inflections.values()
            for form in forms
        }
        return [match_case(word, form) for form in sorted(forms_of_word - {word.lower()})]

    def verb(self, word: str, tag: str, source: str | None = None) -> str | None:
        """Return the verb form with a Penn Treebank tag, or None if no different form exists.

        If `word` is a form of two verbs, such as "saw", the first verb in lemminflect is used.

        Args:
            word: a form of the verb
            tag: tag of the form to return
            source: tag that `word` must have as a form of the verb (default: any tag)
        """
        return self._form(word, ("AUX", "VERB"), tag, source)

    def plural(self, word: str) -> str | None:
        """Return the plural of a noun, or None if no different form exists."""
        return self._form(word, ("NOUN",), "NNS")

    def singular(self, word: str) -> str | None:
        """Return the singular of a noun, or None if no different form exists."""
        return self._form(word, ("NOUN",), "NN")

    def _form(
        self, word: str, kinds: tuple[str, ...], tag: str, source: str | None = None
    ) -> str | None:
        lower = word.lower()
        for inflections in self._inflections(word, kinds):
            if source is not None and lower not in inflections.get(source, ()):
                continue
            for form in inflections.get(tag, ()):
                if form != lower:
                    return match_case(word, form)
        return None

    def _inflections(self, word: str, kinds: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return the forms, by tag, of each lemma with the form `word`."""
        return _find_inflections(self._lemmas_of, self._forms_of, word, kinds)


inflection = lru_cache(maxsize=1)(Inflection)
"""Function that returns the `Inflection` of this process."""


@lru_cache(maxsize=64)
def _find_inflections(
    lemmas_of: Callable[..., Any], forms_of: Callable[..., Any], word: str, kinds: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return the forms of a word. They are cached, because lemminflect copies them for each tag."""
    if not word.isalpha():
        return []
    lemmas = lemmas_of(word.lower())
    return [forms_of(lemma, kind) for kind in kinds for lemma in lemmas.get(kind, ())]


@contextmanager
def _without_spacy() -> Iterator[None]:
    """Hide spaCy from lemminflect, because importing it imports torch, which takes seconds."""
    sys.meta_path.insert(0, _NoSpacy)
    try:
        yield
    finally:
        sys.meta_path.remove(_NoSpacy)


class _NoSpacy:
    """An import hook that hides spaCy."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        """Raise ModuleNotFoundError for spaCy. The next finders handle other modules."""
        if name == "spacy":
            raise ModuleNotFoundError(name)
