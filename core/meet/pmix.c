/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix.c - the key-value store of a PMIx launcher.
 *
 * This file opens the library libpmix.so.2 at run time.  An MPI program may use PMIx too: the library counts its
 * users.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/late.h"
#include "meet/launch.h"
#include "meet/pmix_abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char pmix_library[] = "libpmix.so.2";

static struct pmix_abi_functions pmix_lib;
static pthread_mutex_t pmix_lock = PTHREAD_MUTEX_INITIALIZER; /* for the variables below */
static int pmix_is_open;
static pid_t pmix_pid; /* the process that is connected; 0: none */
static struct pmix_abi_proc pmix_self;

static int pmix_is_there(void)
{
	return launch_get("PMIX_RANK") && launch_get("PMIX_NAMESPACE");
}

/* ------------------------------------------------------------------ the library -- */

static const struct {
	const char *symbol;
	size_t at;
} pmix_functions[] = {
	{"PMIx_Init", offsetof(struct pmix_abi_functions, PMIx_Init)},
	{"PMIx_Finalize", offsetof(struct pmix_abi_functions, PMIx_Finalize)},
	{"PMIx_Put", offsetof(struct pmix_abi_functions, PMIx_Put)},
	{"PMIx_Commit", offsetof(struct pmix_abi_functions, PMIx_Commit)},
	{"PMIx_Fence_nb", offsetof(struct pmix_abi_functions, PMIx_Fence_nb)},
	{"PMIx_Get", offsetof(struct pmix_abi_functions, PMIx_Get)},
	{"PMIx_Get_nb", offsetof(struct pmix_abi_functions, PMIx_Get_nb)},
	{"PMIx_Error_string", offsetof(struct pmix_abi_functions, PMIx_Error_string)},
};

static int pmix_load(void)
{
	void *library = dlopen(pmix_library, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return error_set(COLL_ERR_UNSUPPORTED, "cannot open PMIx's library: %s", dlerror());
	for (size_t i = 0; i < sizeof(pmix_functions) / sizeof(pmix_functions[0]); i++) {
		void *function = dlsym(library, pmix_functions[i].symbol);

		if (!function) {
			dlclose(library);
			return error_set(COLL_ERR_UNSUPPORTED, "%s has no function %s",
					 pmix_library, pmix_functions[i].symbol);
		}
		memcpy((char *)&pmix_lib + pmix_functions[i].at, &function, sizeof(function));
	}
	pmix_is_open = 1;
	return COLL_SUCCESS;
}

static int pmix_refused(const char *what, int status)
{
	return error_set(COLL_ERR_SYSTEM, "PMIx: %s: %s", what, pmix_lib.PMIx_Error_string(status));
}

/*
 * Runs at exit: a launcher takes a process that ends without this call for one that failed.  A forked child is no
 * rank.
 */
static void pmix_finalize(void)
{
	if (pmix_pid == getpid())
		pmix_lib.PMIx_Finalize(NULL, 0);
}

/* The caller holds the lock. */
static int pmix_init(void)
{
	struct pmix_abi_proc self;
	int status;

	memset(&self, 0, sizeof(self));
	status = pmix_lib.PMIx_Init(&self, NULL, 0);
	if (status != PMIX_ABI_SUCCESS)
		return pmix_refused("cannot reach the launcher's daemon on this host", status);
	pmix_self = self;
	pmix_pid = getpid();
	if (atexit(pmix_finalize))
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a function that runs at exit");
	return COLL_SUCCESS;
}

/*
 * Connects to the launcher's daemon on this host, until the process ends with exit().  (Open MPI 4's daemon loses
 * messages of a process that connects a second time: 3 of 12 jobs of three hosts hung.)  COLL_ERR_UNSUPPORTED:
 * there is no library; COLL_ERR_SYSTEM: the daemon does not answer.
 */
static int pmix_connect(void)
{
	int code = COLL_SUCCESS;

	pthread_mutex_lock(&pmix_lock);
	if (!pmix_is_open)
		code = pmix_load();
	if (!code && pmix_pid && pmix_pid != getpid())
		code = error_set(COLL_ERR_UNSUPPORTED,
				 "PMIx: this process is a forked child of a rank, and no rank");
	else if (!code && !pmix_pid)
		code = pmix_init();
	pthread_mutex_unlock(&pmix_lock);
	return code;
}

/* ------------------------------------------------------------- the numbers of the job -- */

/* Returns a number about this process, or about its job, or -1: PMIx does not know it. */
static int pmix_number(uint32_t rank, const char *key)
{
	struct pmix_abi_proc proc = pmix_self;
	struct pmix_abi_value *value = NULL;
	int number = -1;

	proc.rank = rank;
	if (pmix_lib.PMIx_Get(&proc, key, NULL, 0, &value) != PMIX_ABI_SUCCESS || !value)
		return -1;
	if (value->type == PMIX_ABI_UINT32 && value->data.uint32 <= INT32_MAX)
		number = (int)value->data.uint32;
	else if (value->type == PMIX_ABI_UINT16)
		number = value->data.uint16;
	free(value);
	return number;
}

static int pmix_read_job(struct launch *launch)
{
	int code = pmix_connect();

	if (code)
		return code;
	launch->nranks = pmix_number(PMIX_ABI_RANK_WILDCARD, PMIX_ABI_JOB_SIZE);
	launch->local_nranks = pmix_number(PMIX_ABI_RANK_WILDCARD, PMIX_ABI_LOCAL_SIZE);
	launch->local_rank = pmix_number(pmix_self.rank, PMIX_ABI_LOCAL_RANK);
	return launch->nranks > 0
		       ? COLL_SUCCESS
		       : error_set(COLL_ERR_SYSTEM,
				   "PMIx: the launcher does not say how many ranks its job has");
}

/* ------------------------------------------------------------------- put and get -- */

static int pmix_put(const char *key, const char *text)
{
	struct pmix_abi_value value = {.type = PMIX_ABI_STRING};
	char *copy = strdup(text);
	int status;

	if (!copy)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a text of %zu bytes",
				 strlen(text));
	value.data.string = copy; /* PMIx copies it */
	status = pmix_lib.PMIx_Put(PMIX_ABI_GLOBAL, key, &value);
	free(copy);
	if (status == PMIX_ABI_SUCCESS)
		status = pmix_lib.PMIx_Commit();
	return status == PMIX_ABI_SUCCESS ? COLL_SUCCESS
					  : pmix_refused("cannot store rank 0's address", status);
}

