#!/usr/bin/env bash
# Print the systems in the tables and figures of Kiyono (2022), one per line, with all seed corpora.
set -euo pipefail
{
  echo baseline
  for method in noisy direct spell; do echo "joint-$method-simplewiki-1400000"; done # table 4.4
  for corpus in wikipedia simplewiki gigaword; do                                   # table 4.5
    for method in noisy direct; do echo "joint-$method-$corpus-1400000"; done
  done
  for method in noisy direct; do
    for kind in joint pretrain; do                                                  # table 4.6
      for amount in 1400000 14000000; do echo "$kind-$method-gigaword-$amount"; done
    done
    for kind in upsample upsample@4 upsample@8 upsample@16 upsample@25; do          # 4.4.4
      echo "$kind-$method-gigaword-14000000"
    done
    for amount in 7000000 30000000 70000000; do                                     # figure 4.4
      echo "pretrain-$method-gigaword-$amount"
    done
  done
  for mask in 0.1 0.5 0.7; do echo "joint-direct@$mask-simplewiki-1400000"; done    # figure 4.2
  for beta in 0 3 9; do echo "joint-noisy@$beta-simplewiki-1400000"; done           # figure 4.3
  echo pretrain-noisy-gigaword-70000000+direct-gigaword-250000                      # 4.4.5
  echo pretrain-noisy-gigaword-70000000-sse                                         # table 4.7
} | awk '!seen[$0]++'
