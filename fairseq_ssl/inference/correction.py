"""Correction of text with edit taggers: `Corrector` for lines, `correct_file` for files."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fairseq_ssl.checkpoints.ensembles import require_checkpoints
from fairseq_ssl.checkpoints.onnx_folder import is_onnx_folder, read_onnx_config
from fairseq_ssl.edits.alignment import token_edits
from fairseq_ssl.edits.decoding import DEFAULT, CorrectionSearch
from fairseq_ssl.errors import DataError, UsageError, check_choice, check_positive
from fairseq_ssl.inference import loading
from fairseq_ssl.io.blocks import Block
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.executors import Executor, is_worker, worker_number
from fairseq_ssl.io.fingerprints import content_digest, file_fingerprint
from fairseq_ssl.io.jobs import Fingerprints, ProgressFactory, fingerprints, silent_progress
from fairseq_ssl.io.parts import BlockResult
from fairseq_ssl.io.text_files import convert_fields, line_list, optional_path, require_file
from fairseq_ssl.io.text_jobs import Output, Outputs, TextJob
from fairseq_ssl.options import numbers, option, options_of
from fairseq_ssl.signature import Signature, changed_options
from fairseq_ssl.text.m2 import SPACY_MODEL
from fairseq_ssl.text.raw_text import (
    TOKENIZERS,
    UNSPACED,
    LineEdit,
    LineSegmenter,
    Sentence,
    TokenEdit,
    apply_line_edits,
    line_edits,
)
from fairseq_ssl.text.spelling import spelling_corrector

if TYPE_CHECKING:
    from fairseq_ssl.edits.rounds import AppliedEdit, CorrectedTokens, EditRounds

NO_TOKENIZER = "none"
ONNX, GECTOR, FAIRSEQ = "onnx", "gector", "fairseq"
"""Formats of edit taggers."""
BLOCK_KIB = 64
"""Block size in KiB. A process corrects one block at a time."""


def model_format(path: Path) -> str:
    """Return the format of a model, from its file names. Raise DataError if there is no model."""
    if is_onnx_folder(path):
        return ONNX
    if path.suffix == ".th" or (path / "config.json").is_file() or any(path.glob("*.th")):
        return GECTOR
    require_file(path, "a checkpoint, a folder in ONNX format, or a GECToR model")
    return FAIRSEQ


@dataclass(frozen=True)
class CorrectionConfig(CorrectionSearch):
    """Edit taggers and options for correction."""

    models: tuple[str | Path, ...] = option(
        MISSING,
        "edit tagger: a checkpoint, an ONNX folder from fairseq-ssl export, or a GECToR model; "
        "several models form an ensemble",
        flag="model",
        metavar="PATH",
        nargs="+",
    )
    data_dir: str | Path | None = option(
        None,
        "folder with the dictionaries of the model; not needed for word-level models",
        metavar="DIR",
    )
    weights: tuple[float, ...] = option(
        (),
        "comma-separated weights of the models in an ensemble, each 0 or more",
        usual="equal",
        parse=numbers,
        metavar="W,...",
    )
    encoder: str | Path | None = option(
        None,
        "folder with the pretrained encoder of the GECToR model",
        usual="the public encoder named in the model's config",
        metavar="DIR",
    )
    device: str = "cpu"
    """``cpu``, ``cuda`` for one GPU per process, or a GPU such as ``cuda:1``."""
    threads: int | None = None
    """Number of CPU threads per process (default: 1 in worker processes, else OMP_NUM_THREADS or
    the number of cores)."""
    tokenizer: str | None = option(
        None,
        "tokenizer for raw text, the same as for the model's training data; english: similar to "
        "spacy, but does not require spaCy; none: for text with one sentence per line and tokens "
        "separated by spaces",
        choices=(*TOKENIZERS, NO_TOKENIZER),
        usual="spacy; for ONNX models, english for English and moses for other languages",
    )
    language: str = option("en", "language of the text", flag="lang", metavar="LANG")
    spelling: str | Path | None = option(
        None,
        "output file of fairseq-ssl spelling count; spelling and capitalization are corrected "
        "before the model is applied (English only)",
    )
    batch_size: int = option(64, "number of sentences per batch", low=1)
    explain: bool = option(
        False, "extract the edits with ERRANT, and show their types and probabilities"
    )
    spacy_model: str = option(
        SPACY_MODEL, "name or folder of the spaCy pipeline for ERRANT", metavar="NAME"
    )

    def __post_init__(self) -> None:
        convert_fields(self, ["data_dir", "spelling", "encoder"], ["models"])
        object.__setattr__(self, "weights", tuple(self.weights))
        if not self.models:
            raise UsageError("`models` is empty. Expected at least one edit tagger.")
        loading.check_weights(self.weights, len(self.models))
        formats = sorted({model_format(Path(model)) for model in self.models})
        if len(formats) > 1:
            raise UsageError(
                f"The models of the ensemble have the formats {', '.join(formats)}. Expected "
                "models of the same format."
            )
        if self.encoder is not None and self.format != GECTOR:
            raise UsageError(
                f"`encoder` is only for GECToR models, not for the format {self.format}. Remove it."
            )
        if self.device != "cpu" and self.format == ONNX:
            raise UsageError(
                f"`device` is {self.device!r}, but models in ONNX format run only on the CPU. "
                "Set it to cpu."
            )
        check_positive("threads", 1 if self.threads is None else self.threads)
        super().__post_init__()

    @property
    def format(self) -> str:
        """Format of the models: ``onnx``, ``gector`` or ``fairseq``."""
        return model_format(Path(self.models[0]))

    @property
    def chosen_tokenizer(self) -> str:
        """Name of the tokenizer: `tokenizer`, or the default for the models and `language`."""
        light = "english" if self.language == "en" else "moses"
        return self.tokenizer or (light if self.format == ONNX else "spacy")

    @property
    def search(self) -> CorrectionSearch:
        """Search options. Unset options are read from the first model, or else from `DEFAULT`."""
        first, stored = Path(self.models[0]), DEFAULT
        if self.format == ONNX:
            stored = read_onnx_config(first).search
        elif self.format == GECTOR:
            from fairseq_ssl.checkpoints.gector import read_search

            stored = read_search(first, optional_path(self.encoder))
        return self.or_else(stored.or_else(DEFAULT))


@dataclass(frozen=True)
class Edit:
    """A correction of consecutive tokens in a line."""

    start: int
    """Offset of the first character to replace."""
    end: int
    """Offset after the last character to replace, equal to `start` for an insertion."""
    source: str
    """The replaced text."""
    target: str
    """The replacement tokens, separated by spaces."""
    probability: float
    """Minimum probability of the model's edits in this correction, or 1 for a spelling change."""
    type: str | None = None
    """ERRANT error type, such as R:VERB:SVA, or None if `CorrectionConfig.explain` is not set."""


