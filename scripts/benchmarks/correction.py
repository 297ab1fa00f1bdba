"""Speed of `Corrector` relative to predict of github.com/gotutiyan/gector, in sentences/s.

Both correct the same sentences with the same weights, those of an unfactorized tagger of words on a
BERT, in at most four rounds. --gector is a checkout, which needs only the packages installed here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import harness
import torch
from transformers import AutoModelForTokenClassification, AutoTokenizer

import fairseq_ssl
from fairseq_ssl.edits.transforms import parse_transform
from fairseq_ssl.inference import Corrector, export

KINDS: dict[str, tuple[dict[str, Any], float]] = {
    "float32": ({}, 2.0),
    "onnx": ({}, 2.0),
    "onnx-int8": ({}, 5.0),
}
"""Options of `Corrector`, and the goal."""
ROUNDS = 4


def gector_label(name: str) -> str:
    """Return the name in GECToR of a label of an exported tagger."""
    kind, _, argument = name.partition("_")
    if kind in ("KEEP", "DELETE"):
        return f"${name}"
    if kind in ("APPEND", "REPLACE"):
        return f"${kind}_{argument.replace('_', ' ')}"
    if kind == "MERGE" and argument != "swap":
        return f"${name.upper()}"
    return f"$TRANSFORM_VERB_{name}"


def transformed(names: Iterable[str], words: Iterable[str]) -> dict[str, str]:
    """Return the results of all transforms, by word and label, as GECToR reads verb forms."""
    results = {}
    for name in names:
        kind, _, argument = name.partition("_")
        if kind in ("KEEP", "DELETE", "APPEND", "REPLACE", "MERGE", "SPLIT"):
            continue
        transform = parse_transform(kind.lower(), argument)
        for word in words:
            changed = transform(word)
            if changed:
                results[f"{word}_{name}"] = changed
    return results


class Gector:
    """GECToR with the weights of an exported tagger."""

    def __init__(self, checkout: Path, folder: Path, max_length: int, words: set[str]) -> None:
        sys.path.insert(0, str(checkout / "src"))
        configuration, modeling = map(import_module, ("gector.configuration", "gector.modeling"))
        self.predict = import_module("gector.predict").predict
        tagger = AutoModelForTokenClassification.from_pretrained(folder)
        names = [tagger.config.id2label[label] for label in range(tagger.config.num_labels)]
        labels = [*map(gector_label, names), "<OOV>", "<PAD>"]
        config = configuration.GECToRConfig(
            model_id=str(folder),
            label2id={name: label for label, name in enumerate(labels)},
            id2label=dict(enumerate(labels)),
            max_length=max_length,
        )
        config.num_labels = len(labels)
        self.model = modeling.GECToR(config).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.tokenizer.add_special_tokens({"additional_special_tokens": ["$START"]})
        self.transformed = transformed(names, words)
        self._copy_weights(tagger)

    @torch.no_grad()
    def _copy_weights(self, tagger: Any) -> None:
        for name, weight in tagger.bert.state_dict().items():
            own = self.model.bert.state_dict()[name]
            own[: len(weight)] = weight  # one more embedding, of $START
        last = self.model.label_proj_layer
        last.bias.fill_(-1e4)
        last.weight[: len(tagger.classifier.weight)] = tagger.classifier.weight
        last.bias[: len(tagger.classifier.bias)] = tagger.classifier.bias

    def correct(self, sentences: list[str], batch: int) -> list[str]:
        """Return the corrected sentences."""
        options = {"batch_size": batch, "n_iteration": ROUNDS}
        output: list[str] = self.predict(
            self.model, self.tokenizer, sentences, {}, self.transformed, **options
        )
        return output


def corrector(args: argparse.Namespace, folder: Path) -> Corrector:
    """Return our corrector of the kind in `args`."""
    options, _ = KINDS[args.kind]
    model = args.model
    if args.kind.startswith("onnx"):
        model = folder / "onnx"
        quantization = "int8" if args.kind == "onnx-int8" else "float32"
        export(args.model, model, "onnx", quantization=quantization)
    return Corrector.from_pretrained(
        model,
        tokenizer="none",
        iterations=ROUNDS,
        batch_size=args.batch,
        threads=torch.get_num_threads(),
        **options,
    )


def main() -> None:
    """Run the benchmark."""
    options = harness.parser(__doc__ or "", gpu=False)
    options.add_argument(
        "--model", type=Path, required=True, help="checkpoint of a tagger of words"
    )
    options.add_argument("--text", type=Path, required=True, help="tokenized sentences")
    options.add_argument("--gector", type=Path, required=True, help="checkout of gotutiyan/gector")
    options.add_argument("--kind", choices=sorted(KINDS), default="float32")
    options.add_argument("--sentences", type=int, default=200)
    options.add_argument("--batch", type=int, default=32, help="sentences per batch")
    options.add_argument(
        "--max-length", type=int, default=80, help="subwords to which GECToR pads all sentences"
    )
    args = harness.parse(options)
    if not (args.gector / "src/gector").is_dir():
        options.error(f"--gector: {args.gector} is not a checkout of gotutiyan/gector.")
    fairseq_ssl.register()
    sentences = args.text.read_text().splitlines()[: args.sentences]
    outputs: dict[str, list[str]] = {}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        export(args.model, folder / "tagger", "huggingface")
        words = {word for sentence in sentences for word in sentence.split()}
        peer = Gector(args.gector, folder / "tagger", args.max_length, words)
        ours = corrector(args, folder)

        def correct() -> int:
            outputs["ours"] = [line.text for line in ours.correct(sentences)]
            return len(sentences)

        def correct_by_gector() -> int:
            with redirect_stdout(sys.stderr):
                outputs["gector"] = peer.correct(sentences, args.batch)
            return len(sentences)

        comparison = harness.Comparison(
            f"corrector-{args.kind}",
            f"fairseq_ssl {args.kind}",
            "gotutiyan/gector",
            "sentences",
            KINDS[args.kind][1],
            {name: str(value) for name, value in vars(args).items()},
        )
        harness.compare(comparison, correct, correct_by_gector, args.pairs)
    for name, output in outputs.items():
        changed = sum(one != other for one, other in zip(output, sentences, strict=True))
        print(f"{name}: {changed} of {len(sentences)} sentences are changed", file=sys.stderr)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
