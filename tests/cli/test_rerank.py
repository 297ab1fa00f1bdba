"""``fairseq-ssl rerank``: merge lists, tune and apply weights, post-ensembles."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from tests.cli.rewriting import given, shown

GENERATED = """\
S-1\tx
H-1\t-1\ta@@ b
H-1\t-2\ta b
H-0\t-1\tc d
"""
REVERSED = """\
H-0\t-1\td c
H-0\t-3\te c
H-1\t-2\tb a@@
"""
MERGED = """\
0 ||| c d ||| l2r= -0.69314718056 r2l= -0.69314718056 ||| -0.69314718056 ||| from= l2r r2l
0 ||| c e ||| r2l= -2.07944154168 ||| -2.07944154168 ||| from= r2l
1 ||| ab ||| l2r= -0.69314718056 r2l= -1.38629436112 ||| -0.69314718056 ||| from= l2r r2l
1 ||| a b ||| l2r= -1.38629436112 ||| -1.38629436112 ||| from= l2r
"""  # -1, -2 and -3 in base 2
WORDS = "abcdefghij"
LENGTH = 8
SENTENCES = 40


@pytest.fixture
def lists(tmp_path: Path) -> list[str | Path]:
    (tmp_path / "l2r.txt").write_text(GENERATED, encoding="utf-8")
    (tmp_path / "right").write_text(REVERSED, encoding="utf-8")
    return [tmp_path / "l2r.txt", f"r2l={tmp_path / 'right'}", "--subwords", "subword-nmt"]


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """Each sentence has a correct candidate. `good` mostly prefers it, `bad` never."""
    reference, nbest = [], []
    for number in range(SENTENCES):
        right = [WORDS[(number + k * k) % 10] for k in range(LENGTH)]
        reference.append(" ".join(right))
        for place in range(3):
            text = " ".join(right if place == 1 else [*right[: 3 + place], "x", "y"])
            good = (3 if place == 1 else place / 2) - 4 * (number % 10 == 3 and place == 1)
            scores = (
                f"good= {good} bad= {(7 * number + 5 * place) % 11} noise= {number * place % 5}"
            )
            nbest.append(f"{number} ||| {text} ||| {scores} ||| 0")
    (tmp_path / "ref").write_text("\n".join(reference) + "\n", encoding="utf-8")
    (tmp_path / "nbest").write_text("\n".join(nbest) + "\n", encoding="utf-8")
    return tmp_path


def test_merge(lists: list[str | Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("rerank", "merge", *lists, "--right-to-left", "r2l")
    assert shown(capsys, *words) == MERGED
    shown(capsys, *words, "-o", tmp_path / "out.gz")
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()).decode() == MERGED
    signature = json.loads((tmp_path / "out.gz.json").read_text(encoding="utf-8"))
    assert signature["lists"]["r2l"] == str(tmp_path / "right")
    (tmp_path / "lr=1").mkdir()
    (tmp_path / "lr=1" / "list").write_text(MERGED, encoding="utf-8")
    for name in ("", "name="):
        assert shown(capsys, "rerank", "merge", f"{name}{tmp_path}/lr=1/list") == MERGED


def test_apply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """\
0 ||| a ||| s= 1 t= 0 ||| 0
0 ||| b ||| s= 0 t= 3 ||| 0 ||| from= x
0 ||| c ||| t= 3 s= 0
"""
    twice = text + re.sub("^0", "1", text, flags=re.M)
    (tmp_path / "nbest").write_text(twice, encoding="utf-8")
    monkeypatch.setattr("fairseq_ssl.rerank.weights.BLOCK", 1)
    words = ("rerank", "apply", tmp_path / "nbest")
    assert shown(capsys, *words, "--weight", "s=2", "--weight", "t=1") == "b\nb\n"
    weights = {"weights": {"s": 1, "t": 0.25, "not there": 0}}
    (tmp_path / "weights").write_text(json.dumps(weights), encoding="utf-8")
    assert shown(capsys, *words, "--weights", tmp_path / "weights") == "a\na\n"
    given(monkeypatch, text)
    flags = ("--weight", "s=0.5", "--weight", "t=1", "--nbest")
    assert shown(capsys, "rerank", "apply", "-", *flags) == (
        "0 ||| b ||| s= 0 t= 3 ||| 3 ||| from= x\n0 ||| c ||| t= 3 s= 0 ||| 3\n"
        "0 ||| a ||| s= 1 t= 0 ||| 0.5\n"
    )
    (tmp_path / "nbest").write_text(text + "1 ||| a ||| s= 1\n", encoding="utf-8")
    assert main(list(map(str, (*words, "--weight", "t=1")))) == 1
    assert "nbest:4" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        ("--method", "grid", "--step", "0.25", "--jobs", "1"),
        (),
        ("--method", "grid", "--step", "0.5", "--metric", "chrf++"),
    ],
)
def test_tune_then_apply(
    flags: tuple[str, ...], dev: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words: list[str | Path] = ["rerank", "tune", dev / "nbest", "--reference", dev / "ref", *flags]
    found = json.loads(
        shown(capsys, *words, "--tokenize", "none" if "--metric" not in flags else "13a")
    )
    scores = found["scores"]
    assert scores["first candidates"] < scores["equal weights"] < scores["these weights"] <= 100
    assert scores["gain"] == pytest.approx(
        scores["these weights"] - scores["first candidates"], abs=1e-3
    )
    assert scores["cross-validated"] <= scores["these weights"]
    assert scores["cross-validated gain"] == pytest.approx(
        scores["cross-validated"] - scores["first candidates"], abs=1e-3
    )
    weights = found["weights"]
    assert max(weights, key=weights.__getitem__) == "good"
    assert (found["sentences"], found["candidates"]) == (40, 120)
    assert found["features"].count(",") == 2
    (dev / "weights").write_text(json.dumps(found), encoding="utf-8")
    lines = shown(capsys, "rerank", "apply", dev / "nbest", "--weights", dev / "weights")
    chosen = lines.splitlines()
    right = (dev / "ref").read_text(encoding="utf-8").splitlines()
    assert sum(a == b for a, b in zip(chosen, right, strict=True)) >= 36
    import sacrebleu

    if found["metric"] == "bleu":
        assert "tok:none" in found["sacrebleu"]
        score = sacrebleu.corpus_bleu(chosen, [right], tokenize="none", force=True).score
    else:
        score = sacrebleu.corpus_chrf(chosen, [right], word_order=2).score
    assert score == pytest.approx(scores["these weights"], abs=1e-4)


def test_only_common_scores_are_weighted(dev: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As after `merge l2r=... r2l=...`, where some candidates are from one order only."""
    text = (dev / "nbest").read_text(encoding="utf-8")
    (dev / "nbest").write_text(text.replace("bad=", "l2r= 1 bad=", 1), encoding="utf-8")
    words = ["tune", f"{dev}/nbest", "--reference", f"{dev}/ref", "--folds", "0"]
    assert main(["rerank", *words]) == 0
    done = capsys.readouterr()
    assert list(json.loads(done.out)["weights"]) == ["good", "bad", "noise"]
    count = text.count("\n")
    assert (
        f"score l2r is not used: {count - 1} of {count} candidates lack it, the first one in line 2"
        in done.err
    )


