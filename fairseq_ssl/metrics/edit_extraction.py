"""Extraction of edits and their types with ERRANT (Bryant et al., 2017).

A spaCy pipeline tags and parses the sentences. The package errant merges and classifies their
differences. Sentences are aligned in this module, because errant's alignment is slow: it reads a
spaCy token for each cell of the alignment table.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fairseq_ssl.errors import DataError, MissingPackageError, import_optional, library_errors
from fairseq_ssl.io.blocks import read_parallel
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.io.text_files import path_list
from fairseq_ssl.metrics.metric import BLOCK
from fairseq_ssl.text.m2 import SPACY_MODEL, M2Edit, M2Sentence, check_m2

log = logging.getLogger(__name__)

PURPOSE = "Extracting edits with ERRANT"
UNKNOWN_TAG = "ERRANT failed. It needs a pipeline with the tags of the Penn Treebank"
LEMMA_COST, OPEN_CLASS_COST, CLASS_COST = 0.499, 0.25, 0.5
"""Substitution costs if the lemmas differ, if two open-class parts of speech differ, and if other
parts of speech differ."""
MAX_WORDS = 5_000
"""Maximum number of words of a changed sentence. ERRANT's memory grows with its square."""

TORCH_PIPELINES = ("spacy_curated_transformers", "spacy_transformers")
"""Packages for spaCy pipelines that require torch."""

NEEDED = {"TAG": "tagger", "POS": "attribute_ruler", "DEP": "parser", "LEMMA": "lemmatizer"}
"""Token attributes that ERRANT reads, with a pipeline component that sets each attribute."""
FACTORIES = {
    *("tok2vec", "tagger", "morphologizer", "parser", "senter", "sentencizer"),
    *("attribute_ruler", "lemmatizer", "trainable_lemmatizer"),
}
"""Factories of the spaCy components that may be loaded from a folder."""
SAFE_NAME = re.compile(r"[\w-]+|@architectures = spacy(-legacy)?\.(?!Torch)\w+\.v\d+")
"""Pattern for the names of components and functions that pipeline settings may contain."""

READ = {"ORTH", "TEXT", "LOWER", "IS_SPACE", "TAG", "DEP"}
"""Token attributes that rules may read if `_CachedRules` caches their results."""
ANNOTATED = ["TAG", "DEP", "POS", "MORPH", "LEMMA"]
"""Token attributes that rules may set if `_CachedRules` caches their results."""

AlignmentStep = tuple[str, int, int, int, int]
"""Operation, start and end in the source, then start and end in the corrected sentence.

Operations are M (match), S (substitution), D (deletion), I (insertion), T2 (transposition of two
tokens), T3, and so on.
"""
AnnotatedPair = tuple[str, Sequence[str], int]
"""Source, corrected sentences, and the source's line number for error messages."""


