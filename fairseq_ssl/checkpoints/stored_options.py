"""Validation of the options in a checkpoint, and removal of paths.

Options of a checkpoint are data and can only be plain values. Options that name a file, a folder or
code are dropped, so that commands use only the paths that the user passes. Interpolations are
rejected, since OmegaConf would resolve them from the environment. Strings that fairseq evaluates
are rejected unless they are plain values.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from fairseq_ssl.checkpoints.safe_values import PLAIN, evaluate, shortened
from fairseq_ssl.errors import ConfigurationError, DataError, UnsafeCheckpointError
from fairseq_ssl.text.specs import rename

SECTIONS = ("args", "cfg")
"""Checkpoint keys that contain options: `args` up to fairseq 0.10.2, `cfg` in later versions."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


EVALUATED = _names("""
    adafactor_eps adam_betas adamax_betas adaptive_input_cutoff adaptive_softmax_cutoff
    character_filters conv_aggregator_layers conv_feature_layers conv_layers decoder_attention
    decoder_glu decoder_kernel_size_list decoder_layers decoder_xformers_att_config downsample
    encoder_attention encoder_glu encoder_kernel_size_list encoder_layers
    encoder_xformers_att_config epoch2lr extra_data extra_lang_pairs feature_encoder_spec
    gated_attention input_layers lamb_betas langtoks latent_temp left_pad_source left_pad_target
    model_overrides optimizer_overrides pipeline_balance pipeline_decoder_balance
    pipeline_decoder_devices pipeline_devices pipeline_encoder_balance pipeline_encoder_devices
    pretrained project_input sampling_weights self_attention update2lr wer_args
    weight_softmax xformers_att_config
""")
"""Options whose strings fairseq evaluates as Python expressions."""

MISSING = "???"
"""OmegaConf's value for a mandatory option that is not set."""

REQUIRED_PATHS = _names("""
    bpe_codes bpe_merges bpe_vocab data gpt2_encoder_json gpt2_vocab_bpe
    sentencepiece_model sentencepiece_model_path w2v_path
""")
"""Path options that are mandatory in fairseq. Their value is `MISSING` if they are not set."""

TEXT_PATHS = _names("""
    baseline_model input lang_to_offline_shard_ratio plasma_path restore_file save_dir seq2seq_path
""")
"""Path options whose value is an empty string if they are not set."""

PATHS = _names("""
    aim_repo alignfile bpe bpe_vocab_file classifier_bert classifier_encoder classifier_encoder_dict
    classifier_lm classifier_lm_dict continue_once decoder_embed_path destdir edit_init
    edit_tokenizer ema_seed_model embed_path encoder_embed_path extra_data finetune_from_model
    fixed_dictionary fluency_boost_data fluency_boost_lm imitator_teacher init_decoder_only
    init_encoder_only label_dir lang_dict lm_path load_pretrained_aux_decoder_from
    load_pretrained_decoder_from
    load_pretrained_encoder_from log_file mix_weights mixture_expert mixture_imitators path
    post_save_script pretrained_checkpoint pretrained_mlm_checkpoint pretrained_xlm_checkpoint
    quantization_config_path reconstruction_source_text reconstruction_target_text replace_unk
    results_path sampling_weights_from_file save_predictions scoring source_dict speaker_emb_path
    srcdict target_dict target_dictionary tensorboard_logdir testpref tgtdict tokenizer trainpref
    user_dir validpref wer_args wer_kenlm_model wer_lexicon
""")
"""Options that name a file, a folder or code. Their value is None if they are not set.

`bpe`, `tokenizer` and `scoring` select encoders and scorers, some of which download a model.
"""

NAMES = _names("""
    _name arch channels classification_unlabeled config_yaml criterion eval_bleu_detok labels
    lang_pairs langs lr_scheduler mono_langs monolingual_langs multitask_config_yaml optimizer
    source_lang target_lang task
""")
"""Options whose value is a registered name, a language or the name of a file in the data folder."""

REMOVED: dict[str, Any] = {
    "bytenet_decoder_kernel": 3,
    "bytenet_residual_scale": 1.0,
    "edit_pooling": "first",
    "imitator_separate_embeddings": False,
    "lm_adaptive_cutoffs": "2000,10000",
}
"""Options that exist only in version 0.2, with the only value that this version supports."""

UNUSED = _names("""
    adversarial_weight adversarial_xi bytenet_decoder_norm bytenet_init edit_detection_weight
    edit_screen edit_window_overlap imitator_average noise_mask_token noise_seed
    reconstruction_max_len reconstruction_renormalize reconstruction_search
    reconstruction_target_weight reconstruction_weighting recurrent_keep_denormals
""")
"""Options that exist only in version 0.2 and do not affect trained models."""

NAME = re.compile(r"[\w.,:+@-]*")
MAX_DEPTH = 20
MAX_VALUES = 100_000


_passed_data: set[str] = set()


def remember_data(options: argparse.Namespace) -> None:
    """Record the data folder that the user passed. `check_options` does not drop this folder."""
    if isinstance(getattr(options, "data", None), str):
        _passed_data.add(options.data)


