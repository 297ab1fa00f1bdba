#!/usr/bin/env bash
# Concatenate the official corpora of WMT'20 to the files that SCALE=paper reads: train and mono (5.2.1, 5.2.2),
# subwords (5.2.1) and, with Japanese, kftt and news-commentary (5.3.4), each in English and LANGUAGE. RESULTS.md
# lists the archives.
#
# ARCHIVES   folder with the downloaded files, with .tgz and .tar.gz archives unpacked in it
# LANGUAGE   de or ja                                                            (default: de)
# DATA_DIR   output folder
set -euo pipefail

LANGUAGE="${LANGUAGE:-de}"
YEARS="${YEARS:-$(echo {2008..2019})}" # of NewsCrawl
if [[ -z "${ARCHIVES:-}" || -z "${DATA_DIR:-}" || "$LANGUAGE" != @(de|ja) ]]; then
  echo "${0##*/}: expected ARCHIVES, the folder with the corpora, DATA_DIR, the output folder, and LANGUAGE, de or ja." >&2
  exit 2
fi

column() { gzip -dc "$ARCHIVES/$1" | cut -f "$2"; } # TSV.GZ NUMBER
column_of() { if [[ "$1" == "$2" ]]; then echo "$3"; else echo "$4"; fi; } # LANGUAGE FIRST-LANGUAGE NUMBER OTHER

check_archives() { # FILE...
  local file missing=()
  for file in "$@"; do [[ -e "$ARCHIVES/$file" ]] || missing+=("$file"); done
  if ((${#missing[@]})); then
    echo "${0##*/}: $ARCHIVES does not have ${missing[*]}." >&2
    exit 2
  fi
}

# English and German
rapid() { # LANGUAGE: a sentence of an XLIFF file is <source xml:lang="de">, its translation <target xml:lang="en">
  gzip -dc "$ARCHIVES/RAPID_2019.de-en.xlf.gz" | grep "<$(column_of "$1" de source target) xml:lang=" |
    sed 's/^[^<]*<[^>]*>//; s/<[^>]*>[^>]*$//; s/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g'
}

subwords_de() { # LANGUAGE
  column europarl-v10.de-en.tsv.gz "$(column_of "$1" de 1 2)"
  column news-commentary-v15.de-en.tsv.gz "$(column_of "$1" de 1 2)"
  rapid "$1"
}

train_de() { # LANGUAGE
  subwords_de "$1"
  column en-de.txt.gz "$(column_of "$1" en 1 2)" # ParaCrawl
  cat "$ARCHIVES/commoncrawl.de-en.$1"
  column wikititles-v2.de-en.tsv.gz "$(column_of "$1" de 1 2)"
  column WikiMatrix.v1.de-en.langid.tsv.gz "$(column_of "$1" de 2 3)"
}

# English and Japanese
train_ja() { # LANGUAGE
  column news-commentary-v15.en-ja.tsv.gz "$(column_of "$1" en 1 2)"
  cut -f "$(column_of "$1" en 3 4)" "$ARCHIVES/en-ja/en-ja.bicleaner05.txt" # JParaCrawl
  column wikititles-v2.ja-en.tsv.gz "$(column_of "$1" ja 1 2)"
  column WikiMatrix.v1.en-ja.langid.tsv.gz "$(column_of "$1" en 2 3)"
  cut -f "$(column_of "$1" en 1 2)" "$ARCHIVES/split/train" # JESC
  cat "$ARCHIVES/kftt-data-1.0/data/orig/kyoto-train.$1"
  grep -v '^ *<' "$ARCHIVES/en-ja/train.tags.en-ja.$1" # TED, without its metadata
}

# Monolingual text
mono() { # LANGUAGE
  local year
  if [[ "$1" == ja ]]; then
    gzip -dc "$ARCHIVES/news-commentary-v15.ja.gz"
    xz -dc "$ARCHIVES/ja.deduped.xz" # CommonCrawl
    return
  fi
  column "europarl-v10.$1.tsv.gz" 1
  gzip -dc "$ARCHIVES/news-commentary-v15.$1.gz"
  for year in $YEARS; do gzip -dc "$ARCHIVES/news.$year.$1.shuffled.deduped.gz"; done
}

english=(europarl-v10.en.tsv.gz news-commentary-v15.en.gz)
for year in $YEARS; do english+=("news.$year.en.shuffled.deduped.gz"); done
if [[ "$LANGUAGE" == de ]]; then
  check_archives europarl-v10.de-en.tsv.gz news-commentary-v15.de-en.tsv.gz RAPID_2019.de-en.xlf.gz en-de.txt.gz \
    commoncrawl.de-en.{en,de} wikititles-v2.de-en.tsv.gz WikiMatrix.v1.de-en.langid.tsv.gz "${english[@]}" \
    "${english[@]//.en./.de.}"
else
  check_archives news-commentary-v15.en-ja.tsv.gz en-ja/en-ja.bicleaner05.txt wikititles-v2.ja-en.tsv.gz \
    WikiMatrix.v1.en-ja.langid.tsv.gz split/train kftt-data-1.0/data/orig/kyoto-train.{en,ja} \
    en-ja/train.tags.en-ja.{en,ja} "${english[@]}" news-commentary-v15.ja.gz ja.deduped.xz
fi

write() { # FILE COMMAND...; not in a condition, which would disable set -e
  echo "==> $DATA_DIR/$1" >&2
  "${@:2}" >"$DATA_DIR/$1.tmp"
  mv "$DATA_DIR/$1.tmp" "$DATA_DIR/$1"
}

mkdir -p "$DATA_DIR"
for language in en "$LANGUAGE"; do
  write "train.$language" "train_$LANGUAGE" "$language"
  write "mono.$language" mono "$language"
  if [[ "$LANGUAGE" == de ]]; then
    write "subwords.$language" subwords_de "$language"
  else
    ln -sf "train.$language" "$DATA_DIR/subwords.$language" # all pairs
    write "kftt.$language" cat "$ARCHIVES/kftt-data-1.0/data/orig/kyoto-train.$language"
    write "news-commentary.$language" column news-commentary-v15.en-ja.tsv.gz "$(column_of "$language" en 1 2)"
  fi
done
if [[ "$(wc -l <"$DATA_DIR/train.en")" != "$(wc -l <"$DATA_DIR/train.$LANGUAGE")" ]]; then
  echo "${0##*/}: $DATA_DIR/train.en and train.$LANGUAGE have different numbers of lines. Expected complete archives." >&2
  exit 1
fi
