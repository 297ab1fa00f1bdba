"""What every classifier of texts has, so that any of them can be an expert (MEIN)."""

from abc import abstractmethod
from typing import Any

from fairseq.models import BaseFairseqModel
from torch import Tensor


class TextClassifier(BaseFairseqModel):
    """Scores the classes of texts; its embeddings can be had, and disturbed, by themselves."""

    stages: tuple[str, ...] = ("supervised",)
    """Of --classification-stage: what it can be trained in."""

    @abstractmethod
    def embed(self, src_tokens: Tensor) -> Tensor:
        """Return the embeddings of words [batch, time, dim], with dropout in training."""

    @abstractmethod
    def scored(self, embedded: Tensor, src_tokens: Tensor, src_lengths: Tensor) -> Tensor:
        """Return the logits z [batch, classes] of embedded texts."""

    def settled(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return inputs of `forward` with what no disturbance of embeddings changes.

        For those who ask more than once: it is computed here and not again.
        """
        return inputs

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        embedded: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        """Return the logits of the classes [batch, classes].

        Args:
            src_tokens: ids [batch, time], each text ended by </s>, padded on the right
            src_lengths: [batch], the ends counted
            embedded: embeddings to take in place of those of the words
        """
        embedded = self.embed(src_tokens) if embedded is None else embedded
        return self.scored(embedded, src_tokens, src_lengths)
