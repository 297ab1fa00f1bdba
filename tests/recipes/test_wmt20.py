"""Recipe of chapter 5: the tiny scale runs, the paper scale follows the paper."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from fairseq_ssl.rerank.nbest import parse_nbest
from tests.conftest import ROOT
from tests.recipes.recipe import are_reused, called, decoded, printed, said, step, trained

RECIPE = ROOT / "examples/wmt20"
STEPS = sorted(RECIPE.glob("[1-9]_*.sh"))


def dry(scale: str, name: str, **settings: str) -> list[list[str]]:
    return printed(RECIPE, name, {"SCALE": scale, **settings})


@pytest.mark.slow
def test_tiny_scale_runs_in_parts_and_is_reused(tmp_path: Path) -> None:
    systems = "base tagged-ft noisy"
    shown, settings = "", {"SCALE": "tiny", "WORK": str(tmp_path), "SYSTEMS": systems}
    settings |= {"UPDATES": "30", "TOY_LINES": "900"}
    step(STEPS[0], settings)
    step(STEPS[1], settings)
    step(STEPS[2], {**settings, "SHARD": "2/2"})
    assert sorted(path.name for path in (tmp_path / "synthetic").iterdir() if path.is_dir()) == [
        *("bt.parts", "ft.parts", "noisy.parts"),
    ]
    for path in STEPS[2:6]:
        shown = step(path, settings).stdout
    assert all(f"| {system} |" in shown for system in systems.split())
    for name, language in (("bt", "digits"), ("noisy", "digits"), ("ft", "words")):
        mono = (tmp_path / f"text/mono.{language}").read_text()
        parts = sorted((tmp_path / f"synthetic/{name}/given").glob("part-*"))
        assert "".join(part.read_text() for part in parts) == mono
    nothing_held_out_is_monolingual(tmp_path)
    told = (tmp_path / "runs/tagged-ft.1/train.log").read_text()
    bt, ft = (
        len((tmp_path / f"kept/{name}/train.words").read_text().splitlines())
        for name in ("bt", "ft")
    )
    assert min(bt, ft) > 100
    assert f" train: {2 * max(bt, ft)} pairs per epoch, 500 in total" in told
    assert f"../ft/train: {max(bt, ft)} pairs per epoch, {ft} in total, tag <FT>" in told
    are_reused(STEPS[1:5], settings)
    the_best_pairs_are_kept(tmp_path, {**settings, "SYSTEMS": "tagged@50"})
    the_rows_of_the_system(tmp_path, settings)


def nothing_held_out_is_monolingual(work: Path) -> None:
    """The toy numbers repeat themselves, as real sentences do."""
    for language in ("words", "digits"):
        lines = (work / f"corpus/train.{language}").read_text().splitlines()
        mono = (work / f"raw/mono.{language}").read_text().splitlines()
        held = (work / f"raw/{name}.{language}" for name in ("valid", "test"))
        known = {line for path in held for line in path.read_text().splitlines()}
        others = lines[len((work / f"raw/genuine.{language}").read_text().splitlines()) :]
        assert mono == [line for line in others if line not in known]
        assert len(mono) < len(others)


def plain(path: Path) -> list[str]:
    """Return the words, which have several segmentations into subwords."""
    text = path.read_text().replace(" ", "").replace("▁", " ")
    return [line.strip() for line in text.splitlines()]


def the_best_pairs_are_kept(work: Path, settings: dict[str, str]) -> None:
    """Table 5.7: pairs with the highest scores, in order."""
    step(STEPS[2], settings)
    pairs, kept = (
        list(zip(*(plain(work / f"{name}.{one}") for one in ("words", "digits")), strict=True))
        for name in ("kept/bt/train", "best/bt@50/train")
    )
    score = dict(zip(pairs, map(float, plain(work / "best/bt@50/scores")), strict=True))
    best = sorted((score[pair] for pair in pairs), reverse=True)[: round(len(pairs) / 2)]
    assert sorted((score[pair] for pair in kept), reverse=True) == best
    places = iter(pairs)
    assert all(pair in places for pair in kept)
    are_reused(STEPS[2:3], settings)
    step(STEPS[2], {**settings, "FORCE": "1"})


def the_rows_of_the_system(work: Path, settings: dict[str, str]) -> None:
    """Build rows of table 5.5 from the results of the first steps, with ensembles of one model."""
    rows = "d e f p"
    settings = {**settings, "SYSTEM": "tagged-ft", "MEMBERS": "1"}
    settings |= {"ROWS": rows, "ROW_SETS": "valid"}
    shown = ""
    for path in STEPS[6:]:
        shown = step(path, settings).stdout
    assert all(f"| {row} |" in shown for row in rows.split())
    weights = json.loads((work / "weights.json").read_text())
    both = ["s2t", "s2t-r2l", "t2s", "t2s-r2l"]
    assert list(weights["weights"]) == [*both, "lm", "lm-slor", "mlm", "mlm-penlp"]
    bleu, chrf = json.loads((work / "rows/f.1/valid.scores.json").read_text())
    assert chrf["name"] == "chrF2"
    assert bleu["score"] == pytest.approx(weights["scores"]["these weights"], abs=1e-3)
    with (work / "nbest/valid.all.nbest").open() as file:
        groups = list(parse_nbest(map(str.rstrip, file), "scored"))
    assert len(groups) == 60
    for name, score in (("l2r", "s2t"), ("r2l", "s2t-r2l")):
        own = [one.scores for group in groups for one in group.candidates if name in one.scores]
        assert len(own) > 150
        searched = [one[name] for one in own]
        assert [one[score] for one in own] == pytest.approx(searched, abs=1e-3)
    changes = "1 SETS=valid:valid, 1 VOCABULARY=51, 2 VOCABULARY=51, 3 BETA=7, 2 UPDATES=31, "
    changes += "4 UPDATES=31, 4 LABEL_SMOOTHING=0.2, 3 LENGTH_PENALTY=0.5, 5 LENGTH_PENALTY=0.5, "
    changes += "7 STAGES=genuine:21, 8 TUNING=--method grid --step 0.5"
    are_reused(STEPS[6:8], settings, changes)
    unigrams = (work / "data/lm/unigrams/dict.txt").read_text()
    counts = Counter((work / "text/mono.digits").read_text().split())
    assert {word: counts[word] for word in counts} == {
        word: int(count) for word, count in map(str.split, unigrams.splitlines()) if int(count)
    }


def test_the_paper_scale_is_that_of_table_5_1() -> None:
    for source, updates in (("en", 40000), ("ja", 80000)):
        target = "de" if source == "en" else "en"
        languages = {"SOURCE": source, "TARGET": target, "GPUS": "8", "SEEDS": "1"}
        for args in trained(dry("paper", "train", **languages)):
            assert 8 * args.max_tokens * args.update_freq[0] == 512000
            assert (args.max_update, args.warmup_updates, args.lr) == (updates, 4000, [0.001])
            sizes = (args.encoder_embed_dim, args.encoder_ffn_embed_dim, args.encoder_layers)
            assert (*sizes, args.encoder_attention_heads) == (1024, 8192, 6, 16)
            assert (args.decoder_ffn_embed_dim, args.decoder_layers) == (8192, 6)
            assert (args.dropout, args.label_smoothing, args.clip_norm) == (0.3, 0.1, 1.0)
            assert (args.adam_betas, args.adam_eps) == ("(0.9, 0.98)", 1e-8)
            assert (args.save_interval_updates, args.keep_interval_updates) == (2000, 10)
            assert not args.mix_weights or args.mix_epoch_pairs == 20_000_000
    for count in ("10", "20"):
        commands = dry("paper", "train", SEEDS="1", CHOSEN=count)
        assert all(f"--last {count} " in words for words in said(commands, "average"))
        for words in called(commands, "fairseq-train"):
            assert words[words.index("--keep-interval-updates") + 1] == count


def test_filters_and_subwords_are_those_of_section_5_2() -> None:
    german = dry("paper", "prepare")
    pairs, *mono = said(german, "filter")
    assert "langid:source=en:target=de --filter clean:min=1:max=250:ratio=3.0" in pairs
    assert [
        f"langid:source={language}" in words for language, words in zip("ed", mono, strict=True)
    ]
    japanese = dry("paper", "prepare", SOURCE="en", TARGET="ja")
    assert "--filter max-length:source=500:target=0:" in said(japanese, "filter")[0]
    apart = [words for words in said(japanese, "subwords") if words.startswith("subwords train")]
    assert [words.endswith("coverage 1.0 --force") for words in apart] == [True, False]
    assert [words.endswith("coverage 0.9998 --force") for words in apart] == [False, True]
    assert ["/true/subwords.ja" in words for words in apart] == [False, True]
    (together,) = [words for words in said(german, "subwords") if "subwords train" in words]
    assert re.search(r"subwords\.en \S+subwords\.de .* --size 32000 ", together)
    assert all(".ja" not in words for words in said(japanese, "tokenize"))
    synthetic = said(dry("paper", "generate", SOURCE="en", TARGET="ja"), "filter")
    assert all(
        "max-length:source=250:target=500:target-unit=characters" in one for one in synthetic
    )


def test_back_translation_is_that_of_section_5_3_3() -> None:
    made = said(dry("paper", "generate"), "back-translate")
    assert len(made) == 3
    assert all("--beam 6 --lenpen 1.0" in words for words in made)
    assert ["--noisy-beam-beta 6" in words for words in made] == [False, True, False]
    assert ["/text/mono.de " in words for words in made] == [True, True, False]
    japanese = said(dry("paper", "generate", SOURCE="en", TARGET="ja"), "back-translate")
    limits = ["--max-source-tokens 500 --max-len-b 500 " in words for words in japanese]
    assert limits == [True, True, False], "sources of 500 characters are kept"
    for args in decoded(dry("paper", "decode", SEEDS="1")):
        assert (args.beam, args.lenpen) == (6, 1.0)


def test_held_out_sources_can_be_tagged_as_synthetic_ones() -> None:
    asked = {"SYSTEMS": "tagged", "SEEDS": "1", "SETS": "test:t", "READ_AS": "ft"}
    (args,) = decoded(dry("paper", "decode", **asked))
    assert (args.task, args.source_tags) == ("tagged_translation", "test=<FT>")
    (scored,) = called(dry("paper", "score", **asked), "sacrebleu")
    assert "work/wmt20/paper/runs/tagged-as-ft.1/test.txt" in scored


def test_text_with_capitals_is_detruecased() -> None:
    for scale, source, target, capitals in (
        ("paper", "ja", "en", True),
        ("paper", "en", "ja", False),
        ("small", "ja", "en", False),  # its English is lowercase, references included
    ):
        asked = {"SOURCE": source, "TARGET": target, "SYSTEMS": "base", "SEEDS": "1"}
        asked |= {"DATA_DIR": "/data"}
        finished = said(dry(scale, "decode", **asked), "postprocess")
        assert finished
        assert all(("--detruecase" in words) == capitals for words in finished)
        truecased = said(dry(scale, "prepare", **asked), "tokenize")
        assert any(f"/valid.{target}" in words for words in truecased) == capitals


def test_filtering_is_that_of_section_5_5_1() -> None:
    shares = {"SYSTEMS": "tagged@50 tagged@25"}
    fit, *applied = said(dry("paper", "generate", **shares), "learned-filter")
    assert "--translation work/wmt20/paper/runs/base.1/final.pt " in fit
    assert fit.count(".vec ") == fit.count(".vec.counts ") == 2
    for share, words in zip((50, 25), applied, strict=True):
        assert f"--keep {share} " in words
    found = trained(dry("paper", "train", SEEDS="1", **shares))
    for share, args in zip((50, 25), found, strict=True):
        assert args.mix_weights == f"train=1,../bt@{share}/train=1"
        assert args.source_tags == f"../bt@{share}/train=<BT>"


def test_the_system_is_that_of_table_5_1_and_section_5_3() -> None:
    found = trained(dry("paper", "system", GPUS="8"))
    args = {"/".join(Path(one.save_dir).parts[-2:]): one for one in found}
    deep, fine = args["runs/deep.2"], args["fine.2/news"]
    assert (deep.encoder_layers, deep.decoder_layers) == (9, 9)
    assert deep.source_tags == "../bt/train=<BT>"
    assert (fine.encoder_layers, fine.lr, fine.max_update) == (9, [1e-5], 200)
    assert 8 * fine.max_tokens * fine.update_freq[0] == 20000
    assert (fine.save_interval_updates, fine.lr_scheduler) == (20, "fixed")
    assert fine.finetune_from_model.endswith("runs/deep.2/final.pt")
    lm, mlm = args["runs/lm.1"], args["runs/mlm.1"]
    assert (lm.arch, lm.decoder_layers, lm.max_update) == ("transformer_lm_big", 12, 50000)
    assert (8 * lm.max_tokens * lm.update_freq[0], lm.lr, lm.weight_decay) == (512000, [5e-4], 0)
    assert (mlm.arch, mlm.warmup_updates, mlm.max_update) == ("roberta_base", 10000, 125000)
    assert (8 * mlm.batch_size * mlm.update_freq[0], mlm.weight_decay) == (2048, 0.01)
    german = trained(dry("paper", "system", SOURCE="de", TARGET="en"))
    assert {args.lr[0] for args in german if args.lr_scheduler == "fixed"} == {1e-6}
    japanese = called(dry("paper", "system", SOURCE="en", TARGET="ja"), "fairseq-train")
    stages = r"data/clean .*?--max-update 2000 .*?deep.1/final.pt .*?data/news .*?fine.1/clean.pt"
    assert re.search(stages, " ".join(word for words in japanese for word in words))


def test_rows_use_the_models_they_name() -> None:
    searched = called(dry("paper", "rerank", ROWS="a b c d", SETS="valid:v"), "fairseq-generate")
    paths = [words[words.index("--path") + 1].split(":") for words in searched]
    names = [[Path(path).parent.name for path in one] for one in paths]
    ensemble = [f"fine.{member}" for member in (1, 2, 3, 4)]
    single = [[f"{kind}.{member}"] for member in (1, 2, 3, 4) for kind in ("deep", "fine")]
    assert names == [["base.1"], *single, ensemble]
    commands = dry("paper", "rerank", ROWS="f", SETS="valid:v", TUNING="--method grid --step 0.1")
    scores = [words for words in said(commands, "rerank") if words.startswith("rerank features")]
    flags = "s2t --fp16 --translation", "s2t-r2l --fp16", "t2s --fp16", "t2s-r2l", "lm", "mlm"
    assert [f"--name {flag} " in words for flag, words in zip(flags, scores, strict=True)] == (
        [True] * 6
    )
    assert ["--right-to-left" in words for words in scores] == [
        False,
        True,
        False,
        True,
        False,
        False,
    ]
    (tuned,) = [words for words in said(commands, "rerank") if "rerank tune" in words]
    assert "--method grid --step 0.1 --features s2t,s2t-r2l,t2s,t2s-r2l,lm," in tuned
    japanese = dry("paper", "rerank", ROWS="p", SOURCE="en", TARGET="ja", SETS="valid:v")
    assert all("ja-mecab" in words for words in said(japanese, "rerank") if "tune" in words)
