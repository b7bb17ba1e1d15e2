/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choose_test.c - parses rules as text and as data, and tests the choices that they make; links the
 * core.
 */
#include "config_dir.h"
#include "base/kind.h"
#include "schedule/algo.h"
#include "introspect/info.h"

#include <coll/backend.h>

static struct rules parse(int kind, const char *text)
{
	struct rules rules = {0};
	char fault[800] = "";

	ok(rules_parse(kind, text, &rules, fault, sizeof(fault)) == 0, "'%s' is read%s%s", text,
	   fault[0] ? ": " : "", fault);
	return rules;
}

/* -------------------------------------------------------------------------- text -- */

static void test_ranges(void)
{
	struct rules r =
		parse(COLL_KIND_ALLREDUCE, " ring\tbytes 4K-1m  ranks 3-  ,ring nodes -7,"
					   "ring bytes -8 ranks 5,ring bytes 2G- memory "
					   "host,ring memory cuda,ring bytes 0,ring block 32K-,"
					   "ring -8,ring ranks 3- 4K-1m");

	is_int(r.count, 9, "nine rules");
	is_int((long)r.rule[0].bytes_min, 4096, "K");
	is_int((long)r.rule[0].bytes_max, 1 << 20, "m");
	is_int(r.rule[0].ranks_min, 3, "from");
	is_int(r.rule[0].ranks_max, INT32_MAX, "without end");
	is_int(r.rule[1].nodes_min, 1, "without beginning");
	is_int(r.rule[1].nodes_max, 7, "to");
	ok(r.rule[1].bytes_min == 0 && r.rule[1].bytes_max == UINT64_MAX,
	   "no condition: any bytes");
	is_int((long)r.rule[2].bytes_max, 8, "up to 8 bytes");
	ok(r.rule[2].ranks_min == 5 && r.rule[2].ranks_max == 5, "exactly 5");
	ok(r.rule[3].bytes_min == UINT64_C(2) << 30 && r.rule[3].bytes_max == UINT64_MAX, "2G-");
	is_int(r.rule[3].memory, COLL_MEM_HOST, "host memory");
	ok(r.rule[4].memory & COLL_MEM_CUDA && !(r.rule[4].memory & COLL_MEM_HOST), "cuda memory");
	ok(r.rule[5].bytes_min == 0 && r.rule[5].bytes_max == 0, "no bytes at all");
	ok(r.rule[5].block_min == 0 && r.rule[5].block_max == UINT64_MAX, "any part of a rank");
	ok(r.rule[6].block_min == 32 << 10 && r.rule[6].block_max == UINT64_MAX, "32K- a rank");
	ok(r.rule[6].bytes_min == 0 && r.rule[6].bytes_max == UINT64_MAX, "of any bytes");
	is_int((long)r.rule[7].bytes_max, 8, "a range without a name: bytes");
	ok(r.rule[8].bytes_min == 4096 && r.rule[8].bytes_max == 1 << 20 &&
		   r.rule[8].ranks_min == 3,
	   "also behind another condition");
}

/* Ranks that take turns on processors. */
static void test_cpus(void)
{
	struct rules r = parse(COLL_KIND_BARRIER, "linear cpus shared, linear cpus own, linear, "
						  "linear cpus few");
	struct call_description s = {COLL_KIND_BARRIER, 4, 1, 0, COLL_MEM_HOST, 0};

	ok(!rule_matches(&r.rule[0], &s), "each rank has a processor: not shared");
	ok(rule_matches(&r.rule[1], &s) && rule_matches(&r.rule[2], &s), "own, and any");
	s.cpus = CPUS_SHARED;
	ok(rule_matches(&r.rule[0], &s) && rule_matches(&r.rule[2], &s), "they take turns: shared");
	ok(!rule_matches(&r.rule[1], &s) && !rule_matches(&r.rule[3], &s), "not own, not few");
	s.cpus = CPUS_FEW;
	ok(rule_matches(&r.rule[0], &s) && rule_matches(&r.rule[3], &s),
	   "one or two: shared and few");
}

/* Numbers of ranks that are powers of two. */
static void test_power(void)
{
	static const struct {
		int nranks, two;
	} numbers[] = {{1, 1}, {2, 1}, {3, 0}, {4, 1}, {6, 0}, {12, 0}, {64, 1}, {1 << 30, 1}};
	struct rules r = parse(COLL_KIND_ALLREDUCE, "ring power two, ring power other, ring");
	struct call_description s = {COLL_KIND_ALLREDUCE, 0, 1, 0, COLL_MEM_HOST, 0};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		s.nranks = numbers[i].nranks;
		ok(rule_matches(&r.rule[0], &s) == numbers[i].two &&
			   rule_matches(&r.rule[1], &s) != numbers[i].two &&
			   rule_matches(&r.rule[2], &s),
		   "%d ranks: %s", s.nranks, numbers[i].two ? "two" : "other");
	}
}

static void test_matches(void)
{
	struct rules r = parse(COLL_KIND_ALLREDUCE, "ring bytes 64-128 ranks 2-4 memory host");
	struct call_description s = {COLL_KIND_ALLREDUCE, 2, 1, 64, COLL_MEM_HOST, 0};

	ok(rule_matches(&r.rule[0], &s), "the lower ends are included");
	s.bytes = 128;
	s.nranks = 4;
	ok(rule_matches(&r.rule[0], &s), "the upper ends are included");
	s.bytes = 129;
	ok(!rule_matches(&r.rule[0], &s), "one byte more");
	s.bytes = 63;
	ok(!rule_matches(&r.rule[0], &s), "one byte less");
	s.bytes = 64;
	s.nranks = 5;
	ok(!rule_matches(&r.rule[0], &s), "one rank more");
	s.nranks = 2;
	s.memory = COLL_MEM_CUDA;
	ok(!rule_matches(&r.rule[0], &s), "other memory");
}

/* The part of a rank: the bytes divided by the ranks, rounded down. */
static void test_block(void)
{
	struct rules r = parse(COLL_KIND_ALLREDUCE, "ring block 1K-2K");
	struct call_description s = {COLL_KIND_ALLREDUCE, 6, 1, 6 << 10, COLL_MEM_HOST, 0};

	ok(rule_matches(&r.rule[0], &s), "6K on 6 ranks: the lower end is included");
	s.bytes--;
	ok(!rule_matches(&r.rule[0], &s), "one byte less");
	s.bytes = (12 << 10) + 5;
	ok(rule_matches(&r.rule[0], &s), "12K and 5 bytes: the part is rounded down");
	s.bytes++;
	ok(!rule_matches(&r.rule[0], &s), "one byte more");
	s.nranks = 7;
	ok(rule_matches(&r.rule[0], &s), "one rank more");
	r = parse(COLL_KIND_REDUCE, "binomial block 0");
	s = (struct call_description){COLL_KIND_REDUCE, 4, 1, 3, COLL_MEM_HOST, 0};
	ok(rule_matches(&r.rule[0], &s), "fewer bytes than ranks: parts of 0 bytes");
	s.bytes = 4;
	ok(!rule_matches(&r.rule[0], &s), "as many");
}

