"""Reading of texts, writing of outputs, and executors for parallel jobs.

A text is a file, a glob or a folder, local or in an object store (opened with fsspec). Jobs such as
`noise.noise_file` write a file or, if the output is a `PartFolder`, a folder of parts.

>>> from fairseq_ssl.io import LocalExecutor
>>> list(LocalExecutor(1).imap(str.upper, ["a", "b"]))
['A', 'B']
"""

from fairseq_ssl.io.blocks import line_rows
from fairseq_ssl.io.executors import Executor, LocalExecutor, RayExecutor
from fairseq_ssl.io.parts import PartFolder
from fairseq_ssl.io.text_files import read_lines

__all__ = [
    "Executor",
    "LocalExecutor",
    "PartFolder",
    "RayExecutor",
    "line_rows",
    "read_lines",
]