@dataclass(frozen=True)
class CorrectedLine:
    """A line, the corrected text, and the edits between them."""

    source: str
    text: str
    edits: tuple[Edit, ...]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-serializable dict. Round probabilities to 4 decimals. Omit unset types."""
        edits = [
            {name: value for name, value in asdict(edit).items() if value is not None}
            for edit in self.edits
        ]
        for edit in edits:
            edit["probability"] = round(edit["probability"], 4)
        return {"source": self.source, "text": self.text, "edits": edits}


class Corrector(loading.ConfiguredModel):
    """Edit tagger, or ensemble of edit taggers, that corrects lines of text.

    >>> from fairseq_ssl.inference import Corrector
    >>> corrector = Corrector.from_pretrained("run/checkpoint_best.pt")  # doctest: +SKIP
    >>> corrector.correct(["He go to  school."])[0].text  # doctest: +SKIP
    'He goes to  school.'
    """

    def __init__(self, config: CorrectionConfig) -> None:
        """Load the models of a config. Call `fairseq_ssl.register` first."""
        self.config = config
        name = config.chosen_tokenizer
        self._segment = LineSegmenter.of(None if name == NO_TOKENIZER else name, config.language)
        self._annotator: Any = None
        if config.explain:
            from fairseq_ssl.metrics.edit_extraction import Annotator

            self._annotator = Annotator(config.spacy_model)
        self._spelling = spelling_corrector(config.spelling)
        self._rounds = load_rounds(config)

    @classmethod
    def from_pretrained(
        cls, *models: str | Path | Sequence[str | Path], **options: Any
    ) -> Corrector:
        """Load models. Call `fairseq_ssl.register` first.

        Args:
            models: path of an edit tagger (checkpoint, ONNX folder or GECToR model). For an
                ensemble, pass several paths or one list of paths.
            options: fields of `CorrectionConfig`, such as `iterations`.
        """
        paths = models[0] if len(models) == 1 and isinstance(models[0], (list, tuple)) else models
        return cls(CorrectionConfig(tuple(cast("Sequence[str | Path]", paths)), **options))

    @property
    def models(self) -> list[Any]:
        """Torch modules of the edit taggers, or an `OnnxTagger` for each model in ONNX format."""
        return list(self._rounds.engine.models)

    def correct(self, lines: Sequence[str]) -> list[CorrectedLine]:
        """Return the corrected lines. A line may contain several sentences.

        Spaces and quotes around unedited words are preserved, unless the tokenizer is ``none``.
        """
        lines = line_list(lines, "the text")
        sentences = [self._segment(line) for line in lines]
        flat = [sentence for in_line in sentences for sentence in in_line]
        spelled = [self._spelling(sentence.tokens) for sentence in flat]
        corrections = self._rounds.correct(spelled, self.config.batch_size)
        self._rounds.forget_unknown()
        triples = zip(flat, spelled, corrections, strict=True)
        return [
            self._corrected_line(line, list(islice(triples, len(in_line))))
            for line, in_line in zip(lines, sentences, strict=True)
        ]

    def _corrected_line(
        self, line: str, triples: Sequence[tuple[Sentence, Sequence[str], CorrectedTokens]]
    ) -> CorrectedLine:
        replaced: list[LineEdit] = []
        edits: list[Edit] = []
        for sentence, spelled, correction in triples:
            if list(correction.tokens) == sentence.tokens:
                continue
            changes = token_edits(sentence.tokens, list(correction.tokens))
            replaced += line_edits(line, sentence, changes)
            typed = self._typed(sentence.tokens, correction.tokens, changes)
            probabilities = change_probabilities(
                sentence.tokens, list(spelled), [edit for edit, _ in typed], correction.edits
            )
            edits += [
                _edit(line, sentence, edit, kind, probability)
                for (edit, kind), probability in zip(typed, probabilities, strict=True)
            ]
        if self.config.tokenizer == NO_TOKENIZER:
            texts = (" ".join(correction.tokens) for *_, correction in triples)
            return CorrectedLine(line, " ".join(texts), tuple(edits))
        return CorrectedLine(line, apply_line_edits(line, replaced), tuple(edits))

    def _typed(
        self, source: Sequence[str], target: Sequence[str], changes: Sequence[TokenEdit]
    ) -> list[tuple[TokenEdit, str | None]]:
        """Return edits with ERRANT types. Without `explain`, return `changes` with type None."""
        if self._annotator is None:
            return [(change, None) for change in changes]
        return [
            (TokenEdit(edit.start, edit.end, tuple(edit.correction.split())), edit.type)
            for edit in self._annotator.edits(" ".join(source), " ".join(target))
        ]


def _edit(
    line: str, sentence: Sentence, change: TokenEdit, kind: str | None, probability: float
) -> Edit:
    """Convert a token edit to an `Edit` with character offsets in the line."""
    if change.start < change.end:
        start, end = sentence.starts[change.start], sentence.ends[change.end - 1]
    else:
        start = end = sentence.ends[change.start - 1] if change.start else sentence.starts[0]
    return Edit(start, end, line[start:end], " ".join(change.tokens), probability, kind)


def _places_to_move(tokens: Sequence[str], edit: TokenEdit) -> int:
    """Return the number of positions by which an edit can move right without changing the result.

    It is 0 for replacements, because only insertions and deletions can move.
    """
    if edit.tokens and edit.start < edit.end:
        return 0
    moving, after = edit.tokens or tokens[edit.start : edit.end], tokens[edit.end :]
    equal = (token == moving[at % len(moving)] for at, token in enumerate(after))
    return next((at for at, is_equal in enumerate(equal) if not is_equal), len(after))


def change_probabilities(
    source: Sequence[str],
    spelled: Sequence[str],
    changes: Sequence[TokenEdit],
    applied: Sequence[AppliedEdit],
) -> list[float]:
    """Return the minimum probability of the model edits in each change, or 1 for spelling changes.

    The position of a change is ambiguous if a token is repeated. Therefore, an edit that overlaps
    no change counts for the adjacent changes.

    Args:
        source: tokens of the uncorrected sentence.
        spelled: the same tokens with corrected spelling, which the model reads.
        changes: changes from `source` to the corrected sentence.
        applied: the model's edits of `spelled`, from all rounds.
    """
    touched = [
        [
            change.start <= edit.last
            and edit.origin <= change.end + _places_to_move(spelled, change)
            for edit in applied
        ]
        for change in changes
    ]
    is_placed = [any(column) for column in zip(*touched, strict=True)]
    others = [edit for edit, placed in zip(applied, is_placed, strict=False) if not placed]
    probabilities = []
    for change, row in zip(changes, touched, strict=True):
        made_by = [edit for edit, is_inside in zip(applied, row, strict=True) if is_inside]
        for edit in others:
            if change.start <= edit.last + (not edit.is_inserted) and edit.origin <= change.end + 1:
                made_by.append(edit)
        tokens = slice(change.start, change.end)
        if not made_by and spelled[tokens] == source[tokens]:
            made_by = list(applied)
        probabilities.append(min((edit.probability for edit in made_by), default=1.0))
    return probabilities


def load_rounds(config: CorrectionConfig) -> EditRounds:
    """Load edit taggers into `EditRounds`. ONNX models need neither torch nor fairseq."""
    if config.format == ONNX:
        from fairseq_ssl.inference.onnx_tagger import load_onnx_rounds

        usual = "1" if is_worker() else os.environ.get("OMP_NUM_THREADS", "")
        threads = config.threads or (int(usual) if usual.isdigit() else 0)
        return load_onnx_rounds(list(map(Path, config.models)), config.weights, config, threads)
    loading.set_threads(config.threads)
    if config.format == GECTOR:
        folder = optional_path(config.encoder)
        taggers = loading.load_gector(config.models, folder, config.device)
    else:
        taggers = loading.load_taggers(config.models, config.data_dir, config.device)
    return loading.torch_rounds(*taggers, config.weights, config.search)


REMOVED, ADDED, END = "\33[31;9m", "\33[32m", "\33[0m"
"""ANSI escape codes: red strikethrough, green, and reset."""
LINE_FORMATS = ("text", "diff", "json")
LineFormatter = Callable[[CorrectedLine], str]


@dataclass(frozen=True)
class LineFormat:
    """Picklable function that formats a corrected line."""

    kind: str = "text"
    """``text``, ``diff`` (source line with marked edits), or ``json``."""
    explain: bool = False
    """True to add a line for each edit to ``text`` and ``diff``."""
    color: bool = False
    """True to mark the edits of a ``diff`` with terminal colors."""

    def __call__(self, line: CorrectedLine) -> str:
        """Return the formatted line. With `explain`, add a line for each edit, except to JSON."""
        if self.kind == "json":
            return json.dumps(line.as_json(), ensure_ascii=False)
        text = self._marked(line) if self.kind == "diff" else line.text
        return "\n".join([text, *map(_explanation, line.edits if self.explain else ())])

    def _marked(self, line: CorrectedLine) -> str:
        """Return the source line with its edits marked."""
        parts, end = [], 0
        for edit in line.edits:
            parts.append(line.source[end : edit.start])
            parts.append(self._mark(edit, line.source[: edit.start]))
            end = edit.end
        return "".join([*parts, line.source[end:]])

    def _mark(self, edit: Edit, before: str) -> str:
        removed = (REMOVED, END) if self.color else ("[-", "-]")
        added = (ADDED, END) if self.color else ("{+", "+}")
        marks = [
            begin + text + end
            for text, (begin, end) in ((edit.source, removed), (edit.target, added))
            if text
        ]
        last = before[-1:]
        if edit.start == edit.end and not UNSPACED.search(last + edit.target[:1]):
            marks.insert(len(marks) if not last or last.isspace() else 0, " ")
        return "".join(marks)


def _explanation(edit: Edit) -> str:
    source, span = edit.source.replace("\t", " "), f"{edit.start}:{edit.end}"
    return "\t".join(["", span, source, edit.target, edit.type or "", f"{edit.probability:.3f}"])


@dataclass(frozen=True)
class BlockCorrector:
    """Picklable function that corrects a block of lines with the corrector of its process."""

    config: CorrectionConfig
    format_line: LineFormatter
    files: Fingerprints = ()
    """Fingerprints of models and resources. If they change, a process loads the models again."""

    def __call__(self, block: Block) -> BlockResult:
        """Return the formatted corrections and the counts of a block."""
        lines = block.lines()
        corrected = self._correct(block, lines)
        edits = [len(line.edits) for line in corrected]
        counts = Counter(lines=len(lines), changed=sum(map(bool, edits)), edits=sum(edits))
        output = "".join(f"{self.format_line(line)}\n" for line in corrected).encode("utf-8")
        return BlockResult((output,), counts)

    def _correct(self, block: Block, lines: Sequence[str], first: int = 0) -> list[CorrectedLine]:
        """Correct consecutive lines of a block, starting at index `first`.

        On a DataError, the halves are corrected separately, down to the line that causes the error.
        """
        corrector = _corrector(self.config, worker_number(), self.files)
        try:
            return corrector.correct(lines)
        except DataError as error:
            if len(lines) == 1:
                raise DataError(f"{block.place(first)}: {error}") from None
        half = len(lines) // 2
        return [
            *self._correct(block, lines[:half], first),
            *self._correct(block, lines[half:], first + half),
        ]


@lru_cache(maxsize=1)
def _corrector(config: CorrectionConfig, worker: int, files: Fingerprints) -> Corrector:
    return Corrector(config)


@dataclass(frozen=True)
class CorrectionSummary:
    """Signature and counts of a corrected text."""

    signature: Signature
    lines: int
    changed: int
    edits: int
    seconds: float
    """Correction time in seconds. For output files, it includes interrupted runs."""


def correct_file(
    source: str | Path | None,
    output: Output,
    config: CorrectionConfig,
    format_line: LineFormatter | None = None,
    *,
    format_name: str = "text",
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> CorrectionSummary | None:
    """Correct a text. Return None if the output was complete or other shards must finish.

    The corrections do not depend on the executor, the parts or the shards. An interrupted run
    resumes.

    Args:
        source: text, or None for stdin.
        output: destination of the corrected lines: a file, a folder of parts, or a binary stream.
        config: edit taggers and correction options.
        format_line: picklable function that formats a corrected line (default: the format
            `format_name`, one of `LINE_FORMATS`).
        format_name: name of the format, for the signature.
        executor: executor that corrects the lines (default: the current process does). Except
            for ONNX models, worker processes need `fairseq_ssl.register` as initializer.
        overwrite: whether to replace an existing output.
        progress: creates the progress report, which receives the number of corrected lines.
    """
    if format_line is None:
        check_choice("format_name", format_name, LINE_FORMATS)
        format_line = LineFormat(format_name, config.explain)
    corpus, outputs = Corpus((optional_path(source),), BLOCK_KIB * 1024), Outputs.of(output)
    if config.format == FAIRSEQ:
        require_checkpoints(config.models)  # before the text, which can be stdin
    job = _CorrectionJob(corpus, outputs, executor, progress, config, format_line, format_name)
    if not job.run(overwrite):
        return None
    counts = {name: job.totals[name] for name in ("lines", "changed", "edits")}
    return CorrectionSummary(job.signature(), **counts, seconds=job.seconds)


@dataclass
class _CorrectionJob(TextJob):
    """Resumable job that `correct_file` runs."""

    config: CorrectionConfig
    format_line: LineFormatter
    format_name: str
    name = "correct"
    may_be_empty = True
    part_size = 2**20

    def parameters(self) -> dict[str, Any]:
        parameters = loading.model_params(self.config, "models") | {
            **asdict(self.config.search),
            "tokenizer": self.config.chosen_tokenizer,
            "format": self.format_name,
            "input": str(self.corpus),
            "input_is": self.corpus.fingerprint,
            "block": self.corpus.block_size,
        }
        for name in ("spelling", "encoder"):
            if path := getattr(self.config, name):
                parameters[name] = [str(path), *file_fingerprint(path)]
        return parameters

    def signature(self) -> Signature:
        own = self.config
        parameters: dict[str, Any] = {
            "engine": "onnx" if own.format == ONNX else "torch",
            "tokenizer": own.chosen_tokenizer,
            "format": self.format_name,
        }
        parameters |= {name: getattr(own.search, name) for name in options_of(CorrectionSearch)}
        if own.weights:
            parameters["weights"] = ",".join(map(str, own.weights))
        parameters |= changed_options(
            own, "models", "data_dir", "spelling", "encoder", "device", "threads", *parameters
        )
        if own.spelling:
            parameters["spelling_digest"] = content_digest(own.spelling)
        parameters |= {"model_digest": content_digest(*own.models)}
        parameters |= {"dictionaries": self.params["dictionaries"]}
        return Signature("correct", parameters, self.params | self.totals)

    def prepare(self) -> BlockCorrector:
        _corrector.cache_clear()  # an earlier call could have loaded a file that changed
        own = self.config
        files = fingerprints(*own.models, own.spelling, own.encoder, own.data_dir)
        return BlockCorrector(own, self.format_line, files)
