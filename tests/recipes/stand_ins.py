"""Stand-ins for the data and the commands of recipes."""

from __future__ import annotations

import os
from pathlib import Path

from tests.conftest import environment


def stub_commands(folder: Path, scripts: dict[str, str]) -> dict[str, str]:
    """Write shell scripts named like commands. Return the setting PATH that finds them first."""
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{environment()['PATH']}"}


TRAIN_STUB = """
while (($#)); do [[ "$1" == --save-dir ]] && folder="$2"; shift; done
mkdir -p "$folder"
echo trained | tee -a "$folder/checkpoint_last.pt" >>"$folder/checkpoint_best.pt"
"""
"""A fairseq-train that appends a line to its checkpoints."""


def learner_text(folder: Path) -> Path:
    """Write a DATA_DIR like the output of examples/common/learner_text.sh."""
    folder.mkdir()
    names = ("Dog", "Cat", "Man", "Owl")
    wrong = (
        ("The {} bark at {} .", "2 3|||R:VERB:SVA|||barks"),
        ("{} barks at {} .", "0 0|||M:DET|||The"),
        ("The a {} barks at {} .", "1 2|||U:DET|||"),
    )
    for name, count in (("train", 40), ("valid", 4), ("dev", 4)):
        words = [(names[at % 4], at % 7) for at in range(count)]
        cases = [(wrong[at % 3], words[at]) for at in range(count)]
        sources = [source.format(*filled) for (source, _), filled in cases]
        blocks = [
            f"S {source}\nA {edit}|||REQUIRED|||-NONE-|||0\n\n"
            for source, ((_, edit), _) in zip(sources, cases, strict=True)
        ]
        (folder / f"{name}.m2").write_text("".join(blocks), "utf-8")
        targets = ["The {} barks at {} .".format(*filled) for filled in words]
        for side, text in (("src", sources), ("trg", targets)):
            (folder / f"{name}.{side}").write_text("\n".join(text) + "\n", "utf-8")
    (folder / "train.levels").write_text("A\nB\nC\nfce\n" * 10, "utf-8")
    (folder / "dev.levels").write_text("A\nB\nC\nN\n", "utf-8")
    for part in ("src", "ref0", "ref1", "ref2", "ref3"):
        (folder / f"jfleg.{part}").write_text("The Owl sees it .\n", "utf-8")
    films = [f"The {name} barks in film {at} .\n" for at in range(30) for name in names]
    (folder / "imdb.txt").write_text("".join(films), "utf-8")
    (folder / "imdb.valid.txt").write_text("A Dog barks in film 99 .\n" * 3, "utf-8")
    (folder / "learner_text.json").write_text("{}\n", "utf-8")
    return folder
