"""A benchmark of the suite."""

from __future__ import annotations

from dataclasses import dataclass

CPUS = "On CPUs"
PEERS = "Against other tools"
GROWTH = "Growth"
STOCK = "fairseq's search"


@dataclass(frozen=True)
class Entry:
    """A row of the table."""

    key: str
    """Key in results.json."""
    what: str
    """Description: first over second, unit."""
    script: str
    options: str = ""
    """Options of the script. A word in capitals is a file of the user: --given MODEL=..."""
    known: str = ""
    """Ratio reported in a paper."""
    note: str = ""
    """Explanation of the ratio on a CPU. A ratio below the goal needs one."""
    gpu_note: str = ""
    """Explanation of the ratio on a GPU."""
    section: str = CPUS
    """Section of the page for measurements on a CPU."""
    gpu: bool = True
    """True if `--device cuda` measures on a GPU."""
