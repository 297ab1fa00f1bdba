"""Text correction by labeling tokens with edits (PIE)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Optional

from fairseq import utils
from fairseq.data import ConcatDataset, Dictionary, data_utils
from fairseq.data.indexed_dataset import IndexedRawTextDataset
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import FairseqTask
from omegaconf import II

from fairseq_ssl.checkpoints.bert import set_epsilon, set_sizes
from fairseq_ssl.checkpoints.gector import GectorModel, is_gector, read_gector
from fairseq_ssl.checkpoints.hugging_face import read_config
from fairseq_ssl.checkpoints.pretrained import EncoderFiles
from fairseq_ssl.data.edit_dataset import EditDataset, split_batch
from fairseq_ssl.data.edit_preparation import EDITS, EDITS_FILE, NONE
from fairseq_ssl.data.oov_dictionary import OovDictionary
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.subwords import WordSubwords, WordTokenizer
from fairseq_ssl.edits.windows import Windows
from fairseq_ssl.errors import ConfigurationError, DataError
from fairseq_ssl.generation.edit_generator import (
    EditDecodingConfig,
    EditGenerator,
    build_edit_generator,
)
from fairseq_ssl.options import option
from fairseq_ssl.tasks.translation_mixins import register_task
from fairseq_ssl.text.vocabulary import fingerprint, is_padding_entry

logger = logging.getLogger(__name__)

WORD = "word"
UNITS = (WORD, "subword", "character")


@dataclass
class EditLabelingConfig(EditDecodingConfig):
    """Options of the edit labeling task: data, sampling of sentences, edit units and decoding."""

    data: str = option(
        "",
        "data folder with binarized text, binarized labels, and edits.txt from `fairseq-ssl edits "
        "dictionary`; several folders are separated by : and used in turn, one per epoch",
    )
    source_lang: Optional[str] = option(  # noqa: UP045 - fairseq cannot parse `str | None`
        None,
        "language code of the uncorrected text in file names",
        usual="inferred from the data",
        alias="-s",
    )
    target_lang: Optional[str] = option(  # noqa: UP045
        None,
        "language code of the corrected text in file names",
        usual="inferred from the data",
        alias="-t",
    )
    edit_unchanged_share: float = option(
        1.0,
        "fraction of unedited training sentences to use; a new sample is drawn for each epoch",
        low=0,
        high=1,
    )
    edit_unit: ChoiceEnum(UNITS) = option(  # type: ignore[valid-type]
        "subword",
        "unit of the edit labels; word: words, which the encoder's tokenizer splits into subwords; "
        "subword and character: tokens of the data (both values have the same effect)",
        choices=UNITS,
    )
    edit_tokenizer: Optional[str] = option(  # noqa: UP045
        None,
        "for models with random weights: folder with the tokenizer.json that splits words into "
        "subwords; for a GECToR model in --edit-init: folder of its pretrained encoder",
        usual="the encoder in --edit-init",
    )
    train_subset: str = II("dataset.train_subset")
    dataset_impl: Any = II("dataset.dataset_impl")  # noqa: RUF009 - as in fairseq
    required_seq_len_multiple: int = II("dataset.required_seq_len_multiple")
    seed: int = II("common.seed")


@register_task("edit_labeling", dataclass=EditLabelingConfig)
class EditLabelingTask(FairseqTask):
    """A task that labels the tokens of a sentence with the edits that correct it.

    The data folder contains the uncorrected and the corrected text, binarized with a joint
    dictionary as for translation, so that a Transformer can be trained on the same folder. It also
    contains the binarized labels and the edit dictionary.

    Out-of-vocabulary words are copied by fairseq-interactive, and by fairseq-generate with raw text
    (--dataset-impl raw). Binarized text contains <unk> instead.
    """

    cfg: EditLabelingConfig

    def __init__(
        self, cfg: EditLabelingConfig, dictionary: OovDictionary, edits: EditDictionary | None
    ) -> None:
        super().__init__(cfg)
        self.dictionary = dictionary
        self.encoder: EncoderFiles | None = None
        self.gector: GectorModel | None = None
        """A GECToR model in --edit-init, until `build_model` copies the weights. Otherwise None."""
        self.words: WordSubwords | None = None
        if cfg.data and cfg.edit_unit != WORD:  # the encoder splits words itself
            self.state.merge_state_dict({"token_dictionary": fingerprint(dictionary.symbols)})
        if edits is not None:
            self._set_edits(edits)

    @classmethod
    def setup_task(cls, cfg: EditLabelingConfig, **options: Any) -> "EditLabelingTask":
        """Load the token dictionary and the edit dictionary from the first data folder.

        If `data` is empty, the edit dictionary is read from the checkpoint that is loaded next.
        This is for decoding with word labels, which does not need a token dictionary.
        """
        if not cfg.data:
            return cls(cfg, OovDictionary(), None)
        folder = Path(utils.split_paths(cfg.data)[0])
        _infer_sides(cfg, folder)
        dictionary = _load_dictionary(folder, cfg)
        edits = EditDictionary.read(folder / EDITS_FILE)
        logger.info(f"{len(dictionary)} tokens, {len(edits.labels)} edits")
        return cls(cfg, dictionary, edits)

    def check_task_state(self, state: dict[str, Any], origin: str) -> None:
        """Raise ConfigurationError if the edits, tokens or subwords of a checkpoint do not match.

        Args:
            state: the task state of the checkpoint.
            origin: name of the checkpoint for the error message.
        """
        known, tokens = state.get("edit_dictionary"), state.get("token_dictionary")
        place = f"{EDITS_FILE} in {self.cfg.data}" if self.cfg.data else "the first checkpoint's"
        if known is not None and known != self.edits.text():
            raise ConfigurationError(
                f"The edit dictionary of {origin} differs from {place}. Use the data folder with "
                "which the model was trained, or label the data with the model's edit dictionary. "
                "All models of an ensemble need the same edit dictionary."
            )
        ours = fingerprint(self.dictionary.symbols)
        if tokens is not None and self.cfg.data and tokens != ours:
            raise ConfigurationError(
                f"The token dictionary of {origin} ({tokens}) differs from the one in "
                f"{self.cfg.data} ({ours}). Use the data folder with which the model was trained."
            )
        stored = state.get("edit_encoder")
        if stored and self.encoder and self.words:
            tokenizer = WordTokenizer(EncoderFiles.of_state(stored).tokenizer)
            if tokenizer.subwords() != self.words.tokenizer.subwords():
                raise ConfigurationError(
                    f"The tokenizer of {origin} has different subwords than the tokenizer in "
                    "--edit-init or --edit-tokenizer. Pass the folder of the encoder with which "
                    "the model was trained."
                )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint's edit dictionary and encoder files, and the rest of the task state.

        The models of an ensemble must share one edit dictionary, but can have different encoders.
        """
        known, stored = (state_dict.get(name) for name in ("edit_dictionary", "edit_encoder"))
        if stored is None and not self.cfg.data:
            raise ConfigurationError(
                "The model labels subwords or characters, so decoding needs the dictionary in the "
                "data folder. Set `data_dir` to the data folder."
            )
        if "edit_dictionary" not in self.state.state_dict:
            if not isinstance(known, str):
                raise DataError(
                    "The checkpoint contains no edit dictionary. Expected a checkpoint trained "
                    "with --task edit_labeling."
                )
            self._set_edits(EditDictionary.parse(known.splitlines(), "The checkpoint"))
        else:
            self.encoder = None  # belongs to another model of the ensemble
            self.check_task_state(state_dict, "the checkpoint")
        super().load_state_dict(state_dict)
        self.encoder = None if stored is None else EncoderFiles.of_state(stored)

    def _set_edits(self, edits: EditDictionary) -> None:
        self.edits = edits
        self.state.merge_state_dict({"edit_dictionary": edits.text()})

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model. With `from_checkpoint`, `--edit-init` is ignored."""
        if from_checkpoint and getattr(cfg, "edit_init", None) is not None:
            cfg.edit_init = None
        self.words = None
        if self.encoder is not None or (self.cfg.edit_unit == WORD and not from_checkpoint):
            self._set_words(cfg)
        elif init := getattr(cfg, "edit_init", None):
            set_epsilon(cfg, read_config(Path(init).expanduser()))
        model = super().build_model(cfg, from_checkpoint)
        if self.gector is not None:
            model.load_state_dict(self.gector.weights(cfg.max_source_positions))
            self.gector = None
        return model

    def _set_words(self, cfg: Any) -> None:
        """Set `words`, which splits words into subwords, and set the encoder's sizes in `cfg`."""
        init = getattr(cfg, "edit_init", None)
        folder = init or self.cfg.edit_tokenizer
        if self.encoder is None:
            if folder is None:
                raise ConfigurationError(
                    "--edit-unit word needs the tokenizer of an encoder. Pass --edit-init or, for "
                    "random weights, --edit-tokenizer."
                )
            path = Path(folder).expanduser()
            if init and is_gector(path):
                self.encoder = self._read_gector(cfg, path)
            else:
                self.encoder = EncoderFiles.read(path, with_config=bool(init))
        self.state.merge_state_dict({"edit_encoder": self.encoder.state()})
        set_sizes(cfg, self.encoder.config)
        tokenizer = WordTokenizer(self.encoder.tokenizer)
        padding = self.encoder.config.get("pad_token_id")
        self.words = WordSubwords(
            tokenizer,
            self.dictionary,
            tokenizer.padding if padding is None else padding,
            self.encoder.config.get("vocab_size", tokenizer.size),
            cfg.max_source_positions,
        )

    def _read_gector(self, cfg: Any, path: Path) -> EncoderFiles:
        """Load the GECToR model `path`, and set the options that it needs. Return its encoder."""
        encoder = self.cfg.edit_tokenizer
        self.gector = read_gector(path, None if encoder is None else Path(encoder).expanduser())
        if self.gector.edits != self.edits:
            raise ConfigurationError(
                f"The labels of {path} differ from {EDITS_FILE} in {self.cfg.data}. Prepare the "
                f"data with the model's labels: fairseq-ssl edits prepare --dictionary {path}"
            )
        self.gector.set_options(cfg)
        cfg.edit_init = None  # `build_model` of the task copies the weights
        return self.gector.encoder

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **options: Any
    ) -> None:
        """Load a split with its labels. Validation and test splits also get the corrected text."""
        paths = utils.split_paths(self.cfg.data)
        folder = Path(paths[(epoch - 1) % len(paths)])
        is_training = split == self.cfg.train_subset
        parts = self._parts(folder, split, combine)
        text, target, labels = (_concat([part[side] for part in parts]) for side in range(3))
        if text is None:
            raise ConfigurationError(
                f"{folder} contains no split {split}. Expected output of fairseq-preprocess or "
                f"fairseq-ssl edits prepare, such as {split}.{self.cfg.source_lang}-"
                f"{self.cfg.target_lang or NONE}.{self.cfg.source_lang}.idx."
            )
        if is_training and labels is None:
            raise ConfigurationError(
                f"{folder} contains no labels for the split {split} or a part of it. Create them "
                "with `fairseq-ssl edits label` and fairseq-preprocess --only-source --source-lang "
                f"{EDITS} --srcdict LABEL_DICT."
            )
        dataset = self.datasets[split] = EditDataset(
            *(text, text.sizes, self.dictionary),
            labels=labels,
            label_sizes=None if labels is None else labels.sizes,
            corrected=None if is_training else target,
            seed=self.cfg.seed,
            unchanged_share=self.cfg.edit_unchanged_share if is_training else 1.0,
            shuffle=is_training,
            pad_to_multiple=self.cfg.required_seq_len_multiple,
            words=self.words,
            split_long=not is_training,
        )
        unlabeled = len(dataset) - int(dataset.has_labels.sum())
        if unlabeled and not is_training:
            logger.warning(
                f"{unlabeled} of {len(dataset)} sentences in {split} have no labels and are "
                "skipped, even by fairseq-generate. fairseq-interactive corrects all sentences."
            )

    def filter_indices_by_size(
        self,
        indices: Any,
        dataset: Any,
        max_positions: Any = None,
        ignore_invalid_inputs: bool = False,
    ) -> Any:
        """Remove long sentences if `ignore_invalid_inputs` is True, as in training.

        If it is False, `valid_step` and the generator split long sentences into windows.
        """
        if not ignore_invalid_inputs:
            return indices
        return super().filter_indices_by_size(indices, dataset, max_positions, True)

    def train_step(self, sample: dict[str, Any], model: Any, *args: Any, **options: Any) -> Any:
        """Run fairseq's training step on a batch whose long sentences are split into windows."""
        # A process without data gets a batch from the validation set, whose sentences may be long.
        return super().train_step(self._split_long(sample, model), model, *args, **options)

    def valid_step(self, sample: dict[str, Any], model: Any, criterion: Any) -> Any:
        """Run the criterion on a batch whose long sentences are split into windows."""
        return super().valid_step(self._split_long(sample, model), model, criterion)

    def _split_long(self, sample: dict[str, Any], model: Any) -> dict[str, Any]:
        windows = Windows.of_model(model.max_subwords + 2)
        return split_batch(
            sample, windows, model.subwords, self.dictionary.eos(), self.dictionary.pad()
        )

    def build_dataset_for_inference(
        self, src_tokens: Any, src_lengths: Any, **options: Any
    ) -> EditDataset:
        """Return a dataset of unlabeled sentences."""
        return EditDataset(
            src_tokens,
            src_lengths,
            self.dictionary,
            shuffle=False,
            words=self.words,
            split_long=True,
        )

    def build_generator(
        self, models: Sequence[Any], args: Any, *_: Any, **options: Any
    ) -> EditGenerator:
        """Build an `EditGenerator`. A generator class passed as an argument is ignored."""
        language_model = (options.get("extra_gen_cls_kwargs") or {}).get("lm_model")
        return build_edit_generator(models, self, args, language_model)

    @property
    def source_dictionary(self) -> OovDictionary:
        """The joint token dictionary."""
        return self.dictionary

    @property
    def target_dictionary(self) -> OovDictionary:
        """The joint token dictionary."""
        return self.dictionary

    def _parts(self, folder: Path, split: str, combine: bool) -> list[list[Any]]:
        """Load text, corrections and labels of a split. With `combine`, add SPLIT1, SPLIT2, ..."""
        parts: list[list[Any]] = []
        for index in count():
            name = f"{split}{index or ''}"
            part = [self._load_side(folder, name, side) for side in ("source", "target", "labels")]
            if part[0] is None:
                return parts
            parts.append(part)
            if not combine:
                return parts
        raise AssertionError

    def _load_side(self, folder: Path, name: str, side: str) -> Any:
        source, target = self.cfg.source_lang, self.cfg.target_lang
        if side == "labels":
            words = Dictionary()
            for label in self.edits.names:
                words.add_symbol(label)
            labels = data_utils.load_indexed_dataset(
                f"{folder / name}.{EDITS}-{NONE}.{EDITS}", words, self.cfg.dataset_impl
            )
            if labels is not None and not isinstance(labels, IndexedRawTextDataset):
                self._check_labels(folder / f"dict.{EDITS}.txt")
            return labels
        language = source if side == "source" else target
        for pair in (f"{source}-{target}", f"{target}-{source}", f"{source}-{NONE}"):
            path = f"{folder / name}.{pair}.{language}"
            dataset = data_utils.load_indexed_dataset(path, self.dictionary, self.cfg.dataset_impl)
            if dataset is not None:
                return dataset
        return None

    def _check_labels(self, path: Path) -> None:
        """Raise DataError if the label dictionary `path` exists and differs from edits.txt."""
        if not path.exists():
            return
        loaded = Dictionary.load(str(path))
        symbols = (
            symbol for symbol in loaded.symbols[loaded.nspecial :] if not is_padding_entry(symbol)
        )
        if tuple(symbols) != self.edits.names:
            raise DataError(
                f"{path} differs from the labels in {EDITS_FILE}. Binarize the labels with "
                "fairseq-preprocess --srcdict and the label dictionary that `fairseq-ssl edits "
                f"dictionary` writes together with {EDITS_FILE}."
            )


