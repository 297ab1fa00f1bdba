"""Transformer with a pointer-generator output layer (PoDA, appendix A.1)."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any

from fairseq.models import ARCH_CONFIG_REGISTRY, register_model_architecture
from fairseq.models.transformer import (
    Embedding,
    TransformerDecoder,
    TransformerEncoder,
    TransformerModel,
)
from torch import Tensor

from fairseq_ssl.errors import ConfigurationError, reject_options
from fairseq_ssl.models.common import fill_defaults, register_model, require_joint_dictionary
from fairseq_ssl.modules.copying import CopyAttention, Copying, SourceWords
from fairseq_ssl.options import add_options, option


@dataclass(frozen=True)
class PointerOptions:
    """Options of the pointer-generator."""

    copy_vocabulary: int | None = option(
        None,
        "number of dictionary symbols that can be generated, including special symbols; later "
        "symbols can only be copied",
        low=1,
        usual="the dictionary size",
    )
    copy_attention_heads: int = option(
        1, "number of copy attention heads; their average weights are alpha in PoDA", low=1
    )


@register_model("pointer_transformer", config=PointerOptions)
class PointerTransformerModel(TransformerModel):
    """fairseq's Transformer with a pointer-generator output layer.

    The vocabulary is the first `copy_vocabulary` entries of the dictionary. Larger ids in sources
    and targets are out-of-vocabulary words, which are embedded as <unk> and can only be copied.
    Output distributions have a column for each word in the vocabulary, followed by a column for
    each out-of-vocabulary word in the source (see `SourceWords`).
    """

    @classmethod
    def hub_models(cls) -> dict[str, Any]:
        """Return an empty dictionary: fairseq's pretrained Transformers are not compatible."""
        return {}

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the options of fairseq's Transformer and of this model to a parser."""
        super().add_args(parser)
        add_options(parser, PointerOptions)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> PointerTransformerModel:
        """Build fairseq's Transformer with `PointerEncoder` and `PointerDecoder`."""
        _check(args, task)
        # fairseq would drop options from a Hydra config that its own Transformer lacks.
        if not isinstance(args, Namespace):
            args = Namespace(**dict(args))
        model: PointerTransformerModel = super().build_model(args, task)
        return model

    @classmethod
    def build_embedding(
        cls, args: Any, dictionary: Any, embed_dim: int, path: str | None = None
    ) -> Any:
        """Build embeddings for the vocabulary, which may be smaller than the dictionary."""
        return Embedding(args.copy_vocabulary, embed_dim, dictionary.pad())

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: Any) -> PointerEncoder:
        """Build a `PointerEncoder` in place of fairseq's encoder."""
        return PointerEncoder(args, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: Any) -> PointerDecoder:
        """Build a `PointerDecoder` in place of fairseq's decoder."""
        return PointerDecoder(args, tgt_dict, embed_tokens)

    @property
    def copy_vocabulary(self) -> int:
        """Vocabulary size. Words with this id or a larger id can only be copied."""
        return int(self.decoder.embed_tokens.num_embeddings)

    def get_targets(self, sample: dict[str, Any], net_output: Any) -> Tensor:
        """Return the targets [batch, time] as column indices of the output distribution.

        Words that are neither in the vocabulary nor in the source become <unk>.
        """
        words: SourceWords = net_output[1]["copying"].words
        return words.to_local(sample["target"], self.decoder.unk)


class PointerEncoder(TransformerEncoder):
    """fairseq's encoder, with a `SourceWords` in its output under the key `source_words`."""

    def __init__(self, args: Any, dictionary: Any, embed_tokens: Any) -> None:
        super().__init__(args, dictionary, embed_tokens)
        self.unk = dictionary.unk()

    def forward(self, src_tokens: Tensor, *args: Any, **options: Any) -> dict[str, Any]:
        """Return the encoder output for `src_tokens` [batch, source time], with `source_words`.

        Out-of-vocabulary words are embedded as <unk>.
        """
        words = SourceWords.from_ids(src_tokens, self.embed_tokens.num_embeddings)
        known = src_tokens.masked_fill(src_tokens >= words.vocabulary, self.unk)
        encoded: dict[str, Any] = super().forward(known, *args, **options)
        return {**encoded, "source_words": words}

    def reorder_encoder_out(self, encoder_out: Any, new_order: Tensor) -> dict[str, Any]:
        """Return the encoder output for the sentences with the indices `new_order`."""
        words = encoder_out["source_words"].select_rows(new_order)
        return {**super().reorder_encoder_out(encoder_out, new_order), "source_words": words}


