/* SPDX-License-Identifier: BSD-3-Clause */
/* unique_id_fuzz.c - unique ids; the input is the text. */
#include "fuzz.h"
#include "base/error.h"
#include "meet/tree.h"

const char *const fuzz_name = "unique_id";
const long fuzz_runs = 100000;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	struct address_list addresses;
	char text[ADDRESS_TEXT_SIZE], *id = fuzz_memory(size + 1);

	error_set(COLL_SUCCESS, "%s", "");
	fuzz_take(&in, id, size);
	if (unique_id_parse(id, key, &addresses)) {
		fuzz_promise(error_text()[0] != '\0', "a refused id has a text");
	} else {
		fuzz_promise(addresses.count >= 1 && addresses.count <= ADDRESS_INET_MAX,
			     "1 to 8 addresses");
		for (int i = 0; i < addresses.count; i++) {
			address_format(&addresses.item[i], text);
			fuzz_promise(address_port(&addresses.item[i]) != 0 &&
					     address_parse(text, "address", &addresses.item[i]) ==
						     0,
				     "an address can be written and read again");
		}
	}
	free(id);
	return 0;
}
