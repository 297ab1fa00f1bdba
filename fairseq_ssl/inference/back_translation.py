"""Back-translation for lists of lines and for files of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from fairseq_ssl.errors import UsageError, check_choice
from fairseq_ssl.inference.decoders import Conversion, CTranslate2Decoder, FairseqDecoder
from fairseq_ssl.inference.loading import ConfiguredModel, model_params
from fairseq_ssl.inference.translation import DecodingConfig
from fairseq_ssl.io.blocks import BLOCK_SIZE, Block, memory_blocks
from fairseq_ssl.io.corpus import Corpus
from fairseq_ssl.io.executors import Executor, worker_number
from fairseq_ssl.io.fingerprints import content_digest, data_params, file_fingerprint
from fairseq_ssl.io.jobs import Fingerprints, ProgressFactory, fingerprints, silent_progress
from fairseq_ssl.io.parts import BlockResult
from fairseq_ssl.io.text_files import join_lines, optional_path
from fairseq_ssl.io.text_jobs import Output, Outputs, TextJob
from fairseq_ssl.signature import Signature, changed_options

DECODERS: dict[str, type[FairseqDecoder] | type[CTranslate2Decoder]] = {
    "fairseq": FairseqDecoder,
    "ctranslate2": CTranslate2Decoder,
}
BLOCK_KIB = {"cpu": 64, "cuda": 1024}
"""Block size in KiB, by device. The lines of a block are sorted by length for batching.

Small blocks keep all cores busy on a short text. Large blocks fill the batches of a GPU.
"""
PART_BLOCKS = 16
"""Default number of input blocks per part."""
FILE_SEED, FILE_IDS = 2_654_435_761, 2**40
"""Amounts by which the seed and the sentence ids increase from one input file to the next."""
SIGNED = ("beam", "lenpen", "nbest", "sampling", "sampling_topk", "seed")
"""Search options that signatures contain even if they have their default values."""
UNSIGNED = ("model", "data_dir", "fluency_boost_lm", "fluency_boost_data", "device", "threads")
"""Fields of `DecodingConfig` that signatures omit.

Signatures contain digests of the files instead. `device` and `threads` do not affect the
translations.
"""
_DECODING = Lock()
"""Lock for fairseq decoding and for sampling, because random states are global in a process."""


OUTPUT, SOURCE_OUTPUT = "output", "source_output"
TRANSLATION_COUNTS = (
    *("lines", "blank", "too_long", "undecodable", "failed"),
    *("pairs", "read", "written"),
)
"""Names of a block's counts. `read` and `written` count tokens, and the others count lines."""


@dataclass(frozen=True)
class SourceLine:
    """A line of the source text, with its tokens and its position."""

    data: bytes
    start: int
    """Byte offset of the line in the text."""
    tokens: list[str]
    problem: str
    """Reason for skipping the line, a name in `TRANSLATION_COUNTS`, or "" if it is translated."""


@dataclass(frozen=True)
class BlockTranslator:
    """Picklable function that translates the lines of a block.

    Output lines match the input order, whatever the batching. A line that cannot be translated has
    an empty translation. A line is omitted from all outputs if the search keeps no hypothesis for
    it. Random numbers depend only on the seed and the position of the line or block in the text.
    """

    engine: str
    config: DecodingConfig
    outputs: tuple[str, ...] = (OUTPUT,)
    files: Fingerprints = ()
    """Fingerprints of models and resources. If they change, a process loads the models again."""

    def __call__(self, block: Block) -> BlockResult:
        """Translate a block with the decoder of this process."""
        decoder = process_decoder(self.engine, self.config, worker_number(), self.files)
        return self.translate(block, decoder)

    def translate(self, block: Block, decoder: FairseqDecoder | CTranslate2Decoder) -> BlockResult:
        """Translate a block. `decoder` is seeded from the config, block index and file index."""
        lines = list(self._lines(block))
        valid = [line for line in lines if not line.problem]
        number, file = block.seeds
        decoder.set_seed(self.config.seed * 1_000_003 + number + file * FILE_SEED)
        ids = [line.start + file * FILE_IDS for line in valid]
        decoded = decoder.decode([line.tokens for line in valid], ids)
        translations = {line.start: lines for line, lines in zip(valid, decoded, strict=True)}
        counts = Counter(line.problem or "translated" for line in lines)
        columns: dict[str, list[bytes]] = {OUTPUT: [], SOURCE_OUTPUT: []}
        for line in lines:
            hypotheses = translations.get(line.start)
            counts["failed"] += not line.problem and hypotheses is None
            counts["read"] += 0 if line.problem else len(line.tokens)
            for text in [""] if hypotheses is None else hypotheses:
                columns[OUTPUT].append(text.encode("utf-8"))
                columns[SOURCE_OUTPUT].append(line.data)
                counts["written"] += len(text.split())
        counts.update(lines=len(lines), pairs=len(columns[OUTPUT]))
        outputs = tuple(b"".join(line + b"\n" for line in columns[name]) for name in self.outputs)
        return BlockResult(outputs, counts)

    def _lines(self, block: Block) -> Iterator[SourceLine]:
        start = block.starts[0]
        for data in block.raw_lines():
            try:
                tokens = data.decode("utf-8").split()
                is_long = len(tokens) > self.config.max_source_tokens
                problem = "too_long" if is_long else "" if tokens else "blank"
            except UnicodeDecodeError:
                tokens, problem = [], "undecodable"
            yield SourceLine(data, start, tokens, problem)
            start += len(data) + 1


