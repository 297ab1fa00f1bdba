r"""HTML report that compares the scores, figures and sentences of several systems.

Example:
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     _ = (folder / "ours.txt").write_text("the cat sat\n")
    ...     _ = (folder / "reference.txt").write_text("the cat sat down\n")
    ...     comparison = Comparison(references=[folder / "reference.txt"], metric="accuracy")
    ...     systems = {"ours": [folder / "ours.txt"]}
    ...     signature = write_report(folder / "r.html", systems=systems, comparison=comparison)
    ...     print(signature)
    report|systems:1|sentences:1|metric:accuracy|version:0.3.0
"""

from fairseq_ssl.report.builder import Comparison, write_report
from fairseq_ssl.report.page import difference_cells, interval_plot, page_html, table_html
from fairseq_ssl.report.score_files import ReportFiles, collect_files
from fairseq_ssl.report.sentences import Sentences

__all__ = [
    "Comparison",
    "ReportFiles",
    "Sentences",
    "collect_files",
    "difference_cells",
    "interval_plot",
    "page_html",
    "table_html",
    "write_report",
]
