#!/usr/bin/env bash
# Convert Wikipedia and the Billion Word Benchmark to wikipedia.txt and billion.txt of DATA_DIR, which PoDA
# reads at SCALE=paper. Get them from the pages in RESULTS.md.
#
# WIKIPEDIA  output folder of WikiExtractor, with AA/wiki_00 and so on
# BILLION    folder 1-billion-word-language-modeling-benchmark-r13output
# WORK       output folder, the DATA_DIR of the recipe              (default: work/poda/data)
# JOBS       number of processes                         (default: one for each core)
#
# Steps, with the section of the paper; "ours" is not in the paper:
#   Wikipedia  one paragraph per line, without the titles of articles (ours). Punctuation is normalized and
#              tokenized with Moses, as in the Billion Word Benchmark (ours)
#   Billion    sentences of at most 500 words (2.3), tokenized as released. Held-out shards are not read (ours)
#   both       don 't becomes do n't (ours), since the pairs of all tasks have n't, and the vocabulary is counted
#              in this text
# The recipe, not this script, drops paragraphs that are short or have many unknown words, and splits them into
# segments of 128 words (2.3).
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
JOBS="${JOBS:-$(nproc)}"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../../common/recipe.sh"
# shellcheck source=examples/common/archives.sh
source "$HERE/../../common/archives.sh"
SETTINGS_FILES=("$HERE/pretraining.sh")

WORK="${WORK:-work/poda/data}"
WIKIPEDIA="${WIKIPEDIA:-}" BILLION="${BILLION:-}"
shards=training-monolingual.tokenized.shuffled

official WIKIPEDIA "that WikiExtractor writes" AA/wiki_00
official BILLION 1-billion-word-language-modeling-benchmark-r13output "$shards/news.en-00001-of-00100"
stop_if_missing

headline "Wikipedia"
build "$WORK/wikipedia.txt" into "$WORK/wikipedia.txt" python "$HERE/archives.py" paragraphs "$WIKIPEDIA" --jobs "$JOBS"
headline "Billion Word Benchmark"
build "$WORK/billion.txt" into "$WORK/billion.txt" python "$HERE/archives.py" sentences \
  "$BILLION/$shards"/news.en-* --max-words 500

count_lines "Wikipedia" "$WORK/wikipedia.txt" "2.22 billion words"
count_lines "Billion Word Benchmark" "$WORK/billion.txt" "0.76 billion words"
