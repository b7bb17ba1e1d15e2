/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file.c - reads coll.conf.
 *
 * libinih splits lines into section, key and value; the lines come from a reader of our own, since
 * libinih tells no line numbers, cuts long lines and takes an indented line for the continuation of
 * the one before.
 */
#include "config/config_impl.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
	FILE_SIZE = 1 << 20,
	FILE_FAULTS = 20,    /* then the rest of the file is left */
	FILE_OPTIONS = 1024, /* in one file */
	FILE_SECTION = 31    /* characters of a backend's name */
};

struct config_file {
	struct config *config;
	const char *path;
	const char *at, *end; /* what is left of the text; *end is NUL */
	int line;             /* the one at hand, from 1 */
	int first;            /* index of the file's first value */
	int faults;
	int pending; /* the line at hand should yield a value and has not yet */
	int skip;    /* in a section whose heading is wrong */
};

__attribute__((format(printf, 2, 3))) static void file_fault(struct config_file *file,
							     const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	file->faults++;
	config_add_fault(file->config, COLL_ERR_CONFIG, "%s:%d: %s", file->path, file->line, text);
}

/* The next line without blanks around it; its length. */
static size_t file_cut(struct config_file *file, const char **line)
{
	const char *start = file->at, *end = memchr(start, '\n', (size_t)(file->end - start));

	file->line++;
	end = end ? end : file->end;
	file->at = end < file->end ? end + 1 : end;
	if (file->line == 1 && end - start >= 3 && memcmp(start, "\xef\xbb\xbf", 3) == 0)
		start += 3;
	if (end > start && end[-1] == '\r')
		end--;
	while (start < end && (*start == ' ' || *start == '\t'))
		start++;
	while (start < end && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*line = start;
	return (size_t)(end - start);
}

/* What is wrong with a section's heading, or NULL. */
static const char *file_check_heading(const char *line, size_t len)
{
	const char *close = memchr(line, ']', len);
	size_t rest;

	if (!close)
		return "expected ']' at the end of the section's name";
	if (close - line - 1 > FILE_SECTION)
		return "the section's name is longer than 31 characters";
	if (strspn(line + 1, " \t") >= (size_t)(close - line - 1))
		return "the section's name is empty";
	rest = 1 + strspn(close + 1, " \t");
	if (close + rest < line + len && close[rest] != ';' && close[rest] != '#')
		return "text after ']'";
	return NULL;
}

/* Is the line one that libinih can be given?  If not, why not is a fault. */
static int file_check(struct config_file *file, const char *line, size_t len, int room)
{
	const char *wrong;
	size_t i;

	for (i = 0; i < len; i++)
		if (((unsigned char)line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f) {
			file_fault(file, "control character 0x%02x; expected plain text",
				   (unsigned char)line[i]);
			return 0;
		}
	if (len && (line[0] == ';' || line[0] == '#'))
		return 0;
	if (len + 2 > (size_t)room) {
		file_fault(file, "the line is longer than %d characters", room - 2);
		return 0;
	}
	if (len && line[0] == '[') {
		wrong = file_check_heading(line, len);
		file->skip = wrong != NULL;
		if (wrong)
			file_fault(file, "%s", wrong);
		return !wrong;
	}
	file->pending = len > 0 && !file->skip;
	return !file->skip;
}

static void file_end_line(struct config_file *file)
{
	if (file->pending)
		file_fault(file, "expected 'key = value', '[section]' or a comment");
	file->pending = 0;
}

/* libinih's reader: one call, one line, so that it counts as we do. */
static char *file_next(char *out, int room, void *stream)
{
	struct config_file *file = stream;
	const char *line;
	size_t len;

	file_end_line(file);
	if (file->at == file->end || room < 2)
		return NULL;
	if (file->faults >= FILE_FAULTS) {
		config_add_note(file->config, "%s: not read beyond line %d: too many faults",
				file->path, file->line);
		return NULL;
	}
	len = file_cut(file, &line);
	if (!file_check(file, line, len, room))
		len = 0;
	memcpy(out, line, len);
	memcpy(out + len, "\n", 2);
	return out;
}

/* A second value for an option in one file replaces the first; that is worth a note. */
static void file_note_double(struct config_file *file, const char *section, const char *name)
{
	const struct config *config = file->config;
	int i;

	for (i = config->nraw - 1; i >= file->first; i--)
		if (config_raw_is(&config->raw[i], section, name)) {
			config_add_note(file->config, "%s:%d: option '%s' replaces the value of %s",
					file->path, file->line, name, config->raw[i].source);
			return;
		}
}

static int file_value(void *user, const char *heading, const char *name, const char *value)
{
	struct config_file *file = user;
	struct config *config = file->config;
	char section[64];
	size_t len;

	if (!value || !name[0])
		return 1;
	file->pending = 0;
	if (config->nraw - file->first >= FILE_OPTIONS) {
		file_fault(file, "more than %d options in one file", FILE_OPTIONS);
		file->faults = FILE_FAULTS;
		return 1;
	}
	if (!value[0]) {
		config_add_note(config, "%s:%d: option '%s' has no value and is left out",
				file->path, file->line, name);
		return 1;
	}
	heading += strspn(heading, " \t");
	snprintf(section, sizeof(section), "%s", heading);
	for (len = strlen(section); len && isspace((unsigned char)section[len - 1]); len--)
		section[len - 1] = '\0';
	file_note_double(file, section, name);
	config_add_raw(config, RAW_FILE, section, name, value,
		       config_text(config, "%s:%d", file->path, file->line));
	return 1;
}

static void file_parse(struct config *config, const char *path, const char *text, size_t len)
{
	struct config_file file = {.config = config, .path = path, .first = config->nraw};
	int rc;

	file.at = text;
	file.end = text + len;
	config->origins++;
	config_add_note(config, "%s: read", path);
	rc = ini_parse_stream(file_next, &file, file_value, &file);
	if (rc < 0)
		config->oom = 1;
	/* Nothing that libinih dislikes should pass the checks above; if it does, it is heard. */
	if (rc > 0 && !file.faults) {
		file.line = rc;
		file_fault(&file, "expected 'key = value', '[section]' or a comment");
	}
}

/* Up to `size` bytes; fewer only at the end of the file.  -1: errno. */
static ssize_t file_read(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size) {
		n = read(fd, text + len, size - len);
		if (n < 0 && errno != EINTR)
			return -1;
		if (n == 0)
			break;
		if (n > 0)
			len += (size_t)n;
	}
	return (ssize_t)len;
}

/* What is wrong with a file that was opened, or NULL. */
static const char *file_check_kind(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return strerror(errno);
	if (S_ISDIR(st.st_mode))
		return "it is a directory";
	/* /dev/null is the usual name for "no file". */
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
		return NULL;
	if (!S_ISREG(st.st_mode))
		return "it is not a regular file";
	if (st.st_size > FILE_SIZE)
		return "it is larger than 1 MiB";
	return NULL;
}

/* Can nothing be seen at that path?  A home that another user owns is as good as none. */
static int file_absent(const char *path)
{
	struct stat st;

	if (errno == ENOENT || errno == ENOTDIR)
		return 1;
	return errno == EACCES && stat(path, &st) != 0;
}

static void file_cannot(struct config *config, const char *path, const char *why)
{
	config_add_fault(config, COLL_ERR_CONFIG, "%s: cannot read this configuration file: %s",
			 path, why);
}

void config_read_file(struct config *config, const char *path, int needed)
{
	const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	const char *wrong = fd < 0 ? strerror(errno) : file_check_kind(fd);
	char *text = NULL;
	ssize_t len;

	if (fd < 0 && !needed && file_absent(path)) {
		config_add_note(config, "%s: not there", path);
		return;
	}
	if (!wrong) {
		text = malloc(FILE_SIZE + 1);
		len = text ? file_read(fd, text, FILE_SIZE + 1) : 0;
		if (!text)
			config->oom = 1;
		else if (len < 0)
			wrong = strerror(errno);
		else if (len > FILE_SIZE)
			wrong = "it is larger than 1 MiB";
		else {
			text[len] = '\0';
			file_parse(config, path, text, (size_t)len);
		}
	}
	if (wrong)
		file_cannot(config, path, wrong);
	free(text);
	if (fd >= 0)
		close(fd);
}
