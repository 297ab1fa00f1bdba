"""The options of decoding by edits, the generator made of them, and what it can not be asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass

from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.generation.edit_choice import EditChoice
from fairseq_ssl.generation.edit_rounds import EditRounds, RoundsSettings


@dataclass
class EditDecodingConfig(FairseqDataclass):
    """How sentences are corrected."""

    edit_iterations: int = field(
        default=4,
        metadata={
            "help": "rounds of correction at most, 1 or more; a sentence that does not change, or "
            "becomes what it was before, has no more of them (default: 4, as in PIE)"
        },
    )
    edit_keep_bias: float = field(
        default=0.0,
        metadata={
            "help": "add this, -1 to 1, to the probability of keeping a token, before the "
            "likeliest edit is taken: more for fewer edits (default: 0)"
        },
    )
    edit_delete_bias: float = field(
        default=0.0,
        metadata={"help": "the same for deleting a token, -1 to 1 (default: 0)"},
    )
    edit_min_confidence: float = field(
        default=0.0,
        metadata={
            "help": "keep a token whose likeliest edit has a lower probability than this, 0 to 1 "
            "(default: 0)"
        },
    )
    edit_min_sentence_confidence: float = field(
        default=0.0,
        metadata={
            "help": "leave a sentence as it is where no token has an error with at least this "
            "probability, 0 to 1: by the detection of errors if the model has it, else 1 minus the "
            "probability of keep (default: 0)"
        },
    )
    edit_window_overlap: Optional[int] = field(  # noqa: UP045 - fairseq reads no other form
        default=None,
        metadata={
            "help": "tokens that two windows share, where a sentence is longer than the model can "
            "see at once; less than a window has (default: a quarter of a window)"
        },
    )
    edit_int8: bool = field(
        default=False,
        metadata={
            "help": "multiply in int8, on a CPU: a few times as fast, with slightly other "
            "probabilities"
        },
    )
    print_edits: bool = field(
        default=False,
        metadata={
            "help": "print the edits on the A- lines, as ROUND:PLACE-LABEL:PROBABILITY; place 0 is "
            "the start of the sentence, and 1 the first token that this round saw"
        },
    )


def edit_generator(
    models: Sequence[Any],
    dictionary: Any,
    edits: EditDictionary,
    config: Any,
    options: Any,
    language_model: Any = None,
) -> EditRounds:
    """Return a task's generator; raise ConfigurationError where it can not do what is asked.

    Args:
        models: to take the mean of
        dictionary: of tokens
        edits: that the models score
        config: with the fields of EditDecodingConfig
        options: of fairseq's generation; with print_edits, they ask for an alignment thereafter,
            so that fairseq's commands print the lines on which the edits are
        language_model: what was loaded for --lm-path
    """
    _refuse(options, config.print_edits, language_model)
    choice = EditChoice(
        config.edit_keep_bias,
        config.edit_delete_bias,
        config.edit_min_confidence,
        config.edit_min_sentence_confidence,
    )
    settings = RoundsSettings(
        config.edit_iterations,
        choice,
        config.edit_window_overlap,
        bool(getattr(options, "retain_iter_history", False)),
        config.print_edits,
    )
    if config.edit_int8:
        for model in models:
            model.quantise_()
    rounds = EditRounds(models, dictionary, edits, settings)
    if config.print_edits:
        options.print_alignment = "hard"
    return rounds


def _refuse(options: Any, print_edits: bool, language_model: Any) -> None:
    """Refuse options of fairseq's that ask for what edits can not do; the beam has no say."""
    reasons = {
        "replace_unk": "Unknown words are copied without it.",
        "constraints": "No words can be forced into a sentence that is edited.",
        "prefix_size": "A sentence that is edited has no prefix that could be given.",
        "sampling": "The likeliest edits are made; nothing is drawn.",
        "score_reference": "Edits score no given sentence.",
        "lm_path": "Edits are not scored by a language model.",
    }
    asked = {name: getattr(options, name, None) for name in reasons}
    asked["lm_path"] = asked["lm_path"] or language_model
    for name, value in asked.items():
        if value:
            raise ConfigurationError(
                f"{flag(name)} does not go with --task edit_labelling. "
                f"{reasons[name]} Leave it out."
            )
    alignment = getattr(options, "print_alignment", None)
    if alignment and not (print_edits and str(alignment) == "hard"):
        raise ConfigurationError(
            "--print-alignment does not go with --task edit_labelling. There is no attention to "
            "show; --print-edits prints the edits instead."
        )