@lru_cache(maxsize=1)
def process_decoder(
    engine: str, config: DecodingConfig, worker: int, files: Fingerprints
) -> FairseqDecoder | CTranslate2Decoder:
    """Return the decoder of this process, which is cached until an argument changes."""
    return DECODERS[engine](config, worker)


class TranslationModel(ConfiguredModel):
    """A loaded translation model that returns one translation per line."""

    def __init__(self, config: DecodingConfig, engine: str) -> None:
        """Load the model.

        Args:
            config: the model and its search options.
            engine: ``fairseq`` or ``ctranslate2``.
        """
        if config.fluency_boost_lm:
            raise UsageError(
                "`fluency_boost_lm` drops lines, so translations would not be aligned with "
                "the input. Use back_translate_file with `source_output`."
            )
        self.config = _prepare(replace(config, nbest=1), engine)
        self.engine = engine
        self._translator = BlockTranslator(engine, self.config)
        self._decoder = DECODERS[engine](self.config, 0)
        is_seeded = engine == "fairseq" or config.sampling
        self._lock: Lock | nullcontext[None] = _DECODING if is_seeded else nullcontext()

    @property
    def models(self) -> list[Any]:
        """Torch modules of the ensemble. The list is empty for the engine ``ctranslate2``.

        To change their weights after a translation, use `load_state_dict` or in-place operations
        under `torch.no_grad`. Changes through `weight.data` are ignored on a CPU.
        """
        return list(getattr(self._decoder, "models", []))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.config, self.engine)

    def translate(self, lines: Iterable[str]) -> list[str]:
        """Return the translation of each line, identical to the output of `back_translate_file`.

        The method is thread-safe. The engine ``fairseq`` decodes for one thread at a time.

        Args:
            lines: tokens or subwords separated by spaces, as in the training data. Blank lines,
                lines with more than `max_source_tokens` tokens, and lines with a lone surrogate
                have empty translations.
        """
        data = join_lines(lines, "the source text").encode("utf-8", "surrogatepass")
        blocks = memory_blocks(data, _block_bytes(self.config))
        with self._lock:
            translated = [self._translator.translate(block, self._decoder) for block in blocks]
        return b"".join(block.outputs[0] for block in translated).decode("utf-8").split("\n")[:-1]


def load_model(
    path: str | Path | DecodingConfig, data_dir: str | Path | None = None, engine: str | None = None
) -> TranslationModel:
    """Load a translation model. Call `fairseq_ssl.register` first.

    Args:
        path: a checkpoint or a CTranslate2 model folder, or a `DecodingConfig` to load an ensemble
            or to set search options.
        data_dir: folder with the dictionaries of the checkpoint. It overrides `path.data_dir`.
        engine: ``fairseq`` or ``ctranslate2`` (default: ``ctranslate2`` for a folder, ``fairseq``
            for a checkpoint).

    >>> model = load_model("checkpoint_best.pt", "data-bin")  # doctest: +SKIP
    >>> model.translate(["ein kleiner Test"])  # doctest: +SKIP
    ['a small test']
    """
    config = path
    if not isinstance(config, DecodingConfig):
        config = DecodingConfig((config,), data_dir or None)
    elif data_dir:
        config = replace(config, data_dir=data_dir)
    if engine is None:
        engine = "ctranslate2" if Path(config.model[0]).is_dir() else "fairseq"
    return TranslationModel(config, engine)


def back_translate(
    lines: Iterable[str], model: str | Path, engine: str = "ctranslate2", **options: Any
) -> list[str]:
    """Load a model and return the translation of each line. Call `fairseq_ssl.register` first.

    Args:
        lines: tokens or subwords separated by spaces, as in the training data of the model.
        model: a checkpoint or a CTranslate2 model folder.
        engine: ``ctranslate2``, or ``fairseq``, which supports all architectures.
        options: fields of `DecodingConfig`, such as `data_dir` and `beam`.

    >>> back_translate(["ein Test"], "de-en.pt", data_dir="data-bin")  # doctest: +SKIP
    ['a test']
    """
    return load_model(DecodingConfig((model,), **options), engine=engine).translate(lines)


@dataclass(frozen=True)
class BackTranslationSummary:
    """Signature, outputs and counts of a translated text."""

    signature: Signature
    outputs: tuple[Path, ...]
    lines: int
    """Number of source lines."""
    pairs: int
    """Number of lines in each output."""
    blank: int
    """Number of lines without tokens."""
    too_long: int
    """Number of lines with more than `max_source_tokens` tokens."""
    undecodable: int
    """Number of lines that are not UTF-8."""
    failed: int
    """Number of lines that exceeded the available memory or the model's maximum length."""
    written: int
    """Number of tokens in the translations."""
    seconds: float
    """Translation time in seconds. For output files, it includes interrupted runs."""


