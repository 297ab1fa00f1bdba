"""The generator of edit taggers: iterative refinement in rounds of edits (PIE)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from fairseq.dataclass import FairseqDataclass
from numpy.typing import NDArray

from fairseq_ssl.data.edit_windows import padded_sentences
from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import KEEP_ID, EditDictionary
from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.generation.edit_choice import ChosenEdits, EditedIds, EditScoreArray, choose_edits
from fairseq_ssl.generation.edit_probabilities import EditCandidateFinder, parse_weights
from fairseq_ssl.options import fairseq_options, from_fairseq, option


@dataclass(frozen=True, kw_only=True)
class EditDecoding(CorrectionSearch):
    """Options of `EditGenerator`."""

    weights: Sequence[float] | None = None
    """Weight of each model of an ensemble. None: equal weights."""
    history: bool = False
    """Return the sentence after each round, as `history`."""
    print_edits: bool = False
    """Return the edits as `alignment`, which fairseq's commands print."""


class AppliedEdit(NamedTuple):
    """An edit applied to a sentence in one of the rounds."""

    round: int
    """Index of the round, from 1."""
    position: int
    """Position in the input of the round. 0 is <s>, 1 the first token."""
    label: str
    """Name of the edit in the edit dictionary."""
    probability: float
    """The model's probability of the edit."""
    origin: int
    """Position in the input of the first round of the token that became this one."""
    is_inserted: bool
    """True if the edit inserts tokens after `origin`, or changes an inserted token."""
    next_origin: int | None = None
    """Origin of the next token, if the edit merges both."""

    @property
    def last(self) -> int:
        """Last gap between tokens of the first input that the edit touches: 0 is before the first.

        An insertion follows `origin`. A merge also replaces the next token.
        """
        if self.next_origin is not None:
            return self.next_origin
        return self.origin - (not self.is_inserted)

    def to_alignment(self) -> tuple[str, str]:
        """Return the two parts of an alignment point, which fairseq joins with a hyphen."""
        return f"{self.round}:{self.position}", f"{self.label}:{self.probability:.3f}"


@dataclass
class SentenceState:
    """A sentence during correction."""

    ids: Ids
    """The current ids, with <s>."""
    scores: EditScoreArray
    """For each id, the log-probability of the edit that kept or inserted it."""
    origins: Ids
    """For each id, the position in the input that it was kept at or inserted after."""
    inserted: NDArray[np.bool_]
    """True for each id that was inserted after its origin."""
    earlier: set[bytes]
    """All earlier versions of the sentence, as bytes of their ids."""
    score: float = 0.0
    """Mean log-probability of the edits in the last round, including keep."""
    rounds: int = 0
    """Number of rounds so far."""
    edits: list[AppliedEdit] = field(default_factory=list)
    """The edits of all rounds."""
    history: list[Ids] = field(default_factory=list)
    """The ids after each round, if configured."""


class EditGenerator:
    """A generator with fairseq's interface that corrects sentences in rounds of edits.

    A sentence is finished when a round does not change it, or restores an earlier version.
    """

    def __init__(
        self,
        models: Sequence[Any],
        dictionary: Any,
        edits: EditDictionary,
        settings: EditDecoding,
    ) -> None:
        """Set the models to evaluation mode. They must have the same dictionaries.

        Args:
            models: one edit tagger, or an ensemble.
            dictionary: the token dictionary.
            edits: the edit dictionary.
            settings: the options.
        """
        self.eos = dictionary.eos()
        self.symbols_to_strip_from_output = {self.eos}
        self.names = edits.names
        self.settings = settings
        self.candidates = EditCandidateFinder(models, dictionary, edits, settings.weights)
        self.edited = EditedIds(edits, dictionary)
        for model in models:
            model.eval()

    def generate(
        self, models: Sequence[Any], sample: dict[str, Any], **ignored: Any
    ) -> list[list[dict[str, Any]]]:
        """Return a list of one hypothesis, a dictionary, for each sentence of a batch.

        tokens: the corrected sentence with </s>. positional_scores: log-probabilities of the edits
        that kept or inserted the tokens in the last round, and for </s> that of the edit of <s>.
        score: mean log-probability of the edits in the last round, including keep and delete.
        steps: number of rounds. edits: the applied edits. history: if configured, the sentence
        after each round.
        """
        source = sample["net_input"]["src_tokens"]
        text = padded_sentences(source, sample["net_input"]["src_lengths"])
        states = [_initial_state(ids) for ids in _split(text.ids, text)]
        active = np.arange(len(text))
        for index in range(1, self.settings.iterations + 1):
            chosen = self.choose(text, source.device)
            text, changed = self._apply(index, text, chosen, [states[row] for row in active])
            if not len(changed):
                break
            active, text = active[changed], text.select(changed)
        return [[self._hypothesis(state)] for state in states]

    def choose(self, text: Spans, device: torch.device) -> ChosenEdits:
        """Return the chosen edit of each position of sentences that begin with <s>."""
        candidates = self.candidates(text, device)
        chosen = choose_edits(candidates, text.starts, self.settings)
        return self.edited.resolve_merges(chosen, candidates.kept, text)

    def _apply(
        self, index: int, text: Spans, chosen: ChosenEdits, states: Sequence[SentenceState]
    ) -> tuple[Spans, Ids]:
        """Apply the edits of a round. Return all sentences, and the indices of unfinished ones."""
        logs = np.log(np.maximum(chosen.probabilities, np.finfo(np.float32).tiny))
        means = np.add.reduceat(logs, text.starts) / text.lengths
        after, origins = self.edited(text, chosen.labels)
        ids, scores = _split(after.ids, after), _split(logs[origins], after)
        before = [state.origins for state in states]
        is_append = self.edited.is_append[chosen.labels]
        was_inserted = np.concatenate([state.inserted for state in states])
        is_second = np.diff(origins, prepend=-1) == 0
        inserted = _split(was_inserted[origins] | (is_append[origins] & is_second), after)
        within = _split(origins - np.repeat(text.starts, after.lengths), after)
        for at, state in enumerate(states):
            state.origins, state.inserted = state.origins[within[at]], inserted[at]
            state.ids, state.scores, state.score = ids[at], scores[at], float(means[at])
            state.rounds = index
            if self.settings.history:
                state.history.append(state.ids)
        sentence = np.repeat(np.arange(len(text)), text.lengths)
        changes = np.flatnonzero(chosen.labels != KEEP_ID)
        for at in changes.tolist():
            row = int(sentence[at])
            label, probability = self.names[chosen.labels[at]], float(chosen.probabilities[at])
            position = at - int(text.starts[row])
            where = position, label, probability, int(before[row][position])
            is_inserted = bool(is_append[at] | was_inserted[at])
            is_merge = self.edited.is_merge[chosen.labels[at]]
            following = int(before[row][position + 1]) if is_merge else None
            states[row].edits.append(AppliedEdit(index, *where, is_inserted, following))
        unfinished = []
        for row in np.unique(sentence[changes]).tolist():
            version = states[row].ids.tobytes()
            if version not in states[row].earlier:
                states[row].earlier.add(version)
                unfinished.append(row)
        return after, np.array(unfinished, np.int64)

    def _hypothesis(self, state: SentenceState) -> dict[str, Any]:
        alignment = [edit.to_alignment() for edit in state.edits if self.settings.print_edits]
        hypothesis = {
            "tokens": self._tokens(state.ids),
            "score": state.score,
            "positional_scores": torch.from_numpy(np.roll(state.scores, -1)),
            "attention": None,
            "alignment": alignment,
            "edits": state.edits,
            "steps": state.rounds,
        }
        if self.settings.history:
            hypothesis["history"] = [{"tokens": self._tokens(ids)} for ids in state.history]
        return hypothesis

    def _tokens(self, ids: Ids) -> torch.Tensor:
        """Return a sentence without <s> and with </s>, as in fairseq's hypotheses."""
        return torch.from_numpy(np.append(ids[1:], self.eos))


