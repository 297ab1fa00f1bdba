"""The generator of edit taggers: sentences corrected in rounds until nothing changes (PIE)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from fairseq.dataclass import FairseqDataclass
from numpy.typing import NDArray

from fairseq_ssl.data.spans import Ids, Spans
from fairseq_ssl.edits.dictionary import KEEP_ID, EditDictionary
from fairseq_ssl.errors import ConfigurationError, flag
from fairseq_ssl.generation.edit_choice import (
    Chosen,
    EditChoice,
    EditedIds,
    EditScoreArray,
    PossibleEdits,
)
from fairseq_ssl.generation.edit_probabilities import EditProbabilities, Windows

MOST_WINDOWS = 16
"""That a model sees at once, if there are fewer sentences than that."""


@dataclass(frozen=True)
class RoundsSettings:
    """How sentences are corrected, and what is told of it."""

    iterations: int = 4
    """Rounds at most."""
    choice: EditChoice = field(default_factory=EditChoice)
    window_overlap: int | None = None
    """Tokens that two windows of a long sentence share; None: a quarter of a window."""
    history: bool = False
    """Whether to tell the sentence after each round."""
    print_edits: bool = False
    """Whether to give the edits in place of an alignment, so that fairseq prints them."""

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ConfigurationError(
                f"--edit-iterations is {self.iterations}; expected 1 round or more."
            )


class MadeEdit(NamedTuple):
    """An edit that was made in a sentence."""

    round: int
    """From 1."""
    place: int
    """0 is the start, 1 the first token of what this round began with."""
    label: str
    probability: float

    def pair(self) -> tuple[str, str]:
        """Return two parts that fairseq prints with a hyphen between them."""
        return f"{self.round}:{self.place}", f"{self.label}:{self.probability:.3f}"


@dataclass
class SentenceState:
    """What became of a sentence."""

    ids: Ids
    """As it is now, the start first."""
    scores: EditScoreArray
    """For each of its ids, the log probability of the edit that kept or made it."""
    earlier: set[bytes]
    """All that it has been."""
    score: float = 0.0
    """Mean log probability of the edits of the last round, those that keep among them."""
    rounds: int = 0
    """That looked at it."""
    edits: list[MadeEdit] = field(default_factory=list)
    history: list[Ids] = field(default_factory=list)


class EditRounds:
    """Feeds sentences to edit taggers, and feeds again those that changed.

    A sentence is done when a round changes nothing, and when it becomes what it was before one of
    the rounds: then it is that. It has the role of fairseq's generators, which `build_generator`
    of a task returns.
    """

    def __init__(
        self,
        models: Sequence[Any],
        dictionary: Any,
        edits: EditDictionary,
        settings: RoundsSettings,
    ) -> None:
        """Make it for models of the same dictionaries of tokens and of edits."""
        self.eos = dictionary.eos()
        self.symbols_to_strip_from_output = {self.eos}
        self.names = edits.names
        self.settings = settings
        positions = min(model.cfg.max_source_positions for model in models)
        self.windows = Windows.of_model(positions, settings.window_overlap)
        self.probabilities = EditProbabilities(models, dictionary)
        self.possible = PossibleEdits(edits, dictionary)
        self.edited = EditedIds(edits, dictionary)
        for model in models:
            model.eval()

    def generate(
        self, models: Sequence[Any], sample: dict[str, Any], **ignored: Any
    ) -> list[list[dict[str, Any]]]:
        """Return for each sentence of a batch a list of one hypothesis, as fairseq's have them.

        `tokens` is the corrected sentence, ended by </s>. `positional_scores` are the log
        probabilities of the edits that kept or made these tokens in the last round that looked
        at the sentence, and for </s> that of the edit of the start. `score` is the mean log
        probability of all edits of that round, of those that keep and those that delete too.
        `steps` counts the rounds, `edits` are those made, and `history` the sentence after each
        round, where that is asked for.
        """
        source = sample["net_input"]["src_tokens"]
        text = _sentences(source, sample["net_input"]["src_lengths"])
        courses = [_course(run) for run in _runs(text.ids, text)]
        active = np.arange(len(text))
        for number in range(1, self.settings.iterations + 1):
            chosen = self.chosen(text, source.device)
            text, goes_on = self._next(number, text, chosen, [courses[one] for one in active])
            if not len(goes_on):
                break
            active, text = active[goes_on], text.select(goes_on)
        return [[self._hypothesis(course)] for course in courses]

    def chosen(self, text: Spans, device: torch.device) -> Chosen:
        """Choose the edits of sentences, each with its start first."""
        pieces = self.windows.cut(text)
        order = np.argsort(-pieces.text.lengths, kind="stable")
        together = max(len(text), MOST_WINDOWS)
        columns = []
        for begin in range(0, len(order), together):
            some = pieces.select(order[begin : begin + together])
            found = self.probabilities(some.text, some.wanted, device)
            choose = self.settings.choice.choose
            columns.append(choose(*found, self.possible, some.ids, some.sentence_starts))
        found_at = Spans(np.arange(len(text.ids)), pieces.counts).select(order).ids
        ordered = np.empty((4, len(text.ids)), np.float32)
        ordered[:, found_at] = torch.cat(columns, dim=1).cpu().numpy()
        return self.settings.choice.leave_alone(ordered, text.starts)

    def _next(
        self, number: int, text: Spans, chosen: Chosen, courses: Sequence[SentenceState]
    ) -> tuple[Spans, Ids]:
        """Make the edits of a round; return the sentences, and which of them go on."""
        logs = np.log(np.maximum(chosen.probabilities, np.finfo(np.float32).tiny))
        means = np.add.reduceat(logs, text.starts) / text.lengths
        after, origins = self.edited(text, chosen.labels)
        runs, scores = _runs(after.ids, after), _runs(logs[origins], after)
        goes_on = []
        for at, course in enumerate(courses):
            course.ids, course.scores, course.score = runs[at], scores[at], float(means[at])
            course.rounds = number
            if self.settings.history:
                course.history.append(course.ids)
        sentence = np.repeat(np.arange(len(text)), text.lengths)
        changing = np.flatnonzero(chosen.labels != KEEP_ID)
        for at in changing.tolist():
            one = int(sentence[at])
            label, probability = self.names[chosen.labels[at]], float(chosen.probabilities[at])
            place = at - int(text.starts[one])
            courses[one].edits.append(MadeEdit(number, place, label, probability))
        for one in np.unique(sentence[changing]).tolist():
            now = courses[one].ids.tobytes()
            if now not in courses[one].earlier:
                courses[one].earlier.add(now)
                goes_on.append(one)
        return after, np.array(goes_on, np.int64)

    def _hypothesis(self, course: SentenceState) -> dict[str, Any]:
        found = {
            "tokens": self._tokens(course.ids),
            "score": course.score,
            "positional_scores": torch.from_numpy(np.roll(course.scores, -1)),
            "attention": None,
            "alignment": [edit.pair() for edit in course.edits if self.settings.print_edits],
            "edits": course.edits,
            "steps": course.rounds,
        }
        if self.settings.history:
            found["history"] = [{"tokens": self._tokens(ids)} for ids in course.history]
        return found

    def _tokens(self, ids: Ids) -> torch.Tensor:
        """Return a sentence as fairseq has them: without its start, with its end."""
        return torch.from_numpy(np.append(ids[1:], self.eos))


def _sentences(source: torch.Tensor, lengths: torch.Tensor) -> Spans:
    """Return the sentences of a batch without their ends; the batch is padded on the right."""
    rows, counts = source.cpu().numpy(), lengths.cpu().numpy() - 1
    return Spans(rows[np.arange(rows.shape[1]) < counts[:, None]], counts)


def _runs(values: NDArray[Any], like: Spans) -> list[NDArray[Any]]:
    """Cut values where the runs of `like` begin."""
    return np.split(values, like.starts[1:])


def _course(ids: Ids) -> SentenceState:
    return SentenceState(ids, np.zeros(len(ids), np.float32), {ids.tobytes()})


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
            model.quantize_()
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
                f"{flag(name)} does not go with --task edit_labeling. {reasons[name]} Leave it out."
            )
    alignment = getattr(options, "print_alignment", None)
    if alignment and not (print_edits and str(alignment) == "hard"):
        raise ConfigurationError(
            "--print-alignment does not go with --task edit_labeling. There is no attention to "
            "show; --print-edits prints the edits instead."
        )
