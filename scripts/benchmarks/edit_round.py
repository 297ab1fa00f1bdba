"""Speed of one round of an edit tagger relative to a token classifier, in sentences/s.

Sizes are those of BERT base, with random weights. The classifier is `BertForTokenClassification`
with 5,001 labels, the forward pass of other edit taggers. --kind is the data type and the engine of
the tagger.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import harness
import torch
import transformers

from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.engine import TaggerEngine
from fairseq_ssl.edits.transforms import Transforms, english_suffixes
from fairseq_ssl.generation.tagger_export import write_onnx
from fairseq_ssl.generation.torch_engine import TorchEngine
from fairseq_ssl.inference.onnx_tagger import OnnxEngine, OnnxTagger
from fairseq_ssl.models.edit_tagger import EditTagger, EditTaggerConfig
from fairseq_ssl.text.spans import Spans
from fairseq_ssl.text.word_ids import WordIds

KINDS = ("float32", "onnx", "onnx-int8")
WORDS, LABELS = 28_996, 5_001
GOALS = {"float32": 1.5, "onnx": 1.5, "onnx-int8": 4.0}


def random_tagger(config: EditTaggerConfig) -> tuple[EditTagger, argparse.Namespace]:
    """Return an edit tagger with random weights, and what its task has."""
    words = OovDictionary()
    for number in range(WORDS - len(words)):
        words.add_symbol(f"w{number}")
    transforms = Transforms.of(english_suffixes())
    grams = tuple((f"w{number}",) for number in range((LABELS - 2 - len(transforms.table)) // 2))
    edits = EditDictionary(grams, grams, 2, transforms)
    unit = argparse.Namespace(edit_unit="subword")
    task = argparse.Namespace(source_dictionary=words, edits=edits, cfg=unit)
    torch.manual_seed(1)
    model: EditTagger = EditTagger.build_model(config, task).eval()
    model.prepare_for_inference_(None)
    return model, task


def engine(args: argparse.Namespace) -> TaggerEngine:
    """Return the engine of an edit tagger of the kind in `args`."""
    model, task = random_tagger(EditTaggerConfig(edit_unfactorized=not args.factorized))
    if args.kind == "float32":
        return TorchEngine([model], task.source_dictionary)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tagger"
        write_onnx(model, task, path, "int8" if args.kind == "onnx-int8" else "float32")
        return OnnxEngine([OnnxTagger(path, WordIds(), args.threads)])


def classifier() -> Any:
    """Return a token classifier of transformers."""
    config = transformers.BertConfig(vocab_size=WORDS, num_labels=LABELS)
    return transformers.BertForTokenClassification(config).eval()


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0], gpu=False)
    options.add_argument("--kind", choices=KINDS, default="float32", help="kind of the tagger")
    options.add_argument("--factorized", action="store_true", help="score edits by all terms")
    options.add_argument("--batch", type=int, default=1, help="sentences in a batch")
    options.add_argument("--length", type=int, default=26, help="subwords of a sentence")
    options.add_argument("--rounds", type=int, default=5, help="forward passes of a run")
    args = harness.parse(options)
    ours, theirs = engine(args), classifier()
    ids = torch.randint(4, WORDS, (args.batch, args.length))
    ids[:, 0], ids[:, -1] = 0, 2
    mask = torch.ones_like(ids)
    text = Spans.of([row[:-1].numpy() for row in ids])

    def run_tagger() -> int:
        for _ in range(args.rounds):
            ours(text)
        return int(args.rounds * args.batch)

    def run_classifier() -> int:
        with torch.inference_mode():
            for _ in range(args.rounds):
                theirs(input_ids=ids, attention_mask=mask)
        return int(args.rounds * args.batch)

    form = "factorized" if args.factorized else "unfactorized"
    names = (f"edit tagger, {form}, {args.kind}", "BertForTokenClassification, float32")
    goal = 0.9 if args.factorized else GOALS[args.kind]
    shown: dict[str, object] = {name: str(value) for name, value in vars(args).items()}
    comparison = harness.Comparison("edit_round", *names, "sentences/s", goal, shown)
    harness.compare(comparison, run_tagger, run_classifier, args.pairs)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
