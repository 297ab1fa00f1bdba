"""fairseq-ssl correct, and the class Corrector, with a tagger that capitalizes all words."""

from __future__ import annotations

import gzip
import json
import math
import operator
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_ssl
from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.inference import CorrectionConfig, Corrector, correct_file, correction
from fairseq_ssl.text.spelling import SpellingCounts
from tests import pretrained
from tests.cli.killing import kill
from tests.cli.rewriting import refused
from tests.conftest import Run
from tests.plugin.edit_corpus import trained, write_corpus
from tests.unit.metrics.small_pipeline import small_pipeline

pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.edits import rounds  # noqa: E402
from fairseq_ssl.edits.dictionary import EditDictionary  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
FEW = ("--edit-unfactorized", "--max-update", "1", "--disable-validation")
SMALL_BLOCKS = "from fairseq_ssl.inference import correction; correction.BLOCK_KIB = 1; "
SMALL = (
    *("--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "8"),
    *("--encoder-attention-heads", "2"),
)
TEXT = ' The  "small"\tcats see it.  They run!\n\nHALLO 12\n'
UPPER = ' THE  "SMALL"\tCATS SEE IT.  THEY RUN!\n\nHALLO 12\n'


def tagger(bin_folder: Path, folder: Path, label: str, *flags: str) -> Path:
    """Train for one update, then make the model choose a label for all words."""
    path = trained(bin_folder, folder, *FEW, *flags)
    return relabeled(path, path, label, bin_folder)


def relabeled(model: Path, path: Path, label: str, bin_folder: Path) -> Path:
    """Write a checkpoint that chooses a label for all words."""
    state = torch.load(model, weights_only=False)
    state["model"]["scores.edits.weight"].zero_()
    bias = state["model"]["scores.edits.bias"].zero_()
    bias[EditDictionary.read(bin_folder / "edits.txt").names.index(label)] = 5
    torch.save(state, path)
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, "--groups", "all")
    pretrained.bert(folder / "bert")
    pretrained.roberta(folder / "roberta")
    return folder


@pytest.fixture(scope="module")
def model(corpus: Path) -> Path:
    """A tagger that chooses CASE_upper. Its data and its encoder are not needed for decoding."""
    flags = ("--edit-unit", "word", "--edit-init", str(corpus / "bert"))
    return tagger(corpus / "bin", corpus / "upper", "CASE_upper", *flags)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text(TEXT)
    return tmp_path


def correct(model: Path, *words: str | Path) -> int:
    line = ["correct", *words, "--model", model, "--jobs", "1", "--iterations", "1"]
    return main([str(word) for word in line])


