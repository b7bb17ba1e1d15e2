/* SPDX-License-Identifier: BSD-3-Clause */
/* elf.c - reads the dynamic part of an ELF file and checks every offset and size in it. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "check/static/elf.h"

enum { ELF_CLASS_HERE = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32 };

/* Returns n items of a size at an offset, or NULL if not all of them lie within the file. */
static const void *elf_at(const struct check_elf *elf, uint64_t offset, uint64_t n, uint64_t size)
{
	if (offset > elf->size || (size && n > (elf->size - offset) / size))
		return NULL;
	return elf->bytes + offset;
}

static const char *elf_string(const struct check_elf *elf, const ElfW(Shdr) * table, uint64_t at)
{
	const char *name;

	if (at >= table->sh_size)
		return "";
	name = elf_at(elf, table->sh_offset + at, table->sh_size - at, 1);
	return name && memchr(name, 0, table->sh_size - at) ? name : "";
}

static const ElfW(Shdr) * elf_sections(const struct check_elf *elf, int *n)
{
	const ElfW(Ehdr) *head = elf_at(elf, 0, 1, sizeof(*head));

	*n = head ? head->e_shnum : 0;
	return head ? elf_at(elf, head->e_shoff, head->e_shnum, sizeof(ElfW(Shdr))) : NULL;
}

static int elf_starters(const struct check_elf *elf)
{
	const ElfW(Shdr) * section;
	int n, found = -1;

	section = elf_sections(elf, &n);
	for (int i = 0; section && i < n; i++)
		if (section[i].sh_type == SHT_INIT_ARRAY)
			found = (int)(section[i].sh_size / sizeof(void *));
	return found;
}

int check_elf_open(struct check_elf *elf, const char *path, char *text, size_t text_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	void *map;

	*elf = (struct check_elf){.starters = -1};
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0) {
		snprintf(text, text_size, "cannot read the file: %s",
			 fd < 0 ? strerror(errno) : "it is empty or no file");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED) {
		snprintf(text, text_size, "cannot map the file: %s", strerror(errno));
		return -1;
	}
	elf->bytes = map;
	elf->size = (size_t)st.st_size;
	if (elf->size < sizeof(ElfW(Ehdr)) || memcmp(elf->bytes, ELFMAG, SELFMAG) != 0 ||
	    elf->bytes[EI_CLASS] != ELF_CLASS_HERE) {
		snprintf(text, text_size, "the file is no shared object for this machine");
		check_elf_close(elf);
		return -1;
	}
	elf->starters = elf_starters(elf);
	return 0;
}

void check_elf_close(struct check_elf *elf)
{
	if (elf->bytes)
		munmap((void *)(uintptr_t)elf->bytes, elf->size);
	elf->bytes = NULL;
}

static void elf_each_symbol(const struct check_elf *elf, const ElfW(Shdr) * section,
			    const ElfW(Shdr) * strings, check_elf_see see, void *user)
{
	uint64_t n = section->sh_size / sizeof(ElfW(Sym));
	const ElfW(Sym) *symbol = elf_at(elf, section->sh_offset, n, sizeof(*symbol));

	for (uint64_t i = 1; symbol && i < n; i++) {
		const char *name = elf_string(elf, strings, symbol[i].st_name);

		/* Both ELF classes have fields of the same names. */
		if (*name && ELF64_ST_BIND(symbol[i].st_info) != STB_LOCAL)
			see(user, name, symbol[i].st_shndx != SHN_UNDEF,
			    ELF64_ST_BIND(symbol[i].st_info) == STB_GLOBAL);
	}
}

static void elf_each_library(const struct check_elf *elf, const ElfW(Shdr) * section,
			     const ElfW(Shdr) * strings, check_elf_see see, void *user)
{
	uint64_t n = section->sh_size / sizeof(ElfW(Dyn));
	const ElfW(Dyn) *entry = elf_at(elf, section->sh_offset, n, sizeof(*entry));

	for (uint64_t i = 0; entry && i < n && entry[i].d_tag != DT_NULL; i++)
		if (entry[i].d_tag == DT_NEEDED)
			see(user, elf_string(elf, strings, entry[i].d_un.d_val), 0, 1);
}

void check_elf_each(const struct check_elf *elf, check_elf_see symbol, check_elf_see library,
		    void *user)
{
	const ElfW(Shdr) * section;
	int n;

	section = elf_sections(elf, &n);
	for (int i = 0; section && i < n; i++) {
		if (section[i].sh_link >= (unsigned)n)
			continue;
		if (section[i].sh_type == SHT_DYNSYM)
			elf_each_symbol(elf, &section[i], &section[section[i].sh_link], symbol,
					user);
		else if (section[i].sh_type == SHT_DYNAMIC)
			elf_each_library(elf, &section[i], &section[section[i].sh_link], library,
					 user);
	}
}
