/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.h - the parts of `coll run`: options (run.c), starting processes (spawn.c, bind.c, environment.c, nccl.c), the job's life
 * (job.c), its processes (watch.c), its output and input (output.c).
 */
#ifndef TOOLS_RUN_H
#define TOOLS_RUN_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct tool_command;
extern const struct tool_command tool_run;

enum {
	RUN_MAX_RANKS = 1024,
	RUN_MAX_CPUS = 1024,         /* CPU_SETSIZE */
	RUN_LINE_MAX = 16384,        /* longer lines are passed on in pieces */
	RUN_READ_MAX = 4096,         /* bytes of one read from a rank */
	RUN_WRITER_SIZE = 1 << 18,   /* buffered output for the reader of our output */
	RUN_WRITER_SPACE = 64 * 1024 /* more bytes than one read can become with prefixes */
};

/* Where a rank may run. */
enum run_bind {
	RUN_BIND_SHARE, /* on its share of the processors, if there are as many as ranks */
	RUN_BIND_CORE,  /* on one processor, round robin */
	RUN_BIND_NONE
};

struct run_options {
	int nranks;
	int prefix; /* 1: put "[rank] " before each line */
	int input;  /* 1: rank 0 reads our standard input */
	enum run_bind bind;
	int64_t grace_ms;
	int64_t timeout_ms; /* 0: none */
	const char *backend;
	int nccl;   /* 1: the program was built for NCCL, and finds libcoll's libnccl.so.2 */
	char **env; /* env_count strings "NAME=value" */
	int env_count;
	char **argv; /* the program and its arguments */
};

/* Bytes on their way to one of our own outputs; a write never blocks. */
struct run_writer {
	int fd;
	int failed; /* errno of the write that failed; later bytes are dropped */
	size_t start, used;
	char *data; /* RUN_WRITER_SIZE */
};

/* One output of one rank; fd is -1 when it has ended. */
struct run_stream {
	int fd;
	size_t used;
	char line[RUN_LINE_MAX]; /* bytes of the unfinished line */
};

/* Standard input for rank 0 if rank 0 cannot inherit ours (run_input_open). */
struct run_input {
	int from, to; /* -1: closed */
	size_t start, used;
	char data[RUN_READ_MAX];
};

struct run_rank {
	pid_t pid; /* process id and process group of the rank; 0: not started */
	int exited;
	struct run_stream stream[2]; /* stdout, stderr */
};

struct run_children {
	pid_t *pid;
	int n, space;
};

enum run_stage {
	RUN_RUNNING,
	RUN_INTERRUPTED, /* the user has asked for the end; the ranks have the grace period to end */
	RUN_TERMINATING, /* every process has got SIGTERM */
	RUN_KILLING
};

struct run_cpu {
	int package, core; /* -1: unknown */
	int cpu;
};

/* The processors on which the job may run. */
struct run_cpus {
	int n;
	struct run_cpu cpu[RUN_MAX_CPUS];
};

struct run_job {
	const struct run_options *options;
	struct run_rank *rank;
	int started, alive;
	/* processes that outlived the rank that started them */
	struct run_children leftovers;
	/* children that this process had before it became the launcher, and their children: not the job's */
	struct run_children inherited;
	int failed;     /* 1: the exit status is decided */
	int status;     /* the exit status */
	int interrupts; /* number of SIGINT, SIGTERM and SIGHUP */
	int interrupt;  /* the last of these signals */
	enum run_stage stage;
	int64_t deadline; /* end of the stage, ms; 0: none */
	sigset_t
		ignored; /* signals that were ignored when the launcher began: they begin no grace period */
	int64_t timeout_at; /* 0: none */
	int64_t drained_at; /* time until which the launcher passes output on; 0: until its end */
	struct run_writer writer[2];
	struct run_input input;
	/* used by spawn.c */
	struct run_cpus cpus;
	pid_t watchdog;
	int watchdog_fd; /* the watchdog kills the job when this pipe closes */
	int exec_fd[2];  /* a child writes errno here if its exec fails */
	int port_fd;     /* socket that reserves the port of COLL_ROOT */
	int torch_fd;    /* socket that reserves MASTER_PORT */
	char torch_port[8];
	char root[64];                /* COLL_ROOT */
	char key[33];                 /* COLL_KEY */
	char nccl[4096];              /* the folder of libcoll's libnccl.so.2, or "" */
	char nccl_preload[4096 + 16]; /* path of the library; "": LD_PRELOAD cannot name it */
	sigset_t old_mask; /* settings that the launcher changes and each rank gets back */
	struct rlimit files;
	int sigpipe_ignored;
	int signal_fd;
};

