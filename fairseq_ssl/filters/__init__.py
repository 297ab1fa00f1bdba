"""Filters for parallel and monolingual text: length, language, duplicates, encoding.

`filter_pairs` filters pairs or lines in memory, `filter_files` filters files of any size, and
`RowFilter` filters batches of rows in other data engines. `describe_filters` lists the filters with
their options. Subclass `Filter` to write your own filter.

>>> from fairseq_ssl.filters import filter_pairs
>>> pairs = [("a cat", "eine Katze"), ("", "leer"), ("OK", "OK"), ("a cat", "eine Katze")]
>>> list(filter_pairs(pairs, "clean,identical,duplicates"))
[('a cat', 'eine Katze')]
"""

from fairseq_ssl.filters.block_filter import DropCount
from fairseq_ssl.filters.chain import FilterSpec, describe_filters, parse_filters, read_filters
from fairseq_ssl.filters.filter_job import FilterSummary, RowFilter, filter_files, filter_pairs
from fairseq_ssl.filters.rules import Filter
from fairseq_ssl.options import check, option

__all__ = [
    "DropCount",
    "Filter",
    "FilterSpec",
    "FilterSummary",
    "RowFilter",
    "check",
    "describe_filters",
    "filter_files",
    "filter_pairs",
    "option",
    "parse_filters",
    "read_filters",
]
