"""Every documented name and flag is in fairseq's parsers, which silently drop clashing flags."""

from __future__ import annotations

import pytest

import fairseq_ssl
from fairseq_ssl.papers import PAPERS

fairseq_ssl.register()
from fairseq import options  # noqa: E402

FLAGS = {
    "shape_transformer": {
        "--shape-positions": "default: shifted",
        "--shape-max-shift": "default: 500",
        "--shape-shared-shift": "not in the thesis",
        "--shape-shift-warmup": "not in the thesis",
        "--shape-eval-offset": "default: 0",
        "--shape-relative-limit": "default: 16",
        "--shape-relative-one-table": "default: two",
    },
    "edit_tagger": {
        "--encoder-layers": "default: 12",
        "--encoder-embed-dim": "default: 768",
        "--encoder-ffn-embed-dim": "default: 3072",
        "--encoder-attention-heads": "default: 12",
        "--max-source-positions": "default: 512",
        "--dropout": "default: 0.1",
        "--attention-dropout": "default: 0.1",
        "--edit-unfactorized": "from token states only",
        "--edit-gap-inserts": "insertions after a token separately",
        "--edit-init": "default: random",
        "--edit-layer-norm-eps": "default: 1e-12",
        "--edit-detection": "whether it has any edit",
        "--edit-freeze-encoder-updates": "default: 0",
    },
    "pseudo_bidirectional_transformer": {
        "--encoder-layers": "default: 6",
        "--encoder-embed-dim": "default: 512",
        "--encoder-ffn-embed-dim": "default: 2048",
        "--encoder-attention-heads": "default: 8",
        "--encoder-normalize-before": "before each sublayer",
        "--dropout": "default: 0.1",
        "--attention-dropout": "default: 0",
        "--activation-dropout": "default: 0",
        "--max-source-positions": "default: 1024",
        "--max-target-positions": "default: 1024",
        "--pseudo-future-layer": "default: input",
        "--pseudo-future-alignment": "default: position",
        "--no-pseudo-future": "past only",
        "--no-share-encoder-decoder": "its own layers",
    },
    "pointer_transformer": {
        "--copy-vocabulary": "default: the whole dictionary",
        "--copy-attention-heads": "default: 1",
    },
    "bytenet": {
        "--bytenet-dim": "default: 400",
        "--bytenet-sets": "default: 3",
        "--bytenet-dilations": "default: 1,2,4,8,16",
        "--bytenet-encoder-kernel": "default: 5",
        "--bytenet-decoder-kernel": "default: 3",
        "--bytenet-uncompressed": "without channel compression",
        "--bytenet-encoder-norm": "default: batch",
        "--bytenet-decoder-norm": "default: layer",
        "--bytenet-activation": "default: relu",
        "--bytenet-init": "default: he",
        "--bytenet-residual-scale": "default: 1",
        "--bytenet-unfold": "default: auto",
        "--dropout": "default: 0",
    },
    "lstm_classifier": {
        "--recurrent-embed-dim": "default: 256",
        "--recurrent-hidden-dim": "default: 1024",
        "--recurrent-layers": "default: 1",
        "--recurrent-dropout": "default: 0.5",
        "--recurrent-normalize-embeddings": "mean 0 and variance 1",
        "--recurrent-keep-denormals": "default: flush them to zero",
        "--classifier-mlp-dim": "default: 30",
        "--classifier-lm": "default: random",
        "--classifier-lm-dict": "of --classifier-lm",
    },
    "encoder_classifier": {
        "--classifier-encoder": "matched by word",
        "--classifier-encoder-dict": "source dictionary of the checkpoint",
        "--classifier-encoder-options": "as JSON",
        "--classifier-pool": "mean of a text's states",
        "--classifier-dropout": "default: 0.1",
        "--classifier-mlp-dim": "default: 30",
    },
    "bert_classifier": {
        "--classifier-bert": "folder",
        "--classifier-bert-config": "set from",
        "--classifier-pool": "mean of a text's states",
    },
    "recurrent_lm": {
        "--recurrent-embed-dim": "default: 256",
        "--lm-adaptive-cutoffs": "default: 2000,10000",
    },
    "imitators": {
        "--imitator-windows": "default: 1,2,3,4",
        "--imitator-embed-dim": "default: 512",
        "--imitator-channels": "default: 512",
        "--imitator-separate-embeddings": "default: shared",
        "--imitator-sparse-gradients": "lazy_adam",
    },
    "expert_and_imitators": {
        "--mixture-expert": "of the supervised expert",
        "--mixture-imitators": "which are frozen",
        "--mixture-random": "default: 0",
        "--mixture-lambda": "default: 0",
        "--mixture-lambda-rate": "default: 1",
        "--mixture-expert-options": "set from",
        "--mixture-imitator-options": "set from",
    },
    "semi_supervised_classification": {
        "--classification-stage": "default: supervised",
        "--classification-max-length": "default: no maximum",
        "--classification-unlabeled": "default: unlabeled",
        "--classification-unlabeled-lines": "default: all",
        "--classification-full-epochs": "has as many updates",
        "--classification-unlabeled-per-labeled": "default: 0",
        "--imitator-teacher": "expert to imitate",
    },
    "adversarial_cross_entropy": {
        "--adversarial-epsilon": "default: 5",
        "--adversarial-weight": "default: 1",
    },
    "virtual_adversarial_cross_entropy": {
        "--adversarial-epsilon": "default: 5",
        "--adversarial-xi": "default: 0.1",
    },
    "imitation_cross_entropy": {"--imitator-average": "default: text"},
    "copying_translation": {
        "--truncate-source-words": "800 in PoDA",
        "--truncate-target-words": "130 in PoDA",
        "--init-encoder-only": "default: random",
        "--init-decoder-only": "default: random",
        "--aggressive": "use aggressive decoding",
        "--right-to-left": "reverse the word order of targets",
    },
    "reconstruction_translation": {
        "--reconstruction-source-text": "default: none",
        "--reconstruction-target-text": "default: none",
        "--reconstruction-beam": "default: 5",
        "--reconstruction-search": "default: beam",
        "--reconstruction-max-len": "99.9 percent",
        "--reconstruction-mixed-lengths": "sentences of any length",
    },
    "reconstruction_loss": {
        "--reconstruction-weight": "default: 0.1",
        "--reconstruction-target-weight": "default: the value of",
        "--reconstruction-start-update": "default: 0",
        "--reconstruction-weighting": "default: marginal",
        "--reconstruction-renormalize": "sum to 1",
        "--label-smoothing": "default: 0",
    },
    "tagged_translation": {
        "--source-tags": "default: no tags",
        "--noisy-beam-beta": "default: 0",
        "--noisy-beam-granularity": "default: candidate",
        "--noisy-beam-seed": "default: 1",
        "--right-to-left": "reverse the word order of targets",
    },
    "local_transduction": {
        "--aggressive": "use aggressive decoding",
        "--right-to-left": "reverse the word order of targets",
    },
    "edit_labeling": {
        "--source-lang": "text to correct",
        "--target-lang": "corrected text",
        "--edit-unchanged-share": "default: 1",
        "--edit-iterations": "4 in PIE",
        "--edit-keep-bias": "default: 0",
        "--edit-delete-bias": "default: 0",
        "--edit-min-confidence": "default: 0",
        "--edit-min-sentence-confidence": "default: 0",
        "--edit-screen": "threshold of a screen, 0 to 1",
        "--edit-window-overlap": "default: a quarter of the window size",
        "--edit-int8": "to int8",
        "--print-edits": "print the edits on the A- lines",
    },
    "edit_cross_entropy": {
        "--edit-copy-weight": "default: 0.4",
        "--edit-detection-weight": "default: 1",
        "--label-smoothing": "default: 0",
    },
    "denoising_pretraining": {
        "--noise": "default: denoise",
        "--noise-seed": "default: the value of",
        "--noise-subwords": "default: none",
        "--noise-mask-token": "default: <mask>",
    },
    "denoising_cross_entropy": {
        "--label-smoothing": "default: 0",
        "--denoise-keep-rate": "default: 0.03",
    },
}
"""Flags by model, task or criterion, with a part of each help text."""

