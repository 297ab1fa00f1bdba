"""Parallel edit labeling: an encoder that tells for each token what is to become of it (PIE)."""

import logging
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch
from fairseq import hub_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.models import BaseFairseqModel, register_model, register_model_architecture
from torch import Tensor, nn

import fairseq_ssl
from fairseq_ssl.checkpoints.bert import TaggerSizes, initial_weights
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.architecture_defaults import fill_sizes
from fairseq_ssl.modules.edit_layers import (
    EditEncoder,
    EditScores,
    EncoderSizes,
    TokenEncoder,
    initialize,
)

logger = logging.getLogger(__name__)

UNLIMITED = 10**9


@dataclass
class EditTaggerConfig(FairseqDataclass):
    """The options of the model; its defaults are BERT's base size."""

    encoder_layers: int = field(default=12, metadata={"help": "layers (default: 12)"})
    encoder_embed_dim: int = field(
        default=768, metadata={"help": "size of embeddings and states (default: 768)"}
    )
    encoder_ffn_embed_dim: int = field(
        default=3072, metadata={"help": "size inside a layer's two linear maps (default: 3072)"}
    )
    encoder_attention_heads: int = field(
        default=12, metadata={"help": "heads of attention (default: 12)"}
    )
    max_source_positions: int = field(
        default=512,
        metadata={
            "help": "tokens that the model sees at once, start and end included; longer sentences "
            "are decoded in windows that overlap (default: 512)"
        },
    )
    dropout: float = field(
        default=0.1, metadata={"help": "dropout of states, 0 to 1 (default: 0.1)"}
    )
    attention_dropout: float = field(
        default=0.1, metadata={"help": "dropout of attention, 0 to 1 (default: 0.1)"}
    )
    edit_unfactorized: bool = field(
        default=False,
        metadata={
            "help": "score edits from the states of the tokens alone, without the units for what "
            "could replace and follow them (PIE, equation 2 and table 6)"
        },
    )
    edit_gap_inserts: bool = field(
        default=False,
        metadata={
            "help": "decide apart from the edit of a token what is inserted in the gap after it "
            "(PIE, table 6, row 4)"
        },
    )
    edit_init: Optional[str] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={
            "help": "start from a language model: bert:FOLDER, with config.json, the vocabulary "
            "and weights of a BERT or RoBERTa as Hugging Face stores them (default: at random)"
        },
    )
    edit_layer_norm_eps: float = field(
        default=1e-12,
        metadata={"help": "epsilon of the norms: 1e-5 for RoBERTa (default: 1e-12, BERT's)"},
    )
    edit_detection: bool = field(
        default=False,
        metadata={"help": "also predict for each token whether it has an edit, whatever which"},
    )
    edit_autocast: bool = field(
        default=False,
        metadata={
            "help": "multiply matrices in bfloat16, and keep the weights in float32: on a CPU that "
            "can do so about twice as fast (there, fairseq's own --bf16 asks for a TPU)"
        },
    )
    edit_freeze_encoder_updates: int = field(
        default=0,
        metadata={
            "help": "train only the scores in the first updates, and leave the encoder as it was "
            "initialized; 0 or more; on several GPUs add --find-unused-parameters (default: 0)"
        },
    )


class EditLogits(NamedTuple):
    """Scores for the start and each token of all sentences, end to end."""

    edits: Tensor
    """[positions, labels]"""
    errors: Tensor | None
    """[positions]: logit of the probability that there is an edit."""


