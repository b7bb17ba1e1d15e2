/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * user_file.h - opens directories and files that the user has named for the library's output.  No link of another user leads
 * the library elsewhere (base/trust.h), and no file of another user gets the output.
 */
#ifndef CORE_BASE_USER_FILE_H
#define CORE_BASE_USER_FILE_H

/*
 * Opens a directory in which this process can make files, for openat.  Returns a descriptor above 2, or -1 with an error
 * whose text is the reason.
 */
int user_directory_open(const char *path);
/*
 * Opens a file to append to it; a new file has the mode 0600.  An existing file must be the user's own, under one name, or
 * root's device such as /dev/null; a symbolic link is refused.  Returns a descriptor above 2 that never waits (O_NONBLOCK),
 * or -1 with an error whose text is the reason.
 */
int user_file_append(const char *path);

#endif
