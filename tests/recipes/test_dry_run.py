"""Commands of all recipes, with spaces in every path."""

from __future__ import annotations

import shlex
import shutil
from functools import cache
from pathlib import Path

import pytest
from papers import PAPERS

from fairseq_ssl.cli.main import command_parser
from tests.conftest import PACKAGE, ROOT
from tests.recipes.recipe import called, parsed, printed

WORDS_AND_GRAMMAR = {"small": {"TASKS": "ocr gec"}, "paper": {"TASKS": "ocr spell gec"}}
MORE: dict[str, dict[str, dict[str, str]]] = {
    "mein": {"small": {"LABELING": "online"}, "paper": {"TASKS": "elec", "EXPERTS": "lm adv"}},
    "pie": WORDS_AND_GRAMMAR,
    "pseudo_bidirectional": WORDS_AND_GRAMMAR,
    "shape": {"small": {"TASKS": "translation lines"}},
    "wmt20": {"small": {"SOURCE": "en", "TARGET": "ja"}, "paper": {"SOURCE": "ja", "TARGET": "en"}},
}
"""Settings for commands that the defaults of a scale lack, or for fewer."""
PROGRAMS = {
    "fairseq-train": "training",
    "fairseq-generate": "generation",
    "fairseq-preprocess": "preprocessing",
}
PLUG_IN = {"fairseq_ssl": str(PACKAGE)}
parser_of = cache(command_parser)


@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
@pytest.mark.parametrize("recipe", [paper.key for paper in PAPERS])
@pytest.mark.slow
def test_commands_have_valid_options_and_whole_paths(
    recipe: str, scale: str, tmp_path: Path
) -> None:
    """The checkout, WORK and DATA_DIR are in folders with a space in their name."""
    folder = tmp_path / "first second"
    for name in ("common", recipe):
        shutil.copytree(ROOT / "examples" / name, folder / "examples" / name)
    settings = {"SCALE": scale, "WORK": f"{folder}/work", "DATA_DIR": f"{folder}/data"}
    settings |= {"SEEDS": "1", "FOLDS": "0", "BERT": f"{folder}/bert"}
    settings |= MORE.get(recipe, {}).get(scale, {})
    programs: set[str] = set()
    for step in sorted((folder / "examples" / recipe).glob("[1-9]_*.sh")):
        commands = printed(step.parent, step.stem.partition("_")[2], settings)
        paths = {word for command in commands for word in command}
        assert paths
        assert not [path for path in paths if path.endswith("/first") or path.startswith("second/")]
        for program, kind in PROGRAMS.items():
            for words in called(commands, program):
                parsed(kind, [PLUG_IN.get(Path(word).name, word) for word in words])
                programs.add(program)
        for words in called(commands, "fairseq-ssl"):
            parser_of(words[0]).parse_args(words[1:])
    assert "fairseq-train" in programs


def two_node_rows() -> list[str]:
    """Return the rows of the settings for two nodes of eight GPUs."""
    text = (ROOT / "examples/README.md").read_text("utf-8")
    table = text.partition("| recipe | steps with training runs |")[2].partition("\n\n")[0]
    return table.splitlines()[2:]


@pytest.mark.parametrize("row", two_node_rows(), ids=lambda row: row.split(" | ")[0].strip("| "))
@pytest.mark.slow
def test_settings_for_two_nodes(row: str, tmp_path: Path) -> None:
    name, numbers, settings, count, _ = row.strip("| ").split(" | ")
    given = dict(word.split("=") for word in shlex.split(settings.strip("`")))
    given |= {"SCALE": "paper", "WORK": str(tmp_path)}
    if given["GPUS"] == "16":
        slurm = {"SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "8"}
        given |= {"LAUNCH": "slurm", **slurm}
    recipe = ROOT / "examples" / name.split("`")[1]
    runs: set[str] = set()
    for number in numbers.split(", "):
        (path,) = recipe.glob(f"{number}_*.sh")
        commands = printed(recipe, path.stem.partition("_")[2], given)
        calls = [words for words in commands if "fairseq-train" in words]
        runs |= {words[words.index("--save-dir") + 1] for words in calls}
        assert all(
            words[0] == {"16": "srun"}.get(given["GPUS"], "fairseq-train") for words in calls
        )
    assert len(runs) == int(count.replace(",", ""))
