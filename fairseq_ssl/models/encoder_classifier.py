"""A text classifier with the encoder of a translation model or an edit tagger (MEIN)."""

import json
import logging
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from types import SimpleNamespace
from typing import Any, Optional

from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, FairseqEncoderDecoderModel
from fairseq.models.lstm import LSTMEncoder, LSTMModel
from torch import Tensor
from torch.nn import functional

from fairseq_ssl.checkpoints.files import architecture, model_options, read_checkpoint
from fairseq_ssl.checkpoints.partial_init import classifier_encoder_weights
from fairseq_ssl.errors import ConfigurationError, FairseqSslError, flag, one_line
from fairseq_ssl.models.common import register_model
from fairseq_ssl.models.text_classifier import (
    ClassificationHead,
    PooledConfig,
    TextClassifier,
    require_classes,
)
from fairseq_ssl.options import option

logger = logging.getLogger(__name__)

EXPECTED = "Expected a Transformer, lstm, bytenet, edit_tagger or a similar architecture."


@dataclass
class EncoderClassifierConfig(PooledConfig):
    """Options of the encoder classifier."""

    classifier_encoder: Optional[str] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None,
        "checkpoint of a translation model or edit_tagger from which to initialize the encoder "
        "(required); embeddings are matched by word",
    )
    classifier_encoder_dict: Optional[str] = option(  # noqa: UP045
        None,
        "source dictionary with which the checkpoint in --classifier-encoder was trained "
        "(required)",
    )
    classifier_encoder_options: str = ""
    """The encoder's architecture and options as a JSON string, from its checkpoint."""


@register_model("encoder_classifier", dataclass=EncoderClassifierConfig)
class EncoderClassifier(TextClassifier):
    """The encoder of another architecture with a classification head."""

    def __init__(
        self, cfg: EncoderClassifierConfig, encoder: Any, padding: int, classes: int
    ) -> None:
        """Add a classification head to `encoder`, whose states may have any dimension."""
        super().__init__()
        self.encoder = encoder
        self.padding = padding
        self.dropout = cfg.classifier_dropout
        self.classes = ClassificationHead(cfg, _dim(encoder, padding), classes)

    @classmethod
    def build_model(cls, cfg: EncoderClassifierConfig, task: Any) -> "EncoderClassifier":
        """Build the model. If `classifier_encoder` is set, load weights from this checkpoint."""
        require_classes(task, "encoder_classifier")
        dictionary, options = task.source_dictionary, cfg.classifier_encoder_options
        if cfg.classifier_encoder is not None:
            options = encoder_options(cfg.classifier_encoder)
        encoder = _build_encoder(options, dictionary)
        model = cls(cfg, encoder, dictionary.pad(), len(task.classes))
        if cfg.classifier_encoder is not None:
            path, words = Path(cfg.classifier_encoder), cfg.classifier_encoder_dict
            own_state = encoder.state_dict()
            weights, known = classifier_encoder_weights(
                path,
                dictionary.symbols,
                own_state,
                None if words is None else Path(words),
                _embedding_name(encoder),
            )
            for name, weight in weights.items():
                own_state[name].copy_(weight)
            logger.info(
                f"Initialized the encoder, and embeddings of {known} of {len(dictionary)} symbols, "
                f"from {cfg.classifier_encoder}"
            )
        return model

    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return word embeddings [batch, time, dim], with dropout in training."""
        embedded: Tensor = self.encoder.embed_tokens(src_tokens)
        return functional.dropout(embedded, self.dropout, self.training)

    def classify(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return the logits [batch, classes]. The encoder uses `embedded` as word embeddings."""
        thread = get_ident()  # other threads may call the same module at the same time
        hook = self.encoder.embed_tokens.register_forward_hook(
            lambda *_: embedded if get_ident() == thread else None
        )
        try:
            states, is_word = _encode(self.encoder, src_tokens, src_lengths, self.padding)
        finally:
            hook.remove()
        logits: Tensor = self.classes(states, is_word)
        return logits

    def max_positions(self) -> Any:
        """Return the encoder's maximum text length in tokens."""
        return self.encoder.max_positions()


def encoder_options(checkpoint: str) -> str:
    """Return a checkpoint's architecture and JSON-serializable model options as a JSON string."""
    state = read_checkpoint(Path(checkpoint))
    options = model_options(state)
    arch = architecture(state)
    if arch not in ARCH_MODEL_REGISTRY:
        raise ConfigurationError(
            f"{checkpoint} has the architecture {arch}, which is not registered with fairseq. "
            f"{EXPECTED}"
        )
    plain = {
        name: value
        for name, value in options.items()
        if value is None or isinstance(value, bool | int | float | str | list | tuple)
    }
    return json.dumps({**plain, "arch": arch})


