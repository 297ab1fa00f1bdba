"""A Transformer that generates from a vocabulary or copies from its source (PoDA, A.1)."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, register_model, register_model_architecture
from fairseq.models.transformer import (
    Embedding,
    TransformerDecoder,
    TransformerEncoder,
    TransformerModel,
)
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.models.architecture_defaults import fill_defaults
from fairseq_ssl.modules.copying import CopyAttention, Copying, SourceWords


@register_model("pointer_transformer")
class PointerTransformerModel(TransformerModel):
    """fairseq's Transformer with a pointer-generator for its output layer.

    Its vocabulary is the beginning of the dictionary. Sources and targets may hold larger ids,
    each for a word that the vocabulary lacks: it is read as <unk>, and written by copying.
    Probabilities have a column for each word of the vocabulary, and then for each unknown word
    of the sentence's source (see SourceWords).
    """

    @classmethod
    def hub_models(cls) -> dict[str, Any]:
        """Return no models: those of the stock Transformer are not of this kind."""
        return {}

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the flags of the stock Transformer and those of this model."""
        super().add_args(parser)
        parser.add_argument(
            "--copy-vocabulary",
            type=int,
            metavar="N",
            help="how many entries of the dictionary, from its beginning and with its special "
            "symbols, are the vocabulary; other words can only be copied (default: all of it)",
        )
        parser.add_argument(
            "--copy-attention-heads",
            type=int,
            metavar="N",
            help="heads whose mean the copy attention alpha is, 1 or more (default: 1)",
        )

    @classmethod
    def build_model(cls, args: Any, task: Any) -> PointerTransformerModel:
        """Build the stock Transformer with sides that copy."""
        _check(args, task)
        if not isinstance(args, Namespace):  # of Hydra's options fairseq would hand on its own only
            args = Namespace(**dict(args))
        model: PointerTransformerModel = super().build_model(args, task)
        return model

    @classmethod
    def build_embedding(
        cls, args: Any, dictionary: Any, embed_dim: int, path: str | None = None
    ) -> Any:
        """Make vectors for the vocabulary, which can be less than the dictionary."""
        return Embedding(args.copy_vocabulary, embed_dim, dictionary.pad())

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: Any) -> PointerEncoder:
        """Make the encoder."""
        return PointerEncoder(args, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: Any) -> PointerDecoder:
        """Make the decoder."""
        return PointerDecoder(args, tgt_dict, embed_tokens)

    @property
    def copy_vocabulary(self) -> int:
        """Return how many words can be generated; ids from here on can only be copied."""
        return int(self.decoder.embed_tokens.num_embeddings)

    def get_targets(self, sample: dict[str, Any], net_output: Any) -> Tensor:
        """Return the target [batch, time] by the columns that the probabilities have.

        What is neither in the vocabulary nor in the source is <unk>.
        """
        words: SourceWords = net_output[1]["copying"].words
        return words.numbered(sample["target"], self.decoder.unk)


class PointerEncoder(TransformerEncoder):
    """fairseq's encoder, which hands on the words of the source too, in `source_words`."""

    def __init__(self, args: Any, dictionary: Any, embed_tokens: Any) -> None:
        super().__init__(args, dictionary, embed_tokens)
        self.unk = dictionary.unk()

    def forward(self, src_tokens: Tensor, *args: Any, **options: Any) -> dict[str, Any]:
        """Encode `src_tokens` [batch, source time], unknown words as <unk>."""
        words = SourceWords.of(src_tokens, self.embed_tokens.num_embeddings)
        known = src_tokens.masked_fill(src_tokens >= words.vocabulary, self.unk)
        encoded: dict[str, Any] = super().forward(known, *args, **options)
        return {**encoded, "source_words": words}

    def reorder_encoder_out(self, encoder_out: Any, new_order: Tensor) -> dict[str, Any]:
        """Return what was encoded of the sentences that `new_order` [new batch] names."""
        words = encoder_out["source_words"].of_rows(new_order)
        return {**super().reorder_encoder_out(encoder_out, new_order), "source_words": words}