def _split(values: NDArray[Any], like: Spans) -> list[NDArray[Any]]:
    """Split `values` at the boundaries of the sequences in `like`."""
    return np.split(values, like.starts[1:])


def _initial_state(ids: Ids) -> SentenceState:
    scores, inserted = np.zeros(len(ids), np.float32), np.zeros(len(ids), np.bool_)
    return SentenceState(ids, scores, np.arange(len(ids)), inserted, {ids.tobytes()})


@dataclass
@fairseq_options(CorrectionSearch, "edit_")
class EditDecodingConfig(FairseqDataclass):
    """Options of `EditGenerator` in fairseq's format."""

    edit_weights: Optional[str] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None,
        "weights of the models of an ensemble, 0 or more, separated by commas, such as 2,1; the "
        "probabilities of the models are averaged",
        usual="equal weights",
    )
    print_edits: bool = option(
        False,
        "print the edits on the A- lines, as ROUND:POSITION-LABEL:PROBABILITY; positions refer to "
        "the input of the round, where 0 is <s> and 1 the first token",
    )


def build_edit_generator(
    models: Sequence[Any],
    dictionary: Any,
    edits: EditDictionary,
    config: Any,
    options: Any,
    language_model: Any = None,
) -> EditGenerator:
    """Build the generator of a task. Raise ConfigurationError for unsupported options.

    Args:
        models: one edit tagger, or an ensemble.
        dictionary: the token dictionary.
        edits: the edit dictionary.
        config: the fields of `EditDecodingConfig`.
        options: fairseq's generation options. With `config.print_edits`, `print_alignment` is set
            in them, so that fairseq's commands print the edits.
        language_model: the model of --lm-path.
    """
    _check_options(options, config.print_edits, language_model)
    settings = from_fairseq(
        EditDecoding,
        config,
        "edit_",
        weights=None if config.edit_weights is None else parse_weights(str(config.edit_weights)),
        history=bool(getattr(options, "retain_iter_history", False)),
        print_edits=config.print_edits,
    )
    generator = EditGenerator(models, dictionary, edits, settings)
    if config.print_edits:
        options.print_alignment = "hard"
    return generator


def _check_options(options: Any, print_edits: bool, language_model: Any) -> None:
    """Reject generation options that an edit tagger does not support. The beam size is ignored."""
    reasons = {
        "replace_unk": "Unknown words are copied without it.",
        "constraints": "Edits cannot be constrained.",
        "prefix_size": "Edits have no target prefix.",
        "sampling": "Edits are not sampled.",
        "score_reference": "Edits cannot score references.",
        "lm_path": "Edits are not scored by a language model.",
    }
    values = {name: getattr(options, name, None) for name in reasons}
    values["lm_path"] = values["lm_path"] or language_model
    for name, value in values.items():
        if value:
            raise ConfigurationError(
                f"{flag(name)} cannot be used with an edit tagger. {reasons[name]} Remove it."
            )
    alignment = getattr(options, "print_alignment", None)
    if alignment and not (print_edits and str(alignment) == "hard"):
        raise ConfigurationError(
            "--print-alignment cannot be used with an edit tagger, which has no attention to the "
            "source. Use --print-edits to print the edits."
        )
