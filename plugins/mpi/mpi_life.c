/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_life.c - the life of MPI in this process.  A program may initialise MPI before the plugin does, and then finalises MPI
 * itself.  Otherwise the plugin initialises MPI when the first endpoint opens, and finalises MPI when the process ends.
 */
#include "mpi_plugin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Serialises the start of MPI. */
static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;
/* Threads inside MPI have it to read, or below MPI_THREAD_MULTIPLE to write; the end of MPI has it to write. */
static pthread_rwlock_t life_use = PTHREAD_RWLOCK_INITIALIZER;
static int life_level; /* 0 at first: MPI_THREAD_SINGLE is no other number anywhere */
static int life_known; /* 1: life_level is MPI's */
static int life_own;   /* 1: the plugin has initialised MPI */
static pid_t life_pid; /* the process that the plugin uses MPI in; 0: none yet */
static atomic_int
	life_ending;         /* 1: MPI is about to be finalised, and no further thread enters it */
static atomic_int life_over; /* 1: the endpoints have ended */

enum {
	LIFE_END_MS =
		2000, /* longest wait for threads that are inside MPI while MPI is finalised */
	LIFE_SETTLE_MS = 2000, /* longest wait for ranks that have not said goodbye */
	LIFE_NAP_US = 10
};

/* -------------------------------------------------------------------- the launcher -- */

/* Variables with the rank in MPI_COMM_WORLD that launchers of MPI set, and with the number of ranks; NULL at the end. */
static const char *const life_ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};
static const char *const life_sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
/* Variables that name a job. */
static const char *const life_jobs[] = {"PMIX_NAMESPACE", "PMI_JOBID", "I_MPI_HYDRA_UUID", NULL};

/* Returns the first of the variables that is set, or NULL. */
static const char *life_variable(const char *const *names)
{
	for (; *names; names++) {
		const char *value = secure_getenv(*names);

		if (value && value[0])
			return value;
	}
	return NULL;
}

/*
 * Returns the number that the variables agree on, or -1: a launcher inherits the variables of a launcher that has started it.
 */
static int life_number(const char *const *names)
{
	const char *first = life_variable(names);
	const int number = first ? atoi(first) : -1;

	for (; *names; names++) {
		const char *value = secure_getenv(*names);

		if (value && value[0] && atoi(value) != number)
			return -1;
	}
	return number;
}

void mpi_launcher(struct mpi_launcher *launcher)
{
	const char *job = life_variable(life_jobs);

	launcher->rank = life_number(life_ranks);
	launcher->size = life_number(life_sizes);
	snprintf(launcher->job, sizeof(launcher->job), "%s", job ? job : "");
}

int mpi_is_initialized(void)
{
	int is = 0;

	return !mpi.initialized(&is) && is;
}

static int life_is_finalized(void)
{
	int is = 0;

	return !mpi.finalized(&is) && is;
}

int32_t mpi_life_expect(coll_error_t *err)
{
	if (life_variable(life_ranks) || mpi_library_is_there())
		return COLL_SUCCESS;
	return error_fill(err, COLL_ERR_PLUGIN,
			  "no launcher of MPI has started this process: start it with the mpiexec "
			  "of your MPI, or with srun --mpi=pmi2 or --mpi=pmix, or initialise MPI "
			  "before");
}

int mpi_is_forked(void)
{
	return life_pid && life_pid != getpid();
}

int32_t mpi_life_check(coll_error_t *err)
{
	if (mpi_is_forked())
		return error_fill(
			err, COLL_ERR_PLUGIN,
			"this process was forked from process %d, which uses MPI, and MPI "
			"would take both for the same rank: start each rank as a process "
			"of mpiexec",
			(int)life_pid);
	return life_is_finalized() ? mpi_life_ended(err) : COLL_SUCCESS;
}

int32_t mpi_life_ended(coll_error_t *err)
{
	return error_fill(err, COLL_ERR_PLUGIN,
			  "this process has finalised MPI, which cannot start again: make the "
			  "communicator before MPI_Finalize");
}

/* ----------------------------------------------------------------------- threads -- */

const char *mpi_level_name(int level)
{
	return level == MPI_THREAD_MULTIPLE     ? "MPI_THREAD_MULTIPLE"
	       : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
	       : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
						: "MPI_THREAD_SINGLE";
}

/* Does COLL_BACKEND name this backend? */
static int life_is_named(void)
{
	const char *list = secure_getenv("COLL_BACKEND");

	while (list && *list) {
		size_t n;

		list += strspn(list, " \t,");
		n = strcspn(list, " \t,");
		if (n == 3 && !strncmp(list, "mpi", n))
			return 1;
		list += n;
	}
	return 0;
}

