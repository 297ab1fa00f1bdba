"""The other forms of an English verb, from the word list of lemminflect."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fairseq_ssl.errors import import_optional
from fairseq_ssl.text.casing import in_the_case_of

MOST = 1_000_000
"""Words to remember; a larger vocabulary is looked up anew from time to time."""


class VerbForms(dict[str, tuple[str, ...]]):
    """For each word the other forms of the same verb, none where it is no verb.

    Every word that can be a verb is one ("people", "well"): nothing is known of its use. One
    that is a form of two verbs ("saw") has the forms of both. What follows a capital letter,
    or is in capitals, does so in the other forms too. Words with another sign than letters
    ("'s") are no verbs here.
    """

    def __init__(self) -> None:
        super().__init__()
        with _without_spacy():
            package = import_optional("lemminflect", "Changing verbs", "noise")
        self.lemmas_of, self.forms_of = package.getAllLemmas, package.getAllInflections

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= MOST:
            self.clear()
        forms = self[word] = self._others(word)
        return forms

    def _others(self, word: str) -> tuple[str, ...]:
        if not word.isalpha():
            return ()
        lower = word.lower()
        lemmas = self.lemmas_of(lower)
        found = {
            form
            for kind in ("VERB", "AUX")
            for lemma in lemmas.get(kind, ())
            for forms in self.forms_of(lemma, kind).values()
            for form in forms
        }
        return tuple(in_the_case_of(word, form) for form in sorted(found - {lower}))


@contextmanager
def _without_spacy() -> Iterator[None]:
    """Hide spaCy, which lemminflect would load to extend it, and with it all of torch: seconds."""
    sys.meta_path.insert(0, _NoSpacy)
    try:
        yield
    finally:
        sys.meta_path.remove(_NoSpacy)


class _NoSpacy:
    """Says that there is no spaCy, when it is asked for."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        """Find no module; others are left to those that come after."""
        if name == "spacy":
            raise ModuleNotFoundError(name)