/* The ranks of a node: the ranks divided by the nodes, rounded down. */
static void test_local(void)
{
	struct rules r = parse(COLL_KIND_ALLGATHER, "ring local 4-5");
	struct call_description s = {COLL_KIND_ALLGATHER, 16, 4, 8, COLL_MEM_HOST, 0};

	ok(rule_matches(&r.rule[0], &s), "16 ranks on 4 nodes: the lower end is included");
	s.nnodes = 3;
	ok(rule_matches(&r.rule[0], &s), "on 3: rounded down to the upper end");
	s.nnodes = 2;
	ok(!rule_matches(&r.rule[0], &s), "on 2: too many a node");
	s.nnodes = 5;
	ok(!rule_matches(&r.rule[0], &s), "on 5: too few");
}

static void test_refused(void)
{
	static const struct {
		int kind;
		const char *text, *piece;
	} bad[] = {
		{COLL_KIND_ALLREDUCE, "", "rule 1 lacks the name of an algorithm of allreduce"},
		{COLL_KIND_ALLREDUCE, "ring,", "rule 2 lacks the name"},
		{COLL_KIND_ALLREDUCE, "ring,,ring", "rule 2 lacks the name"},
		{COLL_KIND_ALLREDUCE, "rinng",
		 "rule 1: 'rinng' is no algorithm of allreduce: "
		 "expected one of ring, "},
		{COLL_KIND_BARRIER, "ring",
		 "'ring' is no algorithm of barrier: expected one of "
		 "dissemination"},
		{COLL_KIND_ALLREDUCE, "ring, ring byts 4",
		 "rule 2: 'byts' is no condition: "
		 "expected bytes, block, ranks, nodes, local, memory, cpus or power"},
		{COLL_KIND_ALLREDUCE, "ring power 2",
		 "'2' says nothing of powers: expected two or other"},
		{COLL_KIND_ALLREDUCE, "ring power", "rule 1 says nothing of powers"},
		{COLL_KIND_ALLREDUCE, "ring ring", "'ring' is no condition"},
		{COLL_KIND_ALLREDUCE, "ring bytes", "rule 1 is no range of bytes"},
		{COLL_KIND_ALLREDUCE, "ring bytes -", "'-' is no range of bytes"},
		{COLL_KIND_ALLREDUCE, "ring bytes 4-2", "'4-2' is no range of bytes"},
		{COLL_KIND_ALLREDUCE, "ring bytes 4--9", "'4--9' is no range"},
		{COLL_KIND_ALLREDUCE, "ring bytes 4-9x", "'4-9x' is no range"},
		{COLL_KIND_ALLREDUCE, "ring bytes 4T-", "'4T-' is no range"},
		{COLL_KIND_ALLREDUCE, "ring bytes 1.5M-", "'1.5M-' is no range"},
		{COLL_KIND_ALLREDUCE, "ring bytes 9223372036854775808-", "is no range"},
		{COLL_KIND_ALLREDUCE, "ring bytes 99999999999999999999-", "is no range"},
		{COLL_KIND_ALLREDUCE, "ring bytes 17179869184G-", "is no range"},
		{COLL_KIND_ALLREDUCE, "ring block 4-2", "'4-2' is no range of bytes"},
		{COLL_KIND_ALLREDUCE, "ring block", "rule 1 is no range of bytes"},
		{COLL_KIND_ALLREDUCE, "ring block 1 bytes 1 block 2", "'block' is there twice"},
		{COLL_KIND_BARRIER, "dissemination block 4-", "a barrier moves none"},
		{COLL_KIND_GATHERV, "linear block 4-", "with different counts"},
		{COLL_KIND_ALLGATHER, "ring, ring block 4-",
		 "rule 2: 'block' cannot be used: the count argument of allgather is one rank's "
		 "part already; use bytes"},
		{COLL_KIND_ALLREDUCE, "ring ranks 0-4", "'0-4' is no range of ranks"},
		{COLL_KIND_ALLREDUCE, "ring ranks 4K-", "'4K-' is no range of ranks"},
		{COLL_KIND_ALLREDUCE, "ring ranks 2147483648-", "is no range of ranks"},
		{COLL_KIND_ALLREDUCE, "ring nodes x", "'x' is no range of nodes"},
		{COLL_KIND_ALLREDUCE, "ring local 0-4", "'0-4' is no range of ranks of a node"},
		{COLL_KIND_ALLREDUCE, "ring memory gpu",
		 "'gpu' is no memory: expected host or cuda"},
		{COLL_KIND_ALLREDUCE, "ring cpus 4",
		 "'4' says nothing of processors: expected own"},
		{COLL_KIND_ALLREDUCE, "ring cpus", "rule 1 says nothing of processors"},
		{COLL_KIND_ALLREDUCE, "ring 4-2", "'4-2' is no range of bytes"},
		{COLL_KIND_ALLREDUCE, "ring bytes 4- 8-", "'8-' is there twice"},
		{COLL_KIND_BARRIER, "dissemination 4-",
		 "'4-' cannot be used: a barrier moves none"},
		{COLL_KIND_ALLREDUCE, "ring ranks 2- ranks 4-", "'ranks' is there twice"},
		{COLL_KIND_BARRIER, "dissemination bytes 4-", "a barrier moves none"},
		{COLL_KIND_ALLREDUCE,
		 "ring,ring,ring,ring,ring,ring,ring,ring,ring,ring,ring,ring,"
		 "ring,ring,ring,ring,ring",
		 "rule 17 is one too many"},
		{COLL_KIND_ALLREDUCE, "ri\x1b[31mng", "'ri?[31mng' is no algorithm"},
	};
	char fault[800];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct rules rules = {0};

		is_int(rules_parse(bad[i].kind, bad[i].text, &rules, fault, sizeof(fault)), -1,
		       "'%s' is refused",
		       i == sizeof(bad) / sizeof(bad[0]) - 1 ? "an escape" : bad[i].text);
		has_str(fault, bad[i].piece, "and said why");
	}
}

