/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dump.c - reads the files that the option `dump` has ranks write (core/watch/call_log_dump.c), and the files in the same format
 * that `coll dump` writes of ranks that run.  A file may hold several dumps after one another.  The line with the names of the
 * columns says where each column is, so that files of older and newer versions are read; the description is the rest of a line.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "explain/explain.h"
#include "lib/grow.h"

enum { DUMP_LINE = 4096, DUMP_COLUMNS = 24, DUMP_RANKS_MAX = 1 << 24 };

/* Sums and multiples of times do not overflow below it. */
#define DUMP_SECONDS_MAX (INT64_MAX / 20000)

enum column {
	COLUMN_NUMBER,
	COLUMN_COLLECTIVE,
	COLUMN_KIND,
	COLUMN_DTYPE,
	COLUMN_OP,
	COLUMN_COUNT,
	COLUMN_BYTES,
	COLUMN_PEER,
	COLUMN_TAG,
	COLUMN_STATE,
	COLUMN_ISSUED,
	COLUMN_STARTED,
	COLUMN_ENDED,
	COLUMN_ALGORITHM,
	COLUMN_DESCRIPTION,
	COLUMN_UNKNOWN
};

static const char *const dump_columns[COLUMN_UNKNOWN] = {
	"number", "collective", "kind",         "dtype",     "op",
	"count",  "bytes",      "root_or_peer", "tag",       "state",
	"issued", "started",    "ended",        "algorithm", "description"};

const char *const explain_state_names[] = {"queued", "running", "submitted", "done", "failed"};

/* The rest of a text, line by line. */
struct reader {
	struct explain *e;
	const char *name, *at;
	size_t left;
	int line, ended; /* ended: the line has its newline */
	int heads;       /* in the file, also of dumps that are not used */
	int full;        /* the dump has more lines than are read */
	struct explain_dump *dump;
	enum column column[DUMP_COLUMNS];
	int columns;
	char text[DUMP_LINE];
};

/* -------------------------------------------------------------------------- strings -- */

struct explain_text {
	char *text;
	size_t n;
};

