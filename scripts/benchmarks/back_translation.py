"""Speed of back-translate with CTranslate2 relative to fairseq-generate, in sentences/s.

Both commands translate the same text with the same model, beam size 6 and length penalty 1. The
time includes loading. fairseq-generate runs without the plug-in. Without --model, the weights are
random and the output is as long as the input. With --model, the number of lines with equal
translations is printed.

With --against translator, the loaded model translates sentences of all lengths up to --length, and
is compared with CTranslate2's Translator on the same sentences sorted by length, in sentences per
second of CPU time. The time excludes loading.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import harness
import models
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

import fairseq_ssl
from fairseq_ssl.checkpoints.files import State, architecture, read_checkpoint, training_data
from fairseq_ssl.inference.back_translation import TranslationModel
from fairseq_ssl.inference.translation import DecodingConfig

SEARCH = ("--beam", "6", "--lenpen", "1")


def random_model(folder: Path, args: Any) -> tuple[Path, Path]:
    """Write a checkpoint with random weights, its dictionaries and a text. Return the paths."""
    task = models.words(args.vocabulary)
    model, options = models.build(args.arch, task)
    for language in ("source", "target"):
        task.source_dictionary.save(str(folder / f"dict.{language}.txt"))
    named = {"task": "translation", "source_lang": "source", "target_lang": "target"}
    trained = argparse.Namespace(**{**vars(options), **named, "data": str(folder)})
    history = {"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    state = {
        **{"args": trained, "model": model.state_dict(), "last_optimizer_state": None},
        "optimizer_history": [history],
        "extra_state": {"train_iterator": {"epoch": 1}, "val_loss": None},
    }
    torch.save(state, folder / "model.pt")
    rows = models.sentences(args.sentences, args.length + 1, args.vocabulary)[:, :-1].tolist()
    symbols = task.source_dictionary.symbols
    text = folder / "text"
    text.write_text("".join(f"{' '.join(symbols[k] for k in row)}\n" for row in rows))
    return folder / "model.pt", text


def program(name: str) -> str:
    """Return the path of a command in the active environment, or next to this interpreter."""
    return shutil.which(name) or str(Path(sys.executable).with_name(name))


def check_stock_model(state: State) -> None:
    """Exit if the model of a checkpoint is not one of fairseq."""
    arch = architecture(state)
    model = ARCH_MODEL_REGISTRY.get(arch)
    if model is None or model.__module__.split(".")[0] != "fairseq":
        sys.exit(
            f"The model of the checkpoint, {arch}, needs the plug-in, but fairseq-generate runs "
            "without it. Pass a checkpoint of fairseq's Transformer, such as the output of "
            "fairseq-ssl export --to fairseq."
        )


def run(words: Sequence[str | Path], log: Path, **environment: str) -> None:
    """Run a command with its output in the log."""
    env = {**os.environ, **environment}
    with log.open("w") as file:
        done = subprocess.run(list(map(str, words)), stdout=file, stderr=file, check=False, env=env)
    if done.returncode:
        sys.exit(f"{log.read_text()[-2000:]}\nThat failed: {' '.join(map(str, words))}")


def commands(folder: Path, model: Path, text: Path, args: Any) -> tuple[harness.Run, harness.Run]:
    """Return a run of back-translate and a run of fairseq-generate without the plug-in."""
    state = read_checkpoint(model)
    check_stock_model(state)
    data = training_data(state, args.data_dir or (None if args.model else folder))
    pair = f"{data.source}-{data.target}"
    shutil.copy(text, folder / f"test.{pair}.{data.source}")
    for dictionary in data.dictionaries:
        if not (folder / dictionary.name).exists():
            shutil.copy(dictionary, folder)
    own = folder / "own.pt"  # the converted model is stored here
    shutil.copy(model, own)
    longest = ("--max-len-b", str(250 if args.model else args.length))
    count = len(text.read_text().splitlines())
    common: tuple[str | Path, ...] = (*SEARCH, *longest, "--data-dir", folder)
    first: list[str | Path] = [program("fairseq-ssl"), "back-translate", text, "--model", own]
    first += [*common, "-s", data.source, "-t", data.target, "--force", "-o", folder / "made"]
    first += ["--engine", "ctranslate2", "--compute-type", args.compute_type]
    first += ["--device", args.device]
    second: list[str | Path] = [
        program("fairseq-generate"),
        folder,
        "--dataset-impl",
        "raw",
        "--path",
        own,
    ]
    second += ["-s", data.source, "-t", data.target, *SEARCH, "--max-len-a", "0", *longest]
    # With another multiple, fairseq drops the last sentences without the plug-in.
    second += ["--max-tokens", str(args.max_tokens), "--required-batch-size-multiple", "1"]
    second += ["--cpu"] if args.device == "cpu" else ["--fp16"]

    def back_translate() -> int:
        run(first, folder / "first.log")
        return count

    def generate() -> int:
        # Stock fairseq cannot load its checkpoints with torch 2.6 or later, unless users set this.
        run(second, folder / "generate", TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1")
        return count

    return back_translate, generate


def loaded(folder: Path, args: Any) -> tuple[harness.Run, harness.Run]:
    """Return a run of the loaded model and one of CTranslate2's Translator without the package."""
    model, text = random_model(folder, args)
    fairseq_ssl.register()
    config = DecodingConfig(
        (model,),
        data_dir=folder,
        source_lang="source",
        target_lang="target",
        beam=6,
        max_len_b=args.length,
        compute_type=args.compute_type,
        threads=torch.get_num_threads(),
    )
    own = TranslationModel(config, "ctranslate2")
    config = own.config
    translator = import_module("ctranslate2").Translator(
        str(config.model[0]), compute_type=args.compute_type, intra_threads=config.threads
    )
    lines = [
        " ".join(line.split()[: 1 + number * 7 % args.length])
        for number, line in enumerate(text.read_text().splitlines())
    ]

    def translate() -> int:
        assert len(own.translate(lines)) == len(lines)
        return len(lines)

    def translate_sorted() -> int:
        results = translator.translate_batch(
            sorted(map(str.split, lines), key=len),
            beam_size=config.beam,
            length_penalty=config.lenpen,
            max_decoding_length=config.max_len_b,
            max_batch_size=config.max_tokens,
            batch_type="tokens",
        )
        assert len(results) == len(lines)
        return len(lines)

    return translate, translate_sorted