/* Rules must not depend on bytes if ranks may call with different counts. */
static void test_bytes_refused(void)
{
	static const int kinds[] = {COLL_KIND_ALLTOALLV, COLL_KIND_GATHERV, COLL_KIND_SCATTERV};
	char fault[800];
	char text[64];

	for (int i = 0; i < 3; i++) {
		struct rules rules = {0};

		ok(!rules_take_bytes(kinds[i]), "%s has no rules by bytes",
		   coll_kind_name(kinds[i]));
		for (int row = 0; row < algo_count(); row++) {
			if (algo_at(row)->kind != kinds[i])
				continue;
			snprintf(text, sizeof(text), "%s bytes 4-", algo_at(row)->name);
			is_int(rules_parse(kinds[i], text, &rules, fault, sizeof(fault)), -1, "%s",
			       text);
			has_str(fault, "with different counts", "and said why");
		}
	}
}

/* ----------------------------------------------------------------------- options -- */

static void test_options(void)
{
	struct config *config = load(NULL, 0, "defaults");
	struct selection selection;
	char name[48];

	is_int(choose_compile(config, &selection), 0, "the built-in rules are read");
	for (int i = 0; i < RULES_KINDS; i++) {
		const struct rules *r = &selection.rules[i];

		rules_option(kind_from_index(i), name);
		ok(config_find(config, name) != NULL, "there is %s", name);
		is_int(r->given, 0, "nobody has set it");
		ok(r->count <= RULES_MAX - RULES_GIVEN_MAX, "room for the user's");
	}
	config_free(config);
	put("user.conf", "# rules\nallreduce_algorithm = ring ranks 3-, recursive_doublin\n");
	setenv("COLL_CONFIG", at("user.conf"), 1);
	config = load(NULL, COLL_ERR_CONFIG, "a name that does not exist");
	has_str(error_text(), "user.conf:2: option 'allreduce_algorithm' has the value", "place");
	has_str(error_text(), "rule 2: 'recursive_doublin' is no algorithm", "word");
	has_str(error_text(), "; did you mean 'recursive_doubling'?", "guess");
	config_free(config);
	put("user.conf", "allreduce_algorithm = ring rank 3-\n");
	config = load(NULL, COLL_ERR_CONFIG, "a condition that does not exist");
	has_str(error_text(), "; did you mean 'ranks'?", "guess");
	config_free(config);
	put("user.conf", "allreduce_algorithm = ring ranks 3-\nnode_size = 4\nsegment=8K\n");
	config = load(NULL, 0, "a rule in a file");
	setenv("COLL_BROADCAST_ALGORITHM", "binomial bytes 7", 1);
	config_free(config);
	config = load(NULL, 0, "and one in the environment");
	is_int(choose_compile(config, &selection), 0, "compiled");
	is_int(selection.rules[COLL_KIND_ALLREDUCE - 1].given, 1, "one rule for allreduce");
	ok(selection.rules[COLL_KIND_ALLREDUCE - 1].count > 1, "then the built-in ones");
	is_int(selection.rules[COLL_KIND_BROADCAST - 1].given, 1, "one for broadcast");
	is_int(selection.node_size, 4, "node_size");
	is_int((long)selection.segment, 8192, "segment");
	config_free(config);
	unsetenv("COLL_BROADCAST_ALGORITHM");
	unsetenv("COLL_CONFIG");
}

static void test_reproducible(void)
{
	const struct call_description call = {.kind = COLL_KIND_ALLREDUCE,
					      .nranks = 4,
					      .nnodes = 1,
					      .bytes = 1 << 20,
					      .memory = COLL_MEM_HOST,
					      0};
	struct config *config;
	struct selection selection;

	setenv("COLL_REPRODUCIBLE", "yes", 1);
	config = load(NULL, 0, "reproducible");
	is_int(choose_compile(config, &selection), 0, "with the built-in rules");
	is_int(choose_requirements(&selection, COLL_KIND_REDUCE), COLL_ALGORITHM_CANONICAL,
	       "reductions");
	is_int(choose_requirements(&selection, COLL_KIND_BROADCAST), 0, "but nothing else");
	config_free(config);
	setenv("COLL_ALLREDUCE_ALGORITHM", "ring", 1);
	setenv("COLL_BROADCAST_ALGORITHM", "binomial", 1);
	config = load(NULL, 0, "reproducible, and an algorithm that is not");
	is_int(choose_compile(config, &selection), 0, "is no error");
	is_int(choose_algorithm(&selection, &call, choose_requirements(&selection, call.kind)),
	       algo_find(COLL_KIND_ALLREDUCE, "scatter_reduce"), "and the library passes over it");
	config_free(config);
	unsetenv("COLL_REPRODUCIBLE");
	unsetenv("COLL_ALLREDUCE_ALGORITHM");
	unsetenv("COLL_BROADCAST_ALGORITHM");
}

static void test_differences(void)
{
	struct config *config = load(NULL, 0, "defaults");
	struct selection a, b;
	char text[256];

	is_int(choose_compile(config, &a), 0, "one rank");
	memset(&b, 0xff, sizeof(b));
	is_int(choose_compile(config, &b), 0, "another one");
	ok(memcmp(&a, &b, sizeof(a)) == 0 && choose_hash(&a) == choose_hash(&b), "are the same");
	config_free(config);
	setenv("COLL_ALLREDUCE_ALGORITHM", "ring", 1);
	setenv("COLL_SEGMENT", "4K", 1);
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	config = load(NULL, 0, "others");
	is_int(choose_compile(config, &b), 0, "compiled");
	ok(choose_hash(&a) != choose_hash(&b) && a.table == b.table, "hashes differ");
	choose_differences(&a, &b, text, sizeof(text));
	is_str(text, "'segment', 'enable_gpu_fallback', 'allreduce_algorithm'", "named");
	config_free(config);
	unsetenv("COLL_ALLREDUCE_ALGORITHM");
	unsetenv("COLL_SEGMENT");
	unsetenv("COLL_ENABLE_GPU_FALLBACK");
}

/* ------------------------------------------------------------------------ choice -- */

/* Makes a selection with these rules for allreduce, followed by the built-in rules if `builtin`. */
static struct selection with(const char *text, int builtin)
{
	struct config *config;
	struct selection t;

