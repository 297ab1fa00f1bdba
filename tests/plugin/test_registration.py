"""Every way by which the package can come into a process ends with its names registered."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import PACKAGE, Run

CHECK = "from fairseq.models import ARCH_MODEL_REGISTRY as A; assert 'shape_transformer_big' in A"
BY_USER_DIR = f"""
from argparse import Namespace
from fairseq.utils import import_user_module
import_user_module(Namespace(user_dir={str(PACKAGE)!r}))
"""

WAYS = {
    "user dir": BY_USER_DIR,
    "fairseq first": "import fairseq, fairseq_ssl",
    "fairseq first, then user dir": "import fairseq, fairseq_ssl" + BY_USER_DIR,
    "package first, then register": "import fairseq_ssl; fairseq_ssl.register()",
    "package first, then user dir": "import fairseq_ssl; fairseq_ssl.register()" + BY_USER_DIR,
    "twice": "import fairseq, fairseq_ssl; fairseq_ssl.register(); fairseq_ssl.register()",
}


@pytest.mark.parametrize("way", WAYS)
def test_names_are_registered(run: Run, tmp_path: Path, way: str) -> None:
    run(sys.executable, "-c", f"{WAYS[way]}\n{CHECK}", cwd=tmp_path)


def test_the_light_parts_start_without_torch_and_fairseq(run: Run, tmp_path: Path) -> None:
    script = """
import sys
import fairseq_ssl, fairseq_ssl.papers, fairseq_ssl.signature, fairseq_ssl.errors
from fairseq_ssl.cli import main
try:
    main.main(["average", "--help"])
except SystemExit:
    pass
assert not {"torch", "fairseq", "numpy"} & set(sys.modules)
"""
    run(sys.executable, "-c", script, cwd=tmp_path)


def test_registering_without_fairseq_says_how_to_install_it(run: Run, tmp_path: Path) -> None:
    script = """
import sys
sys.modules["fairseq"] = None
import fairseq_ssl
fairseq_ssl.register()
"""
    shown = run(sys.executable, "-c", script, cwd=tmp_path, code=1).stderr
    assert "MissingPackageError" in shown
    assert "scripts/setup.sh" in shown
