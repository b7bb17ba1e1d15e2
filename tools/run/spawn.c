/* SPDX-License-Identifier: BSD-3-Clause */
/* spawn.c - prepares a job and starts its ranks. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "run/run.h"

/* Returns advice about an error of the system. */
static const char *spawn_advice(int error)
{
	switch (error) {
	case EMFILE: return "; raise the limit (ulimit -n), or start fewer ranks";
	case ENFILE: return "; the machine has too many open files (fs.file-max)";
	case EAGAIN:
		return "; raise the limit of processes and threads (ulimit -u, or pids.max of the "
		       "container), or start fewer ranks";
	default: return "";
	}
}

static int spawn_error(const char *what)
{
	fprintf(stderr, "coll run: %s: %s%s\n", what, strerror(errno), spawn_advice(errno));
	return -1;
}

/* Reports a rank that cannot start.  `what` ends before the name of the rank. */
static int spawn_rank_error(const struct run_job *job, int r, const char *what)
{
	const int error = errno;
	char text[160];

	snprintf(text, sizeof(text), "%s rank %d of %d", what, r, job->options->nranks);
	errno = error;
	return spawn_error(text);
}

/* ----------------------------------------------------------- root and key -- */

/*
 * Finds a free port.  The socket stays bound for the life of the job, without listening.  So the kernel gives the port
 * to no process that asks for any port, while rank 0, if it sets SO_REUSEADDR as the launcher does, can bind and listen
 * there.
 */
static int spawn_reserve_port(int *fd, uint32_t address, char port[8])
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t len = sizeof(addr);
	int one = 1;

	addr.sin_addr.s_addr = htonl(address);
	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0 || setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(*fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 ||
	    getsockname(*fd, (struct sockaddr *)&addr, &len) != 0)
		return spawn_error("cannot find a free port");
	snprintf(port, 8, "%u", (unsigned)ntohs(addr.sin_port));
	return 0;
}

/* Rank 0 of a PyTorch program listens on all addresses. */
static int spawn_reserve_ports(struct run_job *job)
{
	char port[8];

	if (spawn_reserve_port(&job->port_fd, INADDR_LOOPBACK, port) ||
	    spawn_reserve_port(&job->torch_fd, INADDR_ANY, job->torch_port))
		return -1;
	snprintf(job->root, sizeof(job->root), "127.0.0.1:%s", port);
	return 0;
}

static int spawn_make_key(struct run_job *job)
{
	unsigned char bytes[16];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return spawn_error("no random bytes for the key of the job");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(job->key + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* ------------------------------------------------------------------ watchdog -- */

/*
 * Reads the ranks' process ids until the pipe closes.  The launcher kills the watchdog before it
 * closes the pipe.  So if the watchdog still runs then, the launcher died by SIGKILL or a fault.
 * The watchdog then kills whole process groups, because the death signal of a rank does not reach
 * the processes that the rank started.
 */
__attribute__((noreturn)) static void watchdog_run(int fd)
{
	pid_t ranks[RUN_MAX_RANKS], pid;
	int n = 0;

	while (read(fd, &pid, sizeof(pid)) == (ssize_t)sizeof(pid))
		if (n < RUN_MAX_RANKS)
			ranks[n++] = pid;
	while (n-- > 0)
		kill(-ranks[n], SIGKILL);
	_exit(0);
}

/*
 * Closes all descriptors of the watchdog except its pipe: an inherited output would keep the reader of our output from
 * seeing its end.
 */
static void watchdog_close_others(int fd)
{
	int null = open("/dev/null", O_RDWR);
	long most = sysconf(_SC_OPEN_MAX);

	for (int i = 0; i < 3; i++)
		dup2(null, i);
	for (int i = 3; i < most && i < 65536; i++)
		if (i != fd)
			close(i);
}

static int spawn_watchdog(struct run_job *job)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return spawn_error("cannot make a pipe");
	job->watchdog = fork();
	if (job->watchdog == 0) {
		/*
		 * The watchdog gets a session of its own, so that a signal that ends the launcher's
		 * session spares it.
		 */
		setsid();
		prctl(PR_SET_NAME, "coll-watchdog");
		watchdog_close_others(ends[0]);
		watchdog_run(ends[0]);
	}
	close(ends[0]);
	job->watchdog_fd = ends[1];
	return job->watchdog < 0 ? spawn_error("cannot start a process") : 0;
}

/* ------------------------------------------------------------------- rank -- */

/* Runs in the new process.  input: descriptor for standard input, or -1: none. */
__attribute__((noreturn)) static void child_run(const struct run_job *job, int r, pid_t launcher,
						int input, const int *outputs)
{
	char *const *argv = job->options->argv;
	int error;

	setpgid(0, 0);
	/* If the launcher has already died, no death signal will come. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != launcher)
		_exit(1);
	if (input < 0)
		input = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (dup2(input, STDIN_FILENO) < 0 || dup2(outputs[0], STDOUT_FILENO) < 0 ||
	    dup2(outputs[1], STDERR_FILENO) < 0)
		_exit(1);
	run_environment(job, r);
	run_bind(&job->cpus, job->options->bind, r, job->options->nranks);
	setrlimit(RLIMIT_NOFILE, &job->files);
	signal(SIGPIPE, job->sigpipe_ignored ? SIG_IGN : SIG_DFL);
	sigprocmask(SIG_SETMASK, &job->old_mask, NULL);
	execvp(argv[0], argv);
	error = errno;
	if (write(job->exec_fd[1], &error, sizeof(error)) < 0)
		_exit(1);
	_exit(error == ENOENT ? 127 : 126);
}

/* Makes pipes for both outputs.  The read ends go to the rank's streams, the write ends to `outputs`. */
static int spawn_pipes(struct run_job *job, int r, int outputs[2])
{
	for (int i = 0; i < 2; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) != 0)
			return spawn_rank_error(job, r,
						"cannot make the two pipes for the output of");
		/* The rank's end stays blocking, as programs expect. */
		fcntl(ends[0], F_SETFL, O_NONBLOCK);
		job->rank[r].stream[i].fd = ends[0];
		outputs[i] = ends[1];
	}
	return 0;
}

