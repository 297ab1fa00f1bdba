"""Edit tagger: an encoder, such as BERT, and a layer that scores the edits of all tokens (PIE)."""

from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.models import BaseFairseqModel
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.checkpoints.bert import is_native
from fairseq_ssl.data.edit_dataset import look_up_subwords
from fairseq_ssl.edits.subwords import SubwordBatch, WordSubwords
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.common import (
    StoredConfig,
    check_heads,
    encoder_sizes,
    register_architectures,
    register_model,
)
from fairseq_ssl.models.word_encoder import (
    UNLIMITED,
    EncodedWords,
    PretrainedEncoder,
    build_pretrained_encoder,
    first_states,
    load_pretrained_weights,
    sum_embeddings,
    word_spans,
)
from fairseq_ssl.modules.edit_layers import EditEncoder, EditLogits, EditScores, EncoderSizes, Words
from fairseq_ssl.modules.functional import init_bert_weights
from fairseq_ssl.options import check_fairseq, option


@dataclass
class EditTaggerConfig(StoredConfig):
    """Options of the edit tagger. The default sizes are from BERT base."""

    encoder_layers: int = option(12, "number of encoder layers", low=1)
    encoder_embed_dim: int = option(
        768, "embedding dimension, a multiple of the number of attention heads", low=1
    )
    encoder_ffn_embed_dim: int = option(3072, "feed-forward dimension", low=1)
    encoder_attention_heads: int = option(12, "number of attention heads", low=1)
    max_source_positions: int = option(
        512,
        "maximum sentence length in tokens, including <s> and </s>; in validation and decoding, "
        "longer sentences are split into overlapping windows",
        low=1,
    )
    dropout: float = option(0.1, "dropout probability", low=0, high=1)
    attention_dropout: float = option(
        0.1, "dropout probability of attention weights", low=0, high=1
    )
    edit_unfactorized: bool = option(
        False,
        "score edits from token states only, without edit units for replacements and insertions "
        "(PIE, equation 2 and table 6)",
    )
    edit_gap_inserts: bool = option(
        False,
        "predict the insertion after a token separately from the edit of the token (PIE, table 6, "
        "row 4)",
    )
    edit_init: Optional[str] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None,
        "folder of a pretrained BERT or RoBERTa in Hugging Face format, or of a GECToR model, "
        "which also initializes the output layers; unfactorized models with --edit-unit word "
        "can use other Hugging Face encoders",
        usual="random weights",
    )
    edit_detection: bool = option(
        False, "add an error detection head, which predicts for each token whether it is edited"
    )
    edit_freeze_encoder_updates: int = option(
        0,
        "number of initial updates during which the encoder is frozen; training on several GPUs "
        "requires --find-unused-parameters; --weight-decay with --fp16, --bf16 or --ddp-backend "
        "legacy_ddp requires --optimizer bert_adam, because other optimizers would decay the "
        "frozen weights",
        low=0,
    )
    edit_layer_norm_eps: float = 1e-12
    """Epsilon of layer norms, from the pretrained encoder's config."""