class Annotator:
    """ERRANT annotator, which extracts and classifies the edits between sentences.

    Args:
        model: name or folder of a spaCy pipeline, or None for a blank pipeline. With a blank
            pipeline, edits have no types, and some are merged differently. From a folder, only
            components with a factory in `FACTORIES` are loaded.
    """

    def __init__(self, model: str | None) -> None:
        with _unneeded_torch_hidden():
            errant, spacy = (import_optional(name, PURPOSE, "gec") for name in ("errant", "spacy"))
        self.typed = model is not None
        self._nlp = _pipeline(spacy, model) if model is not None else spacy.blank("en")
        if model is None:
            self._nlp.add_pipe("sentencizer")
        self._rules = _CachedRules(self._nlp) if _can_cache_rules(self._nlp) else None
        threads = import_optional("threadpoolctl", PURPOSE, "gec").ThreadpoolController()
        # The matrices are so small that several NumPy threads mostly wait for each other.
        self._one_thread = partial(threads.limit, limits=1, user_api="blas")
        self._new_document: Any = spacy.tokens.Doc
        self._errant: Any = errant.load("en", self._nlp)

    def edits(self, source: str, corrected: str) -> list[M2Edit]:
        """Return the edits that turn `source` into `corrected`, in source order."""
        return self.sentences([(source, [corrected], 0)])[0].annotators[0]

    def sentences(self, pairs: Sequence[AnnotatedPair]) -> list[M2Sentence]:
        """Return an M2 sentence per source, with one annotator per corrected sentence.

        All distinct sentences are parsed in one batch. Unchanged sources are not parsed.
        """
        words = [(source.split(), [text.split() for text in texts]) for source, texts, _ in pairs]
        changed = {
            tuple(sentence): None
            for before, several in words
            for after in several
            if before != after
            for sentence in (before, after)
        }
        if changed and len(longest := max(changed, key=len)) > MAX_WORDS:
            raise DataError(
                f"The sentence {' '.join(longest)[:40]!r} has {len(longest):,} words. Expected one "
                f"sentence of at most {MAX_WORDS:,} words per line."
            )
        documents = (self._new_document(self._nlp.vocab, list(sentence)) for sentence in changed)
        with self._one_thread():
            parses = dict(zip(changed, self._parse(documents), strict=True))
        sentences = []
        for (before, several), (*_, line) in zip(words, pairs, strict=True):
            annotators = {
                number: self._edits(parses[tuple(before)], parses[tuple(after)])
                if before != after
                else []
                for number, after in enumerate(several)
            }
            sentences.append(M2Sentence(tuple(before), annotators, line))
        return sentences

    def _parse(self, documents: Iterable[Any]) -> Iterable[Any]:
        """Run the pipeline on a batch of documents, with cached rules if possible."""
        if self._rules is None:
            return cast(Iterable[Any], self._nlp.pipe(documents))
        return map(self._rules.annotate, self._nlp.pipe(documents, disable=self._rules.names))

    def _edits(self, before: Any, after: Any) -> list[M2Edit]:
        """Return the edits between two parsed sentences."""
        steps = align_documents(before, after)
        edits = self._errant.merge(_Alignment(before, after, steps))
        with library_errors(UNKNOWN_TAG):
            return [_m2_edit(self._errant.classify(edit) if self.typed else edit) for edit in edits]


class _CachedRules:
    """Replacement for the attribute ruler and the lemmatizer that caches their results by token.

    Documents that match a pattern of several tokens are processed without the cache.
    """

    def __init__(self, nlp: Any) -> None:
        self.names = nlp.pipe_names[-2:]
        self._ruler, self._lemmatizer = map(nlp.get_pipe, self.names)
        self._strings = nlp.vocab.strings
        self._single, self._longer = (type(self._ruler)(nlp.vocab) for _ in range(2))
        for rule in self._ruler.patterns:
            (self._single if _is_single(rule) else self._longer).add(**rule)
        self._new_document = partial(import_optional("spacy.tokens", PURPOSE).Doc, nlp.vocab)
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}
        """Token attributes after both components, by the attributes before both components."""

    def annotate(self, document: Any) -> Any:
        """Add the annotations of both components to a document. Return the document."""
        # spaCy warns about a matcher without patterns.
        if not len(document) or (len(self._longer.matcher) and self._longer.match(document)):
            return self._lemmatizer(self._ruler(document))
        before = _attributes(document)
        new = list({token: None for token in before if token not in self._known})
        if new:
            words = self._new_document([self._strings[form] for form, *_ in new])
            after = self._lemmatizer(self._single(_annotated(words, [rest for _, *rest in new])))
            known = (tuple(rest) for _, *rest in _attributes(after))
            self._known.update(zip(new, known, strict=True))
        return _annotated(document, [self._known[token] for token in before])