@register_model("edit_tagger", dataclass=EditTaggerConfig)
class EditTagger(BaseFairseqModel):
    """Scores all edits of all tokens at once."""

    def __init__(self, cfg: EditTaggerConfig, dictionary: Any, edits: Any) -> None:
        """Make the model of a dictionary of tokens and one of edits."""
        super().__init__()
        self.cfg = cfg
        self.known = len(dictionary)
        self.special = {"pad": dictionary.pad(), "eos": dictionary.eos(), "unk": dictionary.unk()}
        sizes = _sizes(cfg, self.known)
        factorized = not cfg.edit_unfactorized
        self.encoder = EditEncoder(sizes, dictionary.pad(), factorized)
        self.scores = EditScores(
            sizes.dim,
            len(edits.labels),
            [[_id(dictionary, token) for token in gram] for gram in edits.grams],
            dictionary.pad(),
            cfg.dropout,
            cfg.edit_layer_norm_eps,
            factorized,
            cfg.edit_gap_inserts,
        )
        self.errors = nn.Linear(sizes.dim, 1) if cfg.edit_detection else None
        if self.errors is not None:
            initialize(self.errors)
        self.is_cold = cfg.edit_freeze_encoder_updates > 0
        self.is_decoding = False
        self.is_quantized = False

    @classmethod
    def build_model(cls, cfg: EditTaggerConfig, task: Any) -> "EditTagger":
        """Make the model for a task of edit labeling."""
        if getattr(task, "edits", None) is None:
            raise ConfigurationError(
                "An edit_tagger needs a dictionary of edits. Use it with --task edit_labeling."
            )
        if cfg.encoder_embed_dim % cfg.encoder_attention_heads:
            raise ConfigurationError(
                f"--encoder-embed-dim {cfg.encoder_embed_dim} is no multiple of "
                f"--encoder-attention-heads {cfg.encoder_attention_heads}."
            )
        model = cls(cfg, task.source_dictionary, task.edits)
        if cfg.edit_init is not None:
            _start_from(cfg.edit_init, model, task.source_dictionary.symbols)
        return model

    @classmethod
    def word_encoder(cls, cfg: EditTaggerConfig, dictionary: Any) -> TokenEncoder:
        """Make the encoder alone, at random, for what needs the states of words and no edits."""
        return TokenEncoder(_sizes(cfg, len(dictionary)), dictionary.pad())

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str = "checkpoint_best.pt",
        data_name_or_path: str = ".",
        **overrides: Any,
    ) -> Any:
        """Load what corrects sentences: see `generation.edit_corrector.EditCorrector`.

        Args:
            model_name_or_path: folder of the checkpoints
            checkpoint_file: one of them, or several with : between them, an ensemble
            data_name_or_path: folder of dict.*.txt and edits.txt; one that begins with . is
                taken from the folder of the checkpoints
            overrides: other values for options of the training, and of the correction, as in
                edit_iterations=2
        """
        fairseq_ssl.register()
        loaded = hub_utils.from_pretrained(
            model_name_or_path, checkpoint_file, data_name_or_path, **overrides
        )
        return loaded["task"].build_corrector(loaded["models"], loaded["args"])

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None) -> EditLogits:
        """Score the edits of sentences.

        Args:
            src_tokens: ids [batch, time] from <s> to </s>, padded on either side; those above
                the dictionary's stand for unknown words
            src_lengths: not used
        """
        wanted = self.cfg.edit_autocast and self.encoder.mask.dtype == torch.float32
        with torch.autocast(src_tokens.device.type, torch.bfloat16, enabled=wanted):
            return self._scored(src_tokens)

    def _scored(self, src_tokens: Tensor) -> EditLogits:
        tokens = src_tokens.masked_fill(src_tokens >= self.known, self.special["unk"])
        embeddings = self.encoder.tokens.weight
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.is_cold):
            states = self.encoder(tokens)
        if self.is_cold:
            embeddings = embeddings.detach()
        real = tokens.ne(self.special["pad"]) & tokens.ne(self.special["eos"])
        hidden = states.tokens[real]
        others = (None if part is None else part[real] for part in states[1:])
        edits = self.scores(embeddings, tokens[real], hidden, *others)
        errors = None if self.errors is None else self.errors(hidden).squeeze(-1)
        return EditLogits(edits, errors)

    def set_num_updates(self, num_updates: int) -> None:
        """Leave the encoder as it is in the first updates, where that is asked for."""
        super().set_num_updates(num_updates)
        self.is_cold = num_updates < self.cfg.edit_freeze_encoder_updates

    def prepare_for_inference_(self, cfg: Any) -> None:
        """Get ready to decode, where sentences may be of any length."""
        self.is_decoding = True
        self.scores.keep_grams(self.encoder.tokens.weight)

    def quantize_(self) -> None:
        """Let the layers multiply in int8, on a CPU: for use, and not to be trained again."""
        if self.is_quantized:
            return
        self.is_quantized = True
        if self.encoder.mask.device.type != "cpu" or self.encoder.mask.dtype != torch.float32:
            raise ConfigurationError(
                "Products in int8 are for a CPU and a model in float32. Pass --cpu, leave --fp16 "
                "and --bf16 out, or do without --edit-int8."
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch announces that this will move elsewhere
            torch.ao.quantization.quantize_dynamic(  # type: ignore[no-untyped-call]
                self.encoder.layers, {nn.Linear}, torch.qint8, inplace=True
            )

    def max_positions(self) -> int:
        """Return how long a sentence may be."""
        return UNLIMITED if self.is_decoding else self.cfg.max_source_positions


def _sizes(cfg: EditTaggerConfig, vocabulary: int) -> EncoderSizes:
    """Return what decides the shape of the encoder."""
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


def _start_from(origin: str, model: EditTagger, symbols: list[str]) -> None:
    """Give a fresh model the weights of a language model."""
    kind, _, name = origin.partition(":")
    if kind != "bert" or not name:
        raise ConfigurationError(f"--edit-init is {origin!r}; expected bert:FOLDER.")
    folder = Path(name).expanduser()
    if not folder.exists():
        _expect_checkpoint(model, folder)
        return
    cfg = model.cfg
    sizes = TaggerSizes(
        layers=cfg.encoder_layers,
        dim=cfg.encoder_embed_dim,
        inner_dim=cfg.encoder_ffn_embed_dim,
        heads=cfg.encoder_attention_heads,
        positions=cfg.max_source_positions,
        epsilon=cfg.edit_layer_norm_eps,
        factorized=not cfg.edit_unfactorized,
    )
    state = model.state_dict()
    for key, weight in initial_weights(folder, sizes, symbols, state).items():
        state[key].copy_(weight)
    logger.info(f"The model starts from the language model in {folder}")


def _expect_checkpoint(model: EditTagger, folder: Path) -> None:
    """Let a checkpoint bring the weights where the folder is gone, as when a run is resumed."""
    logger.warning(f"{folder}, of --edit-init, does not exist: the model waits for a checkpoint")

    def refuse(*_: Any) -> None:
        raise ConfigurationError(
            f"--edit-init names the folder {folder}, which does not exist, and no checkpoint was "
            "loaded in its place. Expected a BERT or RoBERTa as Hugging Face stores it."
        )

    def loaded(*_: Any) -> None:
        for handle in handles:
            handle.remove()

    handles = [
        model.register_forward_pre_hook(refuse),
        model.register_load_state_dict_post_hook(loaded),
    ]


def _id(dictionary: Any, token: str) -> int:
    """Return the id of a token; an unknown one gets no id of its own."""
    return int(dictionary.indices.get(token, dictionary.unk()))


@register_model_architecture("edit_tagger", "edit_tagger_base")
def edit_tagger_base(args: Any) -> None:
    """PIE-BASE: BERT's base size (PIE, table 12)."""


@register_model_architecture("edit_tagger", "edit_tagger_large")
def edit_tagger_large(args: Any) -> None:
    """PIE-LARGE: BERT's large size (PIE, table 12)."""
    fill_sizes(args, layers=24, dim=1024, inner_dim=4096, heads=16)


@register_model_architecture("edit_tagger", "edit_tagger_small")
def edit_tagger_small(args: Any) -> None:
    """PIE for spelling and OCR (PIE, table 12)."""
    fill_sizes(args, layers=4, dim=200, inner_dim=400, heads=4)
