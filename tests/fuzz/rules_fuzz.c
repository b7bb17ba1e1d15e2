/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules_fuzz.c - the rules that choose algorithms: as a user's text, and as rank 0's bytes.
 *
 * Input: a kind, a call, and a text; the same bytes are also taken as a selection.
 */
#include "fuzz.h"
#include "algorithm/selection.h"
#include "base/kind.h"
#include "schedule/algo.h"

#include <coll/backend.h>

const char *const fuzz_name = "rules";
const long fuzz_runs = 100000;

static void check_text(const char *text, const struct call_description *call)
{
	struct rules rules = {.count = 0};
	char fault[800];
	int i = 0;

	if (rules_parse(call->kind, text, &rules, fault, sizeof(fault))) {
		fuzz_promise(fault[0] != '\0', "a fault has a text");
		return;
	}
	fuzz_promise(rules.count >= 1 && rules.count <= RULES_GIVEN_MAX, "1 to 16 rules");
	for (i = 0; i < rules.count; i++)
		fuzz_promise(algo_at(rules.rule[i].algorithm)->kind == call->kind,
			     "an algorithm of the kind");
	i = choose_rule(&rules, call, 0);
	fuzz_promise(i >= -1 && i < rules.count, "a rule of the list");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size}, bytes;
	struct call_description call = {
		.kind = kind_from_index((int)fuzz_up_to(&in, RULES_KINDS - 1))};
	struct selection selection;
	char *text;
	int id;

	call.nranks = 1 + (int)fuzz_byte(&in);
	call.nnodes = 1 + (int)fuzz_up_to(&in, (unsigned)call.nranks - 1);
	call.bytes = (uint64_t)1 << fuzz_up_to(&in, 40);
	call.memory = COLL_MEM_HOST;
	call.cpus = call.nranks % CPUS_KINDS;
	bytes = in;
	text = fuzz_memory(in.left + 1);
	fuzz_take(&in, text, in.left);
	check_text(text, &call);
	free(text);
	fuzz_take(&bytes, &selection, sizeof(selection));
	id = choose_algorithm(&selection, &call, choose_requirements(&selection, call.kind));
	fuzz_promise(id < algo_count(), "an algorithm that exists");
	return 0;
}
