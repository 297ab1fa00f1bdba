"""The benchmarks, in the order of the table in README.md: models, then tools."""

from __future__ import annotations

from dataclasses import replace

from edit_suite import EDIT_TAGGERS
from entry import GROWTH, STOCK, Entry
from tool_suite import TOOLS

LARGE = "--tokens 16384 --pairs 5 --bf16"
TOKENS = "--positions relative --length 256 --tokens 2048"
BYTENET_LAUNCHES = (
    "A step of 8,192 characters in bfloat16 takes as long as one of 400 in float32, 54 and 60 ms: "
    "the GPU waits for the CPU, which runs 3,861 operators instead of 2,946 (TorchDispatchMode, "
    "without views)."
)
CT2 = "The same matrix products dominate in both programs. Smaller models and int8 gain more."
AMP = (
    "In float32, matrix products take 4/5 of the time. bfloat16 makes them 2.1 times as fast. On "
    "an Intel Xeon without bfloat16 units, the ratio was 0.3, so `--amp` uses float32 there."
)
EMBEDDINGS = "--share-all-embeddings"

SUITE = (
    Entry(
        "shape_training",
        "training, shifted positions (SHAPE) over fairseq's Transformer, tokens/s",
        "shape_training",
        "--pairs 9 --steps 5",
        "0.99 to 1.01 (Kiyono, 2022, 6.3.3)",
    ),
    Entry(
        "shape_training.relative",
        "training, relative over absolute positions, tokens/s",
        "shape_training",
        "--positions relative --pairs 9 --steps 2",
        "0.91 (Kiyono, 2022, 6.3.3)",
        gpu_note="On an H100, kernels run 29% of the time (absolute positions: 36%), and a step "
        "launches 2,285 of them instead of 1,234. In the rest the GPU waits for the CPU. The "
        "profiled version runs 4,227 operators (TorchDispatchMode, without views), this one 492 "
        "fewer.",
    ),
    Entry(
        "shape_training.relative.long",
        "training, relative over absolute positions, length of ten joined sentences, tokens/s",
        "shape_training",
        f"{TOKENS} --pairs 5 --steps 1",
        "0.05 (Kiyono, 2022, 6.3.3)",
    ),
    Entry(
        "shape_training.large",
        "training, shifted positions (SHAPE) over fairseq's Transformer, 16,384 tokens in "
        "bfloat16, tokens/s",
        "shape_training",
        f"{LARGE} --steps 5",
    ),
    Entry(
        "shape_training.relative.large",
        "training, relative over absolute positions, 16,384 tokens in bfloat16, tokens/s",
        "shape_training",
        f"--positions relative {LARGE} --steps 5",
        gpu_note="16,384 tokens in bfloat16 take 1.6 times as long as 1,024 in float32, with both "
        "kinds of positions: the GPU waits for the CPU.",
    ),
    Entry(
        "shape_memory",
        "training, absolute over relative positions, peak memory",
        "shape_memory",
        "--positions relative --pairs 3 --steps 1",
    ),
    Entry(
        "shape_memory.long",
        "training, absolute over relative positions, length of ten joined sentences, peak memory",
        "shape_memory",
        f"{TOKENS} --pairs 3 --steps 1",
    ),
    Entry(
        "denoising_training",
        "training, `denoising_pretraining` over `translation` of noisy text, tokens/s",
        "denoising_training",
        "--arch transformer_tiny --steps 40 --pairs 7 --threads 1",
    ),
    Entry(
        "amp_training",
        "training, `--amp` over stock fairseq in float32, base Transformer, 32,000 subwords, 1,024 "
        "tokens, tokens/s of CPU time",
        "amp_training",
        "--stock --threads 1 --pairs 5 --steps 1",
        note=AMP,
        gpu=False,
    ),
    Entry(
        "amp_training.big",
        "training, `--amp` over stock fairseq in float32, big Transformer, 32,000 subwords, 512 "
        "tokens, tokens/s of CPU time",
        "amp_training",
        "--arch transformer_wmt_en_de_big --stock --threads 1 --tokens 512 --pairs 3 --steps 1",
        note=AMP,
        gpu=False,
    ),
    Entry(
        "amp_training.float32",
        "training in float32 over stock fairseq, base Transformer, 32,000 subwords, 1,024 tokens, "
        "tokens/s of CPU time",
        "amp_training",
        "--stock --float32 --threads 1 --pairs 5 --steps 1",
        gpu=False,
    ),
    Entry(
        "amp_training.shape",
        "training, `--amp` over float32, SHAPE, tokens/s of CPU time",
        "amp_training",
        "--arch shape_transformer --threads 1 --pairs 3 --steps 1",
        note=AMP,
        gpu=False,
    ),
    Entry(
        "amp_training.relative",
        "training, `--amp` over float32, relative positions",
        "amp_training",
        f'--arch shape_transformer --flags "{EMBEDDINGS} --shape-positions relative" --threads 1 '
        "--pairs 3 --steps 1",
        note=AMP,
        gpu=False,
    ),
    Entry(
        "amp_training.pseudo_bidirectional",
        "training, `--amp` over float32, PBD",
        "amp_training",
        '--arch pseudo_bidirectional_transformer --flags "" --threads 1 --pairs 3 --steps 1',
        note=AMP,
        gpu=False,
    ),
    Entry(
        "amp_training.pointer",
        "training, `--amp` over float32, `pointer_transformer`",
        "amp_training",
        f'--arch pointer_transformer --flags "{EMBEDDINGS} --task copying_translation" --threads 1 '
        "--pairs 3 --steps 1",
        note=AMP,
        gpu=False,
    ),
    Entry(
        "amp_training.bytenet",
        "training, `--amp` over float32, `bytenet`, 800 characters",
        "amp_training",
        '--arch bytenet --flags "" --vocabulary 200 --length 100 --tokens 800 --threads 1 '
        "--pairs 3 --steps 1",
        note=AMP,
        gpu=False,
    ),
    *EDIT_TAGGERS,
    Entry(
        "pseudo_bidirectional",
        f"decoding by {STOCK}, PBD's big size over the big Transformer, beam 5, sentences/s",
        "pseudo_bidirectional",
        "--sentences 2 --pairs 3",
    ),
    Entry(
        "pseudo_bidirectional.training",
        "training, PBD's big size over the big Transformer, target tokens/s",
        "pseudo_bidirectional",
        "--training --pairs 3 --steps 1",
    ),
    Entry(
        "pseudo_bidirectional.training.large",
        "training, PBD's big size over the big Transformer, 16,384 tokens in bfloat16, target "
        "tokens/s",
        "pseudo_bidirectional",
        f"--training {LARGE} --steps 3",
    ),
    Entry(
        "pointer_transformer",
        "training, `pointer_transformer` over fairseq's Transformer of its size, 50,000 words, "
        "target tokens/s",
        "pointer_transformer",
    ),
    Entry(
        "pointer_transformer.large",
        "training, `pointer_transformer` over fairseq's Transformer, 16,384 tokens in bfloat16, "
        "target tokens/s",
        "pointer_transformer",
        LARGE,
        gpu_note="Additional reads and writes of [tokens, vocabulary] in float32, 44 GB, take 9 ms "
        "at the vendor's 4.8 TB/s. A step takes 16 ms more. This version has a third "
        "fewer of them.",
    ),
    Entry(
        "pointer_transformer.memory",
        "training, fairseq's Transformer over `pointer_transformer`, peak memory",
        "pointer_transformer",
        "--what memory",
    ),
    Entry(
        "pointer_transformer.decoding",
        f"decoding, `pointer_transformer` over fairseq's Transformer with {STOCK}, beam 5, "
        "sentences/s",
        "pointer_transformer",
        "--what decoding",
    ),
    Entry(
        "aggressive_decoding",
        "decoding, `--aggressive` over greedy search, base Transformer, 25 "
        "words, of which one is replaced and one inserted",
        "aggressive_decoding",
        "--arch transformer",
    ),
    Entry(
        "aggressive_decoding.big",
        "decoding, `--aggressive` over greedy search, big Transformer, 25 words",
        "aggressive_decoding",
        "--sentences 2",
        note="Feed-forward layers dominate, and a draft does not reduce their cost. Use a GPU.",
    ),
    Entry(
        "ctranslate2_export.int8",
        f"decoding, CTranslate2 in int8 over {STOCK}, beam 5, sentences/s",
        "ctranslate2_export",
        "--compute-type int8",
        note=CT2,
    ),
    Entry(
        "ctranslate2_export",
        f"decoding, CTranslate2 in float32 over {STOCK}, beam 5, sentences/s",
        "ctranslate2_export",
        "--pairs 3",
        note=CT2,
    ),
    Entry(
        "ctranslate2_export.tiny",
        f"decoding, CTranslate2 in float32 over {STOCK}, tiny model, sentences/s",
        "ctranslate2_export",
        "--arch shape_transformer_tiny --vocabulary 1000",
    ),
    Entry(
        "back_translation",
        "`back-translate` with CTranslate2 in int8 over `fairseq-generate` without the plug-in, "
        "trained model, time to load it included",
        "back_translation",
        "--model MODEL --data-dir DATA --text TEXT --compute-type int8 --pairs 2",
    ),
    Entry(
        "back_translation_growth",
        "`back-translate`, tiny model, 100,000 lines over 10,000 lines, sentences/s",
        "growth",
        "--pairs 2",
        section=GROWTH,
        gpu=False,
    ),
    Entry(
        "back_translation_growth.million",
        "`back-translate`, tiny model, 1,000,000 lines over 100,000 lines, sentences/s",
        "growth",
        "--sentences 100000 --times 10 --pairs 1",
        section=GROWTH,
        gpu=False,
    ),
    Entry(
        "classification.imitators.1",
        "training, imitators with window 1 over an LSTM classifier, tokens/s",
        "classification_training",
        "--what 1",
        "13.3 (Kiyono, 2022, table 3.4, GPU)",
        gpu_note="On an H100, kernels run 22% of the time (LSTM: 51%). In the rest the GPU waits "
        "for the CPU.",
        note="The ratio is 20.2 on an Intel Xeon. Zero gradients take an eighth of the time, which "
        "`--sparse-gradients` saves.",
    ),
    Entry(
        "classification.imitators.2",
        "training, imitators with windows 1 and 2 over an LSTM classifier, tokens/s",
        "classification_training",
        "--what 2",
        "5.6 (Kiyono, 2022, GPU)",
    ),
    Entry(
        "classification.imitators.3",
        "training, imitators with windows 1 to 3 over an LSTM classifier, tokens/s",
        "classification_training",
        "--what 3",
        "2.9 (Kiyono, 2022, GPU)",
    ),
    Entry(
        "classification.imitators.4",
        "training, imitators with windows 1 to 4 over an LSTM classifier, tokens/s",
        "classification_training",
        "--what 4",
        "1.8 (Kiyono, 2022, GPU)",
        gpu_note="Matrix products have 91 GFLOP per step, those of the LSTM 201 GFLOP "
        "(FlopCounterMode; for the LSTM 6 FLOP per weight and token): with equal efficiency, the "
        "ratio is 2.2.",
    ),
    Entry(
        "classification.adam",
        "training, imitators with window 1 over an LSTM classifier, steps of Adam included, "
        "tokens/s",
        "classification_training",
        "--what 1 --optimizer",
    ),
    Entry(
        "classification.sparse_gradients",
        "training, imitators with window 1 and sparse gradients of the embeddings over an LSTM "
        "classifier, steps of Adam included, tokens/s",
        "classification_training",
        "--what 1 --optimizer --sparse-gradients",
    ),
    Entry(
        "classification.adv",
        "adversarial over supervised training of an LSTM classifier, tokens/s",
        "classification_training",
        "--what adv",
        "0.33 (Kiyono, 2022, GPU)",
    ),
    Entry(
        "classification.vat",
        "virtual adversarial over supervised training of an LSTM classifier, tokens/s",
        "classification_training",
        "--what vat",
        "0.23 (Kiyono, 2022, GPU)",
    ),
    Entry(
        "bytenet_decoding",
        "decoding with `bytenet`, steps 750 to 800 over steps 0 to 50, beam 5, steps/s",
        "bytenet_decoding",
        "--threads 1",
    ),
    Entry(
        "bytenet_training",
        "training, `bytenet`, 22.6 million weights, over `transformer_iwslt_de_en`, 31.6 million "
        "weights, target characters/s",
        "bytenet_training",
        "--pairs 3 --threads 1 --tokens 400",
        gpu_note=BYTENET_LAUNCHES,
    ),
    Entry(
        "bytenet_training.large",
        "training, `bytenet` over `transformer_iwslt_de_en`, 8,192 characters in bfloat16, target "
        "characters/s",
        "bytenet_training",
        "--tokens 8192 --pairs 5 --bf16",
        gpu_note=BYTENET_LAUNCHES,
    ),
    Entry(
        "bytenet_training.fconv",
        "training, `bytenet` over `fconv`, 6 + 6 layers of dimension 512, 24.3 million weights, "
        "target characters/s",
        "bytenet_training",
        "--against fconv --pairs 3 --threads 1 --tokens 400",
        note="`fconv` has its weights in 12 wide layers, `bytenet` in 30 narrow layers.",
    ),
    Entry(
        "reconstruction_training",
        "training on digits with monolingual text over training without, beam 5, updates/s",
        "reconstruction_training",
        "--threads 1 --steps 5",
        "0.2, 0.1 in theory (slides)",
    ),
    *(replace(tool, gpu=False) for tool in TOOLS),
)
