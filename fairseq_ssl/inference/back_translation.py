"""Back-translation of lists of lines and of files of any size."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import IO, Any

from fairseq_ssl._version import __version__
from fairseq_ssl.errors import DataError, UsageError, check_positive
from fairseq_ssl.inference.decoders import Conversion, CTranslate2Decoder, FairseqDecoder
from fairseq_ssl.inference.loading import ConfiguredModel, check_fields
from fairseq_ssl.inference.translation import (
    OUTPUT,
    SOURCE_OUTPUT,
    TRANSLATION_COUNTS,
    BlockTranslator,
    DecodingConfig,
    process_decoder,
)
from fairseq_ssl.io.blocks import byte_blocks
from fairseq_ssl.io.executors import Executor, LocalExecutor
from fairseq_ssl.io.fingerprints import content_digest, data_params, file_fingerprint
from fairseq_ssl.io.jobs import (
    Chunks,
    JobState,
    ProgressFactory,
    TextInput,
    check_distinct,
    file_or_stream,
    fingerprints,
    run_job,
    silent_progress,
)
from fairseq_ssl.io.text_files import join_lines, optional_path
from fairseq_ssl.signature import Signature, changed_options

DECODERS: dict[str, type[FairseqDecoder] | type[CTranslate2Decoder]] = {
    "fairseq": FairseqDecoder,
    "ctranslate2": CTranslate2Decoder,
}
BLOCK_KIB = {"cpu": 64, "cuda": 1024}
"""Default block size in KiB by device.

