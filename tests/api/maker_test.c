/* SPDX-License-Identifier: BSD-3-Clause */
/* maker_test.c - the unique id of a communicator comes from another rank than 0, or from a process that has no rank. */
#include "../lib/ranks.h"

enum { NRANKS = 3 };

/* The communicator and those that are made from it work. */
static void use(struct rank *r)
{
	coll_comm_t child = NULL;

	if (!is_rank(r, r->comm, r->rank, NRANKS) || !sums_to(r, r->comm, r->rank, 3, "the sum"))
		return;
	if (rank_did(r, coll_comm_split(r->comm, r->rank == 1, -r->rank, &child, NULL), "split"))
		sums_to(r, child, r->rank, r->rank == 1 ? 1 : 2, "the sum in a split");
	if (child)
		rank_did(r, coll_comm_destroy(child), "destroy");
}

static void test_maker(const char *backend)
{
	struct ranks_job job = {.backend = backend, .nranks = NRANKS, .processes = 1, .fn = use};

	if (!ranks_can(backend))
		return;
	for (ranks_maker = 1; ranks_maker < NRANKS; ranks_maker++)
		ranks_ok(&job, "rank %d makes the unique id", ranks_maker);
	ranks_maker = 0;
}

/* Rank 1 is a process of its own; this process, which made the id, runs no rank. */
static void test_no_rank(void)
{
	char *text = ranks_memory(RANKS_TEXT), id[COLL_UNIQUE_ID_SIZE];
	coll_config_t config;
	coll_comm_t comm;
	int status = 0;
	pid_t pid;

	ranks_config(&config, "tcp");
	config.init_timeout_ms = 500;
	if (coll_get_unique_id(id, 128))
		bail_out("%s", coll_get_last_error(NULL));
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int code = coll_comm_init_rank(&comm, 2, id, 1, &config);

		snprintf(text, RANKS_TEXT, "%s", coll_get_last_error(NULL));
		_exit(code == COLL_ERR_TIMEOUT);
	}
	ok(ranks_reap(pid, ranks_now() + 60, &status) && WIFEXITED(status) && WEXITSTATUS(status),
	   "the maker has no rank: the others have a timeout");
	has_str(text, "the maker of the unique id (usually rank 0) of 2 has not been heard from",
		"which says whom they miss");
	has_str(text, "accepts connections, but nobody answers",
		"and that the id's socket listens");
	has_str(text, "(the process that made the unique id must be a rank of the job",
		"so the maker may be no rank");
	munmap(text, RANKS_TEXT);
}

/* Rank 0's host lacks the interface that its option names; this process, rank 1, has made the id. */
static void test_wrong_interface(void)
{
	char id[COLL_UNIQUE_ID_SIZE];
	coll_config_t config;
	coll_comm_t comm;
	int status = 0;
	pid_t pid;

	ranks_config(&config, "tcp");
	if (coll_get_unique_id(id, 128))
		bail_out("%s", coll_get_last_error(NULL));
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("COLL_INTERFACE", "nosuch0", 1);
		_exit(coll_comm_init_rank(&comm, 2, id, 0, &config) == COLL_ERR_CONFIG);
	}
	is_int(coll_comm_init_rank(&comm, 2, id, 1, &config), COLL_ERR_CONFIG,
	       "rank 0 has no such interface: the maker of the id hears of it");
	has_str(coll_get_last_error(NULL), "rank 0: option 'interface'", "with rank 0's reason");
	ok(ranks_reap(pid, ranks_now() + 60, &status) && WIFEXITED(status) && WEXITSTATUS(status),
	   "rank 0 has the same error");
}

int main(void)
{
	test_maker("tcp");
	test_maker("ucx");
	test_no_rank();
	test_wrong_interface();
	return done_testing();
}