class PointerDecoder(TransformerDecoder):
    """fairseq's decoder with a copy attention on top."""

    def __init__(self, args: Any, dictionary: Any, embed_tokens: Any) -> None:
        super().__init__(args, dictionary, embed_tokens)
        self.unk = dictionary.unk()
        self.copy_attention = CopyAttention(
            self.output_embed_dim, args.encoder_embed_dim, args.copy_attention_heads
        )

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any = None,
        incremental_state: Any = None,
        features_only: bool = False,
        **options: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return logits [batch, time, vocabulary] and, in `copying`, what makes them p(w)."""
        unknown = prev_output_tokens >= self.embed_tokens.num_embeddings
        features, extra = super().forward(
            prev_output_tokens.masked_fill(unknown, self.unk),
            encoder_out,
            incremental_state,
            features_only=True,
            **options,
        )
        padding = encoder_out["encoder_padding_mask"]
        attention, gate = self.copy_attention(
            features, encoder_out["encoder_out"][0].transpose(0, 1), padding[0] if padding else None
        )
        extra["copying"] = Copying(encoder_out["source_words"], attention, gate)
        extra["attn"] = [attention.exp()]
        return features if features_only else self.output_layer(features), extra

    def get_normalized_probs(
        self, net_output: Any, log_probs: bool, sample: dict[str, Any] | None = None
    ) -> Tensor:
        """Return p(w) or its logarithm [batch, time, width] of equation 3."""
        logits, extra = net_output[0], net_output[1]
        lprobs: Tensor = extra["copying"].log_probabilities(logits)
        return lprobs if log_probs else lprobs.exp()

    def log_probabilities_at(self, logits: Tensor, extra: dict[str, Any], kept: Tensor) -> Tensor:
        """Return log p(w) [kept, width] of some positions, counted through the batch.

        Args:
            logits: [kept, vocabulary]
            extra: what `forward` returned beside the logits of all
            kept: [kept]
        """
        lprobs: Tensor = extra["copying"].at(kept, logits)
        return lprobs


def _check(args: Any, task: Any) -> None:
    """Refuse settings that can not be followed; fill in those that depend on the dictionary."""
    words = len(task.source_dictionary)
    if task.source_dictionary != task.target_dictionary:
        raise ConfigurationError(
            "Copying needs the same words on both sides, and source and target have other "
            "dictionaries. Binarize with fairseq-preprocess --joined-dictionary."
        )
    if args.copy_vocabulary is None:
        args.copy_vocabulary = words
    least = task.source_dictionary.nspecial + 1
    if not least <= args.copy_vocabulary <= words:
        raise ConfigurationError(
            f"--copy-vocabulary is {args.copy_vocabulary}; expected {least} to {words}, what the "
            "dictionary has."
        )
    if args.copy_attention_heads < 1 or args.decoder_output_dim % args.copy_attention_heads:
        raise ConfigurationError(
            f"--copy-attention-heads is {args.copy_attention_heads}; expected a divisor of the "
            f"decoder's output dimension, {args.decoder_output_dim}."
        )
    for name in ("adaptive_softmax_cutoff", "encoder_embed_path", "decoder_embed_path"):
        if getattr(args, name, None):
            raise ConfigurationError(
                f"{flag(name)} does not go with a pointer_transformer. Leave it out."
            )
    if getattr(args, "no_cross_attention", False) or not args.share_all_embeddings:
        raise ConfigurationError(
            "A pointer_transformer has one table of embeddings and attention to the source: "
            "--share-all-embeddings, and no --no-cross-attention."
        )


def _fill(args: Any, stock_arch: str, **sizes: Any) -> None:
    ours = {"share_all_embeddings": True, "copy_vocabulary": None, "copy_attention_heads": 1}
    fill_defaults(args, **sizes, **ours)
    ARCH_CONFIG_REGISTRY[stock_arch](args)


@register_model_architecture("pointer_transformer", "pointer_transformer")
def pointer_transformer(args: Any) -> None:
    """Fill in the sizes of section 3.1."""
    _fill(args, "transformer", encoder_ffn_embed_dim=4096, dropout=0.2)


@register_model_architecture("pointer_transformer", "pointer_transformer_tiny")
def pointer_transformer_tiny(args: Any) -> None:
    """Fill in the sizes of fairseq's tiny Transformer."""
    _fill(args, "transformer_tiny")