Small blocks keep all cores busy on a short text. Large blocks fill the batches of a GPU.
"""
SHARD_KIB = 1024
"""Shards begin at multiples of it in KiB, a multiple of the default blocks of all devices."""
SIGNED = ("beam", "lenpen", "nbest", "sampling", "sampling_topk", "seed")
"""Search options in all signatures."""
UNSIGNED = ("model", "data_dir", "fluency_boost_lm", "fluency_boost_data", "device", "threads")
"""Fields of `DecodingConfig` that have a digest or do not change the translations."""
_DECODING = Lock()
"""Held by a thread that decodes with fairseq or samples. Random seeds belong to the process."""


class TranslationModel(ConfiguredModel):
    """Translation model in memory, which returns one translation for each line."""

    def __init__(self, config: DecodingConfig, engine: str) -> None:
        """Load the model.

        Args:
            config: the model and its search options.
            engine: ``fairseq`` or ``ctranslate2``.
        """
        if config.fluency_boost_lm:
            raise UsageError(
                "`fluency_boost_lm` drops lines, so that translations would not match the lines. "
                "Use back_translate_file with `source_output`."
            )
        self.config = _prepare(replace(config, nbest=1), engine)
        self.engine = engine
        self._translator = BlockTranslator(DECODERS[engine], self.config)
        self._decoder = DECODERS[engine](self.config, 0)
        is_seeded = engine == "fairseq" or config.sampling
        self._lock: Lock | nullcontext[None] = _DECODING if is_seeded else nullcontext()

    @property
    def models(self) -> list[Any]:
        """The torch modules of the ensemble. The engine ``ctranslate2`` has none.

        To change their weights after a translation, use `load_state_dict` or in-place operations
        under `torch.no_grad`. Changes through `weight.data` are ignored on a CPU.
        """
        return list(getattr(self._decoder, "models", []))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.config, self.engine)

    def translate(self, lines: Iterable[str]) -> list[str]:
        """Return the translation of each line, equal to the output of `back_translate_file`.

        Several threads may call it. The engine ``fairseq`` decodes for one thread at a time.

        Args:
            lines: tokens or subwords separated by spaces, as in the training data. Blank lines,
                lines of more than `max_source_tokens` tokens, and lines with a lone surrogate have
                empty translations.
        """
        data = join_lines(lines, "the source text").encode("utf-8", "surrogatepass")
        blocks = byte_blocks(io.BytesIO(data), size=_block_bytes(self.config))
        with self._lock:
            translated = [self._translator.translate(block, self._decoder) for block in blocks]
        return b"".join(block.outputs[0] for block in translated).decode("utf-8").split("\n")[:-1]


def load_model(
    path: str | Path | DecodingConfig, data_dir: str | Path | None = None, engine: str | None = None
) -> TranslationModel:
    """Load a translation model. Call `fairseq_ssl.register` first.

    Args:
        path: a checkpoint or the folder of a CTranslate2 model, or a `DecodingConfig` to load an
            ensemble or to set search options.
        data_dir: folder with the dictionaries of the checkpoint. It replaces that of a config.
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
        model: a checkpoint or the folder of a CTranslate2 model.
        engine: ``ctranslate2``, or ``fairseq``, which supports all architectures.
        options: fields of `DecodingConfig`, such as `data_dir` and `beam`.

    >>> back_translate(["ein Test"], "de-en.pt", data_dir="data-bin")  # doctest: +SKIP
    ['a test']
    """
    check_fields(DecodingConfig, options)
    return load_model(DecodingConfig((model,), **options), engine=engine).translate(lines)


@dataclass(frozen=True)
class BackTranslationSummary:
    """Counts of a translated text."""

    signature: Signature
    outputs: tuple[Path, ...]
    lines: int
    """Number of source lines."""
    pairs: int
    """Number of lines in each output."""
    blank: int
    """Number of lines without tokens."""
    too_long: int
    """Number of lines of more than `max_source_tokens` tokens."""
    undecodable: int
    """Number of lines that are not UTF-8."""
    failed: int
    """Number of lines that did not fit into memory or into the positions of the model."""
    written: int
    """Number of tokens in the translations."""
    seconds: float
    """Time of the translation, including interrupted runs."""


def back_translate_file(
    source: str | Path | None,
    output: str | Path | IO[bytes],
    config: DecodingConfig,
    *,
    engine: str = "ctranslate2",
    source_output: str | Path | None = None,
    block: int | None = None,
    shard: tuple[int, int] = (1, 1),
    executor: Executor | None = None,
    overwrite: bool = False,
    progress: ProgressFactory = silent_progress,
) -> BackTranslationSummary | None:
    """Translate a file. Return None if an earlier run has completed the outputs.

    The translations do not depend on the number of processes and shards. An interrupted run
    resumes.

    Args:
        source: file in the model's source language, compressed if it ends with ``.gz``. None:
            stdin.
        output: file for the translations, compressed if it ends with ``.gz``, or a binary stream.
        config: the model and its search options.
        engine: ``ctranslate2``, or ``fairseq``, which supports all architectures and searches.
        source_output: file for the source lines, aligned with the translations.
        block: size in KiB of the blocks of text that are sorted by length and translated one at a
            time (default: see `BLOCK_KIB`).
        shard: (i, n) for the i-th of n shards of the source, which begin at multiples of `block`
            (default: of `SHARD_KIB`). The names of the outputs get the shard as a suffix.
        executor: executor of the translation (default: this process). For the engine ``fairseq``,
            its processes need `fairseq_ssl.register` as initializer.
        overwrite: whether to replace existing outputs.
        progress: called with the number of lines translated.
    """
    _check_engine(engine)
    translations, stream = file_or_stream(output)
    if translations is None and (source_output or shard != (1, 1)):
        raise UsageError("`source_output` and `shard` need `output` to be a file.")
    text = _text_input(source, shard, config, block)
    files = {OUTPUT: translations, SOURCE_OUTPUT: source_output}
    outputs = {
        name: text.shard_path(Path(path)) for name, path in files.items() if path is not None
    }
    check_distinct([text.path], outputs.values())
    for path in config.model:
        DECODERS[engine].check_model(Path(path))
    job = _BackTranslationJob(config, engine, text, outputs, executor or LocalExecutor(1), progress)
    written = run_job(
        list(outputs.values()),
        job.params,
        job.chunks,
        job.signature,
        overwrite=overwrite,
        from_stdin=source is None,
        stdout=stream,
    )
    return job.summary() if written else None


def _text_input(
    source: str | Path | None, shard: tuple[int, int], config: DecodingConfig, block: int | None
) -> TextInput:
    size = _block_bytes(config, block)
    shard_size = SHARD_KIB * 1024 if block is None else size
    return TextInput(optional_path(source), shard, size=size, shard_size=shard_size)


def _block_bytes(config: DecodingConfig, block: int | None = None) -> int:
    if block is None:
        block = BLOCK_KIB["cpu" if config.device == "cpu" else "cuda"]
    check_positive("block", block)
    return int(block) * 1024


def needs_fairseq(config: DecodingConfig, engine: str) -> bool:
    """Return True if fairseq has to load a checkpoint, which needs `fairseq_ssl.register`."""
    is_folder = Path(config.model[0]).is_dir()
    return engine == "fairseq" or not (is_folder or Conversion.of(config).is_done())


def _check_engine(engine: str) -> None:
    if engine not in DECODERS:
        raise UsageError(f"`engine` is {engine!r}. Expected {' or '.join(DECODERS)}.")


def _prepare(config: DecodingConfig, engine: str) -> DecodingConfig:
    _check_engine(engine)
    config = DECODERS[engine].prepare(config)
    return replace(config, model=tuple(Path(path).resolve() for path in config.model))


@dataclass
class _BackTranslationJob:
    """Arguments and counts of one call of `back_translate_file`."""

    config: DecodingConfig
    engine: str
    text: TextInput
    outputs: dict[str, Path]
    executor: Executor
    progress: ProgressFactory
    totals: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        config = asdict(self.config)
        del config["threads"]
        config["model"] = [[str(path), *file_fingerprint(path)] for path in self.config.model]
        config |= data_params(self.config.data_dir)
        if model := self.config.fluency_boost_lm:
            config["fluency_boost_lm"] = [str(model), *file_fingerprint(model)]
            config["fluency_boost_data"] = data_params(self.config.fluency_boost_data)
        self.params: dict[str, Any] = {
            "engine": self.engine,
            **config,
            "input": str(self.text),
            "input_is": self.text.fingerprint,
            "block": self.text.size,
            "outputs": {name: str(path) for name, path in self.outputs.items()},
            "shard": "{}/{}".format(*self.text.shard),
            "version": __version__,
        }
        """Parameters that determine the content of the outputs."""

    def signature(self) -> Signature:
        """Return a signature with the parameters of the outputs and the counts of all lines."""
        names = ("engine", *SIGNED, "dictionaries")
        parameters = {name: self.params[name] for name in names}
        parameters |= changed_options(self.config, *SIGNED, *UNSIGNED)
        if (text := self.text).shard != (1, 1):
            parameters["shard"] = self.params["shard"]
        if self.config.sampling:  # a block has one seed
            parameters["block"] = text.size
        if model := self.config.fluency_boost_lm:
            parameters["fluency_boost_digest"] = content_digest(model)
        parameters["model_digest"] = content_digest(*self.config.model)
        counts = {name: self.totals[name] for name in TRANSLATION_COUNTS}
        return Signature("back-translate", parameters, self.params | counts)

    def summary(self) -> BackTranslationSummary:
        """Return the counts of the outputs, including the lines of interrupted runs."""
        names = ("lines", "pairs", "blank", "too_long", "undecodable", "failed", "written")
        return BackTranslationSummary(
            self.signature(),
            tuple(self.outputs.values()),
            **{name: self.totals[name] for name in names},
            seconds=self.seconds,
        )

    def chunks(self, state: JobState) -> Iterator[tuple[Chunks, JobState]]:
        """Translate the text from the position in `state`, or from the start if it is empty.

        Yield the output bytes of each block, and the state after the block.
        """
        self.text.resume(state, self.totals)
        process_decoder.cache_clear()  # an earlier call could have loaded a file that changed
        outputs = self.outputs or {OUTPUT: Path()}
        config = _prepare(self.config, self.engine)
        translator = BlockTranslator(
            DECODERS[self.engine],
            config,
            tuple(outputs),
            tuple(path.suffix == ".gz" for path in outputs.values()),
            fingerprints(*config.model, config.fluency_boost_lm, config.data_dir),
        )
        report = self.progress("back-translate", "sentences")
        self.seconds = state.get("time", 0.0)
        begin = time.monotonic() - self.seconds
        for result, share in self.text.map_blocks(self.executor, translator):
            self.totals.update(result.counts)
            self.seconds = time.monotonic() - begin
            speed = f"{self.totals['written'] / self.seconds:.0f} tokens/s"
            report(result.counts["lines"], share, speed)
            now = {"position": result.end, "totals": self.totals, "time": self.seconds}
            yield result.outputs, now
        if not self.totals["lines"] and self.text.shard == (1, 1):
            raise DataError(f"{self.text} is empty. Expected at least one line.")