ARCHS = [arch for paper in PAPERS for arch in paper.archs]
TASKS = ["translation", *(task for paper in PAPERS for task in paper.tasks)]
CRITERIONS = [
    "label_smoothed_cross_entropy",
    *(criterion for paper in PAPERS for criterion in paper.criterions),
]


PAIRS = {
    *((task, arch, CRITERIONS[0]) for task in TASKS for arch in ARCHS),
    *((task, ARCHS[0], criterion) for task in TASKS for criterion in CRITERIONS),
    *((TASKS[0], arch, criterion) for arch in ARCHS for criterion in CRITERIONS),
}
"""Each pair of a task, an architecture and a criterion, since two can have clashing flags."""


@pytest.mark.parametrize(("task", "arch", "criterion"), sorted(PAIRS))
def test_flags_and_help_texts_are_in_the_parser(task: str, arch: str, criterion: str) -> None:
    parser = options.get_training_parser(task)
    words = ["data-bin", "--task", task, "--arch", arch, "--criterion", criterion]
    options.parse_args_and_arch(parser, words)
    shown = " ".join(parser.format_help().split())
    selected = [task, criterion, next(model for model in FLAGS if arch.startswith(model))]
    for name in selected:
        for flag, text in FLAGS.get(name, {}).items():
            assert text in shown.rpartition(f" {flag} ")[2][:600], flag


def test_architecture_value_is_parsed() -> None:
    words = ["data-bin", "--task", "translation", "--arch", "shape_transformer_big"]
    parsed = options.parse_args_and_arch(
        options.get_training_parser(), [*words, "--shape-max-shift", "40"]
    )
    assert (parsed.shape_max_shift, parsed.encoder_embed_dim) == (40, 1024)


def test_task_and_criterion_values_are_parsed() -> None:
    words = ["data-bin", "--task", "denoising_pretraining", "--arch", "transformer"]
    words += ["--criterion", "denoising_cross_entropy", "--denoise-keep-rate", "0.5"]
    words += ["--noise", "direct:keep=0.4,denoise", "--noise-seed", "7"]
    parsed = options.parse_args_and_arch(options.get_training_parser(), words)
    assert (parsed.noise, parsed.noise_seed) == ("direct:keep=0.4,denoise", 7)
    assert (parsed.denoise_keep_rate, parsed.label_smoothing) == (0.5, 0.0)