def _can_cache_rules(nlp: Any) -> bool:
    """Return True if a pipeline ends with components whose results `_CachedRules` can cache."""
    names = nlp.pipe_names[-2:]
    if [nlp.get_pipe_meta(name).factory for name in names] != ["attribute_ruler", "lemmatizer"]:
        return False
    rules = [rule for rule in nlp.get_pipe(names[0]).patterns if _is_single(rule)]
    read = {key.upper() for rule in rules for (token,) in rule["patterns"] for key in token}
    written = {key for rule in rules for key in rule["attrs"]}
    is_known = read <= READ and written <= set(ANNOTATED)
    return bool(rules) and is_known and nlp.get_pipe(names[1]).mode in ("rule", "lookup")


def _is_single(rule: Mapping[str, Any]) -> bool:
    """Return True if all patterns in a rule match single tokens."""
    patterns = rule["patterns"]
    return all(len(tokens) == 1 and "OP" not in map(str.upper, tokens[0]) for tokens in patterns)


def _attributes(document: Any) -> list[tuple[int, ...]]:
    """Return the attribute ids of each token: the form, then the `ANNOTATED` attributes."""
    return list(map(tuple, document.to_array(["ORTH", *ANNOTATED]).tolist()))


def _annotated(document: Any, tokens: Sequence[Sequence[int]]) -> Any:
    """Set the `ANNOTATED` attribute ids of a document's tokens. Return the document."""
    return document.from_array(ANNOTATED, np.array(tokens, dtype=np.uint64))


@dataclass(frozen=True)
class _Alignment:
    """Alignment with the attribute names of errant's `Alignment`, for errant's merging rules."""

    orig: Any
    cor: Any
    align_seq: list[AlignmentStep]


def align_documents(before: Any, after: Any) -> list[AlignmentStep]:
    """Return the cheapest alignment of two parsed spaCy documents, as in errant's `Alignment`."""
    attributes = ["ORTH", "LOWER", "LEMMA", "POS"]
    rows, columns = before.to_array(attributes), after.to_array(attributes)
    length, width = len(rows), len(columns)
    # No step is cheaper than a match, so the alignment ends with the common suffix.
    shared = min(length, width)
    differs = rows[length - shared :, 0] != columns[width - shared :, 0]
    suffix = int(differs[::-1].argmax()) if differs.any() else shared
    rows, columns = rows[: length - suffix], columns[: width - suffix]
    costs = _substitution_costs(before, after, rows, columns)
    same = (rows[:, None, 0] == columns[None, :, 0]).tolist()
    table = _fill_table(same, costs.tolist(), rows[:, 1].tolist(), columns[:, 1].tolist())
    return _trace_back(table) + [
        ("M", length - at, length - at + 1, width - at, width - at + 1)
        for at in range(suffix, 0, -1)
    ]


