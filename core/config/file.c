/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * file.c - reads coll.conf.
 *
 * This file reads lines, headings and the further lines of a value, and libinih splits each line with an option into
 * key and value.  libinih alone gives no line numbers, cuts long lines and long headings, takes an indented line for
 * the continuation of the line before, and ignores text after a heading.
 */
#include "config/config_impl.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/trust.h"

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
	FILE_LINE = INI_MAX_LINE - 2, /* characters of a line: libinih adds '\n' and the NUL */
	FILE_MAX_DIAGNOSTICS = 20, /* with so many diagnostics the rest of the file is not read */
	FILE_OPTIONS = 1024,       /* most options of one file */
	FILE_VALUE = 4096,         /* characters of a value in several lines */
	FILE_SECTION = 31          /* characters of a backend's name */
};

static const char file_too_large[] = "it is larger than 1 MiB";

struct config_file {
	struct config *config;
	const char *path;
	FILE *stream;
	int size; /* bytes read */
	char section[FILE_SECTION + 1];
	int skip;      /* the current section has a malformed heading */
	int line;      /* number of the current line, from 1 */
	int split;     /* how often libinih has found a key and a value in the current line */
	int backslash; /* the current line ends with '\' */
	int open;      /* the value of the current line goes on in the next line */
	int blank;     /* there is a blank before the '\' of that value */
	int first;     /* index of the file's first value in the list */
	int last; /* index of the value to which further lines belong, or -1: the lines are dropped */
	int diagnostics;
};

__attribute__((format(printf, 2, 3))) static void file_diagnose(struct config_file *file,
								const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	file->diagnostics++;
	config_report(file->config, COLL_ERR_CONFIG, "%s:%d: %s", file->path, file->line, text);
}

/* ----------------------------------------------------------------------- lines -- */