	setenv("COLL_ALLREDUCE_ALGORITHM", text, 1);
	config = load(NULL, 0, text);
	is_int(choose_compile(config, &t), 0, "compiled");
	config_free(config);
	unsetenv("COLL_ALLREDUCE_ALGORITHM");
	if (!builtin)
		t.rules[COLL_KIND_ALLREDUCE - 1].count = t.rules[COLL_KIND_ALLREDUCE - 1].given;
	return t;
}

static const char *chosen(const struct selection *t, int nranks, uint64_t bytes,
			  uint32_t requirements)
{
	const struct call_description s = {COLL_KIND_ALLREDUCE, nranks, 1, bytes, COLL_MEM_HOST, 0};
	const int row = choose_algorithm(t, &s, requirements);

	return row < 0 ? "nothing" : algo_at(row)->name;
}

static void test_choice(void)
{
	struct selection t = with("recursive_doubling bytes 0-64 ranks 4-, ring ranks 2-8", 0);
	const struct call_description none = {99, 2, 1, 0, COLL_MEM_HOST, 0};

	is_str(chosen(&t, 4, 64, 0), "recursive_doubling", "the first that matches");
	is_str(chosen(&t, 4, 65, 0), "ring", "else the next");
	is_str(chosen(&t, 3, 64, 0), "ring", "by ranks too");
	is_str(chosen(&t, 9, 65, 0), algo_at(0)->name, "none: the first of the table");
	is_str(chosen(&t, 4, 65, COLL_ALGORITHM_ORDERED), "recursive_doubling",
	       "operands in order: passes the rule over");
	is_str(chosen(&t, 4, 65, 1u << 30), "nothing", "what nobody has");
	is_int(choose_algorithm(&t, &none, 0), -1, "a kind that nobody knows");
	t = with("ring bytes 100-", 1);
	is_str(chosen(&t, 4, 100, 0), "ring", "the user's rule");
	is_str(chosen(&t, 4, 99, 0), "recursive_doubling", "and the built-in ones below");
	t.rules[0].rule[0].algorithm = 12345;
	is_str(chosen(&t, 4, 100, 0), "recursive_doubling", "a row that does not exist");
	t.rules[0].count = 1 << 30;
	is_str(chosen(&t, 4, 99, 0), "recursive_doubling", "and more rules than there is room");
}

/* The algorithm that the built-in rules choose. */
struct choice {
	int kind, nranks, nnodes;
	uint64_t bytes;
	const char *name;
};

static void test_choices(const struct choice *want, size_t n, int cpus)
{
	struct config *config = load(NULL, 0, "defaults");
	struct selection t;

	is_int(choose_compile(config, &t), 0, "the built-in rules");
	config_free(config);
	for (size_t i = 0; i < n; i++) {
		const struct call_description s = {want[i].kind,  want[i].nranks, want[i].nnodes,
						   want[i].bytes, COLL_MEM_HOST,  cpus};
		const int row = choose_algorithm(&t, &s, 0);

		is_str(row < 0 ? "nothing" : algo_at(row)->name, want[i].name,
		       "%s of %llu bytes, %d ranks on %d nodes%s", coll_kind_name(s.kind),
		       (unsigned long long)s.bytes, s.nranks, s.nnodes,
		       cpus == CPUS_FEW ? ", few processors"
		       : cpus           ? ", shared processors"
					: "");
	}
}

/*
 * The built-in rules.  Two ranks choose as they did when the ring began at 128 KiB whatever the ranks; with
 * more ranks it begins at 32 KiB a rank.  Of allgather and reduce_scatter it begins where the ranks of a node bring
 * 16 KiB together, from 4 ranks on: a ring crosses the port of each node once.
 */