def back_translate_file(
    source: str | Path | None,
    output: Output,
    config: DecodingConfig,
    *,
    engine: str = "ctranslate2",
    source_output: Output | None = None,
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> BackTranslationSummary | None:
    """Translate a text. Return None if the output was complete or other shards must finish.

    The translations do not depend on the executor, the parts or the shards. An interrupted run
    resumes.

    Args:
        source: text in the model's source language, or None for stdin.
        output: destination of the translations: a file, a folder of parts, or a binary stream.
        config: the model and its search options.
        engine: ``ctranslate2``, or ``fairseq``, which supports all architectures and searches.
        source_output: destination of the source lines, aligned with the translations: a file, or a
            folder of parts if `output` is one.
        executor: executor that translates the blocks (default: the current process does). For the
            engine ``fairseq``, worker processes need `fairseq_ssl.register` as initializer.
        overwrite: whether to replace existing outputs.
        progress: creates the progress report, which receives the number of translated lines.
    """
    check_choice("engine", engine, DECODERS)
    if source_output is not None and hasattr(output, "write"):
        raise UsageError(
            "`source_output` cannot be set if `output` is a stream. Set `output` to a file or a "
            "folder."
        )
    outputs = Outputs.of(output, *([] if source_output is None else [source_output]))
    corpus = Corpus((optional_path(source),), _block_bytes(config))
    for path in config.model:
        DECODERS[engine].check_model(Path(path))
    job = _BackTranslationJob(corpus, outputs, executor, progress, config, engine)
    if not job.run(overwrite):
        return None
    counts = {name: job.totals[name] for name in TRANSLATION_COUNTS if name != "read"}
    return BackTranslationSummary(job.signature(), outputs.paths, **counts, seconds=job.seconds)


def _block_bytes(config: DecodingConfig) -> int:
    return BLOCK_KIB["cpu" if config.device == "cpu" else "cuda"] * 1024


def needs_fairseq(config: DecodingConfig, engine: str) -> bool:
    """Return True if fairseq must load a checkpoint, which requires `fairseq_ssl.register`."""
    is_folder = Path(config.model[0]).is_dir()
    return engine == "fairseq" or not (is_folder or Conversion.of(config).is_done())


def _prepare(config: DecodingConfig, engine: str) -> DecodingConfig:
    check_choice("engine", engine, DECODERS)
    config = DECODERS[engine].prepare(config)
    return replace(config, model=tuple(Path(path).resolve() for path in config.model))


@dataclass
class _BackTranslationJob(TextJob):
    """Resumable job that `back_translate_file` runs."""

    config: DecodingConfig
    engine: str
    name, unit = "back-translate", "sentences"

    @property
    def part_size(self) -> int:
        return PART_BLOCKS * (self.corpus.block_size or BLOCK_SIZE)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the outputs that are written."""
        return (OUTPUT, SOURCE_OUTPUT)[: max(1, len(self.outputs.paths))]

    def parameters(self) -> dict[str, Any]:
        parameters = {"engine": self.engine, **model_params(self.config, "model")}
        if model := self.config.fluency_boost_lm:
            parameters["fluency_boost_lm"] = [str(model), *file_fingerprint(model)]
            parameters["fluency_boost_data"] = data_params(self.config.fluency_boost_data)
        paths = zip(self.columns, self.outputs.paths, strict=False)  # a stream has no path
        return parameters | {
            "input": str(self.corpus),
            "input_is": self.corpus.fingerprint,
            "block": self.corpus.block_size,
            "outputs": {name: str(path) for name, path in paths},
        }

    def signature(self) -> Signature:
        names = ("engine", *SIGNED, "dictionaries")
        parameters = {name: self.params[name] for name in names}
        parameters |= changed_options(self.config, *SIGNED, *UNSIGNED)
        if self.config.sampling:  # a block has one seed
            parameters["block"] = self.params["block"]
        if model := self.config.fluency_boost_lm:
            parameters["fluency_boost_digest"] = content_digest(model)
        parameters["model_digest"] = content_digest(*self.config.model)
        counts = {name: self.totals[name] for name in TRANSLATION_COUNTS}
        return Signature("back-translate", parameters, self.params | counts)

    def prepare(self) -> BlockTranslator:
        """Convert the model if necessary. Return the function that translates blocks."""
        process_decoder.cache_clear()  # an earlier call could have loaded a file that changed
        config = _prepare(self.config, self.engine)
        files = fingerprints(*config.model, config.fluency_boost_lm, config.data_dir)
        return BlockTranslator(self.engine, config, self.columns, files)

    def note(self) -> str:
        """Return the translation speed, for the log."""
        return f"{self.totals['written'] / self.seconds:.0f} tokens/s"
