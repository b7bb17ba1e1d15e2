/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * http_fuzz.c - the requests that `coll metrics --listen` reads.
 *
 * Input: a request, which comes in two pieces: where it is cut, as a byte, and the bytes.
 */
#include "fuzz.h"
#include "top/http.h"

const char *const fuzz_name = "http";
const long fuzz_runs = 20000;

/* Is it a status that the server knows? */
static int is_status(int code)
{
	return code == 200 || code == 400 || code == 404 || code == 405 || code == 505;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	const size_t cut = fuzz_byte(&in), bytes = in.left;
	char *request = fuzz_memory(bytes + 1);
	const char *method = NULL;
	size_t head = 0;

	if (bytes)
		memcpy(request, in.at, bytes);
	if (cut < bytes) {
		const char after = request[cut];

		head = http_head(request, cut);
		request[cut] = head ? request[cut] : after;
	}
	if (!head)
		head = http_head(request, bytes);
	fuzz_promise(head <= bytes, "the head is in the request");
	if (head) {
		const int code = http_judge(request, head, &method);

		fuzz_promise(is_status(code), "the server knows the status");
		fuzz_promise(method && strlen(method) <= head, "the method is a word of the head");
		fuzz_promise(code != 200 || !strcmp(method, "GET") || !strcmp(method, "HEAD"),
			     "only GET and HEAD get the text");
	}
	free(request);
	return 0;
}