static void test_builtin(void)
{
	static const struct choice want[] = {
		{COLL_KIND_ALLREDUCE, 2, 1, 8, "recursive_doubling"},
		{COLL_KIND_ALLREDUCE, 2, 1, 32 << 10, "recursive_doubling"},
		{COLL_KIND_ALLREDUCE, 2, 1, (32 << 10) + 1, "rabenseifner"},
		{COLL_KIND_ALLREDUCE, 2, 2, 128 << 10, "rabenseifner"},
		{COLL_KIND_ALLREDUCE, 2, 1, (128 << 10) + 1, "ring"},
		{COLL_KIND_ALLREDUCE, 2, 1, 1 << 20, "ring"},
		{COLL_KIND_ALLREDUCE, 2, 2, 16 << 20, "ring"},
		{COLL_KIND_ALLREDUCE, 4, 1, (128 << 10) + 1, "ring"},
		{COLL_KIND_ALLREDUCE, 16, 1, (512 << 10) - 1, "rabenseifner"},
		{COLL_KIND_ALLREDUCE, 16, 1, 512 << 10, "ring"},
		{COLL_KIND_ALLREDUCE, 64, 1, 256 << 10, "rabenseifner"},
		{COLL_KIND_ALLREDUCE, 64, 1, 2 << 20, "ring"},
		{COLL_KIND_ALLREDUCE, 64, 8, 32 << 10, "two_level"},
		{COLL_KIND_ALLREDUCE, 64, 8, (32 << 10) + 1, "rabenseifner"},
		{COLL_KIND_ALLREDUCE, 64, 64, 32 << 10, "recursive_doubling"},
		{COLL_KIND_ALLREDUCE, 2, 2, 512 << 10, "ring"},
		{COLL_KIND_ALLREDUCE, 16, 16, 4 << 20, "rabenseifner"},
		{COLL_KIND_ALLREDUCE, 16, 16, (4 << 20) + 16, "ring"},
		{COLL_KIND_ALLREDUCE, 16, 2, 1 << 20, "ring"},
		{COLL_KIND_ALLREDUCE, 16, 1, 4 << 20, "ring"},
		{COLL_KIND_ALLREDUCE, 12, 12, 1 << 20, "ring"},
		{COLL_KIND_ALLREDUCE, 24, 3, (192 << 10) - 1, "rabenseifner"},
		{COLL_KIND_ALLREDUCE, 24, 3, 192 << 10, "ring"},
		{COLL_KIND_ALLREDUCE, 24, 1, 192 << 10, "rabenseifner"},
		{COLL_KIND_ALLREDUCE, 32, 4, (512 << 10) - 1, "rabenseifner"},
		{COLL_KIND_ALLREDUCE, 32, 4, 512 << 10, "ring"},
		{COLL_KIND_ALLREDUCE, 16, 2, 256 << 10, "rabenseifner"},
		{COLL_KIND_ALLREDUCE, 32768, 4096, (uint64_t)4 << 30, "ring"},
		{COLL_KIND_ALLREDUCE, 32769, 4096, (uint64_t)4 << 30, "rabenseifner"},
		{COLL_KIND_ALLGATHER, 8, 1, 8, "pairwise"},
		{COLL_KIND_ALLGATHER, 4, 1, 1 << 24, "pairwise"},
		{COLL_KIND_ALLGATHER, 8, 1, 256 << 10, "pairwise"},
		{COLL_KIND_ALLGATHER, 8, 1, (256 << 10) + 1, "ring"},
		{COLL_KIND_ALLGATHER, 8, 8, 256 << 10, "pairwise"},
		{COLL_KIND_ALLGATHER, 4, 4, 1 << 20, "ring"},
		{COLL_KIND_ALLGATHER, 9, 9, 1 << 24, "ring"},
		{COLL_KIND_ALLGATHER, 4, 2, 8, "recursive_doubling"},
		{COLL_KIND_ALLGATHERV, 8, 1, 8, "pairwise"},
		{COLL_KIND_ALLGATHERV, 8, 4, 8, "ring"},
		{COLL_KIND_ALLGATHER, 16, 16, 8 << 10, "recursive_doubling"},
		{COLL_KIND_ALLGATHER, 16, 1, 8 << 10, "recursive_doubling"},
		{COLL_KIND_ALLGATHER, 16, 8, 8 << 10, "recursive_doubling"},
		{COLL_KIND_ALLGATHER, 16, 4, (4 << 10) - 1, "recursive_doubling"},
		{COLL_KIND_ALLGATHER, 16, 4, 4 << 10, "ring"},
		{COLL_KIND_ALLGATHER, 64, 8, (2 << 10) - 1, "recursive_doubling"},
		{COLL_KIND_ALLGATHER, 64, 8, 2 << 10, "ring"},
		{COLL_KIND_ALLGATHER, 48, 3, 1 << 10, "ring"},
		{COLL_KIND_REDUCE_SCATTER, 64, 64, 4 << 10, "recursive_halving"},
		{COLL_KIND_REDUCE_SCATTER, 64, 8, (2 << 10) - 1, "recursive_halving"},
		{COLL_KIND_REDUCE_SCATTER, 64, 8, 2 << 10, "ring"},
		{COLL_KIND_REDUCE_SCATTER, 7, 7, 8, "pairwise"},
		{COLL_KIND_REDUCE_SCATTER, 8, 8, (4 << 10) - 1, "recursive_halving"},
		{COLL_KIND_REDUCE_SCATTER, 8, 8, 16 << 10, "pairwise"},
		{COLL_KIND_REDUCE_SCATTER, 8, 8, (16 << 10) + 1, "ring"},
		{COLL_KIND_REDUCE_SCATTER, 9, 9, 8, "recursive_halving"},
		{COLL_KIND_REDUCE_SCATTER, 8, 1, 8, "recursive_halving"},
		{COLL_KIND_REDUCE_SCATTER, 2, 2, 8, "recursive_halving"},
		{COLL_KIND_BROADCAST, 4, 1, 1 << 20, "binomial"},
		{COLL_KIND_BROADCAST, 5, 1, (128 << 10) + 1, "scatter_allgather"},
		{COLL_KIND_BROADCAST, 64, 1, (256 << 10) - 1, "binomial"},
		{COLL_KIND_BROADCAST, 64, 1, 256 << 10, "scatter_allgather"},
		{COLL_KIND_BROADCAST, 16, 16, (32 << 20) - 1, "scatter_allgather"},
		{COLL_KIND_BROADCAST, 16, 16, 32 << 20, "chain"},
		{COLL_KIND_BROADCAST, 16, 2, 32 << 20, "chain"},
		{COLL_KIND_BROADCAST, 16, 1, 32 << 20, "scatter_allgather"},
		{COLL_KIND_BROADCAST, 2, 2, 32 << 20, "binomial"},
		{COLL_KIND_BROADCAST, 4, 4, 512 << 10, "scatter_allgather"},
		{COLL_KIND_BROADCAST, 4, 4, (512 << 10) - 1, "binomial"},
		{COLL_KIND_REDUCE, 4, 1, 1 << 20, "binomial"},
		{COLL_KIND_REDUCE, 4, 4, 256 << 10, "scatter_gather"},
		{COLL_KIND_REDUCE, 4, 4, (256 << 10) - 1, "binomial"},
		{COLL_KIND_REDUCE, 16, 1, (64 << 10) + 1, "scatter_gather"},
		{COLL_KIND_REDUCE, 64, 1, (256 << 10) - 1, "binomial"},
		{COLL_KIND_REDUCE, 64, 1, 256 << 10, "scatter_gather"},
		{COLL_KIND_SCAN, 4, 1, 1 << 20, "doubling"},
		{COLL_KIND_SCAN, 4, 1, 2 << 20, "chain"},
		{COLL_KIND_SCAN, 16, 1, 4 << 20, "doubling"},
		{COLL_KIND_EXSCAN, 16, 1, 5 << 20, "chain"},
		{COLL_KIND_EXSCAN, 64, 1, 12 << 20, "doubling"},
		{COLL_KIND_EXSCAN, 64, 1, 16 << 20, "chain"},
	};
	test_choices(want, sizeof(want) / sizeof(want[0]), CPUS_OWN);
}