def tell_agreement(folder: Path) -> None:
    """Print the number of lines that both commands translate equally."""
    found = re.findall(r"^H-(\d+)\t\S+\t(.*)$", (folder / "generate").read_text(), re.M)
    theirs = {int(number): line for number, line in found}
    ours = (folder / "made").read_text().splitlines()
    same = sum(theirs.get(number) == line for number, line in enumerate(ours))
    print(f"  {same} of {len(ours)} lines are the same", file=sys.stderr)


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument(
        "--arch", default="transformer", help="without --model: architecture of the model"
    )
    options.add_argument("--vocabulary", type=int, default=8000)
    options.add_argument("--sentences", type=int, default=200)
    options.add_argument("--length", type=int, default=24, help="sentence length in tokens")
    options.add_argument("--model", type=Path, help="checkpoint that CTranslate2 supports")
    options.add_argument("--data-dir", type=Path, help="with --model: folder with its dictionaries")
    options.add_argument("--text", type=Path, help="with --model: text to translate")
    options.add_argument(
        "--max-tokens", type=int, default=2000, help="max tokens of a fairseq batch"
    )
    options.add_argument(
        "--compute-type", default="float32", help="data type of CTranslate2, for example int8"
    )
    options.add_argument(
        "--against", choices=("generate", "translator"), default="generate", help="peer"
    )
    args = harness.parse(options)
    if args.model and not args.text:
        options.error("--model needs --text.")
    is_loaded = args.against == "translator"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = "Translator" if is_loaded else "fairseq-generate without the plug-in"
        comparison = harness.Comparison(
            *("back_translation", f"back-translate {args.compute_type}", peer, "sentences/s"),
            goal=0.95 if is_loaded else 5.0 if args.device == "cpu" else 3.0,
            settings={key: str(value) for key, value in vars(args).items()},
        )
        if is_loaded:
            harness.compare(comparison, *loaded(folder, args), args.pairs, clock=time.process_time)
        else:
            model, text = (args.model, args.text) if args.model else random_model(folder, args)
            harness.compare(comparison, *commands(folder, model, text, args), args.pairs)
            tell_agreement(folder)
    harness.publish(comparison)


if __name__ == "__main__":
    main()
