/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_file.h - the files of the option `log_file`, which several ranks and processes of one host may share: each line is
 * appended by one write.  Hosts must not share a file: O_APPEND of two clients of NFS overwrites lines.
 *
 * A file stays open to the end of the process.  It is looked at once a second: if another file has its path, or none, as
 * after a rotation by rename, the next line opens it anew.  A file that was cut short (copytruncate) goes on at its end.
 * As long as the path cannot be opened anew, no line goes to the former file: all go to stderr.  While one thread opens
 * the file, lines of others go to the former file, or wait for 100 ms at most.
 * If the program has closed the descriptor, or fork has made another process with another %p, the next line opens the file
 * anew too.
 */
#ifndef CORE_BASE_LOG_FILE_H
#define CORE_BASE_LOG_FILE_H

#include <stddef.h>

struct log_file;

/*
 * Returns the file of a pattern (base/path_pattern.h, of h, r and p) for a rank, the same for the same arguments, and for
 * all ranks if the pattern lacks %r; it is open, or a line has said why not.  Returns NULL after a line if there is no
 * memory or no working directory.  The file is never freed.
 */
struct log_file *log_file_get(const char *pattern, int rank);
/*
 * Appends a line of the process `self`; before line[0] there is room for one byte.  Returns 0, or -1: the caller writes
 * the line to stderr.  The first failure writes a line of its own there.
 */
int log_file_write(struct log_file *file, int self, char *line, size_t len);

/* Writes without a signal to the program.  Returns what write returns, with errno. */
long log_write(int fd, const char *line, size_t len);

#endif
