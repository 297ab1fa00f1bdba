"""The recipe of chapter 5: its tiny scale runs, its paper scale is what the paper says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fairseq_ssl
from tests.conftest import ROOT
from tests.recipes.recipe import called, printed, step

fairseq_ssl.register()
from fairseq import options  # noqa: E402

RECIPE = ROOT / "examples/wmt20"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))


def dry(scale: str, name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": scale, **settings})


def test_the_tiny_scale_runs_in_parts_and_is_found_done(tmp_path: Path) -> None:
    systems = "base tagged-ft noisy"
    shown, settings = "", {"SCALE": "tiny", "WORK": str(tmp_path), "SYSTEMS": systems}
    step(STEPS[0], settings)
    step(STEPS[1], settings)
    step(STEPS[2], {**settings, "SHARD": "1/2"})
    assert "1 of 2 parts of bt.made are there" in step(STEPS[2], settings, code=1).stderr
    step(STEPS[2], {**settings, "SHARD": "2/2"})
    for path in STEPS[2:]:
        shown = step(path, settings).stdout
    assert all(f"| {system} |" in shown for system in systems.split())
    for name, language in (("bt", "digits"), ("noisy", "digits"), ("ft", "words")):
        mono = (tmp_path / f"text/mono.{language}").read_text()
        assert (tmp_path / f"synthetic/{name}.given").read_text() == mono
    told = (tmp_path / "runs/tagged-ft.1/train.log").read_text()
    bt, ft = (
        len((tmp_path / f"kept/{name}.words").read_text().splitlines()) for name in ("bt", "ft")
    )
    assert min(bt, ft) > 100
    assert f" {2 * max(bt, ft)} pairs an epoch of the 500 of train" in told
    assert f"{max(bt, ft)} pairs an epoch of the {ft} of ../ft/train, <FT> before each" in told
    for path in STEPS[1:5]:
        again = step(path, settings).stderr
        done = {line for line in again.splitlines() if not line.startswith("==>")}
        assert done, path
        assert all(line.startswith("there already: ") for line in done), again


def test_each_training_command_of_each_scale_is_understood_by_fairseq() -> None:
    for scale, count in (("tiny", 6), ("small", 18), ("paper", 18)):
        commands = called(dry(scale, "train"), "fairseq-train")
        assert len(commands) == count
        for words in commands:
            args = options.parse_args_and_arch(options.get_training_parser(), words)
            assert args.task == "tagged_translation"
            system = Path(args.save_dir).name.partition(".")[0]
            assert (args.mix_weights is None) == (system == "base")
            assert (args.source_tags is None) == (system in ("base", "bt"))
        reverse, base = called(dry(scale, "base"), "fairseq-train")
        assert reverse[reverse.index("-s") + 1] == base[base.index("-t") + 1]


def test_the_paper_scale_is_that_of_table_5_1() -> None:
    for source, updates in (("en", 40000), ("ja", 80000)):
        target = "de" if source == "en" else "en"
        languages = {"SOURCE": source, "TARGET": target, "GPUS": "8", "SEEDS": "1"}
        for words in called(dry("paper", "train", **languages), "fairseq-train"):
            args = options.parse_args_and_arch(options.get_training_parser(), words)
            assert 8 * args.max_tokens * args.update_freq[0] == 512000
            assert (args.max_update, args.warmup_updates, args.lr) == (updates, 4000, [0.001])
            sizes = (args.encoder_embed_dim, args.encoder_ffn_embed_dim, args.encoder_layers)
            assert (*sizes, args.encoder_attention_heads) == (1024, 8192, 6, 16)
            assert (args.decoder_ffn_embed_dim, args.decoder_layers) == (8192, 6)
            assert (args.dropout, args.label_smoothing, args.clip_norm) == (0.3, 0.1, 1.0)
            assert (args.adam_betas, args.adam_eps) == ("(0.9, 0.98)", 1e-8)
            assert (args.save_interval_updates, args.keep_interval_updates) == (2000, 10)
    averaged = called(dry("paper", "train", SEEDS="1"), "fairseq-ssl")
    assert all("--last 10" in " ".join(words) for words in averaged)


def said(commands: list[list[str]], verb: str) -> list[str]:
    return [" ".join(words) for words in called(commands, "fairseq-ssl") if words[0] == verb]


def test_filters_and_subwords_are_those_of_section_5_2() -> None:
    german = dry("paper", "prepare")
    pairs, *mono = said(german, "filter")
    assert "langid:source=en:target=de --filter clean:min=1:max=250:ratio=3.0" in pairs
    assert [
        f"langid:source={language}" in words for language, words in zip("ed", mono, strict=True)
    ]
    japanese = dry("paper", "prepare", SOURCE="en", TARGET="ja")
    assert "--filter longest:source=500:target=0:" in said(japanese, "filter")[0]
    apart = [words for words in said(japanese, "subwords") if words.startswith("subwords train")]
    assert [words.endswith("coverage 1.0") for words in apart] == [True, False]
    assert [words.endswith("coverage 0.9998") for words in apart] == [False, True]
    assert ["/true/subwords.ja" in words for words in apart] == [False, True]
    (together,) = [words for words in said(german, "subwords") if "subwords train" in words]
    assert re.search(r"subwords\.en \S+subwords\.de .* --size 32000 ", together)
    assert all(".ja" not in words for words in said(japanese, "truecase"))
    synthetic = said(dry("paper", "generate", SOURCE="en", TARGET="ja"), "filter")
    assert all("longest:source=250:target=500:target-unit=characters" in one for one in synthetic)


def test_back_translation_is_that_of_section_5_3_3() -> None:
    made = said(dry("paper", "generate"), "back-translate")
    assert len(made) == 3
    assert all("--beam 6 --lenpen 1.0" in words for words in made)
    assert ["--noisy-beam-beta 6" in words for words in made] == [False, True, False]
    assert ["/text/mono.de " in words for words in made] == [True, True, False]
    decoding = called(dry("paper", "decode", SEEDS="1"), "fairseq-generate")
    for words in decoding:
        args = options.parse_args_and_arch(options.get_generation_parser(), words)
        assert (args.beam, args.lenpen) == (6, 1.0)


@pytest.mark.parametrize(
    ("settings", "code", "message"),
    [
        ({"SCALE": "large"}, 2, "SCALE has 'large'; expected tiny, small, paper."),
        ({"SYSTEMS": "tagd"}, 2, "SYSTEMS has 'tagd'; expected base, bt, tagged,"),
        ({"SCALE": "small", "DATA_DIR": ""}, 1, "folder with multi30k/train.en.gz"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, str], code: int, message: str) -> None:
    assert message in step(STEPS[0], settings, code).stderr
