"""Tiny language models in folders, with random weights, as transformers saves them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SIZES: dict[str, Any] = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 40,
}


def bert(folder: Path, seed: int = 1) -> Path:
    """Save a BERT that reads letters."""
    folder.mkdir()
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{x}" for x in LETTERS)]
    (folder / "vocab.txt").write_text("\n".join([*pieces, "good", "bad", "film"]) + "\n")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(vocab_size=len(pieces) + 3, **SIZES)
    return _saved(transformers.BertForMaskedLM, config, folder, seed)


PANIC = "a" * 40 + "!"
"""A word for which the expression of `add_panic` needs too many steps, so that Rust panics."""
DAMAGED_MAP = {"type": "Precompiled", "precompiled_charsmap": "AQ=="}
"""A normalizer that panics when it is loaded."""


def add_panic(tokenizer: dict[str, Any]) -> None:
    """Let a tokenizer.json of the BERT panic at `PANIC`."""
    split = {
        "type": "Split",
        "pattern": {"Regex": "(a+)+$|(a|aa)+b"},
        "behavior": "Isolated",
        "invert": False,
    }
    parts = [split, tokenizer["pre_tokenizer"]]
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": parts}


def change_tokenizer(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the tokenizer.json in a folder, which transformers 5 reads for this class only."""
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


def electra(folder: Path, seed: int = 1) -> Path:
    """Save an ELECTRA that reads the subwords of the BERT."""
    bert(folder)
    symbols = len((folder / "vocab.txt").read_text().splitlines())
    config = transformers.ElectraConfig(vocab_size=symbols, **SIZES)
    return _saved(transformers.ElectraForMaskedLM, config, folder, seed)


def roberta(folder: Path, seed: int = 1) -> Path:
    """Save a RoBERTa that reads letters; its ids of <pad> and positions are not 0."""
    folder.mkdir()
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "Ġ", *LETTERS, "<mask>"]
    rows = {symbol: row for row, symbol in enumerate(symbols)}
    (folder / "vocab.json").write_text(json.dumps(rows))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    files = (str(folder / "vocab.json"), str(folder / "merges.txt"))
    transformers.RobertaTokenizerFast(*files).save_pretrained(folder)
    config = transformers.RobertaConfig(vocab_size=len(symbols), pad_token_id=1, **SIZES)
    return _saved(transformers.RobertaForMaskedLM, config, folder, seed)


def _saved(model: Any, config: Any, folder: Path, seed: int) -> Path:
    torch.manual_seed(seed)
    made = model(config)
    with torch.no_grad():
        for weight in made.parameters():  # as they come they are all but zero
            weight.mul_(8)
    made.save_pretrained(folder)
    return folder
