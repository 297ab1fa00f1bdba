"""Edit labels of source tokens (PIE; Awasthi et al., 2019, section 2).

`extract` returns the labels of a sentence pair, `apply` applies labels to a sentence, and
`build_dictionary` builds the label vocabulary of a model. `build_dictionary_file` and `label_file`
process files of any size. `vote` combines the corrections of several systems.

>>> from fairseq_ssl.edits import apply, extract
>>> labels = extract("Bolt can have run race", "Bolt could have run the race")
>>> labels
['KEEP', 'KEEP', 'REPLACE_could', 'KEEP', 'APPEND_the', 'KEEP']
>>> apply("Bolt can have run race", labels)
'Bolt could have run the race'
"""

from fairseq_ssl.edits.coverage import Coverage
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.edits.edits_job import (
    EditDictionaryConfig,
    build_dictionary,
    build_dictionary_file,
    label_file,
)
from fairseq_ssl.edits.extraction import apply, extract, vote

__all__ = [
    "Coverage",
    "EditDictionary",
    "EditDictionaryConfig",
    "apply",
    "build_dictionary",
    "build_dictionary_file",
    "extract",
    "label_file",
    "vote",
]
