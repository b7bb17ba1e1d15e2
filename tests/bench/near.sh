#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# near.sh - for run.sh and watching.sh: how far the processors are from each other, by bench_bare.c (near.h).

# distances BARE SECONDS: looks how far the processors are from each other.  Prints, for near and for far processors, the range of
# the most frequent time of a cache line, a third around it, and its share of the looks.  A kind that was not seen has the
# whole range that is its own.  Processors that share a cache are less than 80 ns apart; a look of more than 1000 ns has lost
# its processor.
distances() {
    "$1" distance 2 "$2" | awk -v nearest=0 -v boundary=80 -v farthest=1000 '
        function describe(least, most,    i, j, n, times, center, below, above) {
            for (i = 1; i <= NR; i++) {
                if (ns[i] < least || ns[i] >= most)
                    continue
                n = 0
                for (j = 1; j <= NR; j++)
                    n += ns[j] >= least && ns[j] < most && ns[j] >= ns[i] / 1.33 && ns[j] <= ns[i] * 1.33
                if (n > times) {
                    times = n
                    center = ns[i]
                }
            }
            below = times && center / 1.33 > least ? center / 1.33 : least
            above = times && center * 1.33 < most ? center * 1.33 : most
            return sprintf("%.0f-%.0f %.0f", below, above, 100 * times / NR)
        }
        { ns[NR] = $1 }
        END { print NR ? describe(nearest, boundary) " " describe(boundary, farthest) : "0-80 0 80-1000 0" }'
}
