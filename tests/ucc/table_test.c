/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table_test.c - the table in plugins/ucc/README.md of the calls that UCC does, beside what the plugin hands to a stand-in
 * for UCC: every kind of call with every type and operation, on one rank.
 */
#include "../lib/ranks.h"
#include "standin.h"

enum { LINE = 512, TYPES = COLL_INT64_INT32 + 1, KINDS = COLL_KIND_EXSCAN + 1 };

static struct ucc_standin *standin;
static coll_comm_t comm;

/* By kind and type: the names of the operations that UCC does, or "" */
static char operations[KINDS][TYPES][LINE];

static int is_type(int dtype)
{
	return dtype <= COLL_FLOAT8E5M2 || dtype >= COLL_INT16;
}

static int is_message(int kind)
{
	return kind == COLL_KIND_SEND || kind == COLL_KIND_RECV;
}

static int reduces(int kind)
{
	return kind == COLL_KIND_ALLREDUCE || kind == COLL_KIND_REDUCE ||
	       kind == COLL_KIND_REDUCE_SCATTER || kind == COLL_KIND_REDUCE_SCATTERV ||
	       kind == COLL_KIND_SCAN || kind == COLL_KIND_EXSCAN;
}

/* ------------------------------------------------------------------------ calls -- */

/* Does UCC do this call?  A message goes to its sender. */
static int by_ucc(int kind, int dtype, int op)
{
	static const size_t count = 1, displacement = 0;
	static double send[2], recv[2];
	coll_args_t args = {.size = sizeof(args),
			    .kind = kind,
			    .dtype = dtype,
			    .op = op,
			    .sendbuf = send,
			    .recvbuf = recv,
			    .count = 1,
			    .sendcounts = &count,
			    .senddispls = &displacement,
			    .recvcounts = &count,
			    .recvdispls = &displacement};
	coll_request_t request = NULL, other = NULL;
	int code;

	standin->collectives = 0;
	coll_group_start();
	code = coll_request_issue(comm, &args, &request);
	args.kind = COLL_KIND_SEND + COLL_KIND_RECV - kind;
	if (!code && is_message(kind))
		code = coll_request_issue(comm, &args, &other);
	if (coll_group_end() || coll_sync(comm) || (code && code != COLL_ERR_INVALID_ARGUMENT))
		bail_out("%s of %s: %s", coll_kind_name(kind), coll_dtype_name(dtype),
			 coll_get_last_error(NULL));
	coll_request_free(request);
	coll_request_free(other);
	return standin->collectives > 0;
}

/* An operation that coll.h has not for the type is in no row. */
static void find_operations(int kind, int dtype)
{
	char *text = operations[kind][dtype];
	size_t at = 0;

	for (int op = COLL_SUM; op <= COLL_MAXLOC; op++)
		if (by_ucc(kind, dtype, op))
			at += (size_t)snprintf(text + at, LINE - at, "%s%s", at ? ", " : "",
					       coll_op_name(op));
}

static void find_all(void)
{
	for (int kind = COLL_KIND_ALLREDUCE; kind < KINDS; kind++)
		for (int dtype = 0; dtype < TYPES; dtype++) {
			if (!is_type(dtype))
				continue;
			if (reduces(kind))
				find_operations(kind, dtype);
			else if (by_ucc(kind, dtype, COLL_SUM))
				snprintf(operations[kind][dtype], LINE, "moves data");
		}
}

/* ------------------------------------------------------------------------ table -- */

static char readme[1 << 16];

static void read_readme(void)
{
	const char *top = getenv("top_srcdir");
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/plugins/ucc/README.md", top ? top : ".");
	f = fopen(path, "r");
	if (!f)
		bail_out("cannot read %s", path);
	readme[fread(readme, 1, sizeof(readme) - 1, f)] = '\0';
	fclose(f);
}

static int same_kind(int a, int b)
{
	return !memcmp(operations[a], operations[b], sizeof(operations[a]));
}

static int is_first_kind(int kind)
{
	for (int k = COLL_KIND_ALLREDUCE; k < kind; k++)
		if (same_kind(k, kind))
			return 0;
	return 1;
}

/* "allreduce, reduce": the kinds for which UCC does the same as for this one. */
static void kinds_like(int kind, char *text)
{
	size_t at = 0;

	for (int k = kind; k < KINDS; k++)
		if (same_kind(k, kind))
			at += (size_t)snprintf(text + at, LINE - at, "%s%s", at ? ", " : "",
					       coll_kind_name(k));
}

/* The types for which UCC does the same operations as for this one; 0: a type before it is one of them. */
static int types_like(int kind, int dtype, char *text)
{
	int all = 1;
	size_t at = 0;

	for (int d = 0; d < TYPES; d++) {
		if (!is_type(d))
			continue;
		if (strcmp(operations[kind][d], operations[kind][dtype]) != 0) {
			all = 0;
			continue;
		}
		if (d < dtype)
			return 0;
		at += (size_t)snprintf(text + at, LINE - at, "%s%s", at ? ", " : "",
				       coll_dtype_name(d));
	}
	if (all)
		snprintf(text, LINE, "all");
	return 1;
}

static void check_row(int kind, int dtype, const char *types)
{
	const char *by = operations[kind][dtype];
	char row[4 * LINE], kinds[LINE];

	kinds_like(kind, kinds);
	snprintf(row, sizeof(row), "| %s | %s | %s |\n", kinds, types, by[0] ? by : "none");
	if (!ok(strstr(readme, row) != NULL, "README: %s of %s", kinds, types))
		diag("the row should be %s", row);
}

static int count_rows(const char *from)
{
	const char *row = strstr(from, "|---|");
	int n = 0;

	while (row && (row = strchr(row, '\n')) && row[1] == '|') {
		row++;
		n++;
	}
	return n;
}

static void check_table(void)
{
	const char *table = strstr(readme, "| calls | types | operations that UCC does |\n");
	char types[LINE];
	int n = 0;

	for (int kind = COLL_KIND_ALLREDUCE; kind < KINDS; kind++)
		for (int dtype = 0; is_first_kind(kind) && dtype < TYPES; dtype++)
			if (is_type(dtype) && types_like(kind, dtype, types)) {
				check_row(kind, dtype, types);
				n++;
			}
	if (ok(table != NULL, "README has the table"))
		is_int(count_rows(table), n, "README has no other row");
}

int main(void)
{
	char id[COLL_UNIQUE_ID_SIZE];
	coll_config_t config;

	ranks_plugins(".libs", NULL);
	standin = standin_open();
	read_readme();
	ranks_config(&config, "ucc");
	if (coll_get_unique_id(id, sizeof(id)) || coll_comm_init_rank(&comm, 1, id, 0, &config))
		bail_out("%s", coll_get_last_error(NULL));
	find_all();
	coll_comm_destroy(comm);
	check_table();
	return done_testing();
}
