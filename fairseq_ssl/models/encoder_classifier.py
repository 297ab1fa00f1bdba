"""The encoder of a translation model or an edit tagger as an expert (MEIN)."""

import json
import logging
from argparse import SUPPRESS, ArgumentParser, Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_REGISTRY,
    FairseqEncoderDecoderModel,
    register_model,
)
from fairseq.models.lstm import LSTMEncoder
from torch import Tensor
from torch.nn import functional

from fairseq_ssl.checkpoints.files import architecture, model_options, read_checkpoint
from fairseq_ssl.checkpoints.partial_init import classifier_encoder_weights
from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.models.text_classifier import (
    PooledConfig,
    TextClassifier,
    pooled_classes,
    require_task,
)

logger = logging.getLogger(__name__)

EXPECTED = "Expected a Transformer of any kind, lstm, bytenet or edit_tagger, or one like them."


@dataclass
class EncoderClassifierConfig(PooledConfig):
    """The options of the model."""

    classifier_encoder: Optional[str] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={
            "help": "start from the encoder of this checkpoint, of a translation model or an "
            "edit_tagger; words are found by their names"
        },
    )
    classifier_encoder_dict: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={"help": "dictionary of that checkpoint's source, which a checkpoint needs"},
    )
    classifier_encoder_options: str = field(
        default="",
        metadata={
            "help": "without a checkpoint: the encoder's architecture and options as JSON, as in "
            '{"arch": "transformer_tiny", "encoder_layers": 3}; with one, filled in from it'
        },
    )


class _Words:
    """What an architecture asks of a task: one dictionary for both sides."""

    def __init__(self, dictionary: Any) -> None:
        self.source_dictionary = self.target_dictionary = dictionary


@register_model("encoder_classifier", dataclass=EncoderClassifierConfig)
class EncoderClassifier(TextClassifier):
    """An encoder, and a perceptron over its states."""

    def __init__(
        self, cfg: EncoderClassifierConfig, encoder: Any, padding: int, classes: int
    ) -> None:
        """Join the parts."""
        super().__init__()
        self.encoder = encoder
        self.padding = padding
        self.dropout = cfg.classifier_dropout
        self.classes = pooled_classes(cfg, _dim(encoder, padding), classes)

    @classmethod
    def build_model(cls, cfg: EncoderClassifierConfig, task: Any) -> "EncoderClassifier":
        """Make the model of a checkpoint, of options, or for a checkpoint that brings all."""
        require_task(task, "encoder_classifier")
        state = None
        if cfg.classifier_encoder is not None:
            state = read_checkpoint(Path(cfg.classifier_encoder))
        dictionary = task.source_dictionary
        options = cfg.classifier_encoder_options
        if cfg.classifier_encoder is not None:
            options = options_of(cfg.classifier_encoder)
        encoder = _built(options, dictionary)
        model = cls(cfg, encoder, dictionary.pad(), len(task.classes))
        if state is not None:
            start = encoder.state_dict()
            named = cfg.classifier_encoder_dict
            found, known = classifier_encoder_weights(
                state,
                Path(str(cfg.classifier_encoder)),
                dictionary.symbols,
                start,
                None if named is None else Path(named),
                _embedding_of(encoder),
            )
            for name, weight in found.items():
                start[name].copy_(weight)
            logger.info(
                f"embeddings of {known} of {len(dictionary)} symbols, and the encoder, from "
                f"{cfg.classifier_encoder}"
            )
        return model

    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return the embeddings of words with dropout [batch, time, dim]."""
        found: Tensor = self.encoder.embed_tokens(src_tokens)
        return functional.dropout(found, self.dropout, self.training)

    def scored(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return the logits [batch, classes]."""
        given = self.encoder.embed_tokens.register_forward_hook(lambda *_: embedded)
        try:
            states, is_word = _states(self.encoder, src_tokens, src_lengths, self.padding)
        finally:
            given.remove()
        logits: Tensor = self.classes(states, is_word)
        return logits

    def max_positions(self) -> Any:
        """Return how many words of a text the encoder reads."""
        return self.encoder.max_positions()


