/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loader.c - the thin layer over dlopen and libltdl.
 *
 * libltdl says "file not found" for every fault and binds lazily, so dlopen(RTLD_NOW) opens every file
 * first: dlerror has the reason, and a later eager open would no longer find an undefined symbol.
 * libltdl is not thread-safe: one lock covers all calls.  The same lock covers dlopen, whose dlerror
 * is read at once; the constructors of a plugin, which dlopen runs, cannot reach the lock.
 */
#include "plugin/loader.h"
#include "base/error.h"
#include "base/self.h"
#include "base/descriptor.h"
#include "base/interrupt.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <ltdl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ------------------------------------------------------------ complete files -- */

enum {
	LOADER_CLASS = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32,
	LOADER_DATA = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB
};

/* Reads all bytes; -1 on an error and at the end of the file. */
static int loader_read(int fd, void *out, size_t n, uint64_t offset)
{
	int tries = 0;
	ssize_t got;

	if (offset > INT64_MAX)
		return -1;
	do
		got = pread(fd, out, n, (off_t)offset);
	while (interrupted(got, &tries));
	return got == (ssize_t)n ? 0 : -1;
}

/* Returns start + length, or UINT64_MAX if the sum does not fit. */
static uint64_t loader_end(uint64_t start, uint64_t length)
{
	uint64_t end;

	return __builtin_add_overflow(start, length, &end) ? UINT64_MAX : end;
}

/* Returns the length that the file needs for all parts that its headers name. */
static uint64_t loader_needed(int fd, const ElfW(Ehdr) * head)
{
	uint64_t need = loader_end(head->e_shoff, (uint64_t)head->e_shnum * head->e_shentsize);
	uint64_t at = head->e_phoff, end;
	ElfW(Phdr) part;

	for (int i = 0; i < head->e_phnum; i++, at += sizeof(part)) {
		if (loader_read(fd, &part, sizeof(part), at))
			return loader_end(at, sizeof(part));
		end = loader_end(part.p_offset, part.p_filesz);
		if (end > need)
			need = end;
	}
	return need;
}

static int loader_check_fd(const char *path, int fd)
{
	ElfW(Ehdr) head;
	struct stat st;
	uint64_t need;

	if (fstat(fd, &st))
		return error_set(COLL_ERR_PLUGIN, "cannot read '%s': %s", path, strerror(errno));
	if (loader_read(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
	    head.e_ident[EI_CLASS] != LOADER_CLASS || head.e_ident[EI_DATA] != LOADER_DATA)
		return COLL_SUCCESS;
	need = loader_needed(fd, &head);
	if (need <= (uint64_t)st.st_size)
		return COLL_SUCCESS;
	return error_set(COLL_ERR_PLUGIN,
			 "cannot load '%s': the file is truncated or damaged: it has %" PRIu64
			 " bytes, but its headers describe %" PRIu64 "; install it again",
			 path, (uint64_t)st.st_size, need);
}

/*
 * COLL_ERR_PLUGIN if the file is shorter than its ELF headers say: mapping it would end in SIGBUS.
 * Files that are no ELF at all pass; the dynamic linker has a message for them.
 */
static int loader_check_length(const char *path)
{
	int fd = descriptor_lift(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), code;

	if (fd < 0)
		return error_set(COLL_ERR_PLUGIN, "cannot load '%s': %s", path, strerror(errno));
	code = loader_check_fd(path, fd);
	close(fd);
	return code;
}

struct loader_file {
	struct loader_file *next;
	lt_dlhandle handle;
	char path[];
};

static struct {
	pthread_mutex_t lock;
	struct loader_file *files;
	int started; /* 1 after lt_dlinit */
} loader = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------ libltdl -- */
/* The lock is held. */

static const char *loader_ltdl_message(void)
{
	const char *message = lt_dlerror();

	return message ? message : "no reason given";
}

static int loader_start(void)
{
	if (loader.started)
		return COLL_SUCCESS;
	if (lt_dlinit())
		return error_set(COLL_ERR_SYSTEM, "libltdl does not start: %s",
				 loader_ltdl_message());
	loader.started = 1;
	return COLL_SUCCESS;
}

static lt_dlhandle loader_ltdl_open(const char *path)
{
	lt_dlhandle handle = NULL;
	lt_dladvise advise;

	if (lt_dladvise_init(&advise))
		return NULL;
	if (!lt_dladvise_local(&advise) && !lt_dladvise_resident(&advise))
		handle = lt_dlopenadvise(path, advise);
	lt_dladvise_destroy(&advise);
	return handle;
}

static struct loader_file *loader_find(const char *path)
{
	struct loader_file *file = loader.files;

	while (file && strcmp(file->path, path) != 0)
		file = file->next;
	return file;
}

static int loader_keep(const char *path, struct loader_file **out)
{
	size_t size = strlen(path) + 1;
	struct loader_file *file;
	int code = loader_start();

	if (code)
		return code;
	file = malloc(sizeof(*file) + size);
	if (!file)
		return error_set(COLL_ERR_NO_MEMORY, "no memory to load '%s'", path);
	memcpy(file->path, path, size);
	file->handle = loader_ltdl_open(path);
	if (!file->handle) {
		free(file);
		return error_set(COLL_ERR_PLUGIN, "libltdl cannot open '%s': %s", path,
				 loader_ltdl_message());
	}
	file->next = loader.files;
	loader.files = file;
	*out = file;
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------- opening -- */

/* dlerror's message without the path that it may begin with. */
static const char *loader_reason(const char *path)
{
	const char *message = dlerror();
	size_t n = strlen(path);

	if (!message)
		return "no reason given";
	return !strncmp(message, path, n) && !strncmp(message + n, ": ", 2) ? message + n + 2
									    : message;
}

static int loader_open_eagerly(const char *path)
{
	int code = loader_check_length(path);

	if (code)
		return code;
	if (!dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
		return error_set(COLL_ERR_PLUGIN, "cannot load '%s': %s", path,
				 loader_reason(path));
	return COLL_SUCCESS;
}

int loader_open(const char *path, struct loader_file **file, int *first)
{
	int code = COLL_SUCCESS;

	*first = 0;
	pthread_mutex_lock(&loader.lock);
	*file = loader_find(path);
	if (!*file) {
		code = loader_open_eagerly(path);
		if (!code)
			code = loader_keep(path, file);
		*first = !code;
	}
	pthread_mutex_unlock(&loader.lock);
	return code;
}

static int loader_same_file(const char *a, const char *b)
{
	struct stat sa, sb;

	if (!strcmp(a, b))
		return 1;
	return !stat(a, &sa) && !stat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

const void *loader_symbol(struct loader_file *file, const char *name, char *elsewhere, size_t size)
{
	const void *symbol;
	Dl_info where;

	elsewhere[0] = '\0';
	pthread_mutex_lock(&loader.lock);
	symbol = lt_dlsym(file->handle, name);
	pthread_mutex_unlock(&loader.lock);
	if (!symbol || !dladdr(symbol, &where) || !where.dli_fname)
		return NULL;
	if (loader_same_file(where.dli_fname, file->path))
		return symbol;
	snprintf(elsewhere, size, "%s", where.dli_fname);
	return NULL;
}

void loader_home(char *dir, size_t size)
{
	char *path = self_path(), *slash = path ? strrchr(path, '/') : NULL;

	dir[0] = '\0';
	if (slash)
		snprintf(dir, size, "%.*s", (int)(slash - path), path);
	free(path);
}
