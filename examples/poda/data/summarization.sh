#!/usr/bin/env bash
# Convert Gigaword and CNN/Daily Mail, as they are distributed for summarization, to the folders gigaword and
# cnndm of DATA_DIR, which PoDA reads at SCALE=paper. Only the data sets whose settings are given are
# converted. Their licenses do not allow redistribution: get them from the pages in RESULTS.md.
#
# GIGAWORD      folder sumdata of the split of Rush et al. (2015), or a folder with its six files
# CNN           folder cnn/stories of cnn_stories.tgz, or cnn_stories_tokenized
# DAILYMAIL     folder dailymail/stories of dailymail_stories.tgz, or dm_stories_tokenized
# URL_LISTS     folder url_lists of github.com/abisee/cnn-dailymail
# CORENLP       jar of Stanford CoreNLP (3.7.0 in See et al., 2017), which tokenizes the stories. Leave it empty
#               if they are tokenized
# CNNDM         in place of the last four: folder of cnndm.tar.gz by OpenNMT, with train.txt.src and
#               train.txt.tgt.tagged
# SENTENCE_MARK word between the sentences of a summary, the same as in the recipe          (default: <q>)
# WORK          output folder, the DATA_DIR of the recipe                        (default: work/poda/data)
#
# Steps, with the section of the paper; "ours" is not in the paper:
#   Gigaword       official split (3.2). It is tokenized and lowercased. <unk> in the training and validation
#                  pairs becomes UNK, as in the test pairs (ours), since <unk> is a special symbol of fairseq
#   CNN/Daily Mail official split, preprocessed as in See et al. (3.2): tokens of the Penn Treebank, lowercased,
#                  a period at the end of each line without punctuation. Articles without text are dropped,
#                  114 of the training pairs, which gives the numbers of table 2
#   <q>            separates the sentences of a summary of CNN/Daily Mail (ours). See et al. write each one as
#                  <s> sentence </s>, but </s> ends a text in fairseq. ROUGE-L needs the sentences
# The recipe, not this script, truncates articles to 800 words and summaries to 130 words.
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck source=examples/common/recipe.sh
source "$HERE/../../common/recipe.sh"
# shellcheck source=examples/common/archives.sh
source "$HERE/../../common/archives.sh"
SETTINGS_FILES=("$HERE/summarization.sh")

WORK="${WORK:-work/poda/data}"
GIGAWORD="${GIGAWORD:-}" CNNDM="${CNNDM:-}"
CNN="${CNN:-}" DAILYMAIL="${DAILYMAIL:-}" URL_LISTS="${URL_LISTS:-}" CORENLP="${CORENLP:-}"
SENTENCE_MARK="${SENTENCE_MARK:-<q>}"
declare -A articles=([train]=train.article.txt [valid]=valid.article.filter.txt [test]=input.txt)
declare -A titles=([train]=train.title.txt [valid]=valid.title.filter.txt [test]=task1_ref0.txt)
raw="$WORK/raw"

archives() { run python "$HERE/archives.py" "$@"; } # COMMAND ARGUMENTS...

gigaword_file() { first_of "$GIGAWORD" {train/,Giga/,}"$1"; } # FILE

penn_tokens() { # FOLDER OUTPUT: tokenize all stories
  if [[ "$1$2" == *[[:space:]]* ]]; then
    echo "${0##*/}: $1 or $2 has a space in its name, which Stanford's PTBTokenizer does not accept." >&2
    exit 2
  fi
  run mkdir -p "$2"
  into "$2.list" find "$1" -name '*.story' -printf "%p\t$2/%f\n"
  quietly "$raw/log" run java -cp "$CORENLP" edu.stanford.nlp.process.PTBTokenizer -ioFileList -preserveLines "$2.list"
}

stories() { # SETTING: print the folder of its tokenized stories
  if [[ -n "$CORENLP" ]]; then echo "$raw/${1,,}_tokenized"; else echo "${!1}"; fi
}

gigaword() {
  local set
  run mkdir -p "$WORK/gigaword"
  for set in train valid test; do
    archives headlines "$GIGAWORD/$(gigaword_file "${articles[$set]}")" \
      "$GIGAWORD/$(gigaword_file "${titles[$set]}")" -o "$WORK/gigaword/$set"
  done
}

cnndm() {
  local set command
  run mkdir -p "$WORK/cnndm"
  for set in train val test; do
    command=(stories "$(stories CNN)" "$(stories DAILYMAIL)" --urls "$URL_LISTS/all_$set.txt")
    [[ -z "$CNNDM" ]] || command=(tagged "$CNNDM/$set".txt.{src,tgt.tagged})
    archives "${command[@]}" --sentence-mark "$SENTENCE_MARK" -o "$WORK/cnndm/${set/val/valid}"
  done
}

[[ -n "$GIGAWORD$CNNDM$CNN$DAILYMAIL$URL_LISTS" ]] ||
  missing+=("GIGAWORD, CNN and CNNDM are not set. Expected the folder of at least one data set.")
if [[ -n "$GIGAWORD" ]]; then
  for file in "${articles[@]}" "${titles[@]}"; do
    official GIGAWORD "sumdata of github.com/harvardnlp/sent-summary" "$(gigaword_file "$file")"
  done
fi
if [[ -n "$CNNDM" ]]; then
  official CNNDM "cnndm of cnndm.tar.gz" {train,val,test}.txt.{src,tgt.tagged}
elif [[ -n "$CNN$DAILYMAIL$URL_LISTS" ]]; then
  official CNN "cnn/stories or cnn_stories_tokenized" ""
  official DAILYMAIL "dailymail/stories or dm_stories_tokenized" ""
  official URL_LISTS "url_lists of github.com/abisee/cnn-dailymail" all_{train,val,test}.txt
fi
stop_if_missing

if [[ -n "$GIGAWORD" ]]; then
  headline "Gigaword"
  build "$WORK/gigaword" gigaword
  count_lines "Gigaword train" "$WORK/gigaword/train.src" 3,803,957
  count_lines "Gigaword valid" "$WORK/gigaword/valid.src" 189,651
  count_lines "Gigaword test" "$WORK/gigaword/test.src" 1,951
fi

if [[ -n "$CNNDM$CNN" ]]; then
  headline "CNN/Daily Mail"
  for setting in CNN DAILYMAIL; do
    [[ -z "$CORENLP" || -n "$CNNDM" ]] || build "$(stories "$setting")" penn_tokens "${!setting}" "$(stories "$setting")"
  done
  build "$WORK/cnndm" cnndm
  count_lines "CNN/Daily Mail train" "$WORK/cnndm/train.src" 287,113
  count_lines "CNN/Daily Mail valid" "$WORK/cnndm/valid.src" 13,368
  count_lines "CNN/Daily Mail test" "$WORK/cnndm/test.src" 11,490
fi
