/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * functions.c - counts the functions of libcoll.so that an 8-byte allreduce over tcp and the coll_sync after it enter on
 * one rank, when the call is the first one and when it repeats an earlier one.  For functions.t, which builds the library
 * with -finstrument-functions: then each function calls __cyg_profile_func_enter, which is the program's.
 *
 *   functions [list]    list: the functions too, as offsets in the library
 */
#include <coll/coll.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_HOOK __attribute__((no_instrument_function))

enum { RANKS = 2, MOST = 4096, REPEATS = 8 };

static coll_comm_t comms[RANKS];
static double in[RANKS], out[RANKS];
static void *entered[MOST];
static int count, counts;

void __cyg_profile_func_enter(void *function, void *site) NO_HOOK;
void __cyg_profile_func_exit(void *function, void *site) NO_HOOK;

void __cyg_profile_func_enter(void *function, void *site)
{
	(void)site;
	if (!counts)
		return;
	for (int i = 0; i < count; i++)
		if (entered[i] == function)
			return;
	if (count < MOST)
		entered[count++] = function;
}

void __cyg_profile_func_exit(void *function, void *site)
{
	(void)function;
	(void)site;
}

static NO_HOOK void check(int code, const char *what)
{
	if (!code)
		return;
	fprintf(stderr, "functions: %s: %s\n", what, coll_get_last_error(NULL));
	exit(1);
}

/* Rank 0's part is counted. */
static NO_HOOK void allreduce(void)
{
	for (int r = 0; r < RANKS; r++) {
		counts = !r;
		check(coll_allreduce(&in[r], &out[r], 1, COLL_FLOAT64, COLL_SUM, comms[r], NULL),
		      "coll_allreduce");
	}
	for (int r = 0; r < RANKS; r++) {
		counts = !r;
		check(coll_sync(comms[r]), "coll_sync");
	}
	counts = 0;
}

/* Those of the library; the plugin has copies of some. */
static NO_HOOK int of_library(int list)
{
	Dl_info info;
	int n = 0;

	for (int i = 0; i < count; i++) {
		if (!dladdr(entered[i], &info) || !strstr(info.dli_fname, "libcoll.so"))
			continue;
		n++;
		if (list)
			printf("0x%zx\n", (size_t)((char *)entered[i] - (char *)info.dli_fbase));
	}
	return n;
}

NO_HOOK int main(int argc, char **argv)
{
	const int list = argc == 2 && !strcmp(argv[1], "list");
	int first;

	check(coll_comm_init_all(comms, RANKS, NULL, NULL), "coll_comm_init_all");
	allreduce();
	first = of_library(list);
	for (int i = 0; i < REPEATS; i++)
		allreduce();
	count = 0;
	allreduce();
	printf("first %d\n", first);
	printf("repeated %d\n", of_library(list));
	for (int r = 0; r < RANKS; r++)
		check(coll_comm_destroy(comms[r]), "coll_comm_destroy");
	return 0;
}
