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
