"""``fairseq-ssl score`` of edits: systems, seeds, analyses, rejected options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from tests.cli.rewriting import refused
from tests.unit.metrics.small_pipeline import small_pipeline

GOLD = """\
S the cat sit on mat .
A 2 3|||R:VERB:SVA|||sits|||REQUIRED|||-NONE-|||0
A 4 4|||M:DET|||the|||REQUIRED|||-NONE-|||0

S a dog sat at the mat .
A 3 4|||R:PREP|||on|||REQUIRED|||-NONE-|||0

S the the cat .
A 1 2|||U:DET||||||REQUIRED|||-NONE-|||0

S a mat .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
"""
SOURCE = [line[2:] for line in GOLD.splitlines() if line.startswith("S ")]
RIGHT = ["the cat sits on the mat .", "a dog sat on the mat .", "the cat .", "a mat ."]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    texts = {
        "source": SOURCE,
        "right": RIGHT,
        "first": [*RIGHT[:1], *SOURCE[1:]],
        "second": [*RIGHT[:2], SOURCE[2], "a cat ."],
        "levels": ["A", "N", "A", "N"],
        "gap": ["A", "", "A", "N"],
        "short": RIGHT[:2],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "gold.m2").write_text(GOLD, encoding="utf-8")
    (tmp_path / "bad.m2").write_text(GOLD.replace("A 3 4", "A 3 44"), encoding="utf-8")
    (tmp_path / "ours.m2").write_text(GOLD.replace("|||on|||", "|||in|||"), encoding="utf-8")
    (tmp_path / "other.m2").write_text(GOLD.replace("dog", "cat"), encoding="utf-8")
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["score", *words, "--format", "json"]) == 0
    content: dict[str, object] = json.loads(capsys.readouterr().out)
    return content


@pytest.mark.parametrize(("words", "score"), [("0", 0.0), ("1", 100.0), ("", 100.0)])
def test_edits_can_be_joined_over_unchanged_words(
    files: Path, capsys: pytest.CaptureFixture[str], words: str, score: float
) -> None:
    gold = "S a b c d\nA 0 3|||R|||x b y|||REQUIRED|||-NONE-|||0\n"
    (files / "joined.m2").write_text(gold)
    (files / "joined").write_text("x b y d\n")
    flags = ["--max-unchanged-words", words] if words else []
    content = found(capsys, "m2", "joined", "--gold", "joined.m2", *flags)
    assert content["F_0.5"] == score


def test_m2(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 3 of the 4 gold edits and one other edit
    content = found(capsys, "m2", "second", "--gold", "gold.m2")
    assert (content["Precision"], content["Recall"]) == pytest.approx((75, 75))
    assert content["F_0.5"] == pytest.approx(75)
    content = found(capsys, "m2", "first", "--gold", "gold.m2", "--beta", "1", "--jobs", "2")
    assert content["F_1"] == pytest.approx(100 * 2 / 3)
    assert "|beta:1.0|annotators:1|unchanged:2|case:compared|" in str(content["signature"])
    assert main(["score", "m2", "right", "--gold", "gold.m2", "--ignore-case"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["Precision\t100.00", "Recall\t100.00", "F_0.5\t100.00"]
    assert shown[3].startswith("m2|lines:4|beta:0.5|")
    assert "case:ignored" in shown[3]


def test_number_of_processes_does_not_change_scores(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("second", "gold.m2"):
        path = files / name
        path.write_text((path.read_text("utf-8") + "\n" * (name == "gold.m2")) * 60, "utf-8")
    one = found(capsys, "m2", "second", "--gold", "gold.m2")
    assert one == found(capsys, "m2", "second", "--gold", "gold.m2", "--jobs", "3")


def test_errant_signature_names_a_blank_pipeline(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = found(capsys, "errant", "second", "--gold", "gold.m2", "--untyped")
    assert content["F_0.5"] == pytest.approx(75)
    assert "edits:blank pipeline, untyped|by:errant-" in str(content["signature"])
    words = ["--source", "source", "--reference", "right", "--reference", "first", "--untyped"]
    content = found(capsys, "errant", "second", *words)
    # by sentence: both annotators; the first; the second, who changes nothing; none
    assert (content["Precision"], content["Recall"]) == pytest.approx((75, 100))
    assert "annotators:2" in str(content["signature"])


def test_errant_by_type(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(small_pipeline(files))
    words = ["first", "second", "--gold", "gold.m2", "--spacy-model", model, "--by", "type"]
    content = found(capsys, "errant", *words, "--figure", "types.png")
    types = content["types"]
    assert isinstance(types, dict)
    assert list(types) == [
        "DET",
        "PREP",
        "VERB:SVA",
        "NOUN",
    ]  # categories of gold edits by frequency, then the others
    means = {kind: [each["mean"] for each in row.values()] for kind, row in types.items()}
    det = 100 * 1.25 * 0.5 / (0.25 + 0.5)
    assert means == {
        "DET": pytest.approx([det, det]),
        "PREP": [0, 100],
        "VERB:SVA": [100, 100],
        "NOUN": [None, 0],  # "first" and the gold edits have none of them
    }
    assert (files / "types.png").read_bytes()[:4] == b"\x89PNG"


def test_a_type_without_edits_has_no_score(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its F of 100 would raise the mean over seeds."""
    (files / "noun.m2").write_text(GOLD.replace("R:PREP|||on", "R:NOUN|||in"), "utf-8")
    flags = ["--gold", "gold.m2", "--by", "type"]
    words = ["errant", "a=noun.m2", "b=gold.m2", *flags, "--figure", "types.png"]
    row = found(capsys, *words)["types"]["NOUN"]  # type: ignore[index]
    assert row["a"]["mean"] == 0
    assert row["b"] == {
        **{"mean": None, "deviation": None, "seeds": []},
        **{"tp": [0], "fp": [0], "fn": [0], "precision": [None], "recall": [None]},
    }
    assert main(["score", *words]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["NOUN", "0.00", "n/a"] in lines
    row = found(capsys, "errant", "a=noun.m2", "a=gold.m2", *flags)["types"]["NOUN"]  # type: ignore[index]
    assert row["a"]["mean"] == 0
    assert row["a"]["precision"] == [0, None]


@pytest.mark.parametrize("analysis", ["type", "share"])
def test_a_figure_of_gold_without_edits(
    analysis: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noop = "A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0\n"
    (files / "none.m2").write_text("".join(f"S {line}\n{noop}\n" for line in SOURCE), "utf-8")
    words = ["errant", "gold.m2", "--gold", "none.m2", "--by", analysis, "--figure", "f.png"]
    assert main(["score", *words]) == 1
    shown = capsys.readouterr()
    assert "Precision\t0.00" in shown.out
    assert "f.png cannot be drawn: the gold has no edits." in shown.err


def test_errant_by_category_equals_errant_compare(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Edits that are not gold also have rows, in operations and full types too."""
    unwanted = GOLD.replace("A 1 2|||U:DET", "A 2 3|||R:NOUN")
    (files / "theirs.m2").write_text(unwanted.replace("R:PREP|||on", "R:PREP|||in"), "utf-8")
    expected = {
        "operation": {"R": [1, 2, 1], "M": [1, 0, 0], "U": [0, 0, 1]},
        "type": {
            "DET": [1, 0, 1],
            "PREP": [0, 1, 1],
            "VERB:SVA": [1, 0, 0],
            "NOUN": [0, 1, 0],
        },
        "full-type": {
            "M:DET": [1, 0, 0],
            "R:PREP": [0, 1, 1],
            "R:VERB:SVA": [1, 0, 0],
            "U:DET": [0, 0, 1],
            "R:NOUN": [0, 1, 0],
        },
    }
    for tier, rows in expected.items():
        words = ["errant", "theirs.m2", "--gold", "gold.m2", "--by", tier]
        content = found(capsys, *words)[f"{tier.replace('-', ' ')}s"]
        assert isinstance(content, dict)
        shown = {kind: list(row.values()) for kind, row in content.items()}
        assert list(shown) == list(rows)
        for kind, (row,) in shown.items():
            assert [*row["tp"], *row["fp"], *row["fn"]] == rows[kind]
        assert main(["score", *words]) == 0
        text = [line.split() for line in capsys.readouterr().out.splitlines()]
        for kind, counts in rows.items():
            assert [kind, *map(str, counts)] in [line[:4] for line in text]
    words = ["errant", "a=theirs.m2", "a=ours.m2", "gold.m2", "--gold", "gold.m2", "--by", "type"]
    assert main(["score", *words]) == 0
    text = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["F_0.5", "by", "types", "a", "gold.m2"] in text
    assert ["VERB:SVA", "100.00", "±", "0.00", "100.00"] in text
    (row,) = found(capsys, "errant", "theirs.m2", *words[4:])["types"]["DET"].values()  # type: ignore[index]
    assert row["precision"] == [100]
    assert row["recall"] == [50]
    assert row["mean"] == pytest.approx(100 * 1.25 * 0.5 / (0.25 * 1 + 0.5))


def test_errant_reads_m2_hypotheses(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = found(capsys, "errant", "ours.m2", "--gold", "gold.m2")
    assert (content["Precision"], content["Recall"]) == pytest.approx((75, 75))
    assert "edits:from m2|version" in str(content["signature"])
    assert main(["score", "errant", "other.m2", "--gold", "gold.m2"]) == 1
    assert "other.m2:5 has a different sentence than gold.m2" in capsys.readouterr().err


def test_levels_and_shares(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = found(
        capsys, "m2", "second", "--gold", "gold.m2", "--by", "level", "--levels", "levels"
    )
    levels = content["levels"]
    assert isinstance(levels, dict)
    assert levels["A"]["second"]["mean"] == pytest.approx(100 * 1.25 * 2 / 3 / (0.25 + 2 / 3))
    assert levels["N"]["second"]["mean"] == pytest.approx(100 * 1.25 * 0.5 / (0.125 + 1))
    words = ["errant", "ours.m2", "--gold", "gold.m2", "--by", "share", "--sections", "A=2,N=2"]
    shares = found(capsys, *words)["shares"]
    assert isinstance(shares, dict)
    assert {kind: [row["A"]["mean"], row["N"]["mean"]] for kind, row in shares.items()} == {
        "DET": [pytest.approx(100 / 3), 100],
        "PREP": [pytest.approx(100 / 3), 0],
        "VERB:SVA": [pytest.approx(100 / 3), 0],
    }
    assert main(["score", *words[:6]]) == 0
    assert "% of gold edits by shares  all\n" in capsys.readouterr().out


def test_systems_seeds_and_a_baseline(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["m2", "ours=first", "ours=second", "theirs=right", "--gold", "gold.m2"]
    content = found(capsys, *words, "--baseline", "first", "--resamples", "50", "--seed", "3")
    systems = content["systems"]
    assert isinstance(systems, dict)
    seeds = [100 * 1.25 * 0.5 / (0.25 + 0.5), 75.0]
    assert systems["ours"]["F_0.5"]["seeds"] == pytest.approx(seeds)
    assert systems["ours"]["F_0.5"]["mean"] == pytest.approx(sum(seeds) / 2)
    assert systems["theirs"]["F_0.5"]["mean"] == 100
    against = content["against the baseline"]
    assert isinstance(against, dict)
    assert against["theirs"]["difference"] == pytest.approx(100 - seeds[0])
    assert against["ours"]["difference"] == pytest.approx(sum(seeds) / 2 - seeds[0])
    assert "|resamples:50|seed:3|" in str(content["signature"])
    assert main(["score", *words, "--baseline", "gold=right"]) == 0
    shown = capsys.readouterr().out
    assert "ours    87.50 ± 17.68  62.50 ± 17.68  79.17 ± 5.89\n" in shown
    assert "theirs  100.00         100.00         100.00\n" in shown
    assert "theirs                +0.00       +0.00 to +0.00    1.0000\n" in shown


def test_bleu_and_accuracy(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fairseq_ssl.metrics.bleu import bleu

    content = found(capsys, "bleu", "second", "--reference", "right", "--tokenize", "none")
    expected = bleu((files / "second").read_text("utf-8").splitlines(), RIGHT, "none")
    assert content["BLEU"] == pytest.approx(expected.score)
    assert "|tokenize:none|by:sacrebleu-" in str(content["signature"])
    content = found(capsys, "accuracy", "second", "--reference", "right", "--reference", "source")
    assert content["accuracy"] == 75
    words = ["--reference", "right", "--baseline", "source", "--resamples", "20"]
    for metric in ("accuracy", "bleu", "rouge"):
        against = found(capsys, metric, "right", *words)["against the baseline"]
        assert isinstance(against, dict)
        assert against["right"]["difference"] > 0
    words += ["--reference", "second", "--source", "source"]
    against = found(capsys, "gleu", "right", *words)["against the baseline"]
    assert isinstance(against, dict)
    assert against["right"]["difference"] > 0


def test_an_m2_file_without_sentences(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "empty.m2").write_text("\n")
    assert main(["score", "errant", "empty.m2", "--gold", "empty.m2"]) == 1
    assert "empty.m2 has no sentences" in capsys.readouterr().err


def test_differences_of_gleu_are_those_of_a_named_value(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With several references, no rounds are drawn from resampled sentences."""
    texts = ["--source", "source", "--reference", "right", "--reference", "second"]
    words = [*texts, "--baseline", "source", "--resamples", "20"]
    content = found(capsys, "gleu", "right", *words)
    name = "mean of single references"
    assert content["compared"] == name
    ours, baseline = content[name], found(capsys, "gleu", "source", *texts)[name]
    against = content["against the baseline"]
    assert isinstance(against, dict)
    assert isinstance(ours, float)
    assert isinstance(baseline, float)
    assert against["right"]["difference"] == pytest.approx(ours - baseline)
    assert main(["score", "gleu", "right", *words]) == 0
    assert "difference of the mean of single references" in capsys.readouterr().out
    assert found(capsys, "gleu", "right", *words[:4], *words[6:])["compared"] == "GLEU"


def test_chrf_is_that_of_sacrebleu(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sacrebleu.metrics.chrf import CHRF

    lines = (files / "second").read_text("utf-8").splitlines()
    for kind, headline, order in (("chrf", "chrF2", 0), ("chrf++", "chrF2++", 2)):
        metric = CHRF(word_order=order)
        expected = metric.corpus_score(lines, [RIGHT, SOURCE])
        words = [kind, "second", "--reference", "right", "--reference", "source"]
        content = found(capsys, *words)
        assert content[headline] == expected.score
        assert expected.name == headline
        signature = str(content["signature"])
        assert signature.startswith(
            f"{kind}|lines:4|references:2|case:mixed|eff:yes|nc:6|nw:{order}|"
        )
        assert "|by:sacrebleu-" in signature
        words = [kind, "a=right", "a=second", "first", "--reference", "right"]
        content = found(capsys, *words, "--baseline", "source", "--resamples", "20")
        assert list(content["systems"]["a"]) == [headline]  # type: ignore[index]
        against = content["against the baseline"]
        assert isinstance(against, dict)
        assert against["a"]["difference"] > against["first"]["difference"] > 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["chrf", "right"], 2, "required: --reference"),
        (
            ["chrf", "right", "--reference", "right", "--tokenize", "zh"],
            2,
            "unknown argument '--tokenize'.",
        ),
        (["m2", "right"], 2, "required: --gold"),
        (["m2", "short", "--gold", "gold.m2"], 1, "There are 4 lines in gold.m2, but 2 in short"),
        (["m2", "right", "--gold", "bad.m2"], 1, "bad.m2:6 has the span 3 44"),
        (["m2", "right", "--gold", "none.m2"], 1, "none.m2 does not exist"),
        (["m2", "right", "right", "--gold", "gold.m2"], 2, "right is given twice"),
        (["m2", "right", "--gold", "gold.m2", "--beta", "0"], 2, "--beta is 0.0. Expected"),
        (["m2", "right", "--gold", "gold.m2", "--jobs", "0"], 2, "--jobs: 0 is out of range"),
        (
            ["m2", "right", "--gold", "gold.m2", "--model", "m"],
            2,
            "unknown argument '--model'.",
        ),
        (["m2", "right", "--gold", "gold.m2", "--by", "type"], 2, "invalid choice: 'type'"),
        (["m2", "right", "--gold", "gold.m2", "--by", "level"], 2, "needs --levels or --sections"),
        (
            ["m2", "right", "--gold", "gold.m2", "--by", "level", "--sections", "A=3"],
            2,
            "--sections has 3 sentences in total, but the output has 4",
        ),
        (
            ["m2", "right", "--gold", "gold.m2", "--by", "level", "--sections", "A=4,A=1"],
            2,
            "--sections has 'A=1'. Expected different levels",
        ),
        (
            ["m2", "right", "--gold", "gold.m2", "--by", "level", "--levels", "short"],
            1,
            "There are 2 lines in short, but 4 in the output",
        ),
        (
            ["m2", "right", "--gold", "gold.m2", "--by", "level", "--levels", "gap"],
            1,
            "gap:2 is blank. Expected a level.",
        ),
        (["m2", "right", "--gold", "gold.m2", "--levels", "levels"], 2, "need --by level"),
        (["m2", "right", "--gold", "gold.m2", "--figure", "f.png"], 2, "--figure needs --by"),
        (["m2", "right", "--gold", "gold.m2", "--seed", "1"], 2, "--seed needs --baseline"),
        (
            ["m2", "right", "--gold", "gold.m2", "--baseline", "first", "--resamples", "0"],
            2,
            "--resamples: 0 is out of range",
        ),
        (["errant", "right"], 2, "Pass --gold, or --source and --reference."),
        (["errant", "right", "--source", "source"], 2, "Pass --gold, or --source and --reference."),
        (["errant", "right", "--gold", "gold.m2", "--source", "source"], 2, "Drop --source and"),
        (["errant", "right", "--gold", "gold.m2"], 1, "python -m spacy download en_core_web_sm"),
        (
            ["errant", "right", "--gold", "gold.m2", "--model", "m"],
            1,
            "Or set --spacy-model to the folder of a pipeline. Edits without types need no",
        ),
        (
            ["errant", "right", "--gold", "gold.m2", "--untyped", "--by", "type"],
            2,
            "--by type needs types. Drop --untyped",
        ),
        (["errant", "right", "--gold", "gold.m2", "--untyped", "--model", "m"], 2, "Drop one of"),
        (["bleu", "right"], 2, "required: --reference"),
        (
            ["bleu", "a=right", "--reference", "source", "right"],
            2,
            "unknown argument 'right'. Write each [NAME=]FILE next to the others. "
            "Repeat --reference before each value.",
        ),
        (
            ["bleu", "a=right", "--tokenize", "13a", "right", "--reference", "source"],
            2,
            "unknown argument 'right'. Write each [NAME=]FILE next to the others. See",
        ),
        (
            ["bleu", "a=right", "--reference", "source", "--baseline", "a"],
            2,
            "--baseline a is the name of a system. Pass its file, right.",
        ),
    ],
)
def test_wrong_options_are_rejected(
    words: list[str], code: int, message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, code, "score", *words)
