"""Check that the environment has the requirements of pyproject.toml, without importing packages.

Prints missing requirements and exits with 1, or prints nothing. The extra `scale` is not checked,
because setup.sh does not install it. --dev includes the requirements of
the tests. --pinned also checks the versions in constraints.txt. --missing prints what is to be
installed with pip, without fairseq. Needs only the standard library and pip.
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
"""The stock release of fairseq, accepted in place of fairseq-fixed."""
SEPARATE = "scale"
"""The extra that .ci/run installs and setup.sh does not."""


def requirements(extra: str) -> Iterator[Requirement]:
    """Yield the requirements of the package and one extra, with its own extras expanded."""
    declared = importlib.metadata.requires(NAME) or []
    pending, seen = [extra], {SEPARATE}
    yield from (r for r in map(Requirement, declared) if not _extra(r))
    while pending:
        extra = pending.pop()
        seen.add(extra)
        for requirement in map(Requirement, declared):
            if _extra(requirement) and _applies(requirement, extra):
                if requirement.name == NAME:
                    pending += requirement.extras - seen
                else:
                    yield requirement


def _extra(requirement: Requirement) -> bool:
    return requirement.marker is not None and "extra ==" in str(requirement.marker)


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def pins() -> Iterator[Requirement]:
    """Yield the pinned versions that apply to this interpreter."""
    for line in (HERE / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            if _applies(requirement, ""):
                yield requirement


def version(name: str) -> str | None:
    """Return the installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def problems(extra: str, pinned: bool) -> Iterator[str]:
    """Yield a line for each missing requirement or wrong version."""
    if version(NAME) is None or not _from_this_checkout():
        yield f"{NAME} is not installed from {HERE.parent}"
        return
    for requirement in requirements(extra):
        found = version(requirement.name)
        if found is None and requirement.name == "fairseq-fixed" and version(STOCK):
            continue
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            installed = f"{found} is installed" if found else "it is not installed"
            yield f"{requirement} is required, but {installed}"
    if pinned:
        for requirement in pins():
            found = version(requirement.name)
            if found and not requirement.specifier.contains(found, prereleases=True):
                yield f"{requirement} is pinned, but {found} is installed"


def missing(extra: str) -> Iterator[str]:
    """Yield the requirements that are not installed, but not fairseq, as arguments of pip."""
    for requirement in requirements(extra):
        if version(requirement.name) is None and requirement.name != "fairseq-fixed":
            requirement.marker = None
            yield str(requirement)


def _from_this_checkout() -> bool:
    sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    spec = importlib.util.find_spec("fairseq_ssl")
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).resolve().parents[1] == HERE.parent


def main() -> int:
    """Print the problems. Return 1 if there are any."""
    asked = sys.argv[1:]
    extra = "dev" if "--dev" in asked else "all"
    if "--missing" in asked:
        sys.stdout.writelines(f"{requirement}\n" for requirement in missing(extra))
        return 0
    found = list(problems(extra, "--pinned" in asked))
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
