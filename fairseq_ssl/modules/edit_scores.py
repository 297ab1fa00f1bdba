"""Scores of all edits of a token, factorised over the edit and its argument (PIE, equation 3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairseq_ssl.modules.edit_encoder import initialise


class EditScores(nn.Module):
    """Scores keep, delete, M appends, M replaces and K transforms, in the order of a dictionary.

    With H the head of a masked language model, phi the embeddings and x_i the token:

        keep            theta . h + phi(x_i) . H(h)
        append of w     theta . h + phi(x_i) . H(h) + phi(w) . H(a)
        replace by w    theta . h + (phi(w) - phi(x_i)) . H(r)
        delete          theta . h
        transform       theta . h + phi(x_i) . H(h)

    phi of a q-gram is the sum over its tokens. The paper has no H; its code has, so that a
    pre-trained head comes into use.

    With `gap_inserts` (table 6, row 4) there are two decisions: what becomes of the token, and
    what is inserted in the gap after it, where inserting nothing is one more choice. The score of
    a label is the sum of the log probabilities of its two decisions. A replacement and an
    insertion at the same place are not in the dictionary and take two rounds.
    """

    grams: Tensor
    kept_grams: Tensor | None

    def __init__(
        self,
        dim: int,
        labels: int,
        grams: list[list[int]],
        padding: int,
        dropout: float = 0.1,
        epsilon: float = 1e-12,
        factorised: bool = True,
        gap_inserts: bool = False,
    ) -> None:
        """Make the head of a dictionary.

        Args:
            dim: of the states
            labels: how many there are
            grams: ids of the tokens of each q-gram
            padding: an id that counts as nothing where a q-gram is shorter than others
            dropout: of the states from which theta scores
            epsilon: of the norm
            factorised: whether to use more than theta
            gap_inserts: whether insertions are decided apart from the edits of tokens
        """
        super().__init__()
        self.factorised = factorised
        self.padding = padding
        self.register_buffer("kept_grams", None, persistent=False)
        self.edits = nn.Linear(dim, labels)
        self.dropout = nn.Dropout(dropout)
        self.appends = slice(2, 2 + len(grams))
        self.no_insert = nn.Linear(dim, 1) if gap_inserts else None
        if factorised:
            self.transform = nn.Linear(dim, dim)
            self.transform_norm = nn.LayerNorm(dim, epsilon)
            longest = max(map(len, grams), default=1)
            rows = [gram + [padding] * (longest - len(gram)) for gram in grams]
            self.register_buffer("grams", torch.tensor(rows).view(len(grams), longest).long())
        self.apply(initialise)

    def forward(
        self,
        embeddings: Tensor,
        tokens: Tensor,
        states: Tensor,
        replacing: Tensor | None,
        following: Tensor | None,
    ) -> Tensor:
        """Return logits [n, labels].

        Args:
            embeddings: of all tokens [vocabulary, dim]
            tokens: ids of the tokens to edit [n]
            states: h [n, dim]
            replacing: r [n, dim], needed if factorised
            following: a [n, dim], likewise
        """
        scores: Tensor = self.edits(self.dropout(states))
        if not self.factorised:
            return scores if self.no_insert is None else self._decisions(scores, states)
        assert replacing is not None
        assert following is not None
        grams = self.gram_embeddings(embeddings)
        own = functional.embedding(tokens, embeddings)
        kept = (own * self._head(states)).sum(-1, keepdim=True)
        replacing = self._head(replacing)
        following = self._head(following)
        appended = following @ grams.T + (kept if self.no_insert is None else 0)
        replaced = replacing @ grams.T - (own * replacing).sum(-1, keepdim=True)
        transforms = scores.size(1) - 2 - 2 * len(self.grams)
        rest = [kept, torch.zeros_like(kept), appended, replaced, kept.expand(-1, transforms)]
        scores = scores + torch.cat(rest, dim=1)
        return scores if self.no_insert is None else self._decisions(scores, following)

    def _decisions(self, scores: Tensor, gaps: Tensor) -> Tensor:
        """Return the log probability of the two decisions that a label stands for [n, labels].

        Args:
            scores: of all labels [n, labels]
            gaps: states that decide whether anything is inserted [n, dim]
        """
        assert self.no_insert is not None
        appends, dtype = self.appends, torch.promote_types(scores.dtype, torch.float32)
        tokens = torch.cat([scores[:, : appends.start], scores[:, appends.stop :]], dim=1)
        tokens = tokens.log_softmax(-1, dtype=dtype)
        inserted = torch.cat([self.no_insert(gaps).to(scores), scores[:, appends]], dim=1)
        inserted = inserted.log_softmax(-1, dtype=dtype)
        nothing, grams = inserted[:, :1], inserted[:, 1:]
        kept = tokens[:, :1]
        before, after = tokens[:, : appends.start], tokens[:, appends.start :]
        return torch.cat([before + nothing, kept + grams, after + nothing], dim=1)

    def gram_embeddings(self, embeddings: Tensor) -> Tensor:
        """Return phi(w) of each q-gram [M, dim]."""
        if self.kept_grams is not None and not self.training:
            return self.kept_grams
        found = functional.embedding(self.grams, embeddings, self.padding)
        return found.masked_fill(self.grams.eq(self.padding).unsqueeze(-1), 0).sum(1)

    def keep_grams(self, embeddings: Tensor) -> None:
        """Compute phi of the q-grams once, for a model that is not trained any more."""
        if self.factorised:
            with torch.no_grad():
                self.kept_grams = self.gram_embeddings(embeddings)

    def _head(self, states: Tensor) -> Tensor:
        """Return H of states [n, dim]: what a masked language model compares with embeddings."""
        transformed: Tensor = self.transform_norm(functional.gelu(self.transform(states)))
        return transformed
