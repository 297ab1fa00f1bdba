"""What the options of every loss have."""

from dataclasses import dataclass

from fairseq.dataclass import FairseqDataclass
from omegaconf import II


@dataclass
class CriterionConfig(FairseqDataclass):
    """Options under fairseq-hydra-train hold those of its default loss, which has this one."""

    sentence_avg: bool = II("optimization.sentence_avg")