class PointerDecoder(TransformerDecoder):
    """fairseq's decoder with copy attention on top of its last layer."""

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
        """Return logits [batch, time, vocabulary] and a dictionary of extra outputs.

        With `features_only`, return features [batch, time, dim] instead of logits. The key
        `copying` of the dictionary contains a `Copying`.
        """
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
        """Return p(w) [batch, time, width] (PoDA, equation 3), or log p(w) with `log_probs`."""
        logits, extra = net_output[0], net_output[1]
        lprobs: Tensor = extra["copying"].log_probabilities(logits)
        return lprobs if log_probs else lprobs.exp()

    def log_probabilities_at(
        self, logits: Tensor, extra: dict[str, Any], positions: Tensor
    ) -> Tensor:
        """Return log p(w) [n, width] at selected positions.

        Args:
            logits: [n, vocabulary], the logits at these positions.
            extra: the second return value of `forward`.
            positions: [n], indices into the flattened batch [batch * time].
        """
        lprobs: Tensor = extra["copying"].log_probabilities_at(positions, logits)
        return lprobs


def _check(args: Any, task: Any) -> None:
    """Reject invalid options. If `copy_vocabulary` is not set, set it to the dictionary size."""
    words = len(task.source_dictionary)
    require_joint_dictionary(task.source_dictionary, task.target_dictionary, "copying")
    if args.copy_vocabulary is None:
        args.copy_vocabulary = words
    minimum = task.source_dictionary.nspecial + 1
    if not minimum <= args.copy_vocabulary <= words:
        raise ConfigurationError(
            f"--copy-vocabulary is {args.copy_vocabulary}. Expected {minimum} to {words}, the "
            "dictionary size."
        )
    if args.decoder_output_dim != args.decoder_embed_dim:
        raise ConfigurationError(
            f"--decoder-output-dim is {args.decoder_output_dim}. Expected the value of "
            f"--decoder-embed-dim, {args.decoder_embed_dim}, because the output layer shares the "
            "embeddings."
        )
    if args.decoder_output_dim % args.copy_attention_heads:
        raise ConfigurationError(
            f"--copy-attention-heads is {args.copy_attention_heads}. Expected a divisor of "
            f"--decoder-output-dim, {args.decoder_output_dim}."
        )
    names = ("adaptive_softmax_cutoff", "encoder_embed_path", "decoder_embed_path")
    reject_options("pointer_transformer", {name: getattr(args, name, None) for name in names})
    if getattr(args, "no_cross_attention", False) or not args.share_all_embeddings:
        raise ConfigurationError(
            "pointer_transformer needs shared embeddings and attention to the source. Set "
            "--share-all-embeddings and remove --no-cross-attention."
        )


def _fill_architecture(args: Any, stock_arch: str, **defaults: Any) -> None:
    fill_defaults(args, **defaults, share_all_embeddings=True, **vars(PointerOptions()))
    ARCH_CONFIG_REGISTRY[stock_arch](args)


@register_model_architecture("pointer_transformer", "pointer_transformer")
def pointer_transformer(args: Any) -> None:
    """Fill unset options with the values in PoDA, section 3.1."""
    dropouts = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.2)
    _fill_architecture(args, "transformer", encoder_ffn_embed_dim=4096, **dropouts)


@register_model_architecture("pointer_transformer", "pointer_transformer_tiny")
def pointer_transformer_tiny(args: Any) -> None:
    """Fill unset options with the sizes of fairseq's `transformer_tiny`."""
    _fill_architecture(args, "transformer_tiny")