/* The answer to one question, from a thread of PMIx. */
struct pmix_answer {
	struct late late;
	int status;
	char text[1024];
};

static void pmix_answer_leave(struct pmix_answer *answer)
{
	if (late_leave(&answer->late))
		free(answer);
}

static struct pmix_answer *pmix_answer_new(void)
{
	struct pmix_answer *answer = calloc(1, sizeof(*answer));

	if (answer)
		late_init(&answer->late);
	return answer;
}

static void pmix_answer_give(struct pmix_answer *answer, int status, const char *text)
{
	answer->status = status;
	snprintf(answer->text, sizeof(answer->text), "%s", text);
	late_give(&answer->late);
	pmix_answer_leave(answer);
}

static void pmix_fence_done(int status, void *user)
{
	pmix_answer_give(user, status, "");
}

static void pmix_get_done(int status, struct pmix_abi_value *value, void *user)
{
	int has_text = status == PMIX_ABI_SUCCESS && value && value->type == PMIX_ABI_STRING &&
		       value->data.string;

	pmix_answer_give(user, status, has_text ? value->data.string : "");
}

/*
 * The end of a question: `status` is the status of asking, and the answer may still have to come.  Returns the answer's
 * text in `text` unless that is NULL.
 */
static int pmix_finish(struct pmix_answer *answer, int status, char *text, size_t size,
		       int64_t timeout_ms, int64_t stall_at)
{
	const int64_t deadline = clock_deadline(timeout_ms);
	int code = COLL_SUCCESS;

	if (status != PMIX_ABI_SUCCESS)
		pmix_answer_give(answer, status, ""); /* PMIx will not */
	if (stall_at < deadline && !late_wait(&answer->late, clock_remaining(stall_at)))
		launch_store_stalled(&pmix_store);
	if (!late_wait(&answer->late, clock_remaining(deadline)))
		code = launch_store_timed_out(&pmix_store, timeout_ms);
	else if (answer->status != PMIX_ABI_SUCCESS)
		code = pmix_refused("cannot get rank 0's address", answer->status);
	else if (text)
		snprintf(text, size, "%s", answer->text);
	pmix_answer_leave(answer);
	return code;
}

static int pmix_fence(int64_t timeout_ms, int64_t stall_at)
{
	struct pmix_answer *answer = pmix_answer_new();
	static const struct pmix_abi_info collect = {
		.key = PMIX_ABI_COLLECT_DATA, .value = {.type = PMIX_ABI_BOOL, .data.flag = 1}};

	if (!answer)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for rank 0's address");
	return pmix_finish(answer,
			   pmix_lib.PMIx_Fence_nb(NULL, 0, &collect, 1, pmix_fence_done, answer),
			   NULL, 0, timeout_ms, stall_at);
}

static int pmix_get(const char *key, char *text, size_t size, int64_t timeout_ms)
{
	struct pmix_answer *answer = pmix_answer_new();
	struct pmix_abi_proc root = pmix_self;

	if (!answer)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for rank 0's address");
	root.rank = 0;
	return pmix_finish(answer, pmix_lib.PMIx_Get_nb(&root, key, NULL, 0, pmix_get_done, answer),
			   text, size, timeout_ms, INT64_MAX);
}

const struct launch_store pmix_store = {.name = "PMIx",
					.is_there = pmix_is_there,
					.connect = pmix_connect,
					.put = pmix_put,
					.fence = pmix_fence,
					.get = pmix_get,
					.read_job = pmix_read_job};