/* job.c: runs the job to its end.  Returns the exit status. */
int run_job(const struct run_options *options);

/* bind.c: finds the processors, before the ranks start. */
void run_bind_prepare(struct run_cpus *cpus, enum run_bind how);
/* Binds this process, which becomes rank r. */
void run_bind(const struct run_cpus *cpus, enum run_bind how, int r, int nranks);

/* environment.c: sets the variables of this process, which becomes rank r. */
void run_environment(const struct run_job *job, int r);

/* nccl.c: finds libcoll's libnccl.so.2.  Returns 0, or -1 after a line on stderr. */
int run_find_nccl(struct run_job *job);

/*
 * spawn.c: reserves the port, makes the key, starts the watchdog.  Returns 0, or -1 after a line on
 * stderr.
 */
int run_prepare(struct run_job *job);
/* Starts rank r.  Returns 0, or -1 after a line on stderr. */
int run_spawn(struct run_job *job, int r);
/* Returns the errno if a rank could not execute the program, else 0. */
int run_exec_error(struct run_job *job);
/* Ends the watchdog and closes the descriptors of run_prepare; accepts half-prepared jobs. */
void run_unprepare(struct run_job *job);

/* watch.c: prints a line on stderr, between the lines of the ranks. */
__attribute__((format(printf, 2, 3))) void run_say(struct run_job *job, const char *fmt, ...);
/* Decides the exit status, once, and prints the reason. */
__attribute__((format(printf, 3, 4))) void run_fail(struct run_job *job, int status,
						    const char *fmt, ...);
void run_signal_groups(struct run_job *job, int signo);
/* Lists the children of this process, living and dead, and their descendants.  Returns 0, or -1 without memory. */
int run_list_inherited(struct run_children *inherited);
/*
 * Checks the orphans that the kernel gave to the launcher: children that are neither ranks nor the watchdog nor inherited.
 * Reaps the dead, lists the living in job->leftovers, and sends signo (if not 0) to the living.
 */
void run_look_at_leftovers(struct run_job *job, int signo);
/* Records the ranks that have exited.  The first failure decides the status and ends the job. */
void run_look_at_ranks(struct run_job *job);
/* Begins the grace period of ranks that have got a signal of the user. */
void run_interrupt(struct run_job *job);
/*
 * Sends SIGTERM to every process of the job and, after the grace period, calls run_kill, which
 * sends SIGKILL.  The grace period of an interrupted job has begun already.
 */
void run_terminate(struct run_job *job);
void run_kill(struct run_job *job);

/* output.c */
int run_writer_open(struct run_writer *writer, int fd);
int run_writer_has_space(const struct run_writer *writer);
void run_writer_put(struct run_writer *writer, const char *data, size_t len);
/* Writes as many bytes as the reader takes now. */
void run_writer_flush(struct run_writer *writer);
/* Passes on the bytes that the stream has now.  rank < 0: no prefix. */
void run_stream_read(struct run_stream *stream, int rank, struct run_writer *writer);
/* Passes on a last line without end and closes the stream. */
void run_stream_close(struct run_stream *stream, int rank, struct run_writer *writer);

/*
 * Returns the descriptor of rank 0's standard input, or -1.  A rank is in a background process
 * group, where a read from the terminal would stop it.  So if standard input is a terminal, rank 0
 * gets the read end of a pipe that the launcher fills.  Rank 0 inherits any other kind of standard
 * input.
 */
int run_input_open(struct run_input *input);
/* May the launcher read the terminal now, and has the pipe space? */
int run_input_wants(const struct run_input *input);
void run_input_read(struct run_input *input);
void run_input_write(struct run_input *input);
void run_input_close(struct run_input *input);

#endif
