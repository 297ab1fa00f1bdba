"""``fairseq-ssl rerank``: the best of many candidates, and of several systems' outputs."""

from __future__ import annotations

import argparse

from fairseq_ssl.cli import post_ensemble, rerank_features, rerank_lists, rerank_search
from fairseq_ssl.cli.sub_verbs import Steps, run_step

SUMMARY = "choose among candidates by weighted scores, and among systems by majority"
EXAMPLES = """\
  fairseq-generate data-bin ... --nbest 10 > l2r.txt
  fairseq-ssl rerank merge l2r=l2r.txt r2l=r2l.txt --right-to-left r2l -o dev.nbest
  fairseq-ssl rerank features dev.nbest --translation 1.pt 2.pt 3.pt 4.pt --source dev.en \\
      --source-subwords bpe.en --subwords bpe.de -o dev.s2t.nbest
  fairseq-ssl rerank features dev.nbest --translation de-en.pt --reverse --source dev.en \\
      --source-subwords bpe.en --subwords bpe.de -o dev.t2s.nbest
  fairseq-ssl rerank features dev.nbest --language-model lm.pt --subwords bpe.de -o dev.lm.nbest
  fairseq-ssl rerank features dev.nbest --masked-model mlm.pt --subwords bpe.de -o dev.mlm.nbest
  fairseq-ssl rerank merge s2t=dev.s2t.nbest t2s=dev.t2s.nbest lm=dev.lm.nbest \\
      mlm=dev.mlm.nbest -o dev.scored.nbest
  fairseq-ssl rerank tune dev.scored.nbest --reference dev.de -o weights.json
  fairseq-ssl rerank tune dev.scored.nbest --reference dev.de --method grid --step 0.1 --jobs 2
  fairseq-ssl rerank report dev.scored.nbest --reference dev.de --figure worth.pdf
  fairseq-ssl rerank apply test.scored.nbest --weights weights.json > test.de
  fairseq-ssl rerank apply test.nbest --weight l2r=1 --weight r2l=1 > test.de
  fairseq-ssl rerank vectors news.tok.ja.gz -o news.vec
  fairseq-ssl rerank post-ensemble a.ja b.ja c.ja --vectors news.vec > test.ja"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the steps."""
    steps = Steps(parser)
    rerank_lists.add_merge(steps)
    rerank_features.add_features(steps)
    rerank_search.add_tune(steps)
    rerank_lists.add_apply(steps)
    rerank_search.add_report(steps)
    post_ensemble.add_post_ensemble(steps)
    post_ensemble.add_vectors(steps)


def run(args: argparse.Namespace) -> int:
    """Do the step."""
    return run_step(args)