static size_t text_find(const struct explain *e, const char *bytes, size_t n)
{
	size_t hash = 0xcbf29ce484222325u, i;

	for (i = 0; i < n; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
	i = hash & (e->buckets - 1);
	while (e->bucket[i].text != NULL &&
	       (e->bucket[i].n != n || memcmp(e->bucket[i].text, bytes, n) != 0))
		i = (i + 1) & (e->buckets - 1);
	return i;
}

static void text_grow(struct explain *e)
{
	struct explain_text *old = e->bucket;
	const size_t n = e->buckets;

	e->buckets = n ? 2 * n : 1024;
	e->bucket = tool_array(e->buckets, sizeof(*e->bucket));
	for (size_t i = 0; i < n; i++)
		if (old[i].text != NULL)
			e->bucket[text_find(e, old[i].text, old[i].n)] = old[i];
	free(old);
}

/* Does a terminal obey the byte?  In UTF-8 0xc2 begins the control characters 0x80 to 0x9f; alone they are of Latin-1. */
static int text_is_control(const char *bytes, size_t n, size_t i)
{
	const unsigned char c = (unsigned char)bytes[i];
	const unsigned char before = i > 0 ? (unsigned char)bytes[i - 1] : 0;
	const unsigned char after = i + 1 < n ? (unsigned char)bytes[i + 1] : 0;

	if (c == 0xc2)
		return after >= 0x80 && after <= 0x9f;
	if (c >= 0x80 && c <= 0x9f)
		return before < 0x80 || before == 0xc2;
	return c < ' ' || c == 0x7f;
}

const char *explain_text(struct explain *e, const char *bytes, size_t n)
{
	char plain[DUMP_LINE];
	struct explain_text *at;

	if (n >= sizeof(plain))
		n = sizeof(plain) - 1;
	for (size_t i = 0; i < n; i++)
		plain[i] = text_is_control(bytes, n, i) ? '?' : bytes[i];
	if (2 * e->texts >= e->buckets)
		text_grow(e);
	at = &e->bucket[text_find(e, plain, n)];
	if (at->text == NULL) {
		at->text = tool_array(n + 1, 1);
		memcpy(at->text, plain, n);
		at->text[n] = '\0';
		at->n = n;
		e->texts++;
	}
	return at->text;
}

void explain_note(struct explain *e, const char *fmt, ...)
{
	char text[DUMP_LINE];
	va_list args;

	if (e->notes++ >= EXPLAIN_NOTES_MAX)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	e->note = tool_grow(e->note, &e->cap_notes, e->nnotes + 1, sizeof(*e->note));
	e->note[e->nnotes++] = (char *)explain_text(e, text, strlen(text));
}

/* -------------------------------------------------------------------- words and numbers -- */

/* Takes the next word of a line.  Returns 0 at the end of the line. */
static int dump_word(char **at, char **word)
{
	char *begin = *at + strspn(*at, " ");
	size_t n = strcspn(begin, " ");

	*word = begin;
	*at = begin + n;
	if (n == 0)
		return 0;
	if (**at != '\0') {
		**at = '\0';
		++*at;
	}
	return 1;
}

/* Reads a whole number; "-" is `none`. */
static int dump_number(const char *word, int64_t min, int64_t none, int64_t *number)
{
	char *end;
	long long n;

	if (strcmp(word, "-") == 0) {
		*number = none;
		return 0;
	}
	errno = 0;
	n = strtoll(word, &end, 10);
	if (errno != 0 || end == word || *end != '\0' || n < min)
		return -1;
	*number = n;
	return 0;
}

/* Reads "1700000000.123" as milliseconds; "-" is 0. */
static int dump_time(const char *word, int64_t *ms)
{
	char *end;
	long long s, fraction = 0;

	*ms = 0;
	if (strcmp(word, "-") == 0)
		return 0;
	errno = 0;
	s = strtoll(word, &end, 10);
	if (*end == '.' && strspn(end + 1, "0123456789") == 3 && end[4] == '\0')
		fraction = strtoll(end + 1, &end, 10);
	if (errno != 0 || end == word || *end != '\0' || s < 0 || s > DUMP_SECONDS_MAX)
		return -1;
	*ms = s * 1000 + fraction;
	return 0;
}

static int dump_state(const char *word, uint8_t *state)
{
	for (int i = 0; i <= STATE_FAILED; i++)
		if (strcmp(word, explain_state_names[i]) == 0) {
			*state = (uint8_t)i;
			return 0;
		}
	return -1;
}

/* ----------------------------------------------------------------------------- the head -- */

/* Gives the field of the head its value.  A key that is not known is ignored.  Returns -1 if the value is wrong. */
static int head_set(struct reader *r, struct explain_dump *dump, const char *key, const char *value)
{
	int64_t number = 0;
	char *end;

	if (strcmp(key, "communicator") == 0)
		dump->comm = explain_text(r->e, value, strlen(value));
	else if (strcmp(key, "host") == 0)
		dump->host = explain_text(r->e, value, strlen(value));
	else if (strcmp(key, "backend") == 0)
		dump->backend = explain_text(r->e, value, strlen(value));
	if (strcmp(key, "job") == 0) {
		errno = 0;
		dump->job = strtoull(value, &end, 16);
		return errno != 0 || end == value || *end != '\0' ? -1 : 0;
	}
	if (strcmp(key, "rank") != 0 && strcmp(key, "ranks") != 0 &&
	    strcmp(key, "world_rank") != 0 && strcmp(key, "pid") != 0)
		return 0;
	if (dump_number(value, 0, -1, &number) != 0 || number < 0 ||
	    (strcmp(key, "pid") != 0 && number > DUMP_RANKS_MAX))
		return -1;
	if (strcmp(key, "rank") == 0)
		dump->rank = (int32_t)number;
	else if (strcmp(key, "ranks") == 0)
		dump->nranks = (int32_t)number;
	else if (strcmp(key, "world_rank") == 0)
		dump->world_rank = (int32_t)number;
	else
		dump->pid = number;
	return 0;
}

/* The number at the end of "...-pid-123-2.txt": 2; 1 without one. */
static int head_tail(const char *file)
{
	const char *dot = strrchr(file, '.'), *pid = NULL;
	int64_t pid_number, n;
	char tail[32];

	for (const char *at = file; (at = strstr(at, "-pid-")) != NULL; at++)
		pid = at;
	if (pid == NULL || dot == NULL || dot < pid)
		return 1;
	pid += strlen("-pid-");
	snprintf(tail, sizeof(tail), "%.*s", (int)(dot - pid), pid);
	if (strchr(tail, '-') == NULL)
		return 1;
	*strchr(tail, '-') = '\0';
	if (dump_number(tail, 0, 0, &pid_number) != 0 ||
	    dump_number(tail + strlen(tail) + 1, 2, 1, &n) != 0 || n > 1000)
		return 1;
	return (int)n;
}

/* Reads "# job ... backend tcp", with which a dump begins for this reader. */
static void read_head(struct reader *r, char *at)
{
	struct explain_dump dump = {.file = r->name, .line = r->line, .rank = -1, .world_rank = -1};
	struct explain *e = r->e;
	char *key, *value;

	dump.comm = dump.host = dump.backend = dump.text = dump.staged = dump.connections =
		explain_text(e, "", 0);
	r->dump = NULL;
	r->heads++;
	r->full = 0;
	while (dump_word(&at, &key) && dump_word(&at, &value))
		if (head_set(r, &dump, key, value) != 0) {
			explain_note(e,
				     "%s:%d: the head says '%s %s', which is no number in its "
				     "range; this dump is not used",
				     r->name, r->line, key, value);
			return;
		}
	if (dump.comm[0] == '\0' || dump.rank < 0 || dump.nranks <= dump.rank) {
		explain_note(e,
			     "%s:%d: the head does not say communicator, rank and ranks, with a "
			     "rank below ranks; this dump is not used",
			     r->name, r->line);
		return;
	}
	if (dump.world_rank < 0)
		dump.world_rank = dump.rank;
	dump.name_tail = head_tail(r->name);
	e->dump = tool_grow(e->dump, &e->cap_dumps, e->ndumps + 1, sizeof(*e->dump));
	e->dump[e->ndumps] = dump;
	r->dump = &e->dump[e->ndumps++];
}

/* Reads "1700000000.123 code 8 text ...", behind "# failed"; a communicator that has not failed has the time only. */
static void read_failed(struct reader *r, char *at)
{
	struct explain_dump *dump = r->dump;
	char *time = at, *word;
	int64_t code = 0;

	if (!dump_word(&at, &time) || dump_time(time, &dump->written_ms) != 0)
		explain_note(r->e, "%s:%d: '%s' is no time in seconds", r->name, r->line, time);
	if (!dump_word(&at, &word) || strcmp(word, "code") != 0)
		return;
	if (!dump_word(&at, &word) || dump_number(word, 0, 0, &code) != 0 || code > INT32_MAX) {
		explain_note(r->e, "%s:%d: '%s' is no code of an error", r->name, r->line, word);
		return;
	}
	dump->code = (int)code;
	if (dump_word(&at, &word) && strcmp(word, "text") == 0)
		dump->text = explain_text(r->e, at, strlen(at));
}

static void read_columns(struct reader *r, char *at)
{
	char *word;

	r->columns = 0;
	while (r->columns < DUMP_COLUMNS && dump_word(&at, &word)) {
		int i = 0;

		while (i < COLUMN_UNKNOWN && strcmp(word, dump_columns[i]) != 0)
			i++;
		r->column[r->columns++] = (enum column)i;
	}
}

/* ---------------------------------------------------------------------------- the lines -- */

static const char *line_text(struct reader *r, const char *word)
{
	return strcmp(word, "-") == 0 ? explain_text(r->e, "", 0)
				      : explain_text(r->e, word, strlen(word));
}

/* Gives a column of the operation its value.  Returns NULL, or the value that was expected. */
static const char *line_set_number(struct explain_op *op, enum column column, const char *word)
{
	int64_t n = 0;
	const int any = column == COLUMN_TAG || column == COLUMN_PEER;

	if (dump_number(word, any ? -1 : 0, any || column == COLUMN_OP ? EXPLAIN_NONE : 0, &n) != 0)
		return any ? "a number, or -1 for any" : "a number, or -";
	switch (column) {
	case COLUMN_NUMBER: op->number = (uint64_t)n; break;
	case COLUMN_COLLECTIVE: op->collective = (uint64_t)n; break;
	case COLUMN_OP: op->redop = n; break;
	case COLUMN_COUNT: op->count = (uint64_t)n; break;
	case COLUMN_BYTES: op->bytes = (uint64_t)n; break;
	case COLUMN_TAG: op->tag = n; break;
	default:
		if (n > INT32_MAX)
			return "the number of a rank";
		op->peer = n == EXPLAIN_NONE ? EXPLAIN_NO_PEER : (int32_t)n;
	}
	return NULL;
}

static const char *line_set(struct reader *r, struct explain_op *op, enum column column,
			    const char *word)
{
	static const char time[] = "a time in seconds as 1700000000.123, or -";

	switch (column) {
	case COLUMN_KIND: op->kind = line_text(r, word); return NULL;
	case COLUMN_DTYPE: op->dtype = line_text(r, word); return NULL;
	case COLUMN_ALGORITHM: op->algorithm = line_text(r, word); return NULL;
	case COLUMN_STATE:
		return dump_state(word, &op->state) ? "queued, running, submitted, done or failed"
						    : NULL;
	case COLUMN_ISSUED: return dump_time(word, &op->issued_ms) ? time : NULL;
	case COLUMN_STARTED: return dump_time(word, &op->started_ms) ? time : NULL;
	case COLUMN_ENDED: return dump_time(word, &op->ended_ms) ? time : NULL;
	case COLUMN_UNKNOWN:
	case COLUMN_DESCRIPTION: return NULL;
	default: return line_set_number(op, column, word);
	}
}

/* Fills in the operation of a line.  Returns 0, or -1 after a note. */
static int line_parse(struct reader *r, struct explain_op *op, char *at)
{
	const char *wanted;
	char *word = at;

	for (int i = 0; i < r->columns; i++) {
		if (r->column[i] == COLUMN_DESCRIPTION) {
			op->what = explain_text(r->e, at, strlen(at));
			return 0;
		}
		if (!dump_word(&at, &word)) {
			explain_note(r->e,
				     "%s:%d: the line ends before its column %s; it is not "
				     "used",
				     r->name, r->line,
				     r->column[i] < COLUMN_UNKNOWN ? dump_columns[r->column[i]]
								   : "");
			return -1;
		}
		wanted = line_set(r, op, r->column[i], word);
		if (wanted != NULL) {
			explain_note(r->e,
				     "%s:%d: column %s is '%s', expected %s; the line is not "
				     "used",
				     r->name, r->line, dump_columns[r->column[i]], word, wanted);
			return -1;
		}
	}
	return 0;
}

static int line_is_collective(const char *kind)
{
	static const char *const others[] = {"", "send", "recv", "isend", "irecv", "await"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(kind, others[i]) == 0)
			return 0;
	return 1;
}

static void read_op(struct reader *r, char *at)
{
	const char *none = explain_text(r->e, "", 0);
	struct explain_op op = {.kind = none,
				.dtype = none,
				.algorithm = none,
				.what = none,
				.redop = EXPLAIN_NONE,
				.tag = EXPLAIN_NONE,
				.peer = EXPLAIN_NO_PEER};
	struct explain_dump *dump = r->dump;

	if (dump->nops == EXPLAIN_OPS_MAX && !r->full++)
		explain_note(r->e, "%s:%d: only the first %d lines of a dump are read", r->name,
			     r->line, EXPLAIN_OPS_MAX);
	if (dump->nops == EXPLAIN_OPS_MAX || line_parse(r, &op, at) != 0)
		return;
	op.is_collective = (uint8_t)line_is_collective(op.kind);
	dump->op = tool_grow(dump->op, &dump->cap_ops, dump->nops + 1, sizeof(*dump->op));
	dump->op[dump->nops++] = op;
}

/* --------------------------------------------------------------------------- the text -- */

/* Takes the next line into r->text.  Returns 0 at the end. */
static int read_line(struct reader *r)
{
	const char *end;
	size_t n, keep;

	if (r->left == 0)
		return 0;
	end = memchr(r->at, '\n', r->left);
	r->ended = end != NULL;
	n = r->ended ? (size_t)(end - r->at) : r->left;
	keep = n < sizeof(r->text) ? n : sizeof(r->text) - 1;
	memcpy(r->text, r->at, keep);
	r->text[keep] = '\0';
	r->line++;
	if (keep < n)
		explain_note(r->e, "%s:%d: the line has %zu bytes, of which %zu are read", r->name,
			     r->line, n, keep);
	r->at += n + (size_t)r->ended;
	r->left -= n + (size_t)r->ended;
	return 1;
}

/* Does the text begin so?  Then *at is what follows. */
static int read_begins(char *text, const char *begin, char **at)
{
	const size_t n = strlen(begin);

	if (strncmp(text, begin, n) != 0)
		return 0;
	*at = text + n;
	return 1;
}

static void read_comment(struct reader *r)
{
	char *at;

	if (read_begins(r->text, "# libcoll ", &at))
		r->dump = NULL; /* the next line has the head */
	else if (read_begins(r->text, "# job ", &at))
		read_head(r, r->text + 2);
	else if (r->dump == NULL)
		return;
	else if (read_begins(r->text, "# failed ", &at) || read_begins(r->text, "# read ", &at))
		read_failed(r, at);
	else if (read_begins(r->text, "# copied through host memory: ", &at))
		r->dump->staged = explain_text(r->e, at, strlen(at));
	else if (read_begins(r->text, "# connections: ", &at))
		r->dump->connections = explain_text(r->e, at, strlen(at));
	else if (strcmp(r->text, "# process stopped") == 0)
		r->dump->process = PROCESS_STOPPED;
	else if (strcmp(r->text, "# process ended") == 0)
		r->dump->process = PROCESS_ENDED;
	else if (read_begins(r->text, "# number ", &at))
		read_columns(r, r->text + 2);
}

void explain_read(struct explain *e, const char *name, const char *text, size_t n)
{
	struct reader *r = tool_array(1, sizeof(*r));
	/* Of a file without the line of their names. */
	char columns[] = "number collective kind dtype op count bytes root_or_peer tag state "
			 "issued started ended description";

	*r = (struct reader){
		.e = e, .name = explain_text(e, name, strlen(name)), .at = text, .left = n};
	read_columns(r, columns);
	while (read_line(r)) {
		if (!r->ended)
			explain_note(e, "%s:%d: the file is cut in this line, which is not used",
				     r->name, r->line);
		else if (r->text[0] == '#')
			read_comment(r);
		else if (r->dump != NULL && r->text[0] != '\0')
			read_op(r, r->text);
	}
	if (r->heads == 0)
		explain_note(
			e,
			"%s: the file has no dump: expected a line '# job ... communicator ... "
			"rank ... ranks ...', as the option dump writes it",
			r->name);
	free(r);
}

/* -------------------------------------------------------------------------- the files -- */

/* Returns the bytes of an open file, or NULL after a note. */
static char *file_bytes(struct explain *e, const char *path, int fd, size_t *n)
{
	struct stat st;
	char *text;
	ssize_t got = 0;

	*n = 0;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		explain_note(e, "%s: no file and no directory", path);
		return NULL;
	}
	if (st.st_size > EXPLAIN_FILE_MAX) {
		explain_note(e, "%s: of %lld bytes the first %d are read", path,
			     (long long)st.st_size, EXPLAIN_FILE_MAX);
		st.st_size = EXPLAIN_FILE_MAX;
	}
	text = tool_array((size_t)st.st_size + 1, 1);
	while (*n < (size_t)st.st_size &&
	       ((got = read(fd, text + *n, (size_t)st.st_size - *n)) > 0 ||
		(got < 0 && errno == EINTR)))
		*n += got > 0 ? (size_t)got : 0;
	if (got >= 0)
		return text;
	explain_note(e, "%s: cannot be read: %s", path, strerror(errno));
	free(text);
	return NULL;
}