def _build_encoder(options: str, dictionary: Any) -> Any:
    """Build the encoder described by `options`, a JSON string, with random weights."""
    values = _adapt_options(_parse_options(options), dictionary)
    arch = values["arch"]
    model_class = ARCH_MODEL_REGISTRY[arch]
    build_token_encoder = getattr(model_class, "build_token_encoder", None)
    if build_token_encoder is None and not issubclass(model_class, FairseqEncoderDecoderModel):
        raise ConfigurationError(
            f"The architecture {arch} does not consist of an encoder and a decoder. {EXPECTED}"
        )
    with _invalid_options_as_errors(arch):
        args = _fill_options(values)
        config = getattr(model_class, "__dataclass", None)
        if config is not None:
            args = config.from_namespace(args)
        if build_token_encoder is not None:
            return build_token_encoder(args, dictionary)
        try:
            task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
            encoder = getattr(model_class.build_model(args, task), "encoder", None)
        except AttributeError as error:
            raise ConfigurationError(
                f"The architecture {arch} needs a task attribute that classification lacks: "
                f"{error}. {EXPECTED}"
            ) from error
    if not hasattr(encoder, "embed_tokens"):
        raise ConfigurationError(
            f"The encoder of the architecture {arch} has no word embeddings. {EXPECTED}"
        )
    return encoder


@contextmanager
def _invalid_options_as_errors(arch: str) -> Iterator[None]:
    """Convert errors in the block, which builds a model of `arch`, to ConfigurationError."""
    try:
        yield
    except FairseqSslError:
        raise
    except (
        *(ArithmeticError, AssertionError, AttributeError, LookupError),
        *(OSError, RuntimeError, TypeError, ValueError),
    ) as error:
        raise ConfigurationError(
            "The encoder in --classifier-encoder cannot be built, because its checkpoint contains "
            f"an option that is invalid for {arch} "
            f"({one_line(str(error)) or type(error).__name__}). Use a different checkpoint."
        ) from error


def _fill_options(values: dict[str, Any]) -> Namespace:
    """Return `values` completed with the architecture's defaults. Reject dropout outside [0, 1]."""
    arch = values["arch"]
    parser = ArgumentParser(argument_default=SUPPRESS)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    # lstm reads `criterion`
    args = Namespace(**{"criterion": "", **vars(parser.parse_args([])), **values})
    ARCH_CONFIG_REGISTRY[arch](args)
    for name, value in values.items():
        is_number = isinstance(value, int | float | str)
        if is_number and "dropout" in name and not 0 <= getattr(args, name) <= 1:
            raise ConfigurationError(
                f"The checkpoint of the encoder contains {flag(name)} {value}. Expected 0 to 1."
            )
    return args


def _parse_options(options: str) -> dict[str, Any]:
    """Parse an architecture and its options from a JSON string. Reject unknown architectures."""
    values: dict[str, Any] = json.loads(options or "{}")
    if values.get("arch") not in ARCH_MODEL_REGISTRY:
        raise ConfigurationError(
            "--arch encoder_classifier needs an encoder. Set --classifier-encoder to the "
            "checkpoint of a translation model or an edit_tagger."
        )
    return values


def _adapt_options(values: dict[str, Any], dictionary: Any) -> dict[str, Any]:
    """Adapt the options of a translation model to classification, which has no target texts.

    A pointer-generator's vocabulary size becomes the dictionary size, and ByteNet's automatic
    length bound becomes 1,0. An lstm decoder gets as many layers as the encoder by default.
    """
    adapted = dict(values)
    if "copy_vocabulary" in values:  # pointer_transformer: embed all words
        adapted["copy_vocabulary"] = len(dictionary)
    if values.get("bytenet_unfold", "auto") == "auto":  # no targets to fit the length bound to
        adapted["bytenet_unfold"] = "1,0"
    if "encoder_layers" in values and issubclass(ARCH_MODEL_REGISTRY[values["arch"]], LSTMModel):
        adapted.setdefault("decoder_layers", values["encoder_layers"])
    return adapted


def _embedding_name(encoder: Any) -> str:
    """Return the key of the word embeddings in the encoder's state dict."""
    names = (name for name, part in encoder.named_modules() if part is encoder.embed_tokens)
    return f"{next(names)}.weight"


def _encode(encoder: Any, tokens: Tensor, lengths: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """Return the encoder's states [batch, time, dim] and a mask [batch, time], False at padding."""
    if isinstance(encoder, LSTMEncoder):
        states, _, _, mask = encoder(tokens, lengths, enforce_sorted=False)
        return states.transpose(0, 1), ~mask.t()
    encoder_out = encoder(tokens, lengths)
    masks = encoder_out.get("encoder_padding_mask") or []
    is_word = ~masks[0] if len(masks) else tokens.ne(padding)
    return encoder_out["encoder_out"][0].transpose(0, 1), is_word


def _dim(encoder: Any, padding: int) -> int:
    """Return the dimension of the encoder's states, measured by encoding two short texts.

    Raise ConfigurationError if the encoder does not return one state per word.
    """
    weight = encoder.embed_tokens.weight
    tokens = weight.new_full((2, 3), padding + 1, dtype=int)
    was_training = encoder.training
    encoder.eval()
    try:
        states, is_word = _encode(encoder, tokens, tokens.new_full((2,), 3), padding)
    except (AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise _unsupported(encoder) from error
    finally:
        encoder.train(was_training)
    if states.dim() != 3 or len(states) != 2 or states.shape[:2] != is_word.shape:
        raise _unsupported(encoder)
    return int(states.size(-1))


def _unsupported(encoder: Any) -> ConfigurationError:
    """Return the error for an encoder that does not return one state per word."""
    return ConfigurationError(
        f"{type(encoder).__name__} does not return one state per word. {EXPECTED}"
    )
