"""The benchmarks of edit taggers, in the order of the table in README.md."""

from __future__ import annotations

from entry import PEERS, STOCK, Entry

LIMIT = "Both programs compute the same matrix products, near the peak of a core in float32."
LAUNCHES = (
    "On an H200, kernels run 12% of the time (bfloat16: 9%), and each sentence launches 1,077 of "
    "them. In the rest the GPU waits for the CPU."
)
PRODUCTS = "Matrix products take three quarters of the time, and int8 triples their speed."

EDIT_TAGGERS = (
    Entry(
        "edit_decoding",
        "decoding, `edit_tagger_base` in two rounds over a big Transformer with beam 4 and "
        f"{STOCK}, one sentence of 20 words per batch, sentences/s",
        "edit_decoding",
        note="Each round reads all weights. bfloat16 needs less bandwidth.",
        gpu_note=LAUNCHES,
    ),
    Entry(
        "edit_decoding.bf16",
        f"decoding, `edit_tagger_base` in bfloat16 over a big Transformer with {STOCK}, 20 words, "
        "sentences/s",
        "edit_decoding",
        "--kind bf16",
        gpu_note=LAUNCHES,
    ),
    Entry(
        "edit_decoding.50",
        f"decoding, `edit_tagger_base` over a big Transformer with {STOCK}, 50 words, sentences/s",
        "edit_decoding",
        "--length 50",
        gpu_note="Sentences of 50 words take 1.2 times as long as those of 20: the GPU waits for "
        "the CPU.",
    ),
    Entry(
        "edit_round.onnx",
        "one round of an unfactorized edit tagger in ONNX format over `BertForTokenClassification` "
        "with 5,001 labels, BERT base, 26 subwords, one sentence",
        "edit_round",
        "--kind onnx --threads 1",
        gpu=False,
    ),
    Entry(
        "edit_round.onnx.32",
        "one round of an edit tagger in ONNX format over `BertForTokenClassification`, batches of "
        "32 sentences",
        "edit_round",
        "--kind onnx --threads 1 --batch 32 --rounds 1 --pairs 3",
        note=PRODUCTS,
        gpu=False,
    ),
    Entry(
        "edit_round.onnx-int8",
        "one round of an edit tagger in ONNX format and int8 over `BertForTokenClassification`, "
        "one sentence",
        "edit_round",
        "--kind onnx-int8 --threads 1",
        gpu=False,
    ),
    Entry(
        "edit_round.onnx-int8.32",
        "one round of an edit tagger in ONNX format and int8 over `BertForTokenClassification`, "
        "batches of 32 sentences",
        "edit_round",
        "--kind onnx-int8 --threads 1 --batch 32 --rounds 1 --pairs 3",
        note=PRODUCTS,
        gpu=False,
    ),
    Entry(
        "edit_round.float32",
        "one round of an edit tagger in PyTorch over `BertForTokenClassification`, one sentence",
        "edit_round",
        "--threads 1",
        note=LIMIT,
        gpu=False,
    ),
    Entry(
        "edit_round.float32.32",
        "one round of an edit tagger in PyTorch over `BertForTokenClassification`, batches of 32 "
        "sentences",
        "edit_round",
        "--threads 1 --batch 32 --rounds 1 --pairs 3",
        note=LIMIT,
        gpu=False,
    ),
    Entry(
        "correction.float32",
        "correction of BEA-2019 dev, 400 sentences, a GECToR model on MiniLM in PyTorch over "
        "gotutiyan/gector, sentences/s",
        "correction",
        "--model MODEL --encoder ENCODER --text TEXT --gector CHECKOUT --kind float32 --keep-bias "
        "0.1 --min-error 0.45 --threads 1 --pairs 3",
        section=PEERS,
        note="On the Intel Xeon, the ratio is just below 3, with fewer corrected sentences.",
        gpu=False,
    ),
    Entry(
        "correction.onnx",
        "correction of BEA-2019 dev, 400 sentences, a GECToR model on MiniLM in ONNX format over "
        "gotutiyan/gector, sentences/s",
        "correction",
        "--model MODEL --encoder ENCODER --text TEXT --gector CHECKOUT --kind onnx --keep-bias "
        "0.1 --min-error 0.45 --threads 1 --pairs 3",
        section=PEERS,
        note="On the Intel Xeon, our PyTorch model is 1.1 times as fast as the ONNX model.",
        gpu=False,
    ),
    Entry(
        "correction.onnx-int8",
        "correction of BEA-2019 dev, 400 sentences, a GECToR model on MiniLM in ONNX format and "
        "int8 over gotutiyan/gector, sentences/s",
        "correction",
        "--model MODEL --encoder ENCODER --text TEXT --gector CHECKOUT --kind onnx-int8 "
        "--keep-bias 0.1 --min-error 0.45 --threads 1 --pairs 3",
        section=PEERS,
        note="int8 is 1.8 times as fast as float32 on the Intel Xeon, and 2.9 on the AMD EPYC.",
        gpu=False,
    ),
    Entry(
        "edit_training",
        "training of a factorized edit tagger, 6 layers of dimension 384, over commit 10b781d, "
        "tokens/s",
        "edit_training",
        "--checkout CHECKOUT --threads 1 --pairs 3",
    ),
    Entry(
        "edit_training.bf16",
        "training of a factorized edit tagger with bfloat16 autocast over commit 10b781d, tokens/s",
        "edit_training",
        "--checkout CHECKOUT --bf16 --threads 1 --pairs 3",
    ),
    Entry(
        "edit_training.memory",
        "training of a factorized edit tagger, commit 10b781d over this version, peak memory",
        "edit_training",
        "--what memory --checkout CHECKOUT --threads 1 --pairs 1",
    ),
)