static void file_read(struct explain *e, const char *path, int fd)
{
	size_t n;
	char *text = file_bytes(e, path, fd, &n);

	if (text == NULL)
		return;
	e->files++;
	explain_read(e, path, text, n);
	free(text);
}

static int file_is_dump(const struct dirent *entry)
{
	const size_t n = strlen(entry->d_name);

	return strncmp(entry->d_name, "coll-", 5) == 0 && n > 9 &&
	       strcmp(entry->d_name + n - 4, ".txt") == 0;
}

static void directory_read(struct explain *e, const char *path)
{
	struct dirent **entry;
	const int n = scandir(path, &entry, file_is_dump, alphasort);

	if (n < 0)
		explain_note(e, "%s: cannot be read: %s", path, strerror(errno));
	if (n == 0)
		explain_note(e, "%s: the directory has no file coll-*.txt", path);
	for (int i = 0; i < n; i++) {
		char name[DUMP_LINE];
		int fd;

		snprintf(name, sizeof(name), "%s/%s", path, entry[i]->d_name);
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			explain_note(e, "%s: cannot be read: %s", name, strerror(errno));
		else
			file_read(e, name, fd);
		if (fd >= 0)
			close(fd);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
}

void explain_read_path(struct explain *e, const char *path)
{
	/* A pipe would keep the reader waiting. */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		explain_note(e, "%s: cannot be read: %s", path, strerror(errno));
	else if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		directory_read(e, path);
	else
		file_read(e, path, fd);
	if (fd >= 0)
		close(fd);
}

void explain_free(struct explain *e)
{
	for (int i = 0; i < e->ndumps; i++)
		free(e->dump[i].op);
	for (size_t i = 0; i < e->buckets; i++)
		free(e->bucket[i].text);
	free(e->dump);
	free(e->note);
	free(e->bucket);
	*e = (struct explain){0};
}