/* Takes the section's name from "[name]"; returns the fault of the heading, or NULL. */
static const char *file_read_heading(struct config_file *file, const char *line)
{
	const char *name = line + 1 + strspn(line + 1, " \t");
	const char *close = strchr(name, ']'), *rest, *end = close;

	if (!close)
		return "expected ']' at the end of the section's name";
	while (end > name && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (end == name)
		return "the section's name is empty";
	if (end - name > FILE_SECTION)
		return "the section's name is longer than 31 characters";
	rest = close + 1 + strspn(close + 1, " \t");
	if (*rest && *rest != ';' && *rest != '#')
		return "text after ']'";
	snprintf(file->section, sizeof(file->section), "%.*s", (int)(end - name), name);
	return NULL;
}

/*
 * Reads the next line without its leading blanks.  Returns its length, FILE_LINE + 1 if the line is longer than
 * FILE_LINE, or -1 at the end of the file and after a read error.
 */
static int file_read_line(struct config_file *file, char out[FILE_LINE + 2])
{
	int c, last = 0, end = 0, len = 0;

	while ((c = getc_unlocked(file->stream)) != EOF && file->size++ < FILE_SIZE && c != '\n') {
		last = c;
		if (c != ' ' && c != '\t' && c != '\r')
			end = c;
		else if (!len && c != '\r')
			continue;
		if (len <= FILE_LINE)
			out[len] = (char)c;
		len++;
	}
	if ((c == EOF && !len) || file->size > FILE_SIZE)
		return -1;
	file->line++;
	file->backslash = end == '\\';
	len -= len && last == '\r';
	len = len <= FILE_LINE ? len : FILE_LINE + 1;
	out[len] = '\0';
	return len;
}

/* The line has no blanks at its beginning. */
static int file_is_comment_or_empty(const char *line)
{
	return !line[0] || line[0] == ';' || line[0] == '#';
}

/* Is the line free of control characters and, unless it is a comment, short enough? */
static int file_is_plain(struct config_file *file, const char *line, int len)
{
	for (int i = 0; i < len; i++)
		if (((unsigned char)line[i] < ' ' && line[i] != '\t') || line[i] == 0x7f) {
			file_diagnose(file, "control character 0x%02x; expected plain text",
				      (unsigned char)line[i]);
			return 0;
		}
	/* libinih skips the mark of UTF-8 at the beginning of each text that it gets. */
	if (file->line > 1 && !strncmp(line, "\xef\xbb\xbf", 3)) {
		file_diagnose(file, "a byte order mark amid the file; remove its three bytes");
		return 0;
	}
	if (len <= FILE_LINE || file_is_comment_or_empty(line))
		return 1;
	file_diagnose(file, "the line is longer than %d characters%s", FILE_LINE,
		      line[0] == '['
			      ? ""
			      : "; end it with '\\' and go on in the next line, or set the "
				"option by its environment variable, which has no such limit");
	return 0;
}

/* Is the line an option, which libinih can split? */
static int file_is_option(struct config_file *file, const char *line, int len)
{
	const char *wrong;

	if (!file_is_plain(file, line, len) || file_is_comment_or_empty(line))
		return 0;
	if (line[0] != '[')
		return !file->skip;
	wrong = file_read_heading(file, line);
	file->skip = wrong != NULL;
	if (wrong)
		file_diagnose(file, "%s", wrong);
	return 0;
}

/* Removes the '\' at the end of a value's line. */
static void file_cut_backslash(struct config_file *file, char *line)
{
	char *end = strrchr(line, '\\');

	file->blank = end > line && (end[-1] == ' ' || end[-1] == '\t');
	*end = '\0';
}

/* The length of a further line of a value without its comment and the blanks before that. */
static int file_value_length(const char *line)
{
	int len = 0;

	while (line[len] &&
	       (line[len] != ';' || (len && line[len - 1] != ' ' && line[len - 1] != '\t')))
		len++;
	while (len && (line[len - 1] == ' ' || line[len - 1] == '\t'))
		len--;
	return len;
}

/* A further line of a value that is a heading or an option by its looks: the '\' before the line may be a mistake. */
static int file_is_heading(const char *line)
{
	static const char name[] = " \t_-0123456789abcdefghijklmnopqrstuvwxyz";

	return line[0] == '[' && line[1 + strspn(line + 1, name)] == ']';
}

static int file_is_pair(const char *line)
{
	const char *end = line + strspn(line, "_.0123456789abcdefghijklmnopqrstuvwxyz");

	return end > line && end[strspn(end, " \t")] == '=';
}

/* Appends the line to the option's value. */
static void file_append(struct config_file *file, const char *line, int len, int blank)
{
	struct config *config = file->config;
	struct config_value *value = &config->value[file->last];
	char *text;

	if (strlen(value->text) + (size_t)len > FILE_VALUE) {
		file_diagnose(file, "the value is longer than %d characters", FILE_VALUE);
		file->last = -1;
		return;
	}
	if (file_is_pair(line))
		config_report(
			config, CONFIG_NOTE,
			"%s:%d: this line belongs to the value of %s, since the line before ends "
			"with '\\'",
			file->path, file->line, value->place);
	text = config_text(config, "%s%s%.*s", value->text, blank ? " " : "", len, line);
	if (!text)
		return;
	free(value->text);
	value->text = text;
}

/* Takes a further line of a value. */
static void file_take_more(struct config_file *file, char *line, int len)
{
	const int blank = file->blank, plain = file_is_plain(file, line, len);

	file->open = file->backslash;
	if (!plain || file_is_comment_or_empty(line))
		return;
	if (file_is_heading(line)) {
		file_diagnose(file, "a heading within a value: the line before ends with '\\'");
		file->open = 0;
		return;
	}
	if (file->open)
		file_cut_backslash(file, line);
	len = file_value_length(line);
	if (len && file->last >= 0)
		file_append(file, line, len, blank);
}

/* ---------------------------------------------------------------------- values -- */

/* A second value for an option in one file replaces the first, with a diagnostic. */
static void file_note_double(const struct config_file *file, const char *name, const char *key)
{
	struct config *config = file->config;

	for (int i = config->nvalues - 1; i >= file->first; i--)
		if (strcmp(config->value[i].name, name) == 0) {
			config_report(config, CONFIG_NOTE,
				      "%s:%d: option '%s' replaces the value of %s", file->path,
				      file->line, key, config->value[i].place);
			return;
		}
}

/* The function that libinih calls for the option of a line. */
static int file_take_value(void *user, const char *section, const char *key, const char *value)
{
	struct config_file *file = user;
	struct config *config = file->config;
	char *name;

	(void)section; /* libinih gets no headings */
	if (!value || !key[0] || file->split++)
		return 1;
	if (config->nvalues - file->first >= FILE_OPTIONS) {
		if (!config->too_many)
			config->too_many =
				config_text(config, "%s:%d: more than %d options in one file",
					    file->path, file->line, FILE_OPTIONS);
		file->diagnostics = FILE_MAX_DIAGNOSTICS;
		return 1;
	}
	if (!value[0] && file->open) {
		file_diagnose(file, "expected the beginning of a value before '\\'");
		return 1;
	}
	if (!value[0]) {
		config_report(config, CONFIG_NOTE,
			      "%s:%d: option '%s' has no value and is left out", file->path,
			      file->line, key);
		return 1;
	}
	name = config_text(config, "%s%s%s", file->section, file->section[0] ? "." : "", key);
	if (!name)
		return 1;
	file_note_double(file, name, key);
	config_add_value(config, SOURCE_FILE + config->nfiles, name, value,
			 config_text(config, "%s:%d", file->path, file->line));
	if (!config->oom)
		file->last = config->nvalues - 1;
	return 1;
}

static void file_take_line(struct config_file *file, char *line, int len)
{
	int is_option, code;

	if (file->open) {
		file_take_more(file, line, len);
		return;
	}
	file->last = -1;
	is_option = file_is_option(file, line, len);
	file->open = file->backslash && line[0] != '[' && !file_is_comment_or_empty(line);
	if (!is_option)
		return;
	if (file->open)
		file_cut_backslash(file, line);
	file->split = 0;
	code = ini_parse_string(line, file_take_value, file);
	if (code < 0)
		file->config->oom = 1;
	/* The program uses libinih too, and has told it to take shorter lines. */
	if (file->split > 1 || (code > 0 && file->split))
		file_diagnose(file,
			      "the line is longer than libinih takes: ini_max_line is set in this "
			      "process");
	if (!file->split)
		file_diagnose(file, "expected 'key = value', '[section]' or a comment");
}

/* ----------------------------------------------------------------------- files -- */

/*
 * Returns why the opened file must not be read, or NULL.  Every file may name plugins to load, so nobody but root and
 * the user may be able to change the file.
 */
static const char *file_check(struct config *config, const char *path, int fd)
{
	struct trust trust;
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
		return file_too_large;
	if (trust_check(path, 0, &trust))
		return error_text();
	if (st.st_dev != trust.file.st_dev || st.st_ino != trust.file.st_ino)
		return "another file took its place meanwhile: try again";
	if (trust.note[0] && !trust.by_group)
		config_report(config, CONFIG_NOTE, "%s: read because of COLL_TRUST: %s", path,
			      trust.note);
	return NULL;
}

/* Does the path lead to no file?  A home directory that another user owns counts as missing. */
static int file_absent(const char *path)
{
	struct stat st;

	if (errno == ENOENT || errno == ENOTDIR)
		return 1;
	return errno == EACCES && stat(path, &st) != 0;
}

const char *config_read_stream(struct config *config, const char *path, FILE *stream)
{
	struct config_file file = {
		.config = config, .path = path, .stream = stream, .first = config->nvalues};
	char bom[3], line[FILE_LINE + 2];
	int len;

	config_report(config, CONFIG_NOTE, "%s: read", path);
	if (fread(bom, 1, sizeof(bom), stream) != sizeof(bom) ||
	    memcmp(bom, "\xef\xbb\xbf", sizeof(bom)) != 0)
		rewind(stream);
	while (file.diagnostics < FILE_MAX_DIAGNOSTICS && (len = file_read_line(&file, line)) >= 0)
		file_take_line(&file, line, len);
	if (file.diagnostics >= FILE_MAX_DIAGNOSTICS)
		config_report(config, CONFIG_NOTE, "%s: not read beyond line %d: too many faults",
			      path, file.line);
	config->nfiles++;
	if (ferror(stream))
		return strerror(errno);
	return file.size > FILE_SIZE ? file_too_large : NULL;
}

void config_read_file(struct config *config, const char *path, int needed)
{
	const int fd = descriptor_lift(open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
	const char *wrong = fd < 0 ? strerror(errno) : NULL;
	FILE *stream = NULL;

	if (fd < 0 && !needed && file_absent(path)) {
		config_report(config, CONFIG_NOTE, "%s: not there", path);
		return;
	}
	if (!wrong)
		wrong = file_check(config, path, fd);
	if (!wrong) {
		stream = fdopen(fd, "r");
		if (stream)
			wrong = config_read_stream(config, path, stream);
		else
			config->oom = 1;
	}
	if (wrong)
		config_report(config, COLL_ERR_CONFIG,
			      "%s: cannot read this configuration file: %s", path, wrong);
	if (stream)
		fclose(stream);
	else if (fd >= 0)
		close(fd);
}
