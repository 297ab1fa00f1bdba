"""``fairseq-ssl classify``: data for classifiers, a teacher's labels, predictions."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import classify_predict, classify_prepare, classify_score
from fairseq_ssl.cli.sub_verbs import Steps, run_step

SUMMARY = "make data for classifiers of texts, label texts for imitators, and classify texts"
EXAMPLES = """\
  fairseq-ssl classify prepare train.tsv --valid dev.tsv --test-share 0.1 \\
      --unlabeled reviews.txt.gz -o data
  fairseq-ssl classify label --model expert/checkpoint_best.pt -o teacher --shard 1/4
  fairseq-ssl classify predict data/text/test.tsv --labeled --model run/checkpoint_best.pt \\
      --windows 3 -o test.predicted
  fairseq-ssl classify score data/text/test.tsv expert=expert.predicted both=test.predicted \\
      --baseline expert"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the steps."""
    steps = Steps(parser)
    classify_prepare.add(steps)
    classify_predict.add(steps)
    classify_score.add(steps)


def run(args: argparse.Namespace) -> int:
    """Do the step."""
    return run_step(args)
