"""Speed of an export to CTranslate2 relative to fairseq's generator, in sentences/s.

Both translate the same random sentences with the same beam size and the same batch size into
outputs of the same length. fairseq uses all threads for
one batch. CTranslate2 divides them among --workers batches in parallel. The time excludes loading.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ctranslate2
import harness
import models
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_ssl.checkpoints.conversion import STOCK_COUNTERPART, to_stock
from fairseq_ssl.checkpoints.ctranslate2 import write_ctranslate2
from fairseq_ssl.checkpoints.files import TrainingData


def fairseq_translator(model: Any, task: models.Words, source: Any, args: Any) -> harness.Run:
    """Return a run that translates `source` with fairseq's beam search."""
    model.to(args.device).eval()
    generation = argparse.Namespace(beam=args.beam, print_alignment=None)
    model.prepare_for_inference_(argparse.Namespace(generation=generation))
    generator = SequenceGenerator(
        *([model], task.target_dictionary),
        beam_size=args.beam,
        max_len_a=0,
        max_len_b=args.length,
        min_len=args.length,
    )
    batches = [batch.to(args.device) for batch in source.split(args.batch)]

    def translate() -> int:
        with torch.inference_mode():
            for batch in batches:
                lengths = torch.full((len(batch),), batch.size(1), device=args.device)
                generator.generate([], {"net_input": {"src_tokens": batch, "src_lengths": lengths}})
        return len(source)

    return translate


def ctranslate2_translator(folder: Path, task: models.Words, source: Any, args: Any) -> harness.Run:
    """Return a run that translates `source` with the exported model."""
    symbols = task.source_dictionary.symbols
    lines = [[symbols[token] for token in row[:-1]] for row in source.tolist()]
    translator = ctranslate2.Translator(
        str(folder),
        device=args.device,
        compute_type=args.compute_type,
        inter_threads=args.workers,
        intra_threads=max(1, torch.get_num_threads() // args.workers),
    )

    def translate() -> int:
        translator.translate_batch(
            lines,
            beam_size=args.beam,
            max_batch_size=args.batch,
            min_decoding_length=args.length,
            max_decoding_length=args.length,
        )
        return len(lines)

    return translate


def export(model: Any, options: Any, task: models.Words, folder: Path, compute_type: str) -> Path:
    """Export the model to CTranslate2's format and return the folder."""
    for language in ("source", "target"):
        task.source_dictionary.save(str(folder / f"dict.{language}.txt"))
    languages = {"_name": "translation", "source_lang": "source", "target_lang": "target"}
    cfg = {"model": options, "task": languages}
    stock = to_stock({"args": None, "cfg": cfg, "model": model.state_dict()})
    write_ctranslate2(
        stock, TrainingData(folder, "source", "target"), folder / "model", compute_type
    )
    return folder / "model"


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--arch", choices=STOCK_COUNTERPART, default="shape_transformer")
    options.add_argument("--sentences", type=int, default=64)
    options.add_argument(
        "--length", type=int, default=24, help="length of source and target in tokens"
    )
    options.add_argument("--batch", type=int, default=16, help="sentences in a batch")
    options.add_argument("--beam", type=int, default=5)
    options.add_argument("--vocabulary", type=int, default=32000, help="size of both dictionaries")
    options.add_argument(
        "--workers",
        type=int,
        default=2,
        help="batches that CTranslate2 translates in parallel on a CPU",
    )
    options.add_argument(
        "--compute-type", default="float32", help="data type of CTranslate2, for example int8"
    )
    args = harness.parse(options)
    task = models.words(args.vocabulary)
    model, model_options = models.build(args.arch, task)
    source = models.sentences(args.sentences, args.length, args.vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        exported = export(model, model_options, task, Path(folder), args.compute_type)
        first = ctranslate2_translator(exported, task, source, args)
        second = fairseq_translator(model, task, source, args)
        comparison = harness.Comparison(
            *("ctranslate2_export", f"ctranslate2 {args.compute_type}"),
            *("fairseq float32, no plug-in", "sentences/s"),
            goal=5.0,
            settings=vars(args),
        )
        harness.compare(comparison, first, second, args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