def _substitution_costs(
    before: Any, after: Any, rows: NDArray[np.uint64], columns: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """Return substitution costs, [source, corrected]. Tokens that differ only in case cost 0."""
    process, distance = (
        import_optional(f"rapidfuzz.{name}", PURPOSE, "gec") for name in ("process", "distance")
    )
    parts = import_optional("spacy.parts_of_speech", PURPOSE, "gec")
    open_classes = np.array([parts.ADJ, parts.ADV, parts.NOUN, parts.VERB], dtype=np.uint64)
    words = [[token.text for token in document] for document in (before, after)]
    letters: NDArray[np.float64] = process.cdist(
        words[0][: len(rows)],
        words[1][: len(columns)],
        scorer=distance.Indel.normalized_distance,
        dtype=np.float64,
    )
    equal = rows[:, None, :] == columns[None, :, :]
    is_open = [np.isin(side[:, 3], open_classes) for side in (rows, columns)]
    both_open = is_open[0][:, None] & is_open[1][None, :]
    lemmas = np.where(equal[..., 2], 0.0, LEMMA_COST)
    classes = np.where(equal[..., 3], 0.0, np.where(both_open, OPEN_CLASS_COST, CLASS_COST))
    return np.where(equal[..., 1], 0.0, lemmas + classes + letters)


def _fill_table(
    same: list[list[bool]], costs: list[list[float]], before: list[int], after: list[int]
) -> list[list[str]]:
    """Return the operation in each cell of a Damerau-Levenshtein table.

    Ties are broken in errant's order: transposition, substitution, insertion, deletion.

    Args:
        same: True for equal tokens, [source, corrected]
        costs: substitution costs, [source, corrected]
        before: ids of the lowercased source tokens
        after: ids of the lowercased tokens of the corrected sentence
    """
    total = [[float(at) for at in range(len(after) + 1)]]
    table = [["O", *["I"] * len(after)]]
    shared = set(before) & set(after)
    can_move = [word in shared for word in after]
    for row, word in enumerate(before):
        above, here, operations = total[row], [row + 1.0], ["D"]
        total.append(here)
        table.append(operations)
        for column, (is_same, cost) in enumerate(zip(same[row], costs[row], strict=True)):
            if is_same:
                here.append(above[column])
                operations.append("M")
                continue
            best, operation = above[column] + cost, "S"
            if here[column] + 1 < best:
                best, operation = here[column] + 1, "I"
            if above[column + 1] + 1 < best:
                best, operation = above[column + 1] + 1, "D"
            # These tests save calls, because few cells pass them.
            if (
                word in shared
                and can_move[column]
                and row
                and column
                and above[column] != total[row - 1][column - 1]
            ):
                moved = _transposed(total, before, after, row, column)
                if moved:
                    cost = total[row - moved][column - moved] + moved
                    if cost <= best:
                        best, operation = cost, f"T{moved + 1}"
            here.append(best)
            operations.append(operation)
    return table


def _transposed(
    total: list[list[float]], before: list[int], after: list[int], row: int, column: int
) -> int:
    """Return the cost of the shortest transposition that ends at a cell, or 0 if there is none.

    A transposition contains no match. Its cost is the number of its tokens minus 1.
    """
    for cost in range(1, min(row, column) + 1):
        top, left = row - cost, column - cost
        if total[top + 1][left + 1] == total[top][left]:
            return 0
        if sorted(before[top : row + 1]) == sorted(after[left : column + 1]):
            return cost
    return 0


def _trace_back(table: list[list[str]]) -> list[AlignmentStep]:
    """Trace the operations back from the last cell. Return the alignment steps in order."""
    row, column = len(table) - 1, len(table[0]) - 1
    steps: list[AlignmentStep] = []
    while row or column:
        operation = table[row][column]
        size = int(operation[1:] or 1)
        top = row - size * (operation != "I")
        left = column - size * (operation != "D")
        steps.append((operation, top, row, left, column))
        row, column = top, left
    return steps[::-1]


def packages() -> str:
    """Return the versions of errant and spaCy, for a signature."""
    from importlib.metadata import version  # importing it takes longer than this module

    return f"errant-{version('errant')},spacy-{version('spacy')}"


@contextmanager
def _unneeded_torch_hidden() -> Iterator[None]:
    """Hide torch during spaCy's first import, unless a package for torch pipelines is installed.

    spaCy imports torch if it is installed. The import takes longer than loading a pipeline, and a
    process that has imported torch cannot fork workers that share the pipeline.
    """
    if {"torch", "thinc"} & sys.modules.keys() or any(map(find_spec, TORCH_PIPELINES)):
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # how Python marks a missing module
    try:
        yield
    finally:
        del sys.modules["torch"]


def _m2_edit(edit: Any) -> M2Edit:
    correction = " ".join(token.text for token in edit.c_toks)
    return M2Edit(edit.o_start, edit.o_end, edit.type, correction)


def _pipeline(spacy: Any, model: str) -> Any:
    thinc = import_optional("thinc.api", PURPOSE, "gec")
    is_cpu = thinc.get_current_ops().name == "numpy"
    is_package = spacy.util.is_package(model)
    if not is_package and not Path(model).exists():
        raise MissingPackageError(
            model,
            "Classifying errors with ERRANT",
            f"python -m spacy download {model}. Or set `spacy_model` to the name or the existing "
            "folder of another pipeline. Edits without types need no pipeline.",
        )
    with library_errors(f"{model} is not a readable spaCy pipeline"):
        # NumPy's matrix products are faster than BLIS.
        with thinc.use_ops("numpy", use_blis=False) if is_cpu else nullcontext():
            load = partial(spacy.load, disable=["ner"]) if is_package else _load_folder
            pipeline = load(model)
        document = pipeline("It is.")
    for attribute, component in NEEDED.items():
        if not document.has_annotation(attribute):
            raise DataError(
                f"{model} contains no component that sets {attribute}, such as {component}. ERRANT "
                f"needs a pipeline with {', '.join(NEEDED.values())}."
            )
    return pipeline


def _load_folder(folder: str) -> Any:
    """Load a spaCy pipeline from a folder, but only components with a factory in `FACTORIES`.

    The settings of a pipeline can call any function that an installed package registers, for
    example to read a file. Here, only spaCy layers are allowed. Other sections of the settings are
    ignored.
    """
    util = import_optional("spacy.util", PURPOSE, "gec")
    config = util.load_config(Path(folder) / "config.cfg", interpolate=True)
    components = {
        name: {key: value for key, value in config["components"][name].items() if key != "scorer"}
        for name in config["nlp"]["pipeline"]
        if config["components"][name].get("factory") in FACTORIES
        and name not in config["nlp"].get("disabled", [])
    }
    for name in (*components, *_functions(components)):
        if not SAFE_NAME.fullmatch(name):
            raise DataError(
                f"{folder} was rejected: its config.cfg contains {name[:80]!r}. Expected only "
                "spaCy layers. Install the pipeline as a package if you trust it."
            )
    settings = {"lang": config["nlp"]["lang"], "pipeline": list(components)}
    config = {"nlp": settings, "components": components}
    return util.load_model_from_config(config, auto_fill=True).from_disk(folder)


def _functions(settings: Any) -> Iterator[str]:
    """Yield the registered functions in settings, as ``@REGISTRY = NAME``."""
    if isinstance(settings, list):
        settings = dict(enumerate(settings))
    if isinstance(settings, dict):
        for key, value in settings.items():
            if str(key).startswith("@"):
                yield f"{key} = {value}"
            yield from _functions(value)


@lru_cache(maxsize=1)
def load_annotator(model: str | None) -> Annotator:
    """Return the annotator for a spaCy pipeline. Each process caches the last annotator."""
    return Annotator(model)


def annotate_block(model: str | None, block: Sequence[AnnotatedPair]) -> list[M2Sentence]:
    """Return the M2 sentences for a block of pairs. Each process loads the pipeline once."""
    return load_annotator(model).sentences(block)


def annotate_texts(
    source: str | Path,
    references: Sequence[str | Path],
    model: str | None = SPACY_MODEL,
    jobs: int = 1,
    progress: ProgressFactory = silent_progress,
) -> Iterator[M2Sentence]:
    """Yield the M2 sentences for a text, with the edits from the source to each reference.

    Empty source lines are dropped, as in ``errant_parallel``.

    Args:
        source: tokenized text, one sentence per line
        references: one corrected text per annotator
        model: name or folder of a spaCy pipeline, or None to extract edits without types
        jobs: number of processes, 1 or more; the result does not depend on it
        progress: creates the progress report, which receives the number of processed sentences
    """
    load_annotator(model)
    empty = 0

    def numbered() -> Iterator[AnnotatedPair]:
        nonlocal empty
        for line, (before, *after) in enumerate(read_parallel([source, *path_list(references)]), 1):
            if before.strip():
                yield before, tuple(after), line
            else:
                empty += 1

    rows, advance = numbered(), progress("m2 from-text", "sentences")
    blocks = iter(lambda: list(islice(rows, BLOCK)), [])
    for sentences in LocalExecutor(jobs).imap(partial(annotate_block, model), blocks):
        for sentence in sentences:
            check_m2(sentence, f"{source}:{sentence.line}")
            yield sentence
        advance(len(sentences))
    if empty:
        log.warning("%s: dropped %d empty lines, as in errant_parallel", source, empty)
