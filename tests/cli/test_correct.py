"""fairseq-ssl correct, and the class Corrector, with a tagger that capitalizes all words."""

from __future__ import annotations

import gzip
import json
import math
import operator
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils

import fairseq_ssl
from fairseq_ssl.cli.correct import _marked
from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import ConfigurationError, DataError, MissingPackageError, UsageError
from fairseq_ssl.inference import CorrectionConfig, Corrector, correct_file
from fairseq_ssl.inference.correction import CorrectedLine, Edit
from fairseq_ssl.text.spelling import SpellingCounts
from tests import pretrained
from tests.cli.killing import kill
from tests.plugin.edit_corpus import trained, write_corpus
from tests.unit.metrics.small_pipeline import small_pipeline

pytest.importorskip("transformers")
fairseq_ssl.register()
from fairseq_ssl.edits.dictionary import EditDictionary  # noqa: E402
from fairseq_ssl.generation import edit_corrector  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
FEW = ("--edit-unfactorized", "--max-update", "1", "--disable-validation")
SMALL = (
    *("--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "8"),
    *("--encoder-attention-heads", "2"),
)
TEXT = ' The  "small"\tcats see it.  They run!\n\nHALLO 12\n'
UPPER = ' THE  "SMALL"\tCATS SEE IT.  THEY RUN!\n\nHALLO 12\n'


def tagger(bin_folder: Path, folder: Path, label: str, *flags: str) -> Path:
    """Train for one update, then make the model choose a label for all words."""
    path = trained(bin_folder, folder, *FEW, *flags)
    state = torch.load(path, weights_only=False)
    state["model"]["scores.edits.weight"].zero_()
    bias = state["model"]["scores.edits.bias"].zero_()
    bias[EditDictionary.read(bin_folder / "edits.txt").ids[label]] = 5
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


def test_tokenized_lines_are_sentences(
    folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("tokens").write_text("the cat . it  runs .\n\nA  B\n")
    assert correct(model, "tokens", "--tokenized", "-o", "out") == 0
    assert Path("out").read_text() == "THE CAT . IT RUNS .\n\nA B\n"
    assert "3 lines, 1 changed" in capsys.readouterr().err


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


def test_killed_run_resumes(folder: Path, model: Path) -> None:
    Path("many").write_text(TEXT * 100)
    words = ["correct", "many", "--model", str(model), "--tokenizer", "moses", "--iterations", "1"]
    words += ["--jobs", "1", "--block", "1", "-o"]
    assert main([*words, "complete"]) == 0
    complete = Path("complete").read_bytes()
    assert 0 < kill([*words, "killed"], "killed") < len(complete)
    assert main([*words, "killed"]) == 0
    assert Path("killed").read_bytes() == complete


def test_diff_marks_edits(folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert correct(model, "text", "--diff", "-o", "out") == 0
    first = Path("out").read_text().splitlines()[0]
    assert first.startswith(
        ' [-The-]{+THE+}  "[-small-]{+SMALL+}"\t[-cats see it-]{+CATS SEE IT+}.'
    )


def test_insertions_in_a_diff(folder: Path, corpus: Path) -> None:
    label = next(name for name in _labels(corpus) if name.startswith("APPEND_"))
    flags = ("--edit-unit", "word", "--edit-init", str(corpus / "bert"))
    model = tagger(corpus / "bin", folder / "append", label, *flags)
    Path("line").write_text("Dogs run.\n")
    word = label.removeprefix("APPEND_")
    assert correct(model, "line", "--diff", "-o", "out") == 0
    assert (
        Path("out").read_text() == f"{{+{word}+}}Dogs {{+{word}+}} run {{+{word}+}}. {{+{word}+}}\n"
    )


def test_a_diff_of_text_without_spaces_between_words() -> None:
    line = CorrectedLine("我喜欢", "我很喜欢", (Edit(1, 1, "", "很", 0.9),))
    assert _marked(line, color=False) == "我{+很+}喜欢"


def _labels(corpus: Path) -> tuple[str, ...]:
    return EditDictionary.read(corpus / "bin" / "edits.txt").names


@pytest.mark.slow
def test_processes_blocks_and_compression_do_not_change_the_output(
    folder: Path, model: Path
) -> None:
    Path("long").write_text(TEXT * 40)
    assert correct(model, "long", "-o", "one") == 0
    words = ["correct", "long", "--model", str(model), "--iterations", "1", "--block", "1"]
    assert main([*words, "--jobs", "2", "-o", "two.gz", "--batch-size", "3"]) == 0
    assert gzip.decompress(Path("two.gz").read_bytes()).decode() == UPPER * 40
    assert Path("one").read_text() == UPPER * 40
    signature = json.loads(Path("one.json").read_text())
    assert signature["lines"] == 120
    assert signature["models"][0][0] == str(model)


def test_the_printed_signature_has_all_options_of_the_search(
    folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    biases = ("--keep-bias", "0.1", "--delete-bias", "0.2", "--min-sentence-confidence", "0.3")
    assert correct(model, "text", *biases, "-o", "out") == 0
    printed = capsys.readouterr()
    options = "keep_bias:0.1|delete_bias:0.2|min_confidence:0.0|min_sentence_confidence:0.3|"
    assert options in printed.out + printed.err
    assert "|spelling_digest:" not in printed.out + printed.err


def test_a_complete_output_is_kept_and_another_one_is_rejected(
    folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert correct(model, "text", "-o", "out") == 0
    assert correct(model, "text", "-o", "out") == 0
    assert "out is complete" in capsys.readouterr().err
    assert correct(model, "text", "-o", "out", "--keep-bias", "0.5") == 2
    assert "out exists" in capsys.readouterr().err
    assert correct(model, "text", "-o", "out", "--keep-bias", "1", "--force") == 0
    assert Path("out").read_text() == TEXT


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
    ("words", "code", "message"),
    [
        (["--weights", "1,2"], 2, "--weights has 2 numbers for 1 model."),
        (["--weights", "0"], 2, "0 is out of range"),
        (["--weights", "a"], 2, "a is out of range"),
        (["--spacy-model", "x"], 2, "--spacy-model needs --explain"),
        (["--tokenized", "--tokenizer", "spacy"], 2, "--tokenizer cannot be used with --tokenized"),
        (["--tokenized", "--lang", "de"], 2, "--lang cannot be used with --tokenized"),
        (["--explain", "--spacy-model", "none"], 1, "Or set --spacy-model to the folder"),
        (["--json", "--diff"], 2, "not allowed with"),
        (["--keep-bias", "2"], 2, "2 is out of range. Expected -1 to 1."),
        (["--lang", "xx_none"], 2, "--lang is 'xx_none', for which spaCy has no"),
    ],
)
def test_wrong_options(
    words: list[str],
    code: int,
    message: str,
    folder: Path,
    model: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        found = correct(model, "text", *words)
    except SystemExit as stop:
        found = int(str(stop.code))
    assert (found, message in capsys.readouterr().err) == (code, True)


def test_wrong_models(
    folder: Path, corpus: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert correct(folder / "none.pt", "text") == 1
    assert "none.pt does not exist" in capsys.readouterr().err
    Path("broken.pt").write_bytes(model.read_bytes()[:999])
    assert correct(folder / "broken.pt", "text") == 1
    assert "broken.pt" in capsys.readouterr().err
    subwords = tagger(corpus / "bin", folder / "subwords", "CASE_upper", *SMALL)
    assert correct(subwords, "text") == 2
    assert "needs the folder of the data. Set --data-dir." in capsys.readouterr().err
    Path("tokens").write_text("the cat\n")
    words = ("--tokenized", "--data-dir", corpus / "bin", "-o", "out")
    assert correct(subwords, "tokens", *words) == 0
    assert Path("out").read_text() == "THE CAT\n"


def test_input_after_the_models(
    folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["correct", "--model", str(model), "text"]) == 2
    assert "text is not a checkpoint. Write INPUT before --model." in capsys.readouterr().err
    assert main(["correct", "--model", "text"]) == 1  # without reading stdin
    assert "text is not a checkpoint. Expected a checkpoint of" in capsys.readouterr().err


def test_input_that_is_not_utf8(
    folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("text").write_bytes(b"abc \xff\n")
    assert correct(model, "text") == 1
    assert "text:1 is not valid UTF-8: byte 5 of the line is 0xff" in capsys.readouterr().err


def with_tokenizer(model: Path, path: Path, change: Any) -> Path:
    """Write a checkpoint with another tokenizer."""
    state = torch.load(model, weights_only=False)
    encoder = state["task_state"]["edit_encoder"]
    content = json.loads(encoder["tokenizer"])
    change(content)
    encoder["tokenizer"] = json.dumps(content)
    torch.save(state, path)
    return path


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_line_that_cannot_be_tokenized_is_named(
    jobs: str, folder: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = with_tokenizer(model, folder / "hostile.pt", pretrained.add_panic)
    line = f"the cat {pretrained.PANIC} x"
    Path("text").write_text("\n".join(["a b"] * 300 + [line] + ["c"] * 7) + "\n")
    words = ["correct", "text", "--model", str(hostile), "--tokenized", "--iterations", "1"]
    assert main([*words, "--jobs", jobs, "--block", "1", "-o", "out"]) == 1
    (shown,) = capsys.readouterr().err.splitlines()
    assert f"text:301: The tokenizer of the encoder cannot tokenize '{'a' * 40}'" in shown
    Path("text").write_text("the cat\n")
    assert correct(hostile, "text", "--tokenized", "-o", "out", "--force") == 0
    assert Path("out").read_text() == "THE CAT\n"


def test_a_text_that_cannot_be_tokenized_does_not_affect_later_ones(
    model: Path, tmp_path: Path
) -> None:
    hostile = with_tokenizer(model, tmp_path / "hostile.pt", pretrained.add_panic)
    one = corrector(hostile, tokenizer=None)
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
    assert correct(with_tokenizer(model, folder / "hostile.pt", change), "text") == 1
    (shown,) = capsys.readouterr().err.splitlines()
    assert "okenizer" in shown


def test_long_lines_use_windows(folder: Path, model: Path) -> None:
    Path("text").write_text("the cat and the dog, " * 200 + "\n")
    assert correct(model, "text", "-o", "out") == 0
    assert Path("out").read_text() == Path("text").read_text().upper()


def corrector(model: Path, **fields: Any) -> Corrector:
    return Corrector.from_pretrained(model, iterations=1, **fields)


def test_the_class_corrects_lines(model: Path) -> None:
    found = corrector(model).correct(TEXT.splitlines())
    assert [one.text for one in found] == UPPER.splitlines()
    assert corrector(model).correct([]) == []
    assert corrector(model).correct(["", "  "])[1].text == "  "
    with pytest.raises(TypeError, match="a list of lines, not a string"):
        corrector(model).correct("a b")


def test_the_class_takes_a_list_of_models_and_checks_the_options(model: Path) -> None:
    corrector = Corrector.from_pretrained([model, str(model)], weights=(1, 2))
    assert (len(corrector.models), corrector.config.models) == (2, (model, model))
    with pytest.raises(TypeError, match=r"no field 'keep_bais'. Did you mean 'keep_bias'\?"):
        Corrector.from_pretrained(model, keep_bais=0.1)


@pytest.mark.parametrize("package", ["errant", "threadpoolctl"])
def test_a_missing_package_is_not_a_missing_pipeline(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = CorrectionConfig(
        (Path("none"),), tokenizer=None, explain=True, spacy_model=str(small_pipeline(tmp_path))
    )
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=f"needs the package {package}"):
        Corrector(config)


def test_unknown_words_are_forgotten(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_corrector, "MAX_UNKNOWN_WORDS", 3)
    one = corrector(model)
    words = one._tagger.task.source_dictionary
    for number in range(5):
        line = " ".join(f"w{number}x{at}" for at in range(9))
        assert one.correct([line])[0].text == line.upper()
        assert len(words.surfaces) < 60 + len(_grams(one))


def _grams(one: Corrector) -> list[str]:
    return [token for gram in one._tagger.task.edits.grams for token in gram]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"engine": "tf"}, "`engine` is 'tf'"),
        ({"tokenizer": "mecab"}, "`tokenizer` is 'mecab'"),
        ({"iterations": 0}, "`iterations` is 0"),
        ({"batch_size": 0}, "`batch_size` is 0"),
        ({"weights": (1.0, 2.0)}, "`weights` has 2 numbers for 1 model"),
        ({"int8": True, "device": "cuda"}, "`int8` and the engine onnx need cpu"),
        *[({"weights": (weight,)}, "`weights` is") for weight in (-1.0, 0.0, math.nan, math.inf)],
    ],
)
def test_invalid_configs(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CorrectionConfig((Path("a.pt"),), **fields)
    with pytest.raises(UsageError, match="`models` is empty"):
        CorrectionConfig(())
    assert hash(CorrectionConfig((Path("a.pt"),), weights=[2.0]))  # type: ignore[arg-type]


def test_edits_are_explained_by_errant(folder: Path, model: Path, tmp_path: Path) -> None:
    words = ("--explain", "--spacy-model", small_pipeline(tmp_path), "-o", "out")
    assert correct(model, "text", *words) == 0
    lines = Path("out").read_text().splitlines()
    assert lines[0] == UPPER.splitlines()[0]
    assert lines[1].split("\t")[:5] == ["", "1:4", "The", "THE", "R:ORTH"]
    assert 0.3 < float(lines[1].split("\t")[5]) < 1


@pytest.mark.slow
def test_onnx_models_make_the_same_corrections(folder: Path, corpus: Path, model: Path) -> None:
    pytest.importorskip("onnxruntime")
    for kind in ("float32", "int8"):
        export = ["export", str(model), "--to", "onnx", "-o", kind, "--quantization", kind]
        assert main([*export, "--data-dir", str(corpus / "bin")]) == 0
        assert correct(Path(kind), "text", "--engine", "onnx", "-o", f"{kind}.out") == 0
        assert Path(f"{kind}.out").read_text() == UPPER
    words = ["correct", "text", "--model", "int8", "float32", "--engine", "onnx", "--jobs", "1"]
    assert main([*words, "--weights", "2,1", "--iterations", "1", "-o", "both"]) == 0
    assert Path("both").read_text() == UPPER


def test_wrong_onnx_models(folder: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert correct(model, "text", "--engine", "onnx") == 1
    assert str(model) in capsys.readouterr().err
    with pytest.raises(UsageError, match="the engine onnx need cpu"):
        CorrectionConfig((model,), engine="onnx", device="cuda")


def test_models_trained_in_bfloat16_are_decoded_in_float32(
    folder: Path, corpus: Path, model: Path
) -> None:
    flags = ("--edit-unit", "word", "--edit-init", str(corpus / "bert"), "--amp")
    path = tagger(corpus / "bin", folder / "bf16", "CASE_upper", *flags)
    seen: list[torch.dtype] = []
    for int8 in (False, True):
        one = corrector(path, int8=int8)
        (loaded,) = one._tagger.models
        loaded.register_forward_hook(lambda *parts: seen.append(parts[-1].edits.dtype))
        assert one.correct(["the cat"])[0].text == "THE CAT"
    assert set(seen) == {torch.float32}


@pytest.mark.parametrize("engine", ["torch", "onnx"])
def test_corrector_needs_the_plug_in(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", print)
    with pytest.raises(ConfigurationError, match=r"Call fairseq_ssl\.register first"):
        Corrector.from_pretrained("run/checkpoint_best.pt", engine=engine).correct(["a"])


def test_spelling_is_corrected_first(folder: Path, model: Path) -> None:
    pytest.importorskip("symspellpy")
    Path("correct").write_text("the people receive a letter\n" * 20)
    assert main(["spelling", "count", "correct", "-o", "counts"]) == 0
    Path("text").write_text('Poeple "recieve a leter".\n')
    assert correct(model, "text", "--spelling", "counts", "-o", "out") == 0
    assert Path("out").read_text() == 'POEPLE "RECEIVE A LETTER".\n'
    with pytest.raises(DataError, match="missing does not exist"):
        Corrector.from_pretrained(model, spelling=Path("missing"))


def test_the_spelling_alone_has_probability_1(
    folder: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("symspellpy")
    SpellingCounts.of(20 * ["the people receive a letter"]).write(Path("counts"))
    flags = ("--edit-unit", "word", "--edit-init", str(corpus / "bert"))
    keeping = tagger(corpus / "bin", folder / "keep", "KEEP", *flags)
    corrector = Corrector.from_pretrained(keeping, spelling=Path("counts"))
    (line,) = corrector.correct(["People  recieve a cat."])
    assert line.text == "People  receive a cat."
    assert [(edit.source, edit.target, edit.probability) for edit in line.edits] == [
        ("recieve", "receive", 1.0)
    ]


def test_a_file_is_corrected_by_the_current_checkpoint(folder: Path, model: Path) -> None:
    state = torch.load(model, weights_only=False)
    config = CorrectionConfig((shutil.copy(model, "tagger.pt"),), tokenizer=None)
    assert correct_file("text", "upper", config, operator.attrgetter("text"))
    state["model"]["scores.edits.bias"].zero_()
    torch.save(state, "tagger.pt")
    assert correct_file("text", "kept", config, operator.attrgetter("text"))
    assert Path("upper").read_text().split() == UPPER.split()
    assert Path("kept").read_text().split() != UPPER.split()


def test_lines_of_any_iterable_are_corrected(model: Path) -> None:
    lines = ["The cat", "runs"]
    one = corrector(model, tokenizer=None)
    assert one.correct(iter(lines)) == one.correct(lines)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Line 2 of the text is None"):
        one.correct(["a", None])  # type: ignore[list-item]
