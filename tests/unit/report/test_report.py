"""What folders hold is found, averaged, and put on a page that no text can break."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import DataError
from fairseq_ssl.report.found import found_in
from fairseq_ssl.report.tables import best, table

BLEU = {"name": "BLEU", "signature": "nrefs:1|version:2"}


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def runs(folder: Path) -> Path:
    """Two systems, of which one has two seeds."""
    for name, score, text in (
        ("base.1", 30.0, "a b c\nd e\n"),
        ("tagged-ft.1", 33.0, "a b\nd e\n"),
        ("tagged.1", 31.0, "a x c\nd e\n"),
        ("tagged.2", 32.0, "a y c\nd e\n"),
    ):
        write(folder / name / "test.txt", text)
        write(folder / name / "test.bleu.json", {**BLEU, "score": score})
    gleu = {"GLEU": 50.0, "deviation of samples": 0.5, "signature": "gleu|lines:2"}
    write(folder / "base.1/valid.gleu.json", gleu)
    return folder


def test_scores_are_averaged_over_seeds_in_the_order_of_systems(tmp_path: Path) -> None:
    made = table(found_in([runs(tmp_path / "runs")]).scores)
    columns = [("test", "BLEU"), ("valid", "GLEU"), ("valid", "deviation of samples")]
    assert made.columns == columns
    shown = {name: [one and str(one) for one in row] for name, row in made.rows.items()}
    assert shown == {
        "base": ["30.00", "50.00", "0.50"],
        "tagged": ["31.50 ± 0.71", None, None],
        "tagged-ft": ["33.00", None, None],
    }
    assert list(made.rows) == ["base", "tagged", "tagged-ft"]
    assert best(made) == [33.0, 50.0, 0.5]
    assert made.signatures == {BLEU["signature"]: columns[:1], "gleu|lines:2": columns[1:]}


def test_scores_of_several_systems_in_one_file_are_those_of_their_seeds(tmp_path: Path) -> None:
    told = {"mean": 2.0, "deviation": 1.0, "seeds": [1.0, 3.0]}
    against = {"difference": 1.0, "low": 0.5, "high": 1.5, "p": 0.01}
    content = {"systems": {"ours": {"F_0.5": told}}, "against the baseline": {"ours": against}}
    write(tmp_path / "x/dev.json", {**content, "signature": "m2"})
    write(tmp_path / "x/worth.json", {"weights": [1, 2]})
    found = found_in([tmp_path / "x"])
    (score,) = found.scores
    assert (score.system, score.set, score.metric, score.values) == ("ours", "dev", "F_0.5", (1, 3))
    assert found.comparisons == {"dev.json": {"ours": against}}
    assert found.analyses == {"x/worth.json": {"weights": [1, 2]}}


def test_systems_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    found = found_in([runs(tmp_path / "one"), runs(tmp_path / "two")])
    assert set(found.systems("test")) == {
        f"{folder}/{name}" for folder in ("one", "two") for name in ("base", "tagged", "tagged-ft")
    }


def test_what_is_no_json_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a/test.json", "{")
    with pytest.raises(DataError, match="is no JSON"):
        found_in([tmp_path])
    with pytest.raises(DataError, match="is no folder"):
        found_in([tmp_path / "b"])


def test_text_can_not_end_the_script_nor_become_tags(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script> <!-- & $title"
    write(tmp_path / "runs/<b>x</b>.1/test.txt", f"{evil}\n")
    words = ["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html"), "--title", "<i>"]
    assert main(words) == 0
    made = (tmp_path / "r.html").read_text()
    assert "alert(1)" in made
    assert "<script>alert" not in made
    assert "<i>" not in made
    assert "<b>x" not in made
    assert made.count("</script>") == 2
    content = json.loads(made.split('id="data">')[1].split("</script>")[0])
    assert content["outputs"] == [[evil]]


def test_a_page_has_tables_figures_and_analyses(tmp_path: Path) -> None:
    folder = runs(tmp_path / "runs")
    write(folder / "curve.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
    write(folder / "worth.json", {"gain": 1.5})
    reference = write(tmp_path / "ref", "a b c\nd e\n")
    words = ["report", folder, "-o", tmp_path / "r.html", "--reference", reference]
    assert main([*map(str, words), "--baseline", "base"]) == 0
    made = (tmp_path / "r.html").read_text()
    assert "31.50 ± 0.71" in made
    assert "BLEU against base" in made
    assert "data:image/svg+xml;base64," in made
    assert "&quot;gain&quot;: 1.5" in made
    assert "http://" not in made
    assert "https://" not in made
    content = json.loads(made.split('id="data">')[1].split("</script>")[0])
    assert content["systems"] == ["base", "tagged", "tagged-ft"]
    assert content["scores"][0] == [100.0, 100.0]
    assert content["scores"][1][0] < content["scores"][1][1]


M2 = """S a b c
A 0 1|||R:NOUN|||x|||REQUIRED|||-NONE-|||0
A 1 2|||M:DET|||y|||REQUIRED|||-NONE-|||1

S d e
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0

"""


def test_an_m2_file_gives_sources_types_and_scores(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.m2", M2)
    words = ["report", runs(tmp_path / "runs"), "-o", tmp_path / "r.html", "--gold", gold]
    assert main(list(map(str, words))) == 0
    made = (tmp_path / "r.html").read_text()
    content = json.loads(made.split('id="data">')[1].split("</script>")[0])
    assert content["source"] == ["a b c", "d e"]
    assert content["types"] == [["DET", "NOUN"], []]
    assert "DET (1)" in made
    assert '<option value="source" selected>' in made


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--set", "dev"], "--set is dev; expected test."),
        (["--baseline", "other"], "--baseline is other; the systems are: base, tagged, tagged-ft."),
        (["--reference", "short"], "has 2 lines and a reference 1"),
        (["--metric", "m2"], "--metric m2 needs --gold."),
    ],
)
def test_a_wrong_request_is_told(
    flags: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    runs(tmp_path / "runs")
    write(tmp_path / "short", "a\n")
    assert main(["report", "runs", "-o", "r.html", *flags]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_a_folder_without_any_of_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "runs/notes.md", "nothing")
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")]) == 1
    assert "no outputs, scores or figures" in capsys.readouterr().err