/* Ranks that take turns on the processors of one node: short calls go over rank 0. */
static void test_builtin_shared(void)
{
	static const struct choice want[] = {
		{COLL_KIND_ALLREDUCE, 2, 1, 8, "recursive_doubling"},
		{COLL_KIND_ALLREDUCE, 3, 1, 4 << 10, "linear"},
		{COLL_KIND_ALLREDUCE, 3, 1, (4 << 10) + 1, "recursive_doubling"},
		{COLL_KIND_ALLREDUCE, 64, 8, 8, "two_level"},
		{COLL_KIND_ALLGATHER, 4, 1, 8, "pairwise"},
		{COLL_KIND_ALLGATHER, 5, 1, 512, "linear"},
		{COLL_KIND_ALLGATHER, 5, 1, 513, "pairwise"},
		{COLL_KIND_ALLGATHER, 9, 1, 513, "bruck"},
		{COLL_KIND_REDUCE_SCATTER, 3, 1, 512, "linear"},
		{COLL_KIND_REDUCE_SCATTER, 3, 1, 513, "recursive_halving"},
		{COLL_KIND_ALLTOALL, 8, 1, 8, "pairwise"},
		{COLL_KIND_ALLTOALL, 9, 1, 8, "bruck"},
		{COLL_KIND_BROADCAST, 16, 1, 8, "binomial"},
		{COLL_KIND_REDUCE, 16, 1, 8, "binomial"},
		{COLL_KIND_BARRIER, 2, 1, 0, "dissemination"},
		{COLL_KIND_BARRIER, 3, 1, 0, "linear"},
		{COLL_KIND_BARRIER, 3, 2, 0, "dissemination"},
	};
	static const struct choice few[] = {
		{COLL_KIND_ALLREDUCE, 3, 1, 64 << 10, "linear"},
		{COLL_KIND_ALLREDUCE, 3, 1, (64 << 10) + 1, "rabenseifner"},
		{COLL_KIND_ALLGATHER, 4, 1, 8, "pairwise"},
		{COLL_KIND_ALLGATHER, 5, 1, 8 << 10, "linear"},
		{COLL_KIND_ALLGATHER, 5, 1, (8 << 10) + 1, "pairwise"},
		{COLL_KIND_REDUCE_SCATTER, 4, 1, 513, "recursive_halving"},
		{COLL_KIND_REDUCE_SCATTER, 5, 1, 8 << 10, "linear"},
		{COLL_KIND_REDUCE_SCATTER, 5, 1, (8 << 10) + 1, "ring"},
		{COLL_KIND_BROADCAST, 2, 1, 8, "binomial"},
		{COLL_KIND_BROADCAST, 3, 1, 1 << 24, "linear"},
		{COLL_KIND_BROADCAST, 64, 1, 8, "linear"},
		{COLL_KIND_BROADCAST, 64, 2, 8, "binomial"},
		{COLL_KIND_REDUCE, 16, 1, 64 << 10, "linear"},
		{COLL_KIND_REDUCE, 16, 1, (64 << 10) + 1, "scatter_gather"},
	};
	test_choices(want, sizeof(want) / sizeof(want[0]), CPUS_SHARED);
	test_choices(few, sizeof(few) / sizeof(few[0]), CPUS_FEW);
}

static void test_reach(void)
{
	struct selection t =
		with("recursive_doubling bytes 0-64 ranks 4-, ring, recursive_doubling", 0);
	const char *why;
	int32_t reach;

	is_int(info_rule_reach(&t, 0, 4, 0, &reach, &why), 0, "rule 0 on 4 ranks");
	is_int(reach, COLL_REACH_CALLS, "counts");
	is_int(info_rule_reach(&t, 0, 3, 0, &reach, &why), 0, "rule 0 on 3 ranks");
	is_int(reach, COLL_REACH_NONE, "never counts");
	is_str(why, "the rule is for other numbers of ranks", "said");
	is_int(info_rule_reach(&t, 1, 3, 1, &reach, &why), 0, "rule 1");
	is_int(reach, COLL_REACH_CALLS, "counts");
	is_int(info_rule_reach(&t, 2, 3, 1, &reach, &why), 0, "rule 2");
	is_int(reach, COLL_REACH_ORDERED, "for operations that do not commute");
	is_str(why, "only operations that do not commute reach the rule", "said");
	t = with("ring block 1K-, recursive_doubling bytes -4K, rabenseifner", 0);
	is_int(info_rule_reach(&t, 2, 5, 1, &reach, &why), 0, "rule 2 on 5 ranks");
	is_int(reach, COLL_REACH_CALLS, "counts, between 4 KiB and 5 KiB");
	is_int(info_rule_reach(&t, 2, 4, 1, &reach, &why), 0, "rule 2 on 4 ranks");
	is_int(reach, COLL_REACH_ORDERED, "not there: the ring begins at 4 KiB");
	t = with("ring local 3, recursive_doubling nodes -2, rabenseifner local 4-", 0);
	is_int(info_rule_reach(&t, 0, 16, 0, &reach, &why), 0, "3 ranks a node of 16");
	is_int(reach, COLL_REACH_CALLS, "counts, on 5 nodes");
	is_int(info_rule_reach(&t, 0, 16, 4, &reach, &why), 0, "on 4 nodes");
	is_int(reach, COLL_REACH_NONE, "never counts");
	is_str(why, "the rule is for other numbers of ranks a node", "said");
	is_int(info_rule_reach(&t, 2, 12, 0, &reach, &why), 0, "4 ranks a node of 12");
	is_int(reach, COLL_REACH_CALLS, "counts, on 3 nodes");
	t = with("ring bytes -4K block 2K-", 0);
	is_int(info_rule_reach(&t, 0, 2, 1, &reach, &why), 0, "4K and 2K a rank, on 2 ranks");
	is_int(reach, COLL_REACH_CALLS, "one size");
	is_int(info_rule_reach(&t, 0, 3, 1, &reach, &why), 0, "on 3 ranks");
	is_int(reach, COLL_REACH_NONE, "none");
	is_str(why, "no size is in both bytes and block on so many ranks", "said");
	t = with("ring, ring ranks 2", 0);
	is_int(info_rule_reach(&t, 1, 2, 1, &reach, &why), 0, "behind a rule for every call");
	is_int(reach, COLL_REACH_NONE, "nobody gets there");
	is_str(why, "earlier rules take every call", "said");
	is_int(info_rule_reach(&t, 1, 4, 1, &reach, &why), 0, "on other ranks");
	is_str(why, "the rule is for other numbers of ranks", "said");
	is_int(info_rule_reach(&t, -1, 2, 1, &reach, &why), COLL_ERR_INVALID_ARGUMENT, "before");
	is_int(info_rule_reach(&t, info_rule_count(&t), 2, 1, &reach, &why),
	       COLL_ERR_INVALID_ARGUMENT, "beyond");
	is_int(info_rule_reach(&t, 0, 0, 0, &reach, &why), COLL_ERR_INVALID_ARGUMENT, "no ranks");
	is_int(info_rule_reach(&t, 0, 2, 3, &reach, &why), COLL_ERR_INVALID_ARGUMENT, "more nodes");
}

/* -------------------------------------------------------------------------- fuzz -- */

static uint64_t fuzz_state = 88172645463325252u;

static uint32_t fuzz_random(uint32_t below)
{
	fuzz_state ^= fuzz_state << 13;
	fuzz_state ^= fuzz_state >> 7;
	fuzz_state ^= fuzz_state << 17;
	return (uint32_t)(fuzz_state >> 33) % below;
}

static void fuzz_add(char *text, size_t size, const char *piece)
{
	size_t len = strlen(text);

	snprintf(text + len, size - len, "%s", piece);
}

