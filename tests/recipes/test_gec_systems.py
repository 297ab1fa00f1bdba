"""Systems of the recipe of chapter 4: pseudo data and training."""

from __future__ import annotations

import re
from pathlib import Path

from tests.recipes.gec import dry, trainings
from tests.recipes.recipe import called, said


def noise_kinds(commands: list[list[str]]) -> set[str]:
    return {words[words.index("--method") + 1] for words in commands if "noise" in words[:2]}


def translated(commands: list[list[str]]) -> list[str]:
    """Return the inputs of back-translation, CORPUS/PORTION.bpe."""
    found = [words for words in called(commands, "fairseq-ssl") if words[0] == "back-translate"]
    return ["/".join(Path(words[1]).parts[-2:]) for words in found]


def test_pseudo_data_is_that_of_section_4_3() -> None:
    prepare = dry("paper", "prepare")
    (bpe,) = [words for words in said(prepare, "subwords") if words.startswith("subwords train")]
    assert re.search(r"/words/train\.trg .*--kind subword-nmt --size 8000", bpe)
    pairs = [" ".join(words) for words in prepare if "pairs" in words]
    assert ["--held-out" in words for words in pairs] == [False, True, True], "no edits in BEA-test"
    systems = "joint-spell-wikipedia-250000 joint-direct-gigaword-9"
    commands = dry("paper", "pseudo", SYSTEMS=systems)
    assert noise_kinds(commands) == {
        "confusion",
        "direct:keep=0.2:mask=0.3",
        "characters:rate=0.003",
    }
    assert "--noisy-beam-beta 6 " in said(commands, "back-translate")[0]


def test_sources_are_generated_for_what_the_systems_need() -> None:
    """Portions of 700,000 pairs, each with its own random seed."""
    systems = "joint-noisy-wikipedia-1400000 pretrain-noisy-gigaword-7000000"
    commands = dry("paper", "pseudo", SYSTEMS=systems, FINAL="none")
    expected = [f"wikipedia/{number:05}.bpe" for number in range(2)]
    expected += [f"gigaword/{number:05}.bpe" for number in range(10)]
    assert translated(commands) == expected
    seeds = [words.partition("--seed ")[2] for words in said(commands, "back-translate")]
    assert [seed.split()[0] for seed in seeds] == ["1", "2", *map(str, range(1, 11))]
    (joined,) = [words for words in commands if "sed" in words and "noisy-wikipedia" in words[-1]]
    assert joined[:2] == ["sed", "1400000q"]
    assert [Path(name).name for name in joined[2:]] == ["00000.src", "00001.src"]


def test_task_of_a_slurm_array_builds_only_its_portions() -> None:
    systems = "pretrain-noisy-gigaword-14000000 joint-direct-gigaword-1400000"
    found = []
    for shard in range(1, 11):
        settings = {"SYSTEMS": systems, "FINAL": "none", "SHARD": f"{shard}/10"}
        commands = dry("paper", "pseudo", **settings)
        encoded = [Path(words[-1]).stem for words in called(commands, "fairseq-ssl")[::2]]
        assert [Path(name).stem for name in translated(commands)] == encoded
        assert len(commands) == len(encoded) * 3  # a folder, subwords, translation
        found += translated(commands)
    assert sorted(found) == [f"gigaword/{number:05}.bpe" for number in range(20)]


def test_systems_are_named_with_their_settings() -> None:
    systems = "joint-noisy@3-simplewiki-9 joint-direct@0.5-simplewiki-9"
    systems += " joint-direct@0.1/0.8-simplewiki-9 upsample@25-direct-gigaword-9"
    commands = dry("paper", "pseudo", SYSTEMS=systems, FINAL="none")
    kinds = ("keep=0.2:mask=0.3", "keep=0.2:mask=0.5", "keep=0.8:mask=0.1")
    assert noise_kinds(commands) == {f"direct:{kind}" for kind in kinds}
    assert ["--noisy-beam-beta 3 " in words for words in said(commands, "back-translate")] == [True]
    found = trainings("paper", "train", SYSTEMS=systems, FINAL="none", SEEDS="1")
    assert set(found) == {f"{system.replace('/', '_')}.1" for system in systems.split()}
    weights = {name: args.mix_weights for name, args in found.items()}
    pseudo = "../direct@0.1_0.8-simplewiki-9/train=9"
    assert weights["joint-direct@0.1_0.8-simplewiki-9.1"] == f"train=561410,{pseudo}"
    pseudo = "../direct-gigaword-9/train=9"
    assert weights["upsample@25-direct-gigaword-9.1"] == f"train={25 * 561410},{pseudo}"


def test_pretraining_can_be_followed_by_joint_tuning() -> None:
    """Section 4.4.5: the pretraining is shared with the system without joint tuning."""
    plain, more = "pretrain-noisy-gigaword-70000000", "direct-gigaword-250000"
    settings = {"SYSTEMS": f"{plain} {plain}+{more}", "FINAL": "none", "SEEDS": "1"}
    commands = called(dry("paper", "train", **settings), "fairseq-train")
    assert len(commands) == 3
    found = trainings("paper", "train", **settings)
    tuned = [found[f"{plain}.1"], found[f"{plain}+{more}.1"]]
    first = f"{found['pretraining-noisy-gigaword-70000000.1'].save_dir}/checkpoint_last.pt"
    assert [args.finetune_from_model for args in tuned] == [first] * 2
    weights = f"train=561410,../{more}/train=250000"
    assert [args.mix_weights for args in tuned] == [None, weights]
    assert all(args.max_epoch == 30 and args.lr == [3e-5] for args in tuned)
    made = dry("paper", "pseudo", **settings)
    assert any(words[-1].endswith(f"/{more}") for words in made if words[0] == "mv")
    reverse = dry("paper", "reverse", SYSTEMS=f"pretrain-direct-gigaword-9+{more}", FINAL="none")
    assert not reverse
