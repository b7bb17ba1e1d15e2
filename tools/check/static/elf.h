/* SPDX-License-Identifier: BSD-3-Clause */
/* elf.h - reads the symbols and the needed libraries of a shared object without loading it. */
#ifndef TOOLS_CHECK_ELF_H
#define TOOLS_CHECK_ELF_H

#include <stddef.h>
#include <stdint.h>

/* A symbol of the dynamic table, or the name of a needed library. */
typedef void (*check_elf_see)(void *user, const char *name, int defined, int global);

struct check_elf {
	const unsigned char *bytes;
	size_t size;
	int starters; /* functions that loading calls, the compiler's own included; -1: unknown */
};

/* Returns 0, or -1 with a message in text. */
int check_elf_open(struct check_elf *elf, const char *path, char *text, size_t text_size);
void check_elf_close(struct check_elf *elf);
/* Calls `symbol` for each dynamic symbol and `library` for each needed library. */
void check_elf_each(const struct check_elf *elf, check_elf_see symbol, check_elf_see library,
		    void *user);

#endif
