"""Every documented name and flag reaches fairseq's parsers: it drops a clashing flag silently."""

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
        "--shape-eval-offset": "default: 0",
        "--shape-relative-limit": "default: 16",
        "--shape-relative-one-table": "default: two",
    }
}
"""Our flags by model, task or criterion, and words of ours in each help text."""

ARCHS = [arch for paper in PAPERS for arch in paper.archs]
TASKS = ["translation", *(task for paper in PAPERS for task in paper.tasks)]
CRITERIONS = [
    "label_smoothed_cross_entropy",
    *(criterion for paper in PAPERS for criterion in paper.criterions),
]


@pytest.mark.parametrize("criterion", CRITERIONS)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("task", TASKS)
def test_our_flags_are_there_with_our_help(task: str, arch: str, criterion: str) -> None:
    parser = options.get_training_parser(task)
    words = ["data-bin", "--task", task, "--arch", arch, "--criterion", criterion]
    options.parse_args_and_arch(parser, words)
    shown = " ".join(parser.format_help().split())
    ours = [flags for model, flags in FLAGS.items() if arch.startswith(model)]
    assert ours
    for flag, text in ours[0].items():
        assert text in shown.partition(f" {flag} ")[2][:600], flag


def test_a_value_given_on_the_command_line_arrives() -> None:
    words = ["data-bin", "--task", "translation", "--arch", "shape_transformer_big"]
    parsed = options.parse_args_and_arch(
        options.get_training_parser(), [*words, "--shape-max-shift", "40"]
    )
    assert (parsed.shape_max_shift, parsed.encoder_embed_dim) == (40, 1024)
