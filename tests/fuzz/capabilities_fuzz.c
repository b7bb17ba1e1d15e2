/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capabilities_fuzz.c - the ranks' lists of backends, and the choice from them.
 *
 * Input: the number of ranks, then for each rank the bytes and the length of its table; the last table
 * takes the rest.
 */
#include "fuzz.h"
#include "plugin/select_impl.h"
#include "base/error.h"

const char *const fuzz_name = "capabilities";
const long fuzz_runs = 100000;

enum { RANKS = 4 };

static void check_head(struct fuzz_input in)
{
	struct capabilities_head head;

	fuzz_take(&in, &head, sizeof(head));
	if (capabilities_check_head(&head, 1))
		fuzz_promise(error_text()[0] != '\0', "a refused head has a text");
}

/* Every string must end within the table. */
static size_t read_strings(const struct capabilities *caps)
{
	size_t sum = strlen(caps->list) + strlen(caps->request) + strlen(caps->searched);

	for (int i = 0; i < caps->n; i++)
		sum += strlen(caps->entry[i].name) + strlen(caps->entry[i].version) +
		       strlen(caps->entry[i].reason);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	struct capabilities caps[RANKS] = {{.n = 0}};
	int n = 1 + (int)fuzz_up_to(&in, RANKS - 1), good = 1;
	void *tables[RANKS] = {NULL};
	const char *name = NULL;
	volatile size_t sum = 0; /* the reads shall not be left out */

	error_set(COLL_SUCCESS, "%s", "");
	check_head(in);
	for (int r = 0; r < n; r++) {
		size_t len = fuzz_byte(&in);

		len |= (size_t)fuzz_byte(&in) << 8;
		if (len > in.left || r == n - 1)
			len = in.left;
		tables[r] = fuzz_copy(&in, len);
		good &= capabilities_unpack(&caps[r], tables[r], len, r) == COLL_SUCCESS;
		if (good)
			sum += read_strings(&caps[r]);
	}
	if (good && select_choose(caps, n, &name) == COLL_SUCCESS)
		for (int r = 0; r < n; r++)
			fuzz_promise(capabilities_find(&caps[r], name) != NULL,
				     "every rank has the chosen backend");
	for (int r = 0; r < n; r++) {
		capabilities_free(&caps[r]);
		free(tables[r]);
	}
	return 0;
}
