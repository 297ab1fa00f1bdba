"""Inflection of English verbs and nouns with lemminflect."""

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
    """Lookup of inflected forms of verbs and nouns. Results have the case of the input word.

    A word that can be a verb, such as "people" or "well", has verb forms. A word that can be a noun
    has noun forms. Words with characters that are not letters, such as "'s", have no forms.
    """

    def __init__(self) -> None:
        with _without_spacy():
            package = import_optional("lemminflect", PURPOSE, "noise")
        self._lemmas_of, self._forms_of = package.getAllLemmas, package.getAllInflections

    def is_word(self, word: str) -> bool:
        """Return True if lemminflect's dictionary contains `word`, which must be lowercase."""
        return bool(self._lemmas_of(word))

    def verb_forms(self, word: str) -> list[str]:
        """Return the sorted forms of all verbs of which `word` is a form, except `word` itself."""
        forms_of_word = {
            form
            for inflections in self._inflections(word, ("VERB", "AUX"))
            for forms in inflections.values()
            for form in forms
        }
        return [match_case(word, form) for form in sorted(forms_of_word - {word.lower()})]

    def verb(self, word: str, tag: str, source: str | None = None) -> str | None:
        """Return the verb form for a Penn Treebank tag, or None if no form differs from `word`.

        `word` can be a form of several verbs, such as "saw" of see and saw. The first verb in
        lemminflect's order that has a different form for this tag is used.

        Args:
            word: a form of the verb
            tag: tag of the form to return
            source: required tag of `word` as a form of the verb (default: any tag)
        """
        return self._form(word, ("AUX", "VERB"), tag, source)

    def plural(self, word: str) -> str | None:
        """Return the plural of a noun, or None if no plural differs from `word`."""
        return self._form(word, ("NOUN",), "NNS")

    def singular(self, word: str) -> str | None:
        """Return the singular of a noun, or None if no singular differs from `word`."""
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
        """Return the forms by tag, one dictionary for each lemma and part of speech in `kinds`."""
        return _find_inflections(self._lemmas_of, self._forms_of, word, kinds)


inflection = lru_cache(maxsize=1)(Inflection)
"""Function that returns the process-wide `Inflection`, which is created on the first call."""


@lru_cache(maxsize=64)
def _find_inflections(
    lemmas_of: Callable[..., Any], forms_of: Callable[..., Any], word: str, kinds: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Compute `Inflection._inflections`. Return [] unless all characters of the word are letters.

    lemminflect copies the forms in each call. The cache speeds up lookups of other tags of a word.
    """
    if not word.isalpha():
        return []
    lemmas = lemmas_of(word.lower())
    return [forms_of(lemma, kind) for kind in kinds for lemma in lemmas.get(kind, ())]


@contextmanager
def _without_spacy() -> Iterator[None]:
    """Hide spaCy from lemminflect. Importing spaCy also imports torch, which takes seconds."""
    sys.meta_path.insert(0, _NoSpacy)
    try:
        yield
    finally:
        sys.meta_path.remove(_NoSpacy)


class _NoSpacy:
    """An import hook that hides spaCy."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        """Raise ModuleNotFoundError for spaCy. Return None for other modules."""
        if name == "spacy":
            raise ModuleNotFoundError(name)