@register_model("edit_tagger", dataclass=EditTaggerConfig)
class EditTagger(BaseFairseqModel):
    """An encoder, such as BERT, with an output layer for the labels of an edit dictionary (PIE)."""

    encoder: EditEncoder | PretrainedEncoder

    def __init__(
        self,
        cfg: EditTaggerConfig,
        dictionary: Any,
        edits: Any,
        words: WordSubwords | None = None,
        encoder: PretrainedEncoder | None = None,
    ) -> None:
        """Build the model.

        Args:
            cfg: the options.
            dictionary: the dictionary of the tokens to edit.
            edits: the edit dictionary.
            words: converter from tokens to the subwords that the encoder reads (default: the
                encoder reads tokens).
            encoder: an encoder from Hugging Face transformers (default: a new `EditEncoder`).
        """
        super().__init__()
        self.cfg = cfg
        self.subwords = words
        self.vocabulary_size = len(dictionary)
        self.special = {"pad": dictionary.pad(), "eos": dictionary.eos(), "unk": dictionary.unk()}
        if words is None:
            vocabulary, padding = self.vocabulary_size, dictionary.pad()
            grams = [[_id(dictionary, token) for token in gram] for gram in edits.appends]
        else:
            vocabulary, padding = words.vocabulary, words.padding
            grams = words.grams(edits.appends)
        factorized = not cfg.edit_unfactorized
        if factorized and edits.appends != edits.replaces:
            raise ConfigurationError(
                "The edit dictionary has different q-grams for appends and for replacements, but "
                "a factorized model needs the same q-grams for both. Pass --edit-unfactorized."
            )
        self.encoder = encoder or EditEncoder(_sizes(cfg, vocabulary), padding, factorized)
        dim = self.encoder.dim
        self.scores = EditScores(
            dim,
            len(edits.labels),
            grams,
            padding,
            cfg.dropout,
            cfg.edit_layer_norm_eps,
            factorized,
            cfg.edit_gap_inserts,
        )
        self.errors = nn.Linear(dim, 1) if cfg.edit_detection else None
        if self.errors is not None:
            init_bert_weights(self.errors)
        self.is_encoder_frozen = cfg.edit_freeze_encoder_updates > 0
        self.is_decoding = False

    @classmethod
    def build_model(cls, cfg: EditTaggerConfig, task: Any) -> "EditTagger":
        """Build a tagger for the edit dictionary of `task`. Load weights if `edit_init` is set."""
        if getattr(task, "edits", None) is None:
            raise ConfigurationError(
                "--arch edit_tagger needs a task with an edit dictionary. Set --task edit_labeling."
            )
        check_heads(cfg)
        words, encoder = getattr(task, "words", None), None
        if words is not None and not is_native(task.encoder.config):
            encoder = build_pretrained_encoder(cfg, task.encoder, words.padding)
            cfg.max_source_positions = min(cfg.max_source_positions, encoder.max_positions)
            words.limit(cfg.max_source_positions)
        model = cls(cfg, task.source_dictionary, task.edits, words, encoder)
        if cfg.edit_init is not None and encoder is None:
            load_pretrained_weights(cfg.edit_init, model, task)
        return model

    @classmethod
    def build_token_encoder(cls, cfg: EditTaggerConfig, dictionary: Any) -> "TokenEncoder":
        """Build only the token encoder, with random weights, for `encoder_classifier`."""
        check_fairseq(EditTaggerConfig, cfg)
        check_heads(cfg)
        return TokenEncoder(_sizes(cfg, len(dictionary)), dictionary.pad())

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        subwords: SubwordBatch | None = None,
    ) -> EditLogits:
        """Return the logits of edits and, with `edit_detection`, of errors at <s> and each token.

        Args:
            src_tokens: [batch, time], ids from <s> to </s>, padded on either side. If the encoder
                reads tokens, ids beyond the dictionary are read as <unk>.
            src_lengths: ignored.
            subwords: the subwords of `src_tokens` if the encoder reads subwords (default: look
                them up).
        """
        encoded = self._encode(src_tokens, subwords)
        units: tuple[Tensor | None, Tensor | None] = None, None
        if isinstance(self.encoder, EditEncoder) and self.encoder.factorized:
            with torch.set_grad_enabled(self._trains_encoder):
                units = self.encoder.encode_units(encoded.tokens, encoded.words)
        edits = self.scores(self._embeddings, encoded.own, encoded.hidden, *units)
        errors = None if self.errors is None else self.errors(encoded.hidden).squeeze(-1)
        return EditLogits(edits, errors)

    def _encode(self, src_tokens: Tensor, subwords: SubwordBatch | None) -> EncodedWords:
        """Return the encoder output for each <s> and each token. See `forward` for arguments."""
        with torch.set_grad_enabled(self._trains_encoder):
            if self.subwords is None:
                return self._encode_tokens(src_tokens)
            if subwords is None:
                subwords = look_up_subwords(self.subwords, src_tokens)
            return self._encode_words(SubwordBatch(*subwords))  # fairseq moves it as a tuple

    def _encode_tokens(self, src_tokens: Tensor) -> EncodedWords:
        tokens = src_tokens.masked_fill(src_tokens >= self.vocabulary_size, self.special["unk"])
        real = tokens.ne(self.special["pad"]) & tokens.ne(self.special["eos"])
        # Call this before the encoder: on a GPU, it waits for all kernels launched so far.
        sentence, place = real.nonzero(as_tuple=True)
        encoded = self.encoder.encode_tokens(tokens)
        own = None
        if self.scores.factorized:
            own = functional.embedding(tokens[sentence, place], self._embeddings)
        hidden = encoded.states[sentence, place]
        return EncodedWords(encoded, Words(sentence, place, place), own, hidden)

    def _encode_words(self, batch: SubwordBatch) -> EncodedWords:
        encoded = self.encoder.encode_tokens(batch.ids)
        own = sum_embeddings(self._embeddings, batch) if self.scores.factorized else None
        hidden = first_states(encoded.states, batch)
        words = Words.of_spans(word_spans(batch), len(batch.ids))
        return EncodedWords(encoded, words, own, hidden)

    @property
    def _trains_encoder(self) -> bool:
        return torch.is_grad_enabled() and not self.is_encoder_frozen

    @property
    def _embeddings(self) -> Tensor:
        weight: Tensor = self.encoder.tokens.weight
        return weight.detach() if self.is_encoder_frozen else weight

    def set_num_updates(self, num_updates: int) -> None:
        """Freeze the encoder during the first `edit_freeze_encoder_updates` updates.

        fairseq-train calls this method. A custom training loop must call it after each update.
        """
        super().set_num_updates(num_updates)
        self.is_encoder_frozen = num_updates < self.cfg.edit_freeze_encoder_updates

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Prepare for decoding: accept sentences of any length and cache q-gram embeddings."""
        self.is_decoding = True
        self.scores.cache_grams(self.encoder.tokens.weight)

    @property
    def max_subwords(self) -> int:
        """Maximum number of encoder inputs, subwords or tokens, without start and end symbols."""
        ends = 2 if self.subwords is None else self.subwords.ends
        return self.cfg.max_source_positions - ends

    def max_positions(self) -> int:
        """Return the maximum sentence length in tokens, or `UNLIMITED` in decoding."""
        return UNLIMITED if self.is_decoding else self.cfg.max_source_positions


def _sizes(cfg: EditTaggerConfig, vocabulary: int) -> EncoderSizes:
    """Return the encoder sizes in `cfg`, with the vocabulary size `vocabulary`."""
    return EncoderSizes(
        vocabulary=vocabulary,
        layers=cfg.encoder_layers,
        dim=cfg.encoder_embed_dim,
        inner_dim=cfg.encoder_ffn_embed_dim,
        heads=cfg.encoder_attention_heads,
        positions=cfg.max_source_positions,
        dropout=cfg.dropout,
        attention_dropout=cfg.attention_dropout,
        epsilon=cfg.edit_layer_norm_eps,
    )


class TokenEncoder(EditEncoder):
    """An unfactorized `EditEncoder` with the interface of fairseq's encoders."""

    def __init__(self, sizes: EncoderSizes, padding: int) -> None:
        super().__init__(sizes, padding, factorized=False)

    @property
    def embed_tokens(self) -> nn.Embedding:
        """The token embeddings, under the name that fairseq's encoders use."""
        return self.tokens

    def forward(  # type: ignore[override]  # the interface of fairseq's encoders
        self, src_tokens: Tensor, src_lengths: Tensor | None = None
    ) -> dict[str, list[Tensor]]:
        """Encode ids [batch, time], padded on either side. Return an output in fairseq's format."""
        states = super().forward(src_tokens).tokens
        mask = src_tokens.eq(self.padding)
        return {"encoder_out": [states.transpose(0, 1)], "encoder_padding_mask": [mask]}

    def max_positions(self) -> int:
        """Return the maximum number of tokens in a sentence."""
        return self.positions.num_embeddings


def _id(dictionary: Any, token: str) -> int:
    """Return the id of a token, or of <unk>. Unlike `dictionary.index`, never add the token."""
    return int(dictionary.indices.get(token, dictionary.unk()))


register_architectures(
    "edit_tagger",
    {
        # PIE, table 12: the sizes of BERT base and BERT large, and of a model for spelling and OCR
        "edit_tagger_base": {},
        "edit_tagger_large": encoder_sizes(24, 1024, 4096, 16),
        "edit_tagger_small": encoder_sizes(4, 200, 400, 4),
    },
)