static void fuzz_range(char *text, size_t size, const char *name, int sizes)
{
	static const char *const units[] = {"", "", "K", "M"};
	const uint32_t low = 1 + fuzz_random(12), high = low + fuzz_random(12);
	const char *unit = sizes ? units[fuzz_random(4)] : "";
	char range[64];

	switch (fuzz_random(4)) {
	case 0: snprintf(range, sizeof(range), " %s %u%s-%u%s", name, low, unit, high, unit); break;
	case 1: snprintf(range, sizeof(range), " %s %u%s-", name, low, unit); break;
	case 2: snprintf(range, sizeof(range), " %s -%u%s", name, high, unit); break;
	default: snprintf(range, sizeof(range), " %s %u%s", name, low, unit); break;
	}
	fuzz_add(text, size, range);
}

/* Draws valid rules for the kind. */
static void fuzz_rules(int kind, char *text, size_t size)
{
	static const char *const cpus[] = {" cpus own", " cpus shared", " cpus few"};
	int row[64], rows = 0;

	for (int i = 0; i < algo_count() && rows < 64; i++)
		if (algo_at(i)->kind == kind)
			row[rows++] = i;
	text[0] = '\0';
	for (uint32_t n = rows ? fuzz_random(6) : 0; n; n--) {
		fuzz_add(text, size, text[0] ? ", " : "");
		fuzz_add(text, size, algo_at(row[fuzz_random((uint32_t)rows)])->name);
		if (rules_take_bytes(kind) && fuzz_random(2))
			fuzz_range(text, size, "bytes", 1);
		if (rules_take_block(kind) && fuzz_random(3) == 0)
			fuzz_range(text, size, "block", 1);
		if (fuzz_random(3) == 0)
			fuzz_range(text, size, "ranks", 0);
		if (fuzz_random(3) == 0)
			fuzz_range(text, size, "nodes", 0);
		if (fuzz_random(3) == 0)
			fuzz_range(text, size, "local", 0);
		if (fuzz_random(6) == 0)
			fuzz_add(text, size, fuzz_random(2) ? " memory host" : " memory cuda");
		if (fuzz_random(6) == 0)
			fuzz_add(text, size, cpus[fuzz_random(3)]);
		if (fuzz_random(4) == 0)
			fuzz_add(text, size, fuzz_random(2) ? " power two" : " power other");
	}
}

static int fuzz_has(int row, uint32_t requirements)
{
	uint32_t flags = algo_at(row)->flags;

	if (flags & COLL_ALGORITHM_CANONICAL)
		flags |= COLL_ALGORITHM_ORDERED;
	return (flags & requirements) == requirements;
}

static int fuzz_is_power(int nranks)
{
	int power = 1;

	while (power < nranks)
		power *= 2;
	return power == nranks;
}

/* Does the choice agree with the definition in rules.h and selection.h? */
static int fuzz_right(const struct selection *t, const struct call_description *s,
		      uint32_t requirements, int row)
{
	const struct rules *r = &t->rules[s->kind - 1];
	const struct algo *a;

	for (int i = 0; i < r->count + algo_count(); i++) {
		const struct rule *rule = i < r->count ? &r->rule[i] : NULL;
		const int candidate = rule ? rule->algorithm : i - r->count;

		a = algo_at(candidate);
		if (a->kind != s->kind || !fuzz_has(candidate, requirements))
			continue;
		if (!algo_fits(a, s->nranks, s->nnodes))
			continue;
		if (!rule || (s->bytes >= rule->bytes_min && s->bytes <= rule->bytes_max &&
			      s->bytes / (uint64_t)s->nranks >= rule->block_min &&
			      s->bytes / (uint64_t)s->nranks <= rule->block_max &&
			      s->nranks >= rule->ranks_min && s->nranks <= rule->ranks_max &&
			      s->nnodes >= rule->nodes_min && s->nnodes <= rule->nodes_max &&
			      s->nranks / s->nnodes >= rule->local_min &&
			      s->nranks / s->nnodes <= rule->local_max &&
			      rule->power >> !fuzz_is_power(s->nranks) & 1 &&
			      (s->memory & rule->memory) == s->memory && rule->cpus & 1 << s->cpus))
			return row == candidate;
	}
	return row == -1;
}

static void test_fuzz_choice(void)
{
	static const uint32_t requirements[] = {0, COLL_ALGORITHM_ORDERED,
						COLL_ALGORITHM_CANONICAL};
	int wrong = 0, refused = 0, differ = 0, found = 0;
	char fault[800];
	struct selection one, other;
	char text[1024];

	for (int round = 0; round < 4000; round++) {
		struct call_description s = {.kind = 1 + (int)fuzz_random(RULES_KINDS)};

		memset(&one, 0, sizeof(one));
		memset(&other, 0, sizeof(other));
		fuzz_rules(s.kind, text, sizeof(text));
		if (text[0]) {
			refused += rules_parse(s.kind, text, &one.rules[s.kind - 1], fault,
					       sizeof(fault)) != 0;
			refused += rules_parse(s.kind, text, &other.rules[s.kind - 1], fault,
					       sizeof(fault)) != 0;
		}
		for (int k = 0; k < 50; k++) {
			const uint32_t need = requirements[fuzz_random(3)];

			s.nranks = 1 + (int)fuzz_random(20);
			s.nnodes = 1 + (int)fuzz_random((uint32_t)s.nranks);
			s.bytes = (uint64_t)fuzz_random(26) << 10 * fuzz_random(3);
			s.memory = fuzz_random(4) ? COLL_MEM_HOST : COLL_MEM_CUDA;
			s.cpus = (int)fuzz_random(CPUS_KINDS);
			int row = choose_algorithm(&one, &s, need);

			differ += row != choose_algorithm(&other, &s, need);
			wrong += !fuzz_right(&one, &s, need, row);
			found += row >= 0;
		}
	}
	is_int(refused, 0, "4000 tables of right rules are all read");
	is_int(differ, 0, "200000 calls: two ranks choose the same");
	is_int(wrong, 0, "and what the rules say, never what does not fit or lacks what is needed");
	ok(found > 1000, "%d of them found an algorithm", found);
}

enum { FUZZ_CALLS = 26 * 3 * 2 * 2 * 2 * CPUS_KINDS };

/*
 * The i-th of the calls between which a range of fuzz_range can begin or end, in both kinds of memory and on all
 * kinds of processors.
 */
