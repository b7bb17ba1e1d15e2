/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.h - the parts of `coll run`: options (run.c), starting processes (spawn.c), the job's
 * life (job.c), its output and input (output.c).
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
	RUN_LINE_MAX = 16384,        /* a longer line is passed on in pieces */
	RUN_READ_MAX = 4096,         /* read from a rank at once */
	RUN_WRITER_SIZE = 1 << 18,   /* output under way to whoever reads ours */
	RUN_WRITER_SPACE = 64 * 1024 /* more than one read can grow to with prefixes */
};

struct run_options {
	int nranks;
	int prefix; /* put "[rank] " before each line */
	int input;  /* rank 0 reads our standard input */
	int bind;   /* one core for each rank, in turn */
	int64_t grace_ms;
	int64_t timeout_ms; /* 0: none */
	const char *backend;
	char **env; /* "NAME=value", env_count of them */
	int env_count;
	char **argv; /* the program and its arguments */
};

/* Bytes on their way to one of our own outputs; never blocks. */
struct run_writer {
	int fd;
	int failed; /* errno of the write that failed; what follows is dropped */
	size_t start, used;
	char *data; /* RUN_WRITER_SIZE */
};

/* One output of one rank; fd is -1 when it has ended. */
struct run_stream {
	int fd;
	size_t used;
	char line[RUN_LINE_MAX]; /* begun, not ended yet */
};

/* Standard input for rank 0 where it cannot have ours: see run_input_open. */
struct run_input {
	int from, to; /* -1: closed */
	size_t start, used;
	char data[RUN_READ_MAX];
};

struct run_rank {
	pid_t pid; /* leads a process group of the same number; 0: not started */
	int exited;
	struct run_stream stream[2]; /* stdout, stderr */
};

enum run_stage { RUN_RUNNING, RUN_TERMINATING, RUN_KILLING };

struct run_job {
	const struct run_options *options;
	struct run_rank *rank;
	int started, alive;
	int leftovers;  /* processes that outlived the rank that began them */
	int failed;     /* status is decided */
	int status;     /* the exit status to be */
	int interrupts; /* SIGINT, SIGTERM, SIGHUP seen */
	enum run_stage stage;
	int64_t deadline;   /* of the stage, ms; 0: none */
	int64_t timeout_at; /* 0: none */
	struct run_writer writer[2];
	struct run_input input;
	/* for spawn.c */
	pid_t watchdog;
	int watchdog_fd;   /* the guard kills the job when this closes */
	int exec_fd[2];    /* errno of an exec that failed */
	int port_fd;       /* keeps the port of COLL_ROOT */
	char root[64];     /* COLL_ROOT */
	char key[33];      /* COLL_KEY */
	sigset_t old_mask; /* what the ranks get back */
	struct rlimit files;
	int sigpipe_ignored;
	int signal_fd;
};

/* job.c: runs the job to its end; returns the exit status. */
int run_job(const struct run_options *options);

/* spawn.c: port, key, guard.  0, or -1 with a line on stderr. */
int run_prepare(struct run_job *job);
/* Starts rank r.  0, or -1 with a line on stderr. */
int run_spawn(struct run_job *job, int r);
/* If a rank could not run the program: the errno, else 0. */
int run_exec_error(struct run_job *job);
/* Ends the guard and closes what run_prepare opened; accepts half-prepared jobs. */
void run_unprepare(struct run_job *job);

/* watch.c.  A line on stderr, among the ranks' own. */
__attribute__((format(printf, 2, 3))) void run_say(struct run_job *job, const char *fmt, ...);
/* Decides the exit status, once, and says why. */
__attribute__((format(printf, 3, 4))) void run_fail(struct run_job *job, int status,
						    const char *fmt, ...);
void run_signal_groups(struct run_job *job, int signo);
/*
 * Looks at our children that are neither ranks nor the guard: processes that lost their parent and
 * came to us.  Reaps the dead, sends signo (if not 0) to the living, and counts those.
 */
void run_look_at_leftovers(struct run_job *job, int signo);
/* Notes which ranks have exited; the first failure decides the status and ends the job. */
void run_look_at_ranks(struct run_job *job);
/* SIGTERM to every process of the job, then, after the grace, SIGKILL by run_kill. */
void run_terminate(struct run_job *job);
void run_kill(struct run_job *job);

/* output.c */
int run_writer_open(struct run_writer *writer, int fd);
int run_writer_has_space(const struct run_writer *writer);
void run_writer_put(struct run_writer *writer, const char *data, size_t len);
/* Writes what can be written now. */
void run_writer_flush(struct run_writer *writer);
/* Passes on what the stream has now; rank < 0: no prefix. */
void run_stream_read(struct run_stream *stream, int rank, struct run_writer *writer);
/* Passes on a last line without end and closes. */
void run_stream_close(struct run_stream *stream, int rank, struct run_writer *writer);

/*
 * A rank is in a background process group, where reading from the terminal would stop it: so there
 * rank 0 gets a pipe (its end for reading is the result) and the launcher fills it.  Any other
 * kind of standard input is simply inherited.  Returns the descriptor for rank 0, or -1.
 */
int run_input_open(struct run_input *input);
/* Would reading the terminal be allowed now, and is there room? */
int run_input_wants(const struct run_input *input);
void run_input_read(struct run_input *input);
void run_input_write(struct run_input *input);
void run_input_close(struct run_input *input);

#endif
