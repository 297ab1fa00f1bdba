"""Text tools: tokenization, casing, subwords, tags, vocabularies, M2 files.

Functions that rewrite a text are made by a factory: its options are checked and its models loaded
once, and the function then takes a line.

>>> from fairseq_ssl.text import moses_detokenizer, moses_tokenizer
>>> tokenize = moses_tokenizer("en")
>>> tokenize("Hello, world!")
'Hello , world !'
>>> moses_detokenizer("none", "en")("Hello , world !")
'Hello, world!'
"""

from fairseq_ssl.text.m2 import M2Edit, M2Sentence, read_m2
from fairseq_ssl.text.subwords.model import subword_encoder
from fairseq_ssl.text.tokenization import (
    CaseCounts,
    detruecaser,
    moses_detokenizer,
    moses_tokenizer,
    truecaser,
)
from fairseq_ssl.text.vocabulary import read_counts

__all__ = [
    "CaseCounts",
    "M2Edit",
    "M2Sentence",
    "detruecaser",
    "moses_detokenizer",
    "moses_tokenizer",
    "read_counts",
    "read_m2",
    "subword_encoder",
    "truecaser",
]