def test_report(dev: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("rerank", "tune", dev / "nbest", "--reference", dev / "ref", "--folds", "0")
    weights = shown(capsys, *words, "--report", dev / "report", "--figure", dev / "figure.svg")
    text = (dev / "report").read_text(encoding="utf-8")
    numbers = dict(re.findall(r"^(.*)\t([\d.]+)$", text.partition("\n\n")[0], re.M))
    score = {name: float(number) for name, number in numbers.items()}
    assert score["first candidates"] < score["these weights"] < score["best by corpus"] == 100
    assert score["random candidates"] < score["best by sentence"] == 100
    rows = {row.split("\t")[0]: row.split("\t")[1:] for row in text.splitlines() if "\t" in row}
    lost = {name: float(rows[name][-1]) for name in ("good", "bad", "noise")}
    assert lost["good"] == max(lost.values()) > 5
    assert float(rows["good"][2]) + lost["good"] == pytest.approx(score["these weights"], abs=0.02)
    assert (dev / "figure.svg").read_text(encoding="utf-8").count("<svg") == 1
    found = json.loads(weights)
    assert score["these weights"] == pytest.approx(found["scores"]["these weights"], abs=0.01)
    assert float(rows["good"][0]) == found["weights"]["good"]


def test_subwords_are_joined_before_they_are_scored(
    dev: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("rerank", "tune", dev / "nbest", "--reference", dev / "ref", "--folds", "0")
    plain = json.loads(shown(capsys, *words))
    text = (dev / "nbest").read_text(encoding="utf-8")
    marked = re.sub(r"(?<=\d \|\|\| ).*?(?= \|\|\|)", _marked, text)
    (dev / "nbest").write_text(marked, encoding="utf-8")
    joined = json.loads(shown(capsys, *words, "--subwords", "sentencepiece"))
    assert joined["scores"] == plain["scores"] != json.loads(shown(capsys, *words))["scores"]


def _marked(words: re.Match[str]) -> str:
    """Write words as tokens of sentencepiece."""
    return " ".join(f"\u2581{word}" for word in words[0].split())


def test_post_ensemble(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", "n\ne\nw z\n"), ("b", "e\ne\nn n\n"), ("c", "e e\ne\nn e\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "v.vec").write_text("3 2\nn 0 1\ne 1 0\nw -1 0\n", encoding="utf-8")
    files = [tmp_path / name for name in "abc"]
    words: list[str | Path] = ["rerank", "post-ensemble", *files, "--vectors", tmp_path / "v.vec"]
    assert shown(capsys, *words) == "e\ne\nn n\n"
    assert main([*map(str, words), "--tokenize", "char", "-o", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().err
    assert "/a 1," in told
    assert "/b 2," in told
    assert "90.0% of the words in differing lines have a vector" in told
    assert "post-ensemble|kernel:cosine|tokenize:char" in told


def test_vectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gensim")
    (tmp_path / "text").write_text("ab cd\n" * 9, encoding="utf-8")
    words = ("rerank", "vectors", tmp_path / "text", "--buckets", "9", "--dimensions", "3")
    assert not shown(capsys, *words, "-o", tmp_path / "v.vec", "--tokenize", "char")
    first, *rows = (tmp_path / "v.vec").read_text(encoding="utf-8").splitlines()
    assert first == "4 3"
    assert sorted(row.split()[0] for row in rows) == ["a", "b", "c", "d"]
    assert (tmp_path / "v.vec.counts").read_text(encoding="utf-8") == "a 9\nb 9\nc 9\nd 9\n"
    signature = json.loads((tmp_path / "v.vec.json").read_text(encoding="utf-8"))
    assert (signature["dimensions"], signature["words"], signature["seed"]) == (3, 4, 1)