def options_of(checkpoint: str) -> str:
    """Return what of a checkpoint's options makes its encoder, as JSON."""
    state = read_checkpoint(Path(checkpoint))
    options = model_options(state)
    arch = architecture(state)
    if arch not in ARCH_MODEL_REGISTRY:
        raise ConfigurationError(f"{checkpoint} holds a {arch}, which fairseq does not know here.")
    plain = {
        name: value
        for name, value in options.items()
        if value is None or isinstance(value, bool | int | float | str | list | tuple)
    }
    return json.dumps({**plain, "arch": arch})


def _built(options: str, dictionary: Any) -> Any:
    """Return the encoder of an architecture, with random weights."""
    given = _told(options, dictionary)
    model_class = ARCH_MODEL_REGISTRY[given["arch"]]
    alone = getattr(model_class, "word_encoder", None)
    if alone is None and not issubclass(model_class, FairseqEncoderDecoderModel):
        raise ConfigurationError(
            f"An architecture {given['arch']} has no encoder and decoder. {EXPECTED}"
        )
    parser = ArgumentParser(argument_default=SUPPRESS)
    model_class.add_args(parser)
    known = vars(parser.parse_args([]))
    args: Any = Namespace(**{"criterion": "", **known, **given})  # an lstm asks for that too
    ARCH_CONFIG_REGISTRY[given["arch"]](args)
    config = getattr(model_class, "__dataclass", None)
    if config is not None:
        args = config.from_namespace(args)
    if alone is not None:
        return alone(args, dictionary)
    try:
        encoder = getattr(model_class.build_model(args, _Words(dictionary)), "encoder", None)
    except AttributeError as error:
        raise ConfigurationError(
            f"An architecture {given['arch']} asks for what a classifier has not: {error}. "
            f"{EXPECTED}"
        ) from error
    if not hasattr(encoder, "embed_tokens"):
        raise ConfigurationError(
            f"The encoder of an architecture {given['arch']} embeds no words. {EXPECTED}"
        )
    return encoder


def _told(options: str, dictionary: Any) -> dict[str, Any]:
    """Return an architecture and its options, with what they lack where there are no targets."""
    try:
        given = json.loads(options or "null")
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"--classifier-encoder-options is no JSON: {error.msg} at {error.pos}."
        ) from None
    if not isinstance(given, dict) or given.get("arch") not in ARCH_MODEL_REGISTRY:
        raise ConfigurationError(
            "--arch encoder_classifier needs --classifier-encoder, a checkpoint, or "
            '--classifier-encoder-options with an architecture, as in {"arch": "transformer_tiny"}.'
        )
    if "copy_vocabulary" in given:  # of a pointer_transformer: all words have embeddings here
        given["copy_vocabulary"] = len(dictionary)
    if given.get("bytenet_unfold", "auto") == "auto":  # a column for each word, if no checkpoint
        given["bytenet_unfold"] = "1,0"  # brings another line
    return given


def _embedding_of(encoder: Any) -> str:
    """Return the name of the weight of the words."""
    names = (name for name, part in encoder.named_modules() if part is encoder.embed_tokens)
    return f"{next(names)}.weight"


def _states(encoder: Any, tokens: Tensor, lengths: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """Return an encoder's states [batch, time, dim], and which of them count [batch, time]."""
    if isinstance(encoder, LSTMEncoder):
        states, _, _, mask = encoder(tokens, lengths, enforce_sorted=False)
        return states.transpose(0, 1), ~mask.t()
    found = encoder(tokens, lengths)
    masks = found.get("encoder_padding_mask") or []
    is_word = ~masks[0] if len(masks) else tokens.ne(padding)
    return found["encoder_out"][0].transpose(0, 1), is_word


def _dim(encoder: Any, padding: int) -> int:
    """Return the size of the encoder's states, which it tells of two texts; or refuse it."""
    weight = encoder.embed_tokens.weight
    tokens = weight.new_full((2, 3), padding + 1, dtype=int)
    was_training = encoder.training
    encoder.eval()
    try:
        states, is_word = _states(encoder, tokens, tokens.new_full((2,), 3), padding)
    except (AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise _refusal(encoder) from error
    finally:
        encoder.train(was_training)
    if states.dim() != 3 or len(states) != 2 or states.shape[:2] != is_word.shape:
        raise _refusal(encoder)
    return int(states.size(-1))


def _refusal(encoder: Any) -> ConfigurationError:
    """Return what says that an encoder gives something else than is wanted."""
    return ConfigurationError(
        f"A {type(encoder).__name__} gives no states of words, one after the other. {EXPECTED}"
    )
