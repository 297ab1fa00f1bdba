"""Text tools: tokenization, truecasing, subwords, vocabularies and M2 files.

Factories such as `moses_tokenizer` check their options and load their models once. They return a
function from line to line.

>>> from fairseq_ssl.text import moses_detokenizer, moses_tokenizer
>>> tokenize = moses_tokenizer("en")
>>> tokenize("Hello, world!")
'Hello , world !'
>>> moses_detokenizer("none", "en")("Hello , world !")
'Hello, world!'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairseq_ssl.text.m2 import M2Edit, M2Sentence, read_m2
    from fairseq_ssl.text.subwords.model import subword_encoder
    from fairseq_ssl.text.tokenization import (
        detruecaser,
        moses_detokenizer,
        moses_tokenizer,
        train_truecaser,
        truecaser,
    )
    from fairseq_ssl.text.vocabulary import read_counts

MODULES = {
    "M2Edit": "m2",
    "M2Sentence": "m2",
    "detruecaser": "tokenization",
    "moses_detokenizer": "tokenization",
    "moses_tokenizer": "tokenization",
    "read_counts": "vocabulary",
    "read_m2": "m2",
    "subword_encoder": "subwords.model",
    "train_truecaser": "tokenization",
    "truecaser": "tokenization",
}
"""Module of each public name. Modules are imported on use, so that commands start faster."""

__all__ = [
    "M2Edit",
    "M2Sentence",
    "detruecaser",
    "moses_detokenizer",
    "moses_tokenizer",
    "read_counts",
    "read_m2",
    "subword_encoder",
    "train_truecaser",
    "truecaser",
]


def __getattr__(name: str) -> Any:
    """Import the module of a public name on first use."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
