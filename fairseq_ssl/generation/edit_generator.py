"""A generator for edit taggers, with fairseq's interface (PIE)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import torch
from fairseq.dataclass import FairseqDataclass

from fairseq_ssl.data.edit_dataset import padded_sentences
from fairseq_ssl.edits.decoding import CorrectionSearch
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.rounds import AppliedEdit, EditRounds, SentenceState
from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.generation.torch_engine import TorchEngine
from fairseq_ssl.options import fairseq_options, from_fairseq, option
from fairseq_ssl.text.spans import Ids


class EditGenerator:
    """A generator that corrects sentences in rounds of edits, up to a maximum number of rounds.

    A sentence is also finished when a round does not change it or restores an earlier version.
    """

    def __init__(
        self,
        models: Sequence[Any],
        dictionary: Any,
        edits: EditDictionary,
        search: CorrectionSearch,
        weights: Sequence[float] | None = None,
        history: bool = False,
        print_edits: bool = False,
    ) -> None:
        """Set the models to evaluation mode. They must have the same dictionaries.

        Args:
            models: an edit tagger, or several for an ensemble.
            dictionary: the token dictionary.
            edits: the edit dictionary.
            search: search options, such as the number of rounds.
            weights: weight of each model (default: equal weights).
            history: whether hypotheses contain the sentence after each round, as `history`.
            print_edits: whether hypotheses contain the edits as `alignment`, which fairseq's
                commands print.
        """
        self.eos = dictionary.eos()
        self.symbols_to_strip_from_output = {self.eos}
        self.history, self.print_edits = history, print_edits
        self.engine = TorchEngine(models, dictionary, weights)
        self.rounds = EditRounds(self.engine, edits, dictionary, search)
        for model in models:
            model.eval()

    def generate(
        self, models: Sequence[Any], sample: dict[str, Any], **ignored: Any
    ) -> list[list[dict[str, Any]]]:
        """Return a list with one hypothesis for each sentence in a batch.

        A hypothesis is a dictionary. `tokens` is the corrected sentence with </s>.
        `positional_scores` contains, for each token, the log-probability of the edit that kept or
        inserted it in the last round. The score of the edit at <s> is stored at the position of
        </s>. `score` is the mean log-probability of all edits in the last round, including keep and
        delete. `steps` is the number of rounds, `edits` contains the applied edits, and `history`,
        if configured, contains the sentence after each round.
        """
        source = sample["net_input"]["src_tokens"]
        self.engine.device = source.device
        text = padded_sentences(source, sample["net_input"]["src_lengths"])
        return [[self._hypothesis(state)] for state in self.rounds(text)]

    def _hypothesis(self, state: SentenceState) -> dict[str, Any]:
        hypothesis = {
            "tokens": self._tokens(state.ids),
            "score": state.score,
            "positional_scores": torch.from_numpy(np.roll(state.scores, -1)),
            "attention": None,
            "alignment": list(map(_alignment, state.edits if self.print_edits else ())),
            "edits": state.edits,
            "steps": state.rounds,
        }
        if self.history:
            hypothesis["history"] = [{"tokens": self._tokens(ids)} for ids in state.history]
        return hypothesis

    def _tokens(self, ids: Ids) -> torch.Tensor:
        """Return a sentence without <s> and with </s>, as in fairseq's hypotheses."""
        return torch.from_numpy(np.append(ids[1:], self.eos))


def _alignment(edit: AppliedEdit) -> tuple[str, str]:
    """Return an edit as the two parts of an alignment point, which fairseq joins with "-"."""
    return f"{edit.round}:{edit.position}", f"{edit.label}:{edit.probability:.3f}"


@dataclass
@fairseq_options(CorrectionSearch, "edit_")
class EditDecodingConfig(FairseqDataclass):
    """Options of `EditGenerator`, as a fairseq dataclass."""

    edit_weights: Optional[str] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None,
        "comma-separated weights of the models in an ensemble, each 0 or more, such as 2,1; the "
        "models' probabilities are averaged with these weights",
        usual="equal weights",
    )
    print_edits: bool = option(
        False,
        "print the edits on A- lines as ROUND:POSITION-LABEL:PROBABILITY; POSITION is a token "
        "index in the input of the round, where <s> has index 0",
    )


def build_edit_generator(
    models: Sequence[Any], task: Any, options: Any, language_model: Any
) -> EditGenerator:
    """Build the generator for a task. Raise ConfigurationError for unsupported options.

    Args:
        models: an edit tagger, or several for an ensemble.
        task: the task of the models. Its options include the fields of `EditDecodingConfig`.
        options: fairseq's generation options. If the task has `print_edits`, `print_alignment` is
            set here, so that fairseq's commands print the edits.
        language_model: the model of --lm-path.
    """
    config = task.cfg
    _check_options(options, config.print_edits, language_model)
    generator = EditGenerator(
        models,
        task.source_dictionary,
        task.edits,
        from_fairseq(CorrectionSearch, config, "edit_"),
        None if config.edit_weights is None else parse_weights(str(config.edit_weights)),
        bool(getattr(options, "retain_iter_history", False)),
        config.print_edits,
    )
    if config.print_edits:
        options.print_alignment = "hard"
    return generator


def parse_weights(text: str) -> list[float]:
    """Parse ensemble weights, which are comma-separated numbers, or raise ConfigurationError."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ConfigurationError(
            f"--edit-weights is {text!r}. Expected comma-separated numbers, such as 2,1."
        ) from None


def _check_options(options: Any, print_edits: bool, language_model: Any) -> None:
    """Reject generation options that edit taggers do not support. The beam size is ignored."""
    reasons = {
        "replace_unk": "Unknown words are always copied.",
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
            "--print-alignment cannot be used with an edit tagger, which does not align tokens. "
            "Use --print-edits to print the edits."
        )
