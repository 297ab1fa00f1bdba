# shellcheck shell=bash
# Functions of scripts that convert official archives. To be sourced after recipe.sh.
#
#   official SETTING FOLDER FILE...   note each FILE that the folder in SETTING does not have
#   stop_if_missing                   exit with an error that lists the noted files
#   first_of FOLDER FILE...           print the first FILE that FOLDER has, or else the first name
#   edited PREFIX M2 OPTION...        write PREFIX.src and PREFIX.trg, the sides of an M2 file
#   gold PREFIX M2 OPTION...          the same, and copy the M2 file to PREFIX.m2
#   jfleg_file dev|test               print the path of a part of JFLEG without suffix
#   jfleg PREFIX dev|test             write PREFIX.src and PREFIX.ref0 to PREFIX.ref3
#   count_lines NAME FILE... PAPER    print the lines and words of a data set next to the paper's number
#
# Commands write their output to WORK/raw/log.

missing=()
official() { # SETTING FOLDER FILE...
  local file
  if [[ -z "${!1}" ]]; then
    missing+=("$1 is not set. Expected the folder $2.")
    return
  fi
  for file in "${@:3}"; do
    [[ -e "${!1}/$file" ]] || missing+=("$1: ${!1}/$file does not exist. Expected the folder $2.")
  done
}

stop_if_missing() {
  if [[ -z "${DRY_RUN:-}" ]] && ((${#missing[@]})); then
    printf "${0##*/}: %s\n" "${missing[@]}" >&2
    exit 2
  fi
}

first_of() { # FOLDER FILE...
  local file
  for file in "${@:2}"; do
    if [[ -e "$1/$file" ]]; then
      echo "$file"
      return
    fi
  done
  echo "$2"
}

edited() { # PREFIX M2 OPTION...
  quietly "$WORK/raw/log" run fairseq-ssl m2 to-text "$2" -o "$1" "${@:3}"
}

gold() { # PREFIX M2 OPTION...
  into "$1.m2" cat "$2"
  edited "$1" "$1.m2" "${@:3}"
}

jfleg_file() { # a folder of a single part is also accepted
  if [[ -e "${JFLEG:-}/$1.src" ]]; then echo "$1"; else echo "$1/$1"; fi
}

jfleg() { # PREFIX dev|test
  local part
  for part in src ref0 ref1 ref2 ref3; do
    into "$1.$part" sed "s/ *$//" "$JFLEG/$(jfleg_file "$2").$part"
  done
}

count_lines() { # NAME FILE... PAPER
  local counts files=("${@:2:$#-2}")
  [[ -z "${DRY_RUN:-}" ]] || return 0
  read -ra counts < <(cat "${files[@]}" | wc -lw)
  printf "%s: %'d lines, %'d words; paper: %s\n" "$1" "${counts[@]}" "${@: -1}"
}
