"""Text tools: tokenization, truecasing, subwords, spelling, vocabularies and M2 files.

Factories such as `moses_tokenizer` check their options and load their models once. Each returns a
function that maps a line to a line. `tokenize_file`, `encode_subwords_file` and
`correct_spelling_file` process text of any size, in several processes or on several machines.

>>> from fairseq_ssl.text import moses_detokenizer, moses_tokenizer
>>> tokenize = moses_tokenizer("en")
>>> tokenize("Hello, world!")
'Hello , world !'
>>> moses_detokenizer("none", "en")("Hello , world !")
'Hello, world!'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairseq_ssl.lazy_names import lazy_names

if TYPE_CHECKING:
    from fairseq_ssl.text.m2 import M2Edit as M2Edit
    from fairseq_ssl.text.m2 import M2Sentence as M2Sentence
    from fairseq_ssl.text.m2 import read_m2 as read_m2
    from fairseq_ssl.text.spelling import correct_spelling_file as correct_spelling_file
    from fairseq_ssl.text.subwords.model import encode_subwords_file as encode_subwords_file
    from fairseq_ssl.text.subwords.model import subword_encoder as subword_encoder
    from fairseq_ssl.text.tokenization import detruecaser as detruecaser
    from fairseq_ssl.text.tokenization import moses_detokenizer as moses_detokenizer
    from fairseq_ssl.text.tokenization import moses_tokenizer as moses_tokenizer
    from fairseq_ssl.text.tokenization import tokenize_file as tokenize_file
    from fairseq_ssl.text.tokenization import truecaser as truecaser
    from fairseq_ssl.text.vocabulary import read_counts as read_counts

MODULES = {
    "m2": ("M2Edit", "M2Sentence", "read_m2"),
    "spelling": ("correct_spelling_file",),
    "subwords.model": ("encode_subwords_file", "subword_encoder"),
    "tokenization": (
        "detruecaser",
        "moses_detokenizer",
        "moses_tokenizer",
        "tokenize_file",
        "truecaser",
    ),
    "vocabulary": ("read_counts",),
}
"""Public names by module. Modules are imported on first use, so that commands start faster."""

__all__ = [name for names in MODULES.values() for name in names]
__getattr__ = lazy_names(__name__, MODULES)
