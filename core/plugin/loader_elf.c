/* SPDX-License-Identifier: BSD-3-Clause */
/* loader_elf.c - checks that the file of a shared object is complete. */
#include "plugin/loader.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/interrupt.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

int loader_check_length(const char *path)
{
	int fd = descriptor_lift(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), code;

	if (fd < 0)
		return error_set(COLL_ERR_PLUGIN, "cannot load '%s': %s", path, strerror(errno));
	code = loader_check_fd(path, fd);
	close(fd);
	return code;
}
