"""Tell whether this interpreter has all that pyproject.toml asks for, by metadata alone.

Prints what is missing and ends with exit code 1, or prints nothing. With --dev what the
tests need counts too; with --pinned the versions must also be those of constraints.txt.
Needs only the standard library and pip.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

try:
    from packaging.requirements import Requirement
except ImportError:
    from pip._vendor.packaging.requirements import Requirement  # type: ignore[assignment]

HERE = Path(__file__).resolve().parent
NAME = "fairseq-ssl"
STOCK = "fairseq"
"""The stock release of fairseq serves as well where it is installed."""


def requirements(extra: str) -> Iterator[Requirement]:
    """Yield what the package and one of its extras need, extras of itself unfolded."""
    declared = importlib.metadata.requires(NAME) or []
    wanted, seen = [extra], set()
    yield from (r for r in map(Requirement, declared) if not _extra(r))
    while wanted:
        extra = wanted.pop()
        seen.add(extra)
        for requirement in map(Requirement, declared):
            if _extra(requirement) and _applies(requirement, extra):
                if requirement.name == NAME:
                    wanted += requirement.extras - seen
                else:
                    yield requirement


def _extra(requirement: Requirement) -> bool:
    return requirement.marker is not None and "extra ==" in str(requirement.marker)


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def pins() -> Iterator[Requirement]:
    """Yield the pinned versions that hold for this interpreter."""
    for line in (HERE / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            if _applies(requirement, ""):
                yield requirement


def version(name: str) -> str | None:
    """Return the installed version of a distribution."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def problems(extra: str, pinned: bool) -> Iterator[str]:
    """Yield one line for each thing that is not as it should be."""
    if version(NAME) is None or not _from_this_checkout():
        yield f"{NAME} is not installed from {HERE.parent}"
        return
    for requirement in requirements(extra):
        found = version(requirement.name)
        if found is None and requirement.name == "fairseq-fixed" and version(STOCK):
            continue
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            yield f"{requirement} is needed, {found or 'nothing'} is installed"
    if pinned:
        for requirement in pins():
            found = version(requirement.name)
            if found and not requirement.specifier.contains(found, prereleases=True):
                yield f"{requirement} is pinned, {found} is installed"


def _from_this_checkout() -> bool:
    sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    spec = importlib.util.find_spec("fairseq_ssl")
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).resolve().parents[1] == HERE.parent


def main() -> int:
    """Print all problems."""
    asked = sys.argv[1:]
    found = list(problems("dev" if "--dev" in asked else "all", "--pinned" in asked))
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
