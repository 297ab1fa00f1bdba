"""Small models with random weights, built once for all tests of attacks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.attacks.contents import Scene
from tests.conftest import ROOT, build_once

sys.path.insert(0, str(ROOT / "scripts/fuzz"))
import small_models


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_once(tmp_path_factory, "small_models", small_models.build)


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return Scene(lambda: request.getfixturevalue("models"), tmp_path / "canary")
