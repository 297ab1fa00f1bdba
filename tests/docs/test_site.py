"""The site's settings, its table of methods, and the defaults in the API reference."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import command_pages
import pytest

from fairseq_ssl._version import __version__
from fairseq_ssl.cli.main import COMMANDS
from fairseq_ssl.filters.chain import FILTERS
from fairseq_ssl.noise.block_noise import NOISES
from fairseq_ssl.options import options_of
from tests.conftest import ROOT

ADDRESS = "https://example.org/owner/fairseq_ssl"
BUILD = "from setuptools.build_meta import prepare_metadata_for_build_wheel as build; build('.')"


@pytest.mark.parametrize("address", ["", ADDRESS])
def test_the_metadata_has_links_if_the_address_is_set(address: str, tmp_path: Path) -> None:
    pytest.importorskip("setuptools", "77")
    for name in ("pyproject.toml", "README.md", "LICENSE", "fairseq_ssl/_version.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "fairseq_ssl/__init__.py").touch()
    setup = (ROOT / "setup.py").read_text("utf-8")
    changed = setup.replace('REPOSITORY = ""', f'REPOSITORY = "{address}"')
    assert (changed == setup) == (not address)
    (tmp_path / "setup.py").write_text(changed, "utf-8")
    subprocess.run([sys.executable, "-c", BUILD], cwd=tmp_path, check=True, capture_output=True)
    (metadata,) = tmp_path.glob("*.dist-info/METADATA")
    lines = metadata.read_text("utf-8").splitlines()
    links = [line.partition(": ")[2] for line in lines if line.startswith("Project-URL")]
    assert links == [
        f"{label}, {address}{path}"
        for label, path in (
            ("Repository", ""),
            ("Issues", "/issues"),
            ("Changelog", "/blob/main/CHANGELOG.md"),
        )
        if address
    ]


def site(monkeypatch: pytest.MonkeyPatch, address: str) -> Any:
    pytest.importorskip("mkdocs")  # of the extra docs, for Python 3.11 and later
    import hook

    monkeypatch.setitem(hook.SETUP, "REPOSITORY", address)
    nav: list[dict[str, Any]] = [{"Home": "index.md"}, {"Commands": ["commands/index.md"]}]
    config = SimpleNamespace(site_name="fairseq_ssl", nav=nav, repo_url=None, edit_uri=None)
    return hook.on_config(config)


def test_the_site_links_to_the_repository_if_the_address_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = site(monkeypatch, "")
    assert (config.repo_url, config.edit_uri) == (None, None)
    config = site(monkeypatch, ADDRESS)
    assert (config.repo_url, config.edit_uri) == (ADDRESS, "edit/main/docs/")


def test_the_navigation_has_all_commands_by_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    config = site(monkeypatch, "")
    assert config.site_name == f"fairseq_ssl {__version__}"
    _, *groups = config.nav[1]["Commands"]
    listed = [page for group in groups for pages in group.values() for page in pages]
    assert sorted(name for page in listed for name in page) == sorted(COMMANDS)


@pytest.mark.parametrize(("command", "registry"), [("noise", NOISES), ("filter", FILTERS)])
def test_a_page_has_a_table_of_options_for_each_method(
    command: str, registry: dict[str, type[Any]]
) -> None:
    page = command_pages.command_page(command)
    for name, kind in registry.items():
        section = page.partition(f"\n### {name}\n")[2].partition("\n#")[0]
        for option in options_of(kind):
            assert f"\n| `{option.replace('_', '-')}` | " in section, f"{name}: {option}"
    assert "names and options:" not in page


def test_the_reference_shows_defaults_as_values_and_the_help_of_options() -> None:
    griffe = pytest.importorskip("griffe")  # part of the extra docs
    import docstring_markdown
    import generated_pages

    from fairseq_ssl.metrics.metric import SAMPLES
    from fairseq_ssl.rerank.tuning import TuningConfig

    for package in ("metrics", "rerank"):
        generated_pages.reference_page(package)  # imports it
    loaded = griffe.load(
        "fairseq_ssl",
        search_paths=[ROOT],
        extensions=griffe.load_extensions("dataclasses", docstring_markdown.Values),
    )
    assert loaded["metrics.metric.paired_bootstrap"].parameters["resamples"].default == str(SAMPLES)
    config = loaded["rerank.tuning.TuningConfig"]
    assert config.parameters["folds"].default == config["folds"].value == str(TuningConfig.folds)
    assert "\n    folds: number of " in config.docstring.value
