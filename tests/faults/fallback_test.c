/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fallback_test.c - one rank cannot open the backend of the highest priority: all ranks give it up together
 * and take the next one; a warning names the backend, the rank and the reason.  A backend that was named
 * is an error instead.
 */
#include "../lib/ranks.h"

enum { NRANKS = 3 };

/* Results of all ranks. */
struct report {
	int code[NRANKS];
	char text[NRANKS][RANKS_TEXT];
	char used[NRANKS][32];
};

static void fill(struct report *report, int rank, coll_comm_t comm, coll_result_t code)
{
	const char *name = NULL;
	struct rank r = {comm, rank, NRANKS, NULL, report->text[rank]};

	report->code[rank] = code;
	if (code) {
		snprintf(report->text[rank], RANKS_TEXT, "%s", coll_get_last_error(NULL));
		return;
	}
	if (!coll_comm_backend(comm, &name))
		snprintf(report->used[rank], sizeof(report->used[rank]), "%s", name);
	sums_to(&r, comm, rank + 1, NRANKS * (NRANKS + 1) / 2, "allreduce");
}

/* One process for each rank; stderr of all of them goes to `file`. */
static void run_processes(const char *backend, struct report *report, FILE *file)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	pid_t pids[NRANKS];
	int status;

	fflush(stdout);
	for (int r = 0; r < NRANKS; r++) {
		pids[r] = fork();
		if (pids[r] == 0) {
			struct rank rank = {NULL, r, NRANKS, NULL, shared->failure[r]};
			coll_config_t config;
			int code;

			dup2(fileno(file), 2);
			ranks_config(&config, backend);
			code = ranks_init(&rank, shared, &config) ? COLL_SUCCESS : COLL_ERR_SYSTEM;
			fill(report, r, rank.comm, code);
			if (rank.comm)
				coll_comm_destroy(rank.comm);
			exit(0);
		}
	}
	for (int r = 0; r < NRANKS; r++)
		if (!ranks_reap(pids[r], ranks_now() + 60, &status) || status)
			diag("rank %d ended with %#x", r, (unsigned)status);
	munmap(shared, sizeof(*shared));
}

/* All ranks in threads of init_all; stderr is redirected meanwhile. */
static void run_threads(const char *backend, struct report *report, FILE *file)
{
	coll_comm_t comms[NRANKS] = {NULL};
	coll_config_t config;
	const char *name = NULL;
	int saved = dup(2), code;

	dup2(fileno(file), 2);
	ranks_config(&config, backend);
	code = coll_comm_init_all(comms, NRANKS, NULL, &config);
	dup2(saved, 2);
	close(saved);
	for (int r = 0; r < NRANKS; r++) {
		report->code[r] = code;
		snprintf(report->text[r], RANKS_TEXT, "%s", code ? coll_get_last_error(NULL) : "");
		if (!code && !coll_comm_backend(comms[r], &name))
			snprintf(report->used[r], sizeof(report->used[r]), "%s", name);
		if (comms[r])
			coll_comm_destroy(comms[r]);
	}
}

static const char *read_all(FILE *file)
{
	static char text[1 << 16];
	size_t n;

	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

/* Every rank uses `used`, or has an error with the reason and the rank. */
static void expect(const struct report *report, const char *used, const char *how)
{
	for (int r = 0; r < NRANKS; r++) {
		int right = used ? !report->code[r] && !report->text[r][0] &&
					    !strcmp(report->used[r], used)
				 : report->code[r] && strstr(report->text[r], "no room in") &&
					    strstr(report->text[r], "rank 1");

		if (!ok(right, "%s: rank %d %s", how, r, used ? used : "gets the error"))
			diag("code %d, backend '%s': %s", report->code[r], report->used[r],
			     report->text[r]);
	}
}

static void test(const char *backend, const char *when, const char *used, int threads)
{
	struct report *report = ranks_memory(sizeof(*report));
	FILE *file = tmpfile();
	const char *text;
	char how[96];

	if (!file)
		bail_out("no temporary file");
	snprintf(how, sizeof(how), "%s, %s, open fails %s the exchange",
		 backend ? backend : "by priority", threads ? "threads" : "processes", when);
	setenv("COLL_RELUCTANT_WHEN", when, 1);
	if (threads)
		run_threads(backend, report, file);
	else
		run_processes(backend, report, file);
	text = read_all(file);
	expect(report, used, how);
	if (used && !ok(strstr(text, "backend 'reluctant' is given up") &&
				strstr(text, "rank 1: no room in the shared memory of this test"),
			"%s: a warning names the backend, the rank and the reason", how))
		diag("%s", text);
	munmap(report, sizeof(*report));
}

int main(void)
{
	const char *const when[] = {"before", "instead", "after"};

	ranks_plugins(".libs", "tests/plugins/.libs");
	setenv("COLL_RELUCTANT_RANK", "1", 1);
	setenv("COLL_TCP_PRIORITY", "999", 1);
	for (int i = 0; i < 3; i++) {
		test(NULL, when[i], "tcp", 0);
		test(NULL, when[i], "tcp", 1);
		test("reluctant", when[i], NULL, 0);
		test("reluctant,tcp", when[i], NULL, 1);
	}
	/* Threads of one process do not see that another one has failed before they exchange. */
	test(NULL, "while", "tcp", 0);
	test("reluctant", "while", NULL, 0);
	return done_testing();
}
