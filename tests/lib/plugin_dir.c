/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_dir.c - makes, fills and removes the test's own directory. */
#include "plugin_dir.h"

char dir[64];

const char *at(const char *name)
{
	static char path[8][512];
	static int i;

	i = (i + 1) % 8;
	snprintf(path[i], sizeof(path[i]), "%s%s%s", dir, name[0] ? "/" : "", name);
	return path[i];
}

void put(const char *name, const void *bytes, size_t len)
{
	FILE *f = fopen(at(name), "w");

	if (!f || fwrite(bytes, 1, len, f) != len || fclose(f))
		bail_out("cannot write %s", at(name));
}

char *slurp(const char *path, size_t *len)
{
	FILE *f = fopen(path, "r");
	char *bytes;
	struct stat st;

	if (!f || fstat(fileno(f), &st))
		bail_out("cannot read %s", path);
	*len = (size_t)st.st_size;
	bytes = malloc(*len + 1);
	if (!bytes || fread(bytes, 1, *len, f) != *len)
		bail_out("cannot read %s", path);
	fclose(f);
	return bytes;
}

const char *content(const char *name)
{
	static char text[1 << 18];
	size_t len = 0;
	char *bytes = access(at(name), F_OK) ? NULL : slurp(at(name), &len);

	snprintf(text, sizeof(text), "%.*s", (int)len, bytes ? bytes : "");
	free(bytes);
	return text;
}

const char *built(const char *file)
{
	static char path[512];
	const char *top = getenv("top_builddir");

	snprintf(path, sizeof(path), "%s/tests/plugins/.libs/%s", top ? top : ".", file);
	return path;
}

void place_file(const char *path, const char *as)
{
	size_t len;
	char *bytes = slurp(path, &len);

	put(as, bytes, len);
	free(bytes);
}

void place_part(const char *file, const char *as, int part)
{
	size_t len;
	char *bytes = slurp(built(file), &len);

	put(as, bytes, len * (size_t)part / 100);
	free(bytes);
}

void place(const char *file, const char *as)
{
	place_part(file, as, 100);
}

void make_dir(const char *name)
{
	if (mkdir(at(name), 0755))
		bail_out("cannot make %s", at(name));
}

void plugin_dir_begin(void)
{
	const char *tmp = getenv("TMPDIR");
	char real[512];

	snprintf(dir, sizeof(dir), "%.30s/coll-plugin-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		bail_out("cannot make a directory like %s", dir);
	/* Messages show real paths, so the directory's name must be one. */
	if (realpath(dir, real) && strlen(real) < sizeof(dir))
		strcpy(dir, real);
	umask(022);
	unsetenv("COLL_PLUGIN_PATH");
	unsetenv("COLL_BACKEND");
	unsetenv("COLL_TRUST");
	setenv("XDG_CONFIG_HOME", at("no-config"), 1);
	setenv("COLL_SYSCONFDIR", at("no-config"), 1);
}

void plugin_dir_end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	if (system(command))
		diag("%s was left behind", dir);
}
