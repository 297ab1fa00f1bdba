"""Checkpoints of untrained fairseq models with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import fairseq_ssl

fairseq_ssl.register()
from fairseq import options, tasks  # noqa: E402
from fairseq.data import Dictionary, indexed_dataset  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402

from fairseq_ssl.edits.dictionary import EditDictionary  # noqa: E402
from fairseq_ssl.edits.transforms import Transforms  # noqa: E402

SOURCE_WORDS = tuple("abcdefg")
TARGET_WORDS = tuple("uvwxyz")
SIZES = ("--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "16")
DECODER = ("--decoder-layers", "1", "--decoder-embed-dim", "8", "--decoder-ffn-embed-dim", "16")
HEADS = ("--encoder-attention-heads", "2")
DECODER_HEADS = ("--decoder-attention-heads", "2")


def data_folder(folder: Path) -> Path:
    """Write the dictionaries of src and trg, and dict.txt, a copy of the latter."""
    folder.mkdir(exist_ok=True)
    (folder / "dict.src.txt").write_text("".join(f"{word} 1\n" for word in SOURCE_WORDS))
    with_counts = "".join(f"{word} {3 * n + 1}\n" for n, word in enumerate(TARGET_WORDS))
    for name in ("dict.trg.txt", "dict.txt"):
        (folder / name).write_text(with_counts)
    return folder


def binarized_split(data: Path, split: str, source: str, target: str) -> None:
    """Write a split of a data folder in fairseq-preprocess format."""
    for side, text in (("src", source), ("trg", target)):
        dictionary = Dictionary.load(str(data / f"dict.{side}.txt"))
        name = str(data / f"{split}.src-trg.{side}")
        builder = indexed_dataset.make_builder(f"{name}.bin", "mmap", len(dictionary))
        for line in text.splitlines():
            builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
        builder.finalize(f"{name}.idx")


def translation(path: Path, data: Path, seed: int, *flags: str, reverse: bool = False) -> Path:
    """Write a Transformer from src to trg, or from trg to src with `reverse`."""
    languages = ("-s", "trg", "-t", "src") if reverse else ("-s", "src", "-t", "trg")
    task = ("--task", "tagged_translation", *languages)
    sizes = (*SIZES, *HEADS, *DECODER, *DECODER_HEADS)
    return _write(path, data, seed, "transformer", *task, *sizes, *flags)


def copying(path: Path, data: Path, copy_vocabulary: int, *flags: str) -> Path:
    """Write a pointer_transformer, and the joint dictionary of its data folder."""
    data.mkdir()
    for name in ("dict.src.txt", "dict.trg.txt"):
        (data / name).write_text("".join(f"{word} 1\n" for word in SOURCE_WORDS))
    task = ("--task", "copying_translation", "-s", "src", "-t", "trg")
    vocabulary = ("--copy-vocabulary", str(copy_vocabulary))
    return _write(path, data, 1, "pointer_transformer_tiny", *task, *vocabulary, *flags)


def language_model(path: Path, data: Path, seed: int, *flags: str) -> Path:
    """Write a left-to-right language model of trg."""
    task = ("--task", "language_modeling", "--tokens-per-sample", "20")
    return _write(path, data, seed, "transformer_lm", *task, *DECODER, *DECODER_HEADS, *flags)


def masked_model(path: Path, data: Path, seed: int) -> Path:
    """Write a RoBERTa of trg."""
    task = ("--task", "masked_lm", "--max-positions", "20", "--tokens-per-sample", "20")
    return _write(path, data, seed, "roberta_base", *task, *SIZES, *HEADS)


def encoding(path: Path, data: Path, arch: str, *flags: str) -> Path:
    """Write a model that reads src, of any architecture."""
    task = ("--task", "translation", "-s", "src", "-t", "trg")
    if arch.startswith("edit_tagger"):
        EditDictionary.of_counts({("a",): 3}, 2, 1, Transforms()).write(data / "edits.txt")
        task = ("--task", "edit_labeling", "-s", "src", "-t", "src")
    _write(path, data, 1, arch, *task, *flags)
    state = torch.load(path, weights_only=False)
    for name, weight in state["model"].items():
        if name.endswith("tokens.weight"):
            weight[1] = 0  # training keeps the embedding of the padding at 0
    torch.save(state, path)
    return path


def classifier(path: Path, data: Path) -> Path:
    """Write an LSTM classifier for a data folder of `fairseq-ssl classify prepare`."""
    task = ("--task", "semi_supervised_classification")
    sizes = ("--recurrent-embed-dim", "8", "--recurrent-hidden-dim", "6")
    return _write(path, data, 1, "lstm_classifier", *task, *sizes)


def _write(path: Path, data: Path, seed: int, arch: str, *flags: str) -> Path:
    criterion = ("--criterion", "masked_lm" if arch == "roberta_base" else "cross_entropy")
    words = [str(data), "--arch", arch, *criterion, *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    config = convert_namespace_to_omegaconf(args)
    torch.manual_seed(seed)
    model = tasks.setup_task(config.task).build_model(config.model)
    for name, weight in model.named_parameters():  # large weights, so that scores differ
        if weight.dim() > 1 and "embed_positions" not in name:
            torch.nn.init.normal_(weight.data, std=0.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    state: dict[str, Any] = {
        "args": None,
        "cfg": _to_container(config),
        "model": model.state_dict(),
        "optimizer_history": [
            {"num_updates": 1, "optimizer_name": "", "criterion_name": "", "lr_scheduler_state": {}}
        ],
        "task_state": {},
        "extra_state": {"epoch": 1, "train_iterator": {"epoch": 1}},
    }
    torch.save(state, path)
    return path


def _to_container(config: Any) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(config, resolve=True, enum_to_str=True)