def _is_dropped(name: str, value: Any) -> bool:
    if name == "data" and isinstance(value, str) and value in _passed_data:
        return False
    return name in ALL_PATHS


def check_options(state: dict[str, Any], path: str | Path) -> None:
    """Check the options in `state`, and remove options that name paths. Errors contain `path`.

    Options that exist only in version 0.2 are also dropped, and old noise names are updated.

    Raise UnsafeCheckpointError if an option is not a plain value.
    Raise DataError if an option of version 0.2 has a value that is no longer supported.
    """
    for section in SECTIONS:
        if state.get(section) is not None:
            _Options(path).check(state[section], section, 0)


def check_evaluated(options: dict[str, Any]) -> None:
    """Raise ConfigurationError if `evaluate` rejects a string that fairseq would evaluate.

    The options are from a checkpoint or a command line.
    """
    for name, value in options.items():
        if name in EVALUATED and isinstance(value, str) and value:
            try:
                evaluate(value)
            except ConfigurationError as error:
                raise ConfigurationError(f"Option {name}: {error}") from None


class _Options:
    """Checker for the options of one checkpoint, which limits the number of values."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.values = 0

    def check(self, value: Any, name: str, depth: int) -> None:
        """Check a value and all nested values. Reset nested options that contain paths."""
        self.values += 1
        if depth > MAX_DEPTH or self.values > MAX_VALUES:
            raise self.error(f"{name} exceeds {MAX_DEPTH} levels or {MAX_VALUES:,} values in all")
        if not isinstance(value, PLAIN):
            raise self.error(f"{name} is a {type(value).__name__}; expected a plain value")
        if isinstance(value, str):
            self._check_text(name, value)
        if isinstance(value, list | tuple):
            for item in value:
                self.check(item, name, depth + 1)
        elif isinstance(value, dict | argparse.Namespace):
            self._check_section(value, name, depth)

    def error(self, reason: str) -> UnsafeCheckpointError:
        """Return the error for an option, with the reason for rejecting it."""
        return UnsafeCheckpointError(
            f"{self.path} was rejected and nothing in it was run: its option {reason}. Do not load "
            "this file. Ask its author for a checkpoint whose options are plain values."
        )

    def _check_section(
        self, section: dict[Any, Any] | argparse.Namespace, name: str, depth: int
    ) -> None:
        is_namespace = isinstance(section, argparse.Namespace)
        values: dict[Any, Any] = (
            vars(section) if isinstance(section, argparse.Namespace) else section
        )
        if is_namespace and not depth:  # fairseq sets missing options to their defaults
            for key in [key for key, value in values.items() if _is_dropped(key, value)]:
                del values[key]
        for key in list(values):
            if not isinstance(key, int | str):
                raise self.error(
                    f"{name} has a {type(key).__name__} key; expected text or integers"
                )
            if key in UNUSED or key in REMOVED:
                self._check_removed(key, values.pop(key))
                continue
            if isinstance(key, str):
                self._check_text(name, key)
                self._drop_paths(values, key, is_namespace)
                self._check_named(key, values[key])
                if key == "noise" and isinstance(values[key], str):
                    values[key] = rename(values[key])
            values[key] = self._check_json(values[key], f"{key}", depth)

    def _check_removed(self, key: str, value: Any) -> None:
        if key in REMOVED and value != REMOVED[key]:
            raise DataError(
                f"{self.path} was trained with {key}={shortened(value)}. This version of "
                f"fairseq-ssl supports only {REMOVED[key]!r}. Use version 0.2 of fairseq-ssl."
            )

    def _drop_paths(self, values: dict[Any, Any], key: str, is_namespace: bool) -> None:
        if not _is_dropped(key, values[key]) or values[key] in (None, "", MISSING):
            return
        if is_namespace or key in PATHS:
            values[key] = None
        else:
            values[key] = MISSING if key in REQUIRED_PATHS else ""

    def _check_named(self, key: str, value: Any) -> None:
        if not isinstance(value, str) or not value:
            return
        if key in NAMES and value != MISSING and (not NAME.fullmatch(value) or ".." in value):
            raise self.error(f"{key} is {shortened(value)}; expected a name")
        if key in EVALUATED:
            try:
                evaluate(value)
            except ConfigurationError:
                raise self.error(
                    f"{key} is {shortened(value)}, which is not a plain value"
                ) from None

    def _check_text(self, name: str, value: str) -> None:
        if "${" in value:
            raise self.error(
                f"{name} contains {shortened(value)}; an interpolation could read the environment"
            )

    def _check_json(self, value: Any, name: str, depth: int) -> Any:
        """Check a value and return it. In a JSON string, check the nested values.

        If the JSON string contains options that name paths, return a new string without the paths.
        """
        content = _parse_json(value)
        if content is None:
            self.check(value, name, depth + 1)
            return value
        before = json.dumps(content)
        self.check(content, name, depth + 1)
        after = json.dumps(content)
        return value if before == after else after


ALL_PATHS = REQUIRED_PATHS | TEXT_PATHS | PATHS


def _parse_json(value: Any) -> Any:
    """Return the object or the list in a JSON string, or None for any other value."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