static void fuzz_call(struct call_description *s, int i)
{
	s->memory = i % 2 ? COLL_MEM_HOST : COLL_MEM_CUDA;
	i /= 2;
	s->cpus = i % CPUS_KINDS;
	i /= CPUS_KINDS;
	s->bytes = ((uint64_t)(i / 12) << 10 * (i / 4 % 3)) + (uint64_t)(i % 2);
	if (i / 2 % 2)
		s->bytes *= (uint64_t)s->nranks;
}

/* A rule is reachable on a number of ranks exactly if some call chooses it. */
static void test_fuzz_reach(void)
{
	int missed = 0, invented = 0;
	char fault[800];
	const char *why;
	char text[1024];
	int32_t reach;

	for (int round = 0; round < 300; round++) {
		struct call_description s = {.kind = COLL_KIND_ALLREDUCE,
					     .nranks = 1 + (int)fuzz_random(20)};
		struct selection t = {.table = 0};
		struct rules *r = &t.rules[s.kind - 1];
		int seen[RULES_MAX] = {0};

		fuzz_rules(s.kind, text, sizeof(text));
		if (!text[0] || rules_parse(s.kind, text, r, fault, sizeof(fault)))
			continue;
		for (s.nnodes = 1; s.nnodes <= s.nranks; s.nnodes++)
			for (int k = 0; k < FUZZ_CALLS; k++) {
				int i;

				fuzz_call(&s, k);
				i = choose_rule(r, &s, 0);
				if (i >= 0)
					seen[i] = 1;
			}
		for (int i = 0; i < r->count; i++) {
			info_rule_reach(&t, i, s.nranks, 0, &reach, &why);
			missed += seen[i] && reach != COLL_REACH_CALLS;
			invented += !seen[i] && reach == COLL_REACH_CALLS;
			if (!seen[i] != (reach != COLL_REACH_CALLS))
				diag("rule %d on %d ranks: %s", i + 1, s.nranks, text);
		}
	}
	is_int(missed, 0, "what calls get to is said to be reached");
	is_int(invented, 0, "and nothing else");
}

static void test_fuzz_text(void)
{
	static const char bytes[] =
		"ring,recursive_doubling bytes 0-64K ranks 4- memory host\t-,KMG";
	char fault[800];
	char text[200];
	int odd = 0, read = 0;

	for (int round = 0; round < 100000; round++) {
		const char *seed =
			"ring bytes 4-8K ranks 2-, recursive_doubling nodes -3 memory host";
		struct rules rules = {0};
		size_t len = strlen(seed);

		memcpy(text, seed, len + 1);
		for (uint32_t k = fuzz_random(5); k; k--)
			text[fuzz_random((uint32_t)len)] = bytes[fuzz_random(sizeof(bytes) - 1)];
		if (fuzz_random(4) == 0)
			text[fuzz_random((uint32_t)len)] = '\0';
		if (rules_parse(COLL_KIND_ALLREDUCE, text, &rules, fault, sizeof(fault)))
			odd += strncmp(fault, "rule ", 5) != 0;
		else
			odd += ++read && (rules.count < 1 || rules.count > RULES_GIVEN_MAX);
	}
	is_int(odd, 0, "100000 mutated texts: read, or refused with a reason");
	ok(read > 1000 && read < 99000, "%d of them read", read);
}

/* ------------------------------------------------------------- rank 0's selection -- */

enum { BLOCK_HEAD = 16, BRIEF = 2 * sizeof(uint64_t) };

/* How rank 0's selection is changed on its way to rank 1. */
struct change {
	void (*apply)(struct selection *selection);
};

static void no_segment(struct selection *s)
{
	s->segment = 0;
}

static void huge_segment(struct selection *s)
{
	s->segment = UINT64_MAX - 5;
}

static void odd_cuts(struct selection *s)
{
	s->cuts_messages = 7;
}

static void negative_node(struct selection *s)
{
	s->node_size = -3;
}

static void many_rules(struct selection *s)
{
	s->rules[COLL_KIND_BARRIER - 1].count = RULES_MAX + 1;
}

static void own_rules(struct selection *s)
{
	s->rules[0].given = s->rules[0].count + 1;
}

/*
 * Exchanges for rank 1 of two ranks that send the same.  The hash of rank 0's selection differs, so that the
 * selection comes next.
 */
static int32_t exchange_changed(void *user, const void *in, void *out, size_t len,
				int64_t timeout_ms)
{
	struct change *change = user;
	uint64_t size;

	(void)timeout_ms;
	for (size_t r = 0; r < 2; r++)
		memcpy((char *)out + r * len, in, len);
	memcpy(&size, (char *)out + BLOCK_HEAD - sizeof(size), sizeof(size));
	if (len == sizeof(struct selection))
		change->apply(out);
	else if (size == BRIEF)
		((char *)out)[BLOCK_HEAD + sizeof(uint64_t)] ^= 1;
	return 0;
}

static void is_refused(void (*apply)(struct selection *), const char *text)
{
	struct change change = {.apply = apply};
	coll_comm_t comm = NULL;
	coll_config_t config;

	coll_config_init(&config, sizeof(config));
	config.backend = "simulated";
	config.init_timeout_ms = 3000;
	is_int(coll_comm_init_exchange(&comm, 2, 1, exchange_changed, &change, &config),
	       COLL_ERR_REMOTE, "no communicator");
	has_str(coll_get_last_error(NULL), text, "the error says why");
}

static void test_altered(void)
{
	const char *top = getenv("top_builddir");
	char path[4096];

	snprintf(path, sizeof(path), "%s/.libs", top ? top : ".");
	setenv("COLL_PLUGIN_PATH", path, 1);
	is_refused(no_segment, "rank 0's option 'segment' came as 0, but goes from 4096 to");
	is_refused(huge_segment, "rank 0's option 'segment' came as 9223372036854775807, but");
	is_refused(odd_cuts,
		   "rank 0's option 'enable_gpu_fallback' came as 7, but goes from 0 to 1");
	is_refused(negative_node, "rank 0's option 'node_size' came as -3, but goes from 0 to");
	is_refused(many_rules, "rank 0's rules for barrier came as 29, ");
	is_refused(own_rules, "rank 0's rules for allreduce came as ");
}

int main(void)
{
	config_dir_begin();
	test_ranges();
	test_matches();
	test_block();
	test_local();
	test_cpus();
	test_power();
	test_refused();
	test_bytes_refused();
	test_options();
	test_reproducible();
	test_differences();
	test_choice();
	test_builtin();
	test_builtin_shared();
	test_reach();
	test_fuzz_choice();
	test_fuzz_reach();
	test_fuzz_text();
	test_altered();
	config_dir_end();
	return done_testing();
}