def _infer_sides(cfg: EditLabelingConfig, folder: Path) -> None:
    """Infer the languages in `cfg` from the file names, unless `source_lang` is set."""
    if cfg.source_lang is not None:
        return
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is not a folder. Pass a folder with binarized text.")
    names = [path.name.split(".") for path in folder.glob("*.*-*.*")]
    pairs = {pair for _, pair, side, *_ in names if side in pair.split("-") and side != EDITS}
    if len(pairs) != 1:
        content = f" ({', '.join(sorted(pairs))})" if pairs else ""
        raise ConfigurationError(
            f"{folder} contains {len(pairs)} language pairs{content}. Expected one, as in the name "
            "train.src-trg.src.idx. Prepare the data, or set --source-lang and --target-lang."
        )
    cfg.source_lang, cfg.target_lang = pairs.pop().split("-", 1)


def _load_dictionary(folder: Path, cfg: EditLabelingConfig) -> OovDictionary:
    """Load the token dictionary, which must be the same for both languages."""
    paths = [folder / f"dict.{side}.txt" for side in (cfg.source_lang, cfg.target_lang)]
    existing = [path for path in paths if path == paths[0] or path.exists()]
    try:
        loaded: list[OovDictionary] = [OovDictionary.load(str(path)) for path in existing]
    except FileNotFoundError:
        raise DataError(
            f"{paths[0]} is missing. Expected the dictionary with which the text was binarized."
        ) from None
    if any(dictionary.symbols != loaded[0].symbols for dictionary in loaded):
        raise ConfigurationError(
            f"{paths[0].name} and {paths[1].name} in {folder} differ, but --task edit_labeling "
            "needs a joint dictionary. Binarize the data with fairseq-preprocess "
            "--joined-dictionary."
        )
    return loaded[0]


def _concat(parts: list[Any]) -> Any:
    """Concatenate datasets. Return None if there are none or if any of them is None."""
    if not parts or any(part is None for part in parts):
        return None
    return parts[0] if len(parts) == 1 else ConcatDataset(parts)
