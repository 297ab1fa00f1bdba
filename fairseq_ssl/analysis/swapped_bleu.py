"""BLEU of the first sentence in joined lines, original and swapped (Kiyono, 2022, table 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_ssl.analysis import figures
from fairseq_ssl.analysis.configs import SwappedBleuConfig, TranslationConfig
from fairseq_ssl.analysis.results import (
    AnalysisResult,
    Checkpoints,
    Table,
    checkpoint_digest,
    checkpoint_paths,
    mean_and_sd,
)
from fairseq_ssl.analysis.trained_models import TrainedModels, line_detokenizer, line_of, translate
from fairseq_ssl.data.binarized import join_ids, split_ids
from fairseq_ssl.data.two_view_dataset import sample_lines
from fairseq_ssl.errors import DataError
from fairseq_ssl.io.jobs import ProgressFactory, silent_progress
from fairseq_ssl.metrics.bleu import Bleu, BleuSums
from fairseq_ssl.signature import Signature
from fairseq_ssl.text.parallel_folder import first_to_end, split_sentences

KEYS = ("original", "swapped", "drop")


class SwappedBleu(AnalysisResult):
    """BLEU of the first sentence in the original and the swapped order, and the difference."""

    def tables(self) -> Iterator[Table]:
        """Yield a table with each model's mean BLEU and standard deviation, and the drop."""
        rows = [
            [name, *(f"{model[key]['mean']:.2f} ± {model[key]['sd']:.2f}" for key in KEYS)]
            for name, model in self.results["models"].items()
        ]
        yield ["", *KEYS], rows

    def draw(self, path: str | Path) -> None:
        """Draw each model's mean BLEU in the original and the swapped order as bars."""
        models = self.results["models"].items()
        orders = KEYS[:2]
        with figures.figure(path) as (ax,):
            figures.grouped_bars(
                ax,
                list(orders),
                {name: [model[order]["mean"] for order in orders] for name, model in models},
                {name: [model[order]["sd"] for order in orders] for name, model in models},
            )
            ax.set_ylabel("BLEU of the first sentence")


def score_swapped(
    checkpoints: Checkpoints,
    data: str | Path,
    config: SwappedBleuConfig | None = None,
    *,
    device: str = "cpu",
    progress: ProgressFactory = silent_progress,
) -> SwappedBleu:
    """Compute the BLEU of the first sentence of joined lines, in the original and swapped order.

    Each line is translated twice: unchanged, and with the first sentence moved to the end.

    Args:
        checkpoints: checkpoint paths by model name.
        data: data folder created by fairseq-preprocess.
        config: analysis options (default: `SwappedBleuConfig()`).
        device: ``cpu`` or ``cuda``.
        progress: creates the progress report, which receives the number of translated lines.
    """
    config = config or SwappedBleuConfig()
    plain, separator = line_detokenizer(config), config.separator

    def score(path: Path) -> dict[str, Any]:
        trained = TrainedModels.load(path, data, device)
        dataset = trained.pairs(config.subset)
        chosen = sample_lines([len(dataset)], config.lines, config.seed).tolist()
        references = list(map(plain, first_references(trained, dataset, chosen, separator)))
        metric = Bleu([references], config.tokenize)
        run: dict[str, Any] = {"checkpoint": str(path), "lines": len(chosen)}
        for kind in KEYS[:2]:
            report = progress(f"{path}, {kind}", "lines", len(chosen))
            lines_of_first, miscounted = first_sentences(
                *(trained, dataset, chosen, config, report), swapped=kind == "swapped"
            )
            bleu = metric.corpus_score(list(map(plain, lines_of_first))).score
            run |= {kind: round(bleu, 2), f"{kind}_miscounted": miscounted}
            run["sacrebleu"] = BleuSums(config.tokenize).signature()
        return {**run, "drop": round(run["original"] - run["swapped"], 2)}

    runs = {name: list(map(score, paths)) for name, paths in checkpoint_paths(checkpoints).items()}
    models = {
        name: {**{key: mean_and_sd(run[key] for run in of_model) for key in KEYS}, "runs": of_model}
        for name, of_model in runs.items()
    }
    parameters = {
        "subset": config.subset,
        "lines": config.lines,
        "seed": config.seed,
        **config.parameters(),
        "sacrebleu": next(iter(runs.values()))[0]["sacrebleu"],
        "checkpoint_digest": checkpoint_digest(checkpoints),
    }
    return SwappedBleu(Signature("swapped-bleu", parameters), {"models": models})


def first_sentences(
    trained: TrainedModels,
    dataset: Any,
    chosen: Sequence[int],
    config: TranslationConfig,
    done: Callable[[int], object],
    *,
    swapped: bool,
) -> tuple[list[str], int]:
    """Translate the lines with indices `chosen`. Return the translations of their first sentences.

    Also return the number of outputs with more or fewer sentences than the source.

    If `swapped`, the first sentence is moved to the end, so its translation is the last sentence.
    """
    dictionary, separator = trained.task.source_dictionary, config.separator
    copied = getattr(dictionary, "unknown", ())  # for models that copy, `index` adds every word
    if separator not in dictionary and separator not in copied:
        raise DataError(
            f"The dictionary of {trained.task.cfg.data} does not contain {separator!r}. Set "
            "`separator` to the token between joined sentences (see fairseq-ssl position-data)."
        )
    mark = dictionary.index(separator)
    sources = [dataset.src[i] for i in chosen]
    if swapped:
        sources = [swap(source, mark) for source in sources]
    lines = translate(trained, trained.inputs(sources), config, done)
    sentences = [split_sentences(line, separator) for line in lines]
    counts = [int(source.eq(mark).sum()) + 1 for source in sources]
    miscounted = sum(len(parts) != count for parts, count in zip(sentences, counts, strict=True))
    return [parts[-1 if swapped else 0] for parts in sentences], miscounted


def swap(tokens: Tensor, mark: int) -> Tensor:
    """Move the sentence before the first separator to the end, before </s>.

    Args:
        tokens: ids of the joined sentences and </s>, [time].
        mark: id of the separator.
    """
    sentences = split_ids(tokens[:-1].numpy(), mark)
    swapped = torch.from_numpy(join_ids(first_to_end(sentences), mark))
    return torch.cat([swapped, tokens[-1:]])


def first_references(
    trained: TrainedModels, dataset: Any, chosen: Sequence[int], separator: str
) -> list[str]:
    """Return the first target sentence of each line whose index is in `chosen`."""
    return [split_sentences(line_of(trained, dataset.tgt[i]), separator)[0] for i in chosen]
