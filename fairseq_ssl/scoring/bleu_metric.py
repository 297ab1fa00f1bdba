"""sacreBLEU's BLEU, and its tokenizers, by a name; refused in words where there is none."""

from __future__ import annotations

from typing import Any

from fairseq_ssl.errors import UsageError, import_optional, nearest
from fairseq_ssl.text.tokenization import LineRewriter


def bleu_metric(tokenizer: str = "13a") -> Any:
    """Return sacreBLEU's metric; it takes text as it is, tokenised or not."""
    metrics = import_optional("sacrebleu.metrics.bleu", "BLEU", "fairseq")
    if tokenizer not in metrics.BLEU.TOKENIZERS:
        known = list(metrics.BLEU.TOKENIZERS)
        raise UsageError(
            f"sacreBLEU has no tokenizer {tokenizer!r}.{nearest(tokenizer, known)} Expected "
            f"one of {', '.join(known)}."
        )
    try:
        return metrics.BLEU(tokenize=tokenizer, force=True)
    except (ImportError, RuntimeError, OSError) as error:  # MeCab, or a model to download
        told = " ".join(str(error).split())
        raise UsageError(f"sacreBLEU's tokenizer {tokenizer} can not start: {told}") from None


def bleu_words(tokenizer: str) -> LineRewriter:
    """Return what puts spaces between words as BLEU tells them apart; `none` lets a line be."""
    if tokenizer == "none":
        return str
    cut = bleu_metric(tokenizer).tokenizer
    return lambda line: str(cut(line.rstrip()))
