"""Speed of `Corrector` relative to predict of github.com/gotutiyan/gector, in sentences/s.

Both correct the same sentences with the same GECToR model, in at most five rounds. GECToR pads each
sentence to `max_length` subwords of the model, so the ratio depends on the mean length and the
fraction of changed sentences, which are in the report. --gector is a checkout.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import harness
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

import fairseq_ssl
from fairseq_ssl.edits.gector_labels import VERB_FORMS
from fairseq_ssl.inference import Corrector, export

GOALS = {"float32": 3.0, "onnx": 3.0, "onnx-int8": 6.0}
ROUNDS = 5
MAX_LENGTH = 80


class Gector:
    """GECToR's model, tokenizer and table of verb forms."""

    def __init__(self, args: argparse.Namespace) -> None:
        sys.path.insert(0, str(args.gector / "src"))
        gector = import_module("gector")
        self.predict = import_module("gector.predict").predict
        config = gector.GECToRConfig.from_pretrained(args.model, model_id=str(args.encoder))
        config.max_length = getattr(config, "max_length", None) or MAX_LENGTH
        self.model = gector.GECToR(config).eval()
        self.model.load_state_dict(load_file(args.model / "model.safetensors"))
        self.tokenizer = AutoTokenizer.from_pretrained(args.model)
        self.verbs = gector.load_verb_dict(str(args.model / VERB_FORMS))
        self.options = {
            "keep_confidence": args.keep_bias,
            "min_error_prob": args.min_error,
            "batch_size": args.batch,
            "n_iteration": ROUNDS,
        }

    def correct(self, sentences: list[str]) -> list[str]:
        """Return the corrected sentences."""
        output: list[str] = self.predict(
            self.model, self.tokenizer, sentences, *self.verbs, **self.options
        )
        return output

    def mean_length(self, sentences: list[str]) -> float:
        """Return the mean number of subwords of the sentences, with symbols."""
        words = [["$START", *sentence.split(" ")] for sentence in sentences]
        ids = self.tokenizer(words, is_split_into_words=True)["input_ids"]
        return sum(map(len, ids)) / len(ids)


def corrector(args: argparse.Namespace, folder: Path) -> Corrector:
    """Return our corrector of the kind in `args`."""
    model, options = args.model, {"encoder": args.encoder}
    if args.kind != "float32":
        model = folder / "onnx"
        quantization = "int8" if args.kind == "onnx-int8" else "float32"
        export(args.model, model, "onnx", quantization=quantization, **options)
        options = {}
    return Corrector.from_pretrained(
        model,
        tokenizer="none",
        iterations=ROUNDS,
        keep_bias=args.keep_bias,
        min_confidence=args.min_error,
        min_sentence_confidence=args.min_error,
        batch_size=args.batch,
        threads=torch.get_num_threads(),
        **options,
    )


def main() -> None:
    """Run the benchmark."""
    options = harness.parser(__doc__ or "", gpu=False)
    options.add_argument(
        "--model", type=Path, required=True, help="GECToR model with a table of verb forms"
    )
    options.add_argument("--encoder", type=Path, required=True, help="folder of its encoder")
    options.add_argument("--text", type=Path, required=True, help="tokenized sentences")
    options.add_argument("--gector", type=Path, required=True, help="checkout of gotutiyan/gector")
    options.add_argument("--kind", choices=sorted(GOALS), default="float32")
    options.add_argument("--sentences", type=int, default=400)
    options.add_argument("--batch", type=int, default=32, help="sentences per batch")
    options.add_argument("--keep-bias", type=float, default=0.0)
    options.add_argument("--min-error", type=float, default=0.0, help="min error probability")
    args = harness.parse(options)
    if not (args.gector / "src/gector").is_dir():
        options.error(f"--gector: {args.gector} is not a checkout of gotutiyan/gector.")
    fairseq_ssl.register()
    lines = args.text.read_text(encoding="utf-8").splitlines()[: args.sentences]
    sentences = [" ".join(line.split()) for line in lines]
    outputs: dict[str, list[str]] = {}
    with TemporaryDirectory() as temporary:
        peer = Gector(args)
        ours = corrector(args, Path(temporary))

        def correct() -> int:
            outputs["ours"] = [line.text for line in ours.correct(sentences)]
            return len(sentences)

        def correct_by_gector() -> int:
            with redirect_stdout(sys.stderr):
                outputs["gector"] = peer.correct(sentences)
            return len(sentences)

        settings: dict[str, Any] = {name: str(value) for name, value in vars(args).items()}
        settings["mean_length"] = round(peer.mean_length(sentences), 1)
        comparison = harness.Comparison(
            f"corrector-{args.kind}",
            f"fairseq_ssl {args.kind}",
            "gotutiyan/gector",
            "sentences",
            GOALS[args.kind],
            settings,
        )
        harness.compare(comparison, correct, correct_by_gector, args.pairs)
    changed = sum(map(str.__ne__, outputs["gector"], sentences)) / len(sentences)
    equal = sum(map(str.__eq__, *outputs.values())) / len(sentences)
    settings |= {"changed": round(changed, 3), "equal": round(equal, 3)}
    print(
        "{mean_length} subwords per sentence, {changed:.0%} of the sentences changed, {equal:.1%} "
        "of the corrections equal".format_map(settings),
        file=sys.stderr,
    )
    harness.publish(comparison)


if __name__ == "__main__":
    main()