def test_raw_text_keeps_its_spacing(
    folder: Path, model: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert correct(model, "text") == 0
    shown = capfdbinary.readouterr()
    assert shown.out.decode() == UPPER
    assert b"3 lines, 1 changed, 4 edits" in shown.err
    assert correct(model, "text", "--tokenizer", "moses", "-o", "moses") == 0
    assert Path("moses").read_text() == UPPER
    Path("tokens").write_text("the cat . it  runs .\n\nA  B\n")
    assert correct(model, "tokens", "--tokenizer", "none", "-o", "out") == 0
    assert Path("out").read_text() == "THE CAT . IT RUNS .\n\nA B\n"


def test_json_has_the_edits_of_each_line(folder: Path, model: Path) -> None:
    assert correct(model, "text", "--json", "-o", "out") == 0
    first, empty, last = map(json.loads, Path("out").read_text().splitlines())
    assert first["source"] == TEXT.splitlines()[0]
    assert first["text"] == UPPER.splitlines()[0]
    spans = [first["source"][edit["start"] : edit["end"]] for edit in first["edits"]]
    assert spans == ["The", "small", "cats see it", "They run"]
    assert [edit["source"] for edit in first["edits"]] == spans
    assert first["edits"][2]["target"] == "CATS SEE IT"
    assert all(0.3 < edit["probability"] < 1 for edit in first["edits"])
    assert empty == {"source": "", "text": "", "edits": []}
    assert last["edits"] == []


def test_killed_run_resumes(folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correction, "BLOCK_KIB", 1)
    Path("many").write_text(TEXT * 100)
    words = ["correct", "many", "--model", str(model), "--tokenizer", "moses", "--iterations", "1"]
    words += ["--jobs", "1", "-o"]
    assert main([*words, "complete"]) == 0
    complete = Path("complete").read_bytes()
    assert 0 < kill([*words, "killed"], "killed", SMALL_BLOCKS) < len(complete)
    assert main([*words, "killed"]) == 0
    assert Path("killed").read_bytes() == complete


def test_diff_marks_edits(folder: Path, corpus: Path, model: Path) -> None:
    assert correct(model, "text", "--diff", "-o", "out") == 0
    first = Path("out").read_text().splitlines()[0]
    expected = ' [-The-]{+THE+}  "[-small-]{+SMALL+}"\t[-cats see it-]{+CATS SEE IT+}.'
    assert first.startswith(expected)
    names = EditDictionary.read(corpus / "bin" / "edits.txt").names
    label = next(name for name in names if name.startswith("APPEND_"))
    appending = relabeled(model, folder / "append.pt", label, corpus / "bin")
    Path("line").write_text("Dogs run.\n")
    assert correct(appending, "line", "--diff", "-o", "out", "--force") == 0
    mark = f"{{+{label.removeprefix('APPEND_')}+}}"
    assert Path("out").read_text() == f"{mark} Dogs {mark} run {mark}. {mark}\n"


@pytest.mark.slow
def test_processes_blocks_and_compression_do_not_change_the_output(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("long").write_text(TEXT * 40)
    assert correct(model, "long", "-o", "one") == 0
    words = ["correct", "long", "--model", str(model), "--iterations", "1"]
    monkeypatch.setattr(correction, "BLOCK_KIB", 1)
    assert main([*words, "--jobs", "2", "-o", "two.gz", "--batch-size", "3"]) == 0
    assert gzip.decompress(Path("two.gz").read_bytes()).decode() == UPPER * 40
    assert Path("one").read_text() == UPPER * 40
    signature = json.loads(Path("one.json").read_text())
    assert signature["lines"] == 120
    assert signature["models"][0][0] == str(model)


def test_thresholds(folder: Path, model: Path) -> None:
    tuned = ("--edit-min-confidence", "1", "--edit-keep-bias", "0.5")  # printed by edits tune
    for flags in (("--keep-bias", "1"), ("--min-confidence", "1"), tuned):
        assert correct(model, "text", *flags, "-o", "out", "--force") == 0
        assert Path("out").read_text() == TEXT


def test_ensembles_of_different_encoders(folder: Path, corpus: Path, model: Path) -> None:
    flags = ("--edit-unit", "word", "--edit-init", str(corpus / "roberta"))
    lower = tagger(corpus / "bin", folder / "lower", "CASE_lower", *flags)
    words = ["correct", "text", "--model", str(model), str(lower), "--jobs", "1"]
    words += ["--iterations", "1", "-o", "out", "--force"]
    assert main([*words, "--weights", "3,1"]) == 0
    assert Path("out").read_text().splitlines()[0] == UPPER.splitlines()[0]
    assert main([*words, "--weights", "1,3"]) == 0
    assert Path("out").read_text().splitlines()[2] == "hallo 12"


@pytest.mark.parametrize(
    ("words", "code", "culprit"),
    [
        (["--weights", "1,2"], 2, "--weights"),
        (["--tokenizer", "none", "--lang", "de"], 2, "--lang"),
        (["--lang", "xx_none"], 2, "xx_none"),
        (["--explain", "--spacy-model", "none"], 1, "none"),
    ],
)
def test_wrong_options(
    words: list[str],
    code: int,
    culprit: str,
    folder: Path,
    model: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert culprit in refused(
        capsys, code, "correct", "text", "--jobs", "1", "--model", model, *words
    )


def test_wrong_models(folder: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.pt").write_bytes(model.read_bytes()[:999])
    for name in ("none.pt", "broken.pt", "text"):
        assert name in refused(capsys, 1, "correct", "text", "--jobs", "1", "--model", name)


def test_a_tagger_of_subwords_needs_its_dictionaries(
    folder: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subwords = tagger(corpus / "bin", folder / "subwords", "CASE_upper", *SMALL)
    assert "--data-dir" in refused(capsys, 2, "correct", "text", "--jobs", "1", "--model", subwords)
    Path("tokens").write_text("the cat\n")
    words = ("--tokenizer", "none", "--data-dir", corpus / "bin", "-o", "out")
    assert correct(subwords, "tokens", *words) == 0
    assert Path("out").read_text() == "THE CAT\n"


def with_tokenizer(model: Path, path: Path, change: Any) -> Path:
    """Write a checkpoint with another tokenizer."""
    state = torch.load(model, weights_only=False)
    encoder = state["task_state"]["edit_encoder"]
    content = json.loads(encoder["tokenizer"])
    change(content)
    encoder["tokenizer"] = json.dumps(content)
    torch.save(state, path)
    return path


def test_a_line_that_cannot_be_tokenized_is_named(
    folder: Path,
    model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(correction, "BLOCK_KIB", 1)
    hostile = with_tokenizer(model, folder / "hostile.pt", pretrained.add_panic)
    line = f"the cat {pretrained.PANIC} x"
    Path("text").write_text("\n".join(["a b"] * 300 + [line] + ["c"] * 7) + "\n")
    assert correct(hostile, "text", "--tokenizer", "none", "-o", "out") == 1
    assert "text:301" in capsys.readouterr().err.splitlines()[-1]  # after those of the panic
    Path("text").write_text("the cat\n")
    assert correct(hostile, "text", "--tokenizer", "none", "-o", "out", "--force") == 0
    assert Path("out").read_text() == "THE CAT\n"


def test_a_text_that_cannot_be_tokenized_does_not_affect_later_ones(
    model: Path, tmp_path: Path
) -> None:
    hostile = with_tokenizer(model, tmp_path / "hostile.pt", pretrained.add_panic)
    one = corrector(hostile, tokenizer="none")
    for _ in range(2):
        with pytest.raises(DataError, match="cannot tokenize"):
            one.correct(["new word", pretrained.PANIC])
        assert [line.text for line in one.correct(["new word", "other"])] == ["NEW WORD", "OTHER"]


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["model"]["vocab"].update(zebra=10**6),
        lambda content: content.update(normalizer=pretrained.DAMAGED_MAP),
    ],
    ids=["ids beyond the vocabulary", "panic while loading"],
)
def test_checkpoints_with_an_unusable_tokenizer_are_rejected(
    change: Any, folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = with_tokenizer(model, folder / "hostile.pt", change)
    assert "okenizer" in refused(capsys, 1, "correct", "text", "--jobs", "1", "--model", hostile)


def test_long_lines_use_windows(folder: Path, model: Path) -> None:
    Path("text").write_text("the cat and the dog, " * 200 + "\n")
    assert correct(model, "text", "-o", "out") == 0
    assert Path("out").read_text() == Path("text").read_text().upper()


def corrector(model: Path, **fields: Any) -> Corrector:
    return Corrector.from_pretrained(model, iterations=1, **fields)


def test_the_class_corrects_lines(model: Path) -> None:
    one = corrector(model)
    assert [line.text for line in one.correct(TEXT.splitlines())] == UPPER.splitlines()
    assert one.correct([]) == []
    assert one.correct(["", "  "])[1].text == "  "
    lines = ["The cat", "runs"]
    assert one.correct(iter(lines)) == one.correct(lines)  # type: ignore[arg-type]
    wrong: list[tuple[Any, str]] = [("a b", "string"), (["a", None], "Line 2")]
    for text, culprit in wrong:
        with pytest.raises(TypeError, match=culprit):
            one.correct(text)
    both = Corrector.from_pretrained([model, str(model)], weights=(1, 2))
    assert (len(both.models), both.config.models) == (2, (model, model))
    with pytest.raises(TypeError, match="keep_bais"):
        Corrector.from_pretrained(model, keep_bais=0.1)


def test_unknown_words_are_forgotten(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MAX_UNKNOWN_WORDS", 3)
    one = corrector(model)
    words = one._rounds.words
    for number in range(5):
        line = " ".join(f"w{number}x{at}" for at in range(9))
        assert one.correct([line])[0].text == line.upper()
        assert len(words.surfaces) < 60 + sum(map(len, one._rounds.edits.appends))


@pytest.mark.parametrize("weight", [-1.0, 0.0, math.nan, math.inf])
def test_invalid_weights(weight: float) -> None:
    with pytest.raises(UsageError, match="weights"):
        CorrectionConfig((Path("a.pt"),), weights=(weight,))


def test_edits_are_explained_by_errant(folder: Path, model: Path, tmp_path: Path) -> None:
    words = ("--explain", "--spacy-model", small_pipeline(tmp_path), "-o", "out")
    assert correct(model, "text", *words) == 0
    lines = Path("out").read_text().splitlines()
    assert lines[0] == UPPER.splitlines()[0]
    assert lines[1].split("\t")[:5] == ["", "1:4", "The", "THE", "R:ORTH"]
    assert 0.3 < float(lines[1].split("\t")[5]) < 1


@pytest.mark.slow
def test_onnx_models_make_the_same_corrections_without_torch(
    folder: Path, corpus: Path, model: Path, run: Run
) -> None:
    pytest.importorskip("onnxruntime")
    for kind in ("float32", "int8"):
        export = ["export", str(model), "--to", "onnx", "-o", kind, "--quantization", kind]
        assert main([*export, "--data-dir", str(corpus / "bin")]) == 0
        assert correct(Path(kind), "text", "-o", f"{kind}.out") == 0
        assert Path(f"{kind}.out").read_text() == UPPER
    program = (
        "import sys; from fairseq_ssl.cli.main import main; main(sys.argv[1:]); "
        "assert not {'torch', 'fairseq', 'transformers', 'spacy', 'onnx'} & {*sys.modules}"
    )
    run("python", "-c", program, "correct", "text", "--model", "int8", "--jobs", "1", "-o", "light")
    assert Path("light").read_text() == UPPER
    words = ["correct", "text", "--jobs", "1", "--model", "int8", "float32"]
    assert main([*words, "--weights", "2,1", "--iterations", "1", "-o", "both"]) == 0
    assert Path("both").read_text() == UPPER
    Path("source").write_text("the cats see it\n")
    Path("target").write_text("THE CATS SEE IT\n")
    assert main(["edits", "tune", "source", "target", "--model", "int8", "float32"]) == 0


def test_models_trained_in_bfloat16_are_decoded_in_float32(
    folder: Path, corpus: Path, model: Path
) -> None:
    flags = ("--edit-unit", "word", "--edit-init", str(corpus / "bert"), "--amp")
    path = tagger(corpus / "bin", folder / "bf16", "CASE_upper", *flags)
    seen: list[torch.dtype] = []
    one = corrector(path)
    (loaded,) = one.models
    loaded.register_forward_hook(lambda *parts: seen.append(parts[-1].edits.dtype))
    assert one.correct(["the cat"])[0].text == "THE CAT"
    assert set(seen) == {torch.float32}


def test_spelling_is_corrected_first(folder: Path, model: Path) -> None:
    pytest.importorskip("symspellpy")
    Path("correct").write_text("the people receive a letter\n" * 20)
    assert main(["spelling", "count", "correct", "-o", "counts"]) == 0
    Path("text").write_text('Poeple "recieve a leter".\n')
    assert correct(model, "text", "--spelling", "counts", "-o", "out") == 0
    assert Path("out").read_text() == 'POEPLE "RECEIVE A LETTER".\n'


def test_the_spelling_alone_has_probability_1(folder: Path, corpus: Path, model: Path) -> None:
    pytest.importorskip("symspellpy")
    SpellingCounts.of(20 * ["the people receive a letter"]).write(Path("counts"))
    keeping = relabeled(model, folder / "keep.pt", "KEEP", corpus / "bin")
    (line,) = corrector(keeping, spelling=Path("counts")).correct(["People  recieve a cat."])
    assert line.text == "People  receive a cat."
    found = [(edit.source, edit.target, edit.probability) for edit in line.edits]
    assert found == [("recieve", "receive", 1.0)]


def test_a_file_is_corrected_by_the_current_checkpoint(folder: Path, model: Path) -> None:
    state = torch.load(model, weights_only=False)
    config = CorrectionConfig((shutil.copy(model, "tagger.pt"),), tokenizer="none")
    assert correct_file("text", "upper", config, operator.attrgetter("text"))
    state["model"]["scores.edits.bias"].zero_()
    torch.save(state, "tagger.pt")
    assert correct_file("text", "kept", config, operator.attrgetter("text"))
    assert Path("upper").read_text().split() == UPPER.split()
    assert Path("kept").read_text().split() != UPPER.split()


def test_a_file_is_written_in_a_named_format(folder: Path, model: Path) -> None:
    config = CorrectionConfig((model,), tokenizer="none")
    with pytest.raises(UsageError, match="`format_name` is 'xml'"):
        correct_file("text", "out.xml", config, format_name="xml")
    assert correct_file("text", "out", config)
    assert Path("out").read_text().split() == UPPER.split()
    assert correct_file("text", "lines.json", config, format_name="json")
    lines = [json.loads(line)["text"] for line in Path("lines.json").read_text().splitlines()]
    assert lines == Path("out").read_text().splitlines()