/* Below MPI_THREAD_MULTIPLE the plugin cannot keep the program's own calls of MPI apart from its own. */
static int32_t life_check_level(const coll_host_t *host, coll_error_t *err)
{
	static atomic_int told;
	const char *only = life_level == MPI_THREAD_SERIALIZED
				   ? ""
				   : ", and only the thread that initialised MPI may call libcoll, "
				     "with the option progress = caller";

	if (life_level == MPI_THREAD_MULTIPLE)
		return COLL_SUCCESS;
	if (!life_is_named())
		return error_fill(
			err, COLL_ERR_UNSUPPORTED,
			"MPI was initialised with %s: initialise it with "
			"MPI_THREAD_MULTIPLE, or set COLL_BACKEND=mpi and see to it that no "
			"call of MPI overlaps with a call of libcoll%s",
			mpi_level_name(life_level), only);
	if (!atomic_exchange(&told, 1))
		kit_log(host, COLL_LOG_WARN,
			"MPI was initialised with %s: the program's calls of MPI must not overlap "
			"with its calls of libcoll%s",
			mpi_level_name(life_level), only);
	return COLL_SUCCESS;
}

int mpi_is_serial(void)
{
	return life_level != MPI_THREAD_MULTIPLE;
}

/* A thread that comes too late waits until the endpoints have ended, since their end touches them. */
int mpi_enter(void)
{
	if (!atomic_load(&life_ending)) {
		if (mpi_is_serial())
			pthread_rwlock_wrlock(&life_use);
		else
			pthread_rwlock_rdlock(&life_use);
		if (!atomic_load(&life_ending))
			return 1;
		pthread_rwlock_unlock(&life_use);
	}
	while (!atomic_load(&life_over))
		clock_nap(LIFE_NAP_US);
	return 0;
}

void mpi_leave(void)
{
	pthread_rwlock_unlock(&life_use);
}

/* ------------------------------------------------------------------ start and end -- */

/*
 * Ends all endpoints, once.  Returns 1 if no thread is inside MPI and all ranks of the failed endpoints have said goodbye
 * within `settle_ms`.  The endpoints stay as they are while a thread does not leave MPI.
 */
static int life_end(int64_t settle_ms)
{
	struct timespec until;
	int settled = 0;

	if (atomic_exchange(&life_ending, 1))
		return 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LIFE_END_MS / 1000;
	if (!pthread_rwlock_timedwrlock(&life_use, &until)) {
		settled = mpi_settle(settle_ms);
		mpi_end_all();
		pthread_rwlock_unlock(&life_use);
	}
	atomic_store(&life_over, 1);
	return settled;
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first, while MPI still works: the endpoints end there. */
static int life_at_end(MPI_Comm comm, int keyval, void *value, void *extra)
{
	(void)comm;
	(void)keyval;
	(void)value;
	(void)extra;
	life_end(0);
	return MPI_SUCCESS;
}

/* The attribute stays with MPI_COMM_SELF. */
static int life_copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
	(void)comm;
	(void)keyval;
	(void)extra;
	(void)in;
	(void)out;
	*flag = 0;
	return MPI_SUCCESS;
}

static int32_t life_hang_in(coll_error_t *err)
{
	int keyval = MPI_KEYVAL_INVALID;
	int result = mpi.comm_create_keyval(life_copy, life_at_end, &keyval, NULL);

	if (!result)
		result = mpi.comm_set_attr(MPI_COMM_SELF, keyval, NULL);
	return result ? mpi_refused(err, result, "MPI_Comm_set_attr") : COLL_SUCCESS;
}

static int32_t life_begin(coll_error_t *err)
{
	int result = MPI_SUCCESS, level = MPI_THREAD_SINGLE;

	if (life_known)
		return COLL_SUCCESS;
	if (mpi_is_initialized())
		result = mpi.query_thread(&level);
	else
		life_own = !(result = mpi.init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level));
	if (result)
		return mpi_refused(err, result, "MPI cannot start");
	/* Open MPI takes the error of a request without a communicator to MPI_COMM_WORLD, which by default ends the job. */
	if (life_own)
		mpi.comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	life_level = level;
	life_pid = getpid();
	life_known = 1;
	return life_hang_in(err);
}

int32_t mpi_life_begin(const coll_host_t *host, coll_error_t *err)
{
	int32_t code;

	pthread_mutex_lock(&life_lock);
	code = mpi_life_check(err);
	if (!code)
		code = life_begin(err);
	if (!code)
		code = life_check_level(host, err);
	pthread_mutex_unlock(&life_lock);
	return code;
}

/* Without MPI_Finalize the launcher may end the job; but a rank in MPI_Finalize waits for dead ranks without a limit. */
void mpi_finish(void)
{
	if (life_own && !mpi_is_forked() && !life_is_finalized() && life_end(LIFE_SETTLE_MS) &&
	    !mpi_watch_seen())
		mpi.finalize();
}
