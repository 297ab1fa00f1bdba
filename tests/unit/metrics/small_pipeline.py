"""A spaCy pipeline for a few words, so that tests need no model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import spacy

TABLE = """\
the DT DET the det
a DT DET a det
cat NN NOUN cat nsubj
cats NNS NOUN cat nsubj
dog NN NOUN dog nsubj
sit VBP VERB sit ROOT
sits VBZ VERB sit ROOT
sat VBD VERB sit ROOT
at IN ADP at prep
on IN ADP on prep
mat NN NOUN mat pobj
quick JJ ADJ quick amod
quickly RB ADV quickly advmod
. . PUNCT . punct
, , PUNCT , punct
"""
"""Word, tag, part of speech, lemma and dependency."""


def small_pipeline(folder: Path) -> Path:
    """Write the pipeline to a folder and return it."""
    pipeline = spacy.blank("en")
    known = [line.split()[0] for line in TABLE.splitlines()]
    ruler: Any = pipeline.add_pipe("attribute_ruler")
    for line in TABLE.splitlines():
        word, tag, pos, lemma, dep = line.split()
        attrs = {"TAG": tag, "POS": pos, "LEMMA": lemma, "DEP": dep}
        ruler.add(patterns=[[{"LOWER": word}]], attrs=attrs)
    other = {"TAG": "NN", "POS": "NOUN", "DEP": "dep"}
    ruler.add(patterns=[[{"LOWER": {"NOT_IN": known}}]], attrs=other)
    path = folder / "small_pipeline"
    pipeline.to_disk(path)
    return path
