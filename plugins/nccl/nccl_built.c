/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_built.c - the CUDA version for which NCCL was built.  NCCL has no function for it, but its library contains
 * "NCCL version 2.28.9+cuda13.0", among the constants of its program.  To ask NCCL's CUDA runtime instead would make
 * a context on some device.
 */
#include "nccl.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longest section that is searched: the sections of NCCL's versions have 200 KiB. */
enum { NCCL_SECTION_MAX = 8 << 20, NCCL_SECTIONS_MAX = 256 };

#if __SIZEOF_POINTER__ == 8
typedef Elf64_Ehdr elf_header_t;
typedef Elf64_Shdr elf_section_t;
#else
typedef Elf32_Ehdr elf_header_t;
typedef Elf32_Shdr elf_section_t;
#endif

/* Reads a piece of the file, with a 0 behind it; NULL: it cannot be read. */
static char *nccl_read(int fd, uint64_t at, uint64_t size)
{
	char *bytes = size <= NCCL_SECTION_MAX ? malloc((size_t)size + 1) : NULL;

	if (!bytes)
		return NULL;
	bytes[size] = '\0';
	if (pread(fd, bytes, (size_t)size, (off_t)at) == (ssize_t)size)
		return bytes;
	free(bytes);
	return NULL;
}

/* 13000 for CUDA 13.0; 0: the text is not there. */
static int nccl_find_cuda(const char *bytes, size_t size)
{
	static const char begin[] = "NCCL version ";
	const char *end = bytes + size;
	int major, minor;

	while ((bytes = memmem(bytes, (size_t)(end - bytes), begin, sizeof(begin) - 1))) {
		bytes += sizeof(begin) - 1;
		if (sscanf(bytes, "%*24[^+]+cuda%d.%d", &major, &minor) == 2)
			return 1000 * major + 10 * minor;
	}
	return 0;
}

static int nccl_search(int fd, const elf_header_t *header, const elf_section_t *sections)
{
	int found = 0;

	for (int i = 0; !found && i < header->e_shnum; i++) {
		const elf_section_t *s = &sections[i];
		char *bytes = NULL;

		if (s->sh_type == SHT_PROGBITS && s->sh_flags == SHF_ALLOC)
			bytes = nccl_read(fd, s->sh_offset, s->sh_size);
		if (bytes)
			found = nccl_find_cuda(bytes, (size_t)s->sh_size);
		free(bytes);
	}
	return found;
}

int nccl_built_for(const char *path)
{
	elf_header_t *header = NULL;
	elf_section_t *sections = NULL;
	int fd = descriptor_lift(open(path, O_RDONLY | O_CLOEXEC)), found = 0;

	if (fd < 0)
		return 0;
	header = (void *)nccl_read(fd, 0, sizeof(*header));
	if (header && !memcmp(header->e_ident, ELFMAG, SELFMAG) &&
	    header->e_shentsize == sizeof(*sections) && header->e_shnum <= NCCL_SECTIONS_MAX)
		sections =
			(void *)nccl_read(fd, header->e_shoff, header->e_shnum * sizeof(*sections));
	if (sections)
		found = nccl_search(fd, header, sections);
	free(sections);
	free(header);
	close(fd);
	return found;
}
