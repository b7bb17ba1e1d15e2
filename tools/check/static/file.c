/* SPDX-License-Identifier: BSD-3-Clause */
/* file.c - the plugin's file: its name, the symbols that it exports and needs, and that loading it has no effect. */
#include <coll/observer.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "check/kit/kit.h"
#include "check/static/elf.h"
#include "check/static/static.h"
#include "check/kit/trace.h"

/* Names that compilers and linkers export by themselves. */
static int file_is_reserved(const char *name)
{
	return name[0] == '_';
}

static const char *file_exported(const struct check_options *options)
{
	return options->observer ? COLL_OBSERVER_SYMBOL : COLL_BACKEND_SYMBOL;
}

struct file_found {
	const char *wanted; /* coll_backend_v1, or coll_observer_v1 */
	int symbol;         /* it is exported */
	char other[200];    /* other exported symbols */
	char coll[200];     /* symbols of libcoll, or libcoll itself, that the file needs */
	/* 1: built for a sanitizer or for coverage, which export symbols of their own */
	int instrumented;
};

static void file_note(char *text, size_t size, const char *name)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
}

static void file_symbol(void *user, const char *name, int defined, int global)
{
	struct file_found *found = user;

	found->instrumented |= !strncmp(name, "__asan_", 7) || !strncmp(name, "__tsan_", 7) ||
			       !strncmp(name, "__ubsan_", 8) || !strncmp(name, "__gcov_", 7) ||
			       !strncmp(name, "__llvm_profile", 14);
	if (!defined && !strncmp(name, "coll_", 5))
		file_note(found->coll, sizeof(found->coll), name);
	if (!defined || file_is_reserved(name))
		return;
	if (!strcmp(name, found->wanted))
		found->symbol = 1;
	else if (global)
		file_note(found->other, sizeof(found->other), name);
}

static void file_library(void *user, const char *name, int defined, int global)
{
	struct file_found *found = user;

	(void)defined, (void)global;
	if (!strncmp(name, "libcoll.so", 10))
		file_note(found->coll, sizeof(found->coll), name);
}

/* Reads the file.  Returns 0, or -1 after failing the check. */
static int file_look(struct check_case *c, struct file_found *found, struct check_elf *elf)
{
	char text[200];

	*found = (struct file_found){.wanted = file_exported(c->options)};
	if (check_elf_open(elf, c->options->path, text, sizeof(text))) {
		check_fail(c, "%s", text);
		return -1;
	}
	check_elf_each(elf, file_symbol, file_library, found);
	return 0;
}

static void file_name(struct check_case *c)
{
	if (!c->options->name[0])
		check_fail(c, "'%s' is not called %s_<name>.so, with a name of at most 31 bytes",
			   c->options->path, c->options->observer ? "observer" : "coll");
}

static void file_exports(struct check_case *c)
{
	struct file_found found;
	struct check_elf elf;

	if (file_look(c, &found, &elf))
		return;
	if (!found.symbol)
		check_fail(c, "the file does not export %s; declare the %s with %s", found.wanted,
			   c->options->observer ? "observer" : "backend",
			   c->options->observer ? "COLL_OBSERVER_EXPORT" : "COLL_BACKEND_EXPORT");
	else if (found.other[0])
		check_fail(
			c,
			"the file exports more than %s: %s; declare functions static or build with "
			"-fvisibility=hidden",
			found.wanted, found.other);
	check_elf_close(&elf);
}

static void file_alone(struct check_case *c)
{
	struct file_found found;
	struct check_elf elf;

	if (file_look(c, &found, &elf))
		return;
	if (found.coll[0])
		check_fail(c,
			   "the file needs %s, but a plugin must reach the core through "
			   "%s only",
			   found.coll,
			   c->options->observer ? "coll_observer_host_t" : "coll_host_t");
	check_elf_close(&elf);
}

static void file_idle(struct check_case *c)
{
	struct file_found found;
	struct check_elf elf;

	if (file_look(c, &found, &elf))
		return;
	if (found.instrumented)
		check_skip(c, "the file is built for a sanitizer or for coverage, which export "
			      "symbols of their own");
	else if (elf.starters > 1)
		check_fail(c,
			   "loading the file runs %d functions besides the compiler's own: do the "
			   "work "
			   "in probe or open",
			   elf.starters - 1);
	check_elf_close(&elf);
}

static void file_load(struct check_case *c)
{
	int threads = check_count_threads(), fds = check_count_fds();
	void *handle = dlopen(c->options->path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!handle)
		check_fail(c, "%s", dlerror());
	else if (!dlsym(handle, file_exported(c->options)))
		check_fail(c, "the loaded file has no symbol %s", file_exported(c->options));
	else if (check_count_threads() > threads)
		check_fail(c, "loading the file starts threads: start them in open");
	else if (check_count_fds() > fds)
		check_fail(c, "loading the file opens descriptors: open them in open");
}

const struct check check_file_checks[] = {
	{.name = "file-name",
	 .says = "the file is called coll_<name>.so",
	 .promise = "coll_backend_t.name",
	 .group = CHECK_FILE,
	 .run = file_name},
	{.name = "exports",
	 .says = "the file exports " COLL_BACKEND_SYMBOL " and nothing else",
	 .promise = COLL_BACKEND_SYMBOL,
	 .group = CHECK_FILE,
	 .run = file_exports},
	{.name = "alone",
	 .says = "the file needs no symbol of libcoll",
	 .promise = "coll_host_t",
	 .group = CHECK_FILE,
	 .run = file_alone},
	{.name = "load-idle",
	 .says = "loading the file runs no code of the plugin",
	 .promise = "Limits",
	 .group = CHECK_FILE,
	 .run = file_idle},
	{.name = "load",
	 .says = "the file loads with all symbols resolved at once",
	 .promise = COLL_BACKEND_SYMBOL,
	 .group = CHECK_FILE,
	 .ground = 1,
	 .run = file_load},
	{.name = NULL},
};

const struct check check_observer_file_checks[] = {
	{.name = "file-name",
	 .says = "the file is called observer_<name>.so",
	 .promise = "coll_observer_t.name",
	 .group = CHECK_FILE,
	 .run = file_name},
	{.name = "exports",
	 .says = "the file exports " COLL_OBSERVER_SYMBOL " and nothing else",
	 .promise = COLL_OBSERVER_SYMBOL,
	 .group = CHECK_FILE,
	 .run = file_exports},
	{.name = "alone",
	 .says = "the file needs no symbol of libcoll",
	 .promise = "coll_observer_host_t",
	 .group = CHECK_FILE,
	 .run = file_alone},
	{.name = "load-idle",
	 .says = "loading the file runs no code of the observer",
	 .promise = "Limits",
	 .group = CHECK_FILE,
	 .run = file_idle},
	{.name = "load",
	 .says = "the file loads with all symbols resolved at once",
	 .promise = COLL_OBSERVER_SYMBOL,
	 .group = CHECK_FILE,
	 .ground = 1,
	 .run = file_load},
	{.name = NULL},
};