static void spawn_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

int run_spawn(struct run_job *job, int r)
{
	struct run_rank *rank = &job->rank[r];
	pid_t launcher = getpid(), pid = -1;
	int outputs[2] = {-1, -1}, input = -1;

	if (spawn_pipes(job, r, outputs) == 0) {
		if (r == 0 && job->options->input)
			input = run_input_open(&job->input);
		pid = fork();
		if (pid == 0)
			child_run(job, r, launcher, input, outputs);
		if (pid < 0)
			spawn_rank_error(job, r, "cannot start the process of");
	}
	spawn_close(outputs[0]);
	spawn_close(outputs[1]);
	spawn_close(input);
	if (pid < 0)
		return -1;
	/* The parent sets the group too, since a signal to the group may come before the child has run. */
	setpgid(pid, pid);
	rank->pid = pid;
	if (write(job->watchdog_fd, &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
		return spawn_error("the watchdog process has ended: cannot start a rank");
	return 0;
}

int run_exec_error(struct run_job *job)
{
	int error;

	return read(job->exec_fd[0], &error, sizeof(error)) == (ssize_t)sizeof(error) ? error : 0;
}

/* ------------------------------------------------------------ preparation -- */

/* Two pipes for each rank need more than the usual limit of 1024 descriptors. */
static void spawn_raise_files(struct run_job *job)
{
	struct rlimit more;

	getrlimit(RLIMIT_NOFILE, &job->files);
	more = job->files;
	more.rlim_cur = more.rlim_max;
	setrlimit(RLIMIT_NOFILE, &more);
}

int run_prepare(struct run_job *job)
{
	/*
	 * Processes that outlive the rank that started them become the launcher's children, not
	 * init's.
	 */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return spawn_error("cannot become the reaper of the job's processes");
	if (run_list_inherited(&job->inherited) != 0)
		return spawn_error("cannot list the processes that are not the job's");
	if (job->options->nccl && run_find_nccl(job) != 0)
		return -1;
	run_bind_prepare(&job->cpus, job->options->bind);
	if (spawn_reserve_ports(job) || spawn_make_key(job) || spawn_watchdog(job))
		return -1;
	if (pipe2(job->exec_fd, O_CLOEXEC | O_NONBLOCK) != 0)
		return spawn_error("cannot make a pipe");
	spawn_raise_files(job);
	return 0;
}

void run_unprepare(struct run_job *job)
{
	if (job->watchdog > 0) {
		kill(job->watchdog, SIGKILL);
		waitpid(job->watchdog, NULL, 0);
	}
	spawn_close(job->watchdog_fd);
	spawn_close(job->exec_fd[0]);
	spawn_close(job->exec_fd[1]);
	spawn_close(job->port_fd);
	spawn_close(job->torch_fd);
}
