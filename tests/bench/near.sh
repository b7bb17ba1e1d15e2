#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# near.sh - for run.sh and watching.sh: how far the processors are from each other, by bench_bare.c (near.h).

# near BARE SECONDS: looks how far the processors are from each other.  Prints the range of the most frequent time of a cache
# line, a third around it, and its share of the looks.
near() {
    "$1" distance 2 "$2" | awk '
        { ns[NR] = $1 }
        END {
            for (i = 1; i <= NR; i++) {
                n = 0
                for (j = 1; j <= NR; j++)
                    n += ns[j] >= ns[i] / 1.33 && ns[j] <= ns[i] * 1.33
                if (n > most) {
                    most = n
                    center = ns[i]
                }
            }
            printf "%.0f-%.0f %.0f\n", center / 1.33, center * 1.33, 100 * most / NR
        }'
}
