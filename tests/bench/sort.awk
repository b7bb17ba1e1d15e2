# SPDX-License-Identifier: BSD-3-Clause
# sort.awk - for table.awk and watching.awk: sorts list[1..n].

function sort(list, n,    i, j, t) {
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
			t = list[j]
			list[j] = list[j - 1]
			list[j - 1] = t
		}
}
