"""Add noise to clean text with the methods of the reproduced papers.

`add_noise` adds noise to a list of lines. `noise_file` adds noise to a file of any size, in several
processes or on several machines. `LineNoise` adds noise to batches in an engine such as Ray Data.
`describe_noises` lists the methods with their options. `build_confusion_sets` and
`count_learner_errors` create resources for the methods ``confusion`` and ``learner``.

>>> from fairseq_ssl.noise import add_noise
>>> add_noise(["the cat sat on the mat", "a dog barked"], "direct", seed=1)
['cat dog sat on on <mask>', 'a barked']
"""

from fairseq_ssl.noise.block_noise import describe_noises, parse_noise
from fairseq_ssl.noise.confusion_sets import build_confusion_sets, read_confusion_sets
from fairseq_ssl.noise.learner_errors import LearnerErrors, count_learner_errors
from fairseq_ssl.noise.noise_job import (
    LineNoise,
    NoiseResources,
    NoiseSummary,
    add_noise,
    noise_file,
)

__all__ = [
    "LearnerErrors",
    "LineNoise",
    "NoiseResources",
    "NoiseSummary",
    "add_noise",
    "build_confusion_sets",
    "count_learner_errors",
    "describe_noises",
    "noise_file",
    "parse_noise",
    "read_confusion_sets",
]
