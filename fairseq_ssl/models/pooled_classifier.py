"""What classifiers share that stand on a pre-trained encoder's states (MEIN, section 3.9)."""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from fairseq_ssl.errors import ConfigurationError
from fairseq_ssl.modules.pooled_classes import POOLS, PooledClasses


@dataclass
class PooledConfig(FairseqDataclass):
    """How classes are told from states."""

    classifier_mlp_dim: int = field(
        default=30,
        metadata={"help": "size of the layer between the encoder and the classes (default: 30)"},
    )
    classifier_pool: ChoiceEnum(POOLS) = field(  # type: ignore[valid-type]
        default=POOLS[0],
        metadata={"help": "what stands for a text: the mean of its states, or the first of them"},
    )
    classifier_dropout: float = field(
        default=0.1,
        metadata={"help": "dropout of embeddings and of that, 0 to 1 (default: 0.1)"},
    )


def pooled_classes(cfg: PooledConfig, dim: int, classes: int) -> PooledClasses:
    """Make what scores classes; refuse what it can not be."""
    if cfg.classifier_mlp_dim < 1 or not 0 <= cfg.classifier_dropout < 1:
        raise ConfigurationError(
            f"--classifier-mlp-dim is {cfg.classifier_mlp_dim} and --classifier-dropout "
            f"{cfg.classifier_dropout}; expected 1 or more, and 0 to 1."
        )
    pool = str(cfg.classifier_pool)
    return PooledClasses(dim, cfg.classifier_mlp_dim, classes, pool, cfg.classifier_dropout)
