/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trust_test.c - which files a process may use: owners and modes of every step of a path, links,
 * COLL_TRUST; as root, as an ordinary user, in a set-uid or set-gid program, and in a user namespace.
 */
#include "base/trust.h"
#include "base/error.h"
#include "../lib/plugin_dir.h"

#include <errno.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { USER = 65532, OTHER = 65533 };

/* ---------------------------------------------------------------------- helpers -- */

static struct trust trust;

static void own(const char *name, int owner)
{
	if (lchown(at(name), (uid_t)owner, (gid_t)-1))
		bail_out("chown %s", at(name));
}

static void mode(const char *name, int bits)
{
	if (chmod(at(name), (mode_t)bits))
		bail_out("chmod %s", at(name));
}

static void make_link(const char *target, const char *name)
{
	if (symlink(target, at(name)))
		bail_out("symlink %s", at(name));
}

/* The file is good for data and for a plugin. */
static void good(const char *name, const char *what)
{
	is_int(trust_check(at(name), 0, &trust), 0, "%s (%s)", what, error_text());
	is_int(trust_check(at(name), 1, &trust), 0, "%s: a plugin (%s)", what, error_text());
}

/* Neither data nor a plugin; the text of both has the pieces. */
static void bad(const char *name, const char *a, const char *b, const char *what)
{
	for (int is_plugin = 0; is_plugin < 2; is_plugin++) {
		is_int(trust_check(at(name), is_plugin, &trust), COLL_ERR_PERMISSION, "%s", what);
		has_str(error_text(), a, "%s: the fault", what);
		has_str(error_text(), b, "%s: the place", what);
	}
	diag("%s", error_text());
}

/* "'PATH' (owner N, mode MODE)" */
static const char *place_of(const char *name, int owner, const char *bits)
{
	static char text[600];

	snprintf(text, sizeof(text), "'%s' (owner %d, mode %s)", at(name), owner, bits);
	return text;
}

static void make_tree(void)
{
	mode("", 0755);
	make_dir("a");
	make_dir("a/b");
	put("a/b/file", "x", 1);
	make_dir("open");
	mode("open", 0777);
	put("open/file", "x", 1);
	make_dir("sticky");
	mode("sticky", 01777);
	put("sticky/file", "x", 1);
	make_dir("sticky/c");
	put("sticky/c/file", "x", 1);
}

/* --------------------------------------------------------- any user: modes and links -- */

static void test_modes(void)
{
	const int me = (int)geteuid();

	good("a/b/file", "a file that only its owner writes");
	is_str(trust.note, "", "without a note");
	mode("a/b/file", 0666);
	bad("a/b/file", "others may write to the file", place_of("a/b/file", me, "0666"),
	    "a file that all may write");
	has_str(error_text(), "nobody else may write", "says what was expected");
	has_str(error_text(), "chmod go-w", "and what to do");
	has_str(error_text(), "COLL_TRUST", "or to set");
	mode("a/b/file", 0644);
	mode("a/b", 0757);
	bad("a/b/file", "others may write to the directory", place_of("a/b", me, "0757"),
	    "its directory");
	mode("a/b", 0755);
	mode("a", 0777);
	bad("a/b/file", "others may write to the directory", place_of("a", me, "0777"),
	    "the directory above");
	mode("a", 0755);
	good("sticky/c/file", "below a sticky directory");
	is_int(trust_check(at("sticky/file"), 0, &trust), 0, "data in a sticky directory");
	is_int(trust_check(at("sticky/file"), 1, &trust), COLL_ERR_PERMISSION,
	       "but no plugin in one");
	has_str(error_text(), place_of("sticky", me, "1777"), "which is named");
}

static void test_links(void)
{
	make_link("a/b/file", "link");
	good("link", "a link to a good file");
	make_link("../../link", "a/b/again");
	good("a/b/again", "a link to a link, with '..'");
	make_link(at("a"), "absolute");
	good("absolute/b/../b/./file", "an absolute link to a directory, with '..' and '.'");
	good("a//b///file", "repeated slashes");
	make_link("open/file", "into");
	bad("into", "others may write to the directory", at("open"),
	    "a link into a directory that all may write");
	make_link(at("a/b/file"), "open/out");
	bad("open/out", "others may write to the directory", at("open"),
	    "a link in such a directory");
	make_link("open/out", "through");
	bad("through", "others may write to the directory", at("open"),
	    "a link through such a one");
	make_link("loop", "loop");
	bad("loop", "cannot be checked: Too many levels", at("loop"), "a link to itself");
	bad("nosuch", "cannot be checked: No such file", at("nosuch"), "a file that is not there");
}

static void test_relative(void)
{
	if (chdir(at("a/b")))
		bail_out("chdir");
	is_int(trust_check("file", 1, &trust), 0, "a relative path");
	is_int(trust_check("../../open/file", 0, &trust), COLL_ERR_PERMISSION,
	       "a relative path upwards");
	mode("a", 0777);
	is_int(trust_check("./file", 0, &trust), COLL_ERR_PERMISSION,
	       "the directories above the current one count");
	mode("a", 0755);
	if (chdir("/"))
		bail_out("chdir");
}

static void test_opt_in(void)
{
	char list[600];

	mode("a/b", 0777);
	setenv("COLL_TRUST", at("a"), 1);
	good("a/b/file", "COLL_TRUST names the tree");
	has_str(trust.note, place_of("a/b", (int)geteuid(), "0777"), "a note names the fault");
	ok(!trust.by_group, "which is no group");
	setenv("COLL_TRUST", at("a/b"), 1);
	mode("a", 0777);
	good("a/b/file", "the directories above the tree count no more");
	mode("a", 0755);
	snprintf(list, sizeof(list), "%s:%s::%s/", at("nosuch"), at("open"), at("absolute"));
	setenv("COLL_TRUST", list, 1);
	good("a/b/file", "a tree by a link, in a list");
	good("into", "the other tree of the list");
	make_dir("a/bb");
	put("a/bb/file", "x", 1);
	mode("a/bb", 0777);
	setenv("COLL_TRUST", at("a/b"), 1);
	bad("a/bb/file", "others may write", at("a/bb"), "a tree whose name only begins so");
	setenv("COLL_TRUST", at("open"), 1);
	bad("a/b/file", "others may write", at("a/b"), "another tree");
	bad("a/b/../../open/../a/b/file", "others may write", at("a/b"), "a way through the tree");
	if (chdir(dir))
		bail_out("chdir");
	setenv("COLL_TRUST", "a", 1);
	bad("a/b/file", "others may write", at("a/b"), "a relative tree");
	if (chdir("/"))
		bail_out("chdir");
	setenv("COLL_TRUST", "/", 1);
	good("a/b/file", "everything");
	unsetenv("COLL_TRUST");
	mode("a/b", 0755);
}

/* ---------------------------------------------------------------------- as root -- */

static void test_owners(void)
{
	own("a/b/file", USER);
	bad("a/b/file", "another user owns the file", place_of("a/b/file", USER, "0644"),
	    "root: a user's file");
	has_str(error_text(), "; root must own the path", "says who should own it");
	has_str(error_text(), "chown", "and what to do");
	setenv("COLL_TRUST", at("a"), 1);
	good("a/b/file", "root: COLL_TRUST takes the user's file");
	unsetenv("COLL_TRUST");
	own("a/b/file", 0);
	own("a/b", USER);
	bad("a/b/file", "another user owns the directory", place_of("a/b", USER, "0755"),
	    "root: a user's directory");
	own("a/b", 0);
	own("a", USER);
	bad("a/b/file", "another user owns the directory", place_of("a", USER, "0755"),
	    "root: a user's directory further up");
	own("a", 0);
	own("sticky", USER);
	bad("sticky/c/file", "another user owns the directory", place_of("sticky", USER, "1777"),
	    "root: a user's sticky directory");
	own("sticky", 0);
	make_link(at("a/b/file"), "sticky/theirs");
	own("sticky/theirs", USER);
	is_int(trust_check(at("sticky/theirs"), 0, &trust), COLL_ERR_PERMISSION,
	       "root: a user's link in a sticky directory");
	has_str(error_text(), "another user owns the symbolic link", "is named");
	mode("a/b/file", 0664);
	bad("a/b/file", "others may write to the file", place_of("a/b/file", 0, "0664"),
	    "root: a group may write");
	mode("a/b/file", 0644);
}

/* ------------------------------------------------------------- as an ordinary user -- */

static void test_user(void)
{
	if (seteuid(USER))
		bail_out("seteuid");
	good("a/b/file", "user: root's file");
	if (seteuid(0))
		bail_out("seteuid");
	own("a", USER);
	own("a/b", USER);
	own("a/b/file", USER);
	mode("a/b/file", 0664);
	if (seteuid(USER))
		bail_out("seteuid");
	good("a/b/file", "user: the own file, which a group may write");
	has_str(trust.note, place_of("a/b/file", USER, "0664"), "a note names it");
	ok(trust.by_group, "as a group's");
	if (seteuid(0) || chown(at("a/b/file"), USER, USER) || chmod(at("a/b/file"), 0664) ||
	    seteuid(USER))
		bail_out("chown");
	good("a/b/file", "user: a private group may write");
	is_str(trust.note, "", "without a note");
	if (seteuid(0))
		bail_out("seteuid");
	own("a/b", OTHER);
	if (seteuid(USER))
		bail_out("seteuid");
	bad("a/b/file", "another user owns the directory", place_of("a/b", OTHER, "0755"),
	    "user: another user's directory");
	has_str(error_text(), "; root or user 65532 must own", "says who should own it");
	if (seteuid(0))
		bail_out("seteuid");
}

/* ------------------------------------------------ copies of this program, run by a user -- */

/* Enters a user namespace without a number for anybody, or with the number `as` for the user only. */
static int enter_namespace(const char *as)
{
	const uid_t user = geteuid();
	char map[64];
	int fd, bad;

	if (prctl(PR_SET_DUMPABLE, 1) || unshare(CLONE_NEWUSER))
		return -1;
	if (strcmp(as, "nobody") == 0)
		return 0;
	snprintf(map, sizeof(map), "%d %d 1", strcmp(as, "root") ? (int)user : 0, (int)user);
	fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
	bad = fd < 0 || write(fd, map, strlen(map)) < 0;
	if (fd >= 0)
		close(fd);
	return bad;
}

enum { CHILD_CANNOT = 77, CHILD_JUDGED = 1, CHILD_SAID = 2 };

/*
 * trust_test PATH WANT TEXT MANNER...: judges the path in these manners: "secure" in a set-uid or set-gid program,
 * "self", "root" and "nobody" in a user namespace, as a user of that name.  Exits with 0 if the judgement is the
 * wanted code with that text, and with CHILD_CANNOT where the manner is not possible.
 */
static int child(char **argv)
{
	int code;

	for (char **manner = argv + 4; *manner; manner++) {
		if (strcmp(*manner, "secure") == 0 && !getauxval(AT_SECURE))
			return CHILD_CANNOT;
		if (strcmp(*manner, "secure") && strcmp(*manner, "plain") &&
		    enter_namespace(*manner))
			return CHILD_CANNOT;
	}
	code = trust_check(argv[1], 1, &trust);
	if (code != atoi(argv[2]) || !strstr(error_text(), argv[3]))
		diag("%d: %s", code, error_text());
	fflush(stdout);
	if (code != atoi(argv[2]))
		return CHILD_JUDGED;
	return strstr(error_text(), argv[3]) ? 0 : CHILD_SAID;
}

/* A copy of this program, and with it of libcoll. */
struct copy {
	const char *place;
	int owner, bits;
	const char *manner, *within; /* of child; within: NULL, or the user in a user namespace */
	const char *called;          /* NULL, or the name by which a shell has found it in PATH */
};

/* Runs the copy as a user: it judges the file and finds that code and text. */
static void run(struct copy copy, int user, const char *file, int want, const char *text,
		const char *what)
{
	char code[16];
	pid_t pid;
	int status;

	place_file("/proc/self/exe", copy.place);
	own(copy.place, copy.owner);
	mode(copy.place, copy.bits);
	snprintf(code, sizeof(code), "%d", want);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (setgid((gid_t)user) || setuid((uid_t)user))
			_exit(99);
		execl(at(copy.place), copy.called ? copy.called : at(copy.place), at(file), code,
		      text, copy.manner, copy.within, (char *)NULL);
		_exit(errno == EACCES ? CHILD_CANNOT : 98);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail_out("no child");
	if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_CANNOT)
		skip(1, "no programs of other users, set-uid ones or user namespaces here (%s)",
		     dir);
	else
		is_int(status, 0, "%s", what);
	unlink(at(copy.place));
}

static void run_copy(const char *manner, int user, int owner, int bits, const char *file, int want,
		     const char *what)
{
	run((struct copy){"copy", owner, bits, manner, NULL, NULL}, user, file, want, "", what);
}

static void as_user(int owner, int bits, const char *file, int want, const char *what)
{
	run_copy(bits & 06000 ? "secure" : "plain", USER, owner, bits, file, want, what);
}

static void test_programs(void)
{
	make_dir("p");
	put("p/root", "x", 1);
	put("p/user", "x", 1);
	own("p/user", USER);
	put("p/other", "x", 1);
	own("p/other", OTHER);
	as_user(0, 0755, "p/user", 0, "user: the own file");
	as_user(0, 0755, "p/other", COLL_ERR_PERMISSION, "user: another user's file is refused");
	as_user(OTHER, 0755, "p/other", 0, "user: a file of the owner of libcoll");
	run_copy("plain", 0, OTHER, 0755, "p/other", COLL_ERR_PERMISSION,
		 "root: a file of the owner of libcoll is refused");
	as_user(OTHER, 04755, "p/other", 0, "set-uid: a file of the effective user");
	as_user(OTHER, 04755, "p/root", 0, "set-uid: root's file");
	as_user(OTHER, 04755, "p/user", COLL_ERR_PERMISSION,
		"set-uid: a file of the caller is refused");
	as_user(0, 02755, "p/root", 0, "set-gid: root's file");
	as_user(0, 02755, "p/user", COLL_ERR_PERMISSION,
		"set-gid: a file of the caller is refused");
	mode("p/root", 0664);
	as_user(0, 0755, "p/root", 0, "user: a group may write");
	as_user(0, 02755, "p/root", COLL_ERR_PERMISSION, "set-gid: no group may write");
	mode("p/root", 0644);
	setenv("COLL_TRUST", dir, 1);
	as_user(0, 0755, "p/other", 0, "user: COLL_TRUST takes another user's file");
	as_user(0, 02755, "p/user", COLL_ERR_PERMISSION, "set-gid: COLL_TRUST is ignored");
	unsetenv("COLL_TRUST");
}

/* A program that a shell finds in PATH has a name without '/', like a stranger's file in the current directory. */
static void test_found_in_path(void)
{
	const struct copy found = {"copy", 0, 0755, "plain", NULL, "named"};

	make_dir("cwd");
	put("cwd/named", "x", 1);
	own("cwd/named", OTHER);
	if (chdir(at("cwd")))
		bail_out("chdir");
	run(found, USER, "p/other", COLL_ERR_PERMISSION, "another user owns",
	    "user: the owner of a file with the program's name is a stranger");
	if (chdir("/"))
		bail_out("chdir");
}

/* ------------------------------------------------- users without a number, and nobody -- */

/* The number that stands for every user without a number here. */
static int nobody(void)
{
	FILE *file = fopen("/proc/sys/kernel/overflowuid", "r");
	int number = 65534;

	if (!file || fscanf(file, "%d", &number) != 1)
		diag("no overflowuid: %d", number);
	if (file)
		fclose(file);
	return number;
}

/* Files of nobody may be files of anybody, also for a process that is nobody. */
static void test_nobody(void)
{
	const int none = nobody();
	const struct copy plain = {"copy", 0, 0755, "plain", NULL, NULL},
			  theirs = {"copy", none, 0755, "plain", NULL, NULL};
	char text[80];

	snprintf(text, sizeof(text), "; root must own the path");
	put("p/nobody", "x", 1);
	own("p/nobody", none);
	run(plain, none, "p/nobody", COLL_ERR_PERMISSION, text, "nobody: the own file is refused");
	snprintf(text, sizeof(text), "; %d stands for every user without a number here", none);
	run(plain, none, "p/nobody", COLL_ERR_PERMISSION, text, "with the reason");
	run(plain, none, "p/root", 0, "", "nobody: root's file");
	run(theirs, USER, "p/nobody", COLL_ERR_PERMISSION, text,
	    "user: a file of nobody, who owns libcoll, is refused");
	run(plain, USER, "p/nobody", COLL_ERR_PERMISSION, text, "user: a file of nobody");
}

/* Files of root, of the user and of a stranger, in places that the namespace hides the owners of. */
static void make_places(void)
{
	make_dir("lib");
	make_dir("lib/plugins");
	put("lib/plugins/file", "x", 1);
	put("lib/plugins/open", "x", 1);
	mode("lib/plugins/open", 0664);
	make_dir("lib/drop");
	mode("lib/drop", 01777);
	make_dir("lib/drop/theirs");
	put("lib/drop/theirs/file", "x", 1);
	own("lib/drop/theirs/file", OTHER);
	own("lib/drop/theirs", OTHER);
	make_dir("mine");
	own("mine", USER);
	put("mine/file", "x", 1);
	own("mine/file", USER);
	make_link("../mine", "lib/mine");
	make_dir("sticky/lib");
	make_link("../mine", "sticky/mine");
	own("sticky/mine", OTHER);
	make_dir("theirs");
	own("theirs", OTHER);
	put("theirs/file", "x", 1);
	own("theirs/file", OTHER);
	make_dir("home");
	make_dir("home/user");
	own("home/user", USER);
	put("home/user/file", "x", 1);
	own("home/user/file", USER);
	make_dir("home/other");
	own("home/other", OTHER);
	put("home/other/file", "x", 1);
	own("home/other/file", OTHER);
}

/* In a user namespace with a number for one user only, who is called `as` there, or for none. */
static void test_namespace(const char *as)
{
	const int named = strcmp(as, "nobody") != 0;
	const struct copy roots = {"lib/copy", 0, 0755, "plain", as, NULL},
			  users = {"lib/copy", USER, 0755, "plain", as, NULL},
			  others = {"lib/copy", OTHER, 04755, "secure", as, NULL},
			  sticky = {"sticky/lib/copy", 0, 0755, "plain", as, NULL};
	char text[200];

	diag("a user namespace in which the user is %s", as);
	snprintf(text, sizeof(text), "(/proc/self/uid_map: %s%s), and chown cannot change that: ",
		 named ? (strcmp(as, "root") ? "65532" : "0") : "empty", named ? " 65532 1" : "");
	run(roots, USER, "theirs/file", COLL_ERR_PERMISSION, text, "a stranger's file is refused");
	snprintf(text, sizeof(text), "set COLL_TRUST=%s if you trust", at("theirs"));
	run(roots, USER, "theirs/file", COLL_ERR_PERMISSION, text, "the text has the remedy");
	snprintf(text, sizeof(text), "an unknown user owns the directory '%s' (owner %d", at("p"),
		 nobody());
	run(roots, USER, "p/root", COLL_ERR_PERMISSION, text, "so is root's: they look alike");
	run(roots, USER, "lib/plugins/file", 0, "", "but not beside root's libcoll");
	run(roots, USER, "lib/plugins/open", COLL_ERR_PERMISSION, "others may write to the file",
	    "unless a group may write to it");
	run(roots, USER, "lib/drop/theirs/file", COLL_ERR_PERMISSION, "an unknown user owns",
	    "or anybody may make files there");
	run(users, USER, "lib/plugins/file", named ? COLL_ERR_PERMISSION : 0,
	    named ? "an unknown user owns" : "", "a libcoll of the user says nothing of root");
	run(others, USER, "lib/plugins/file", COLL_ERR_PERMISSION, "an unknown user owns",
	    "set-uid: refused beside libcoll, too");
	setenv("COLL_TRUST", at("theirs"), 1);
	run(roots, USER, "theirs/file", 0, "", "COLL_TRUST takes it");
	run(others, USER, "theirs/file", COLL_ERR_PERMISSION, "an unknown user owns",
	    "set-uid: COLL_TRUST is ignored");
	unsetenv("COLL_TRUST");
	if (!named)
		return;
	run(roots, USER, "mine/file", 0, "", "the user's own file");
	run(roots, USER, "lib/mine/file", 0, "", "by root's link");
	run(sticky, USER, "sticky/mine/file", COLL_ERR_PERMISSION,
	    "an unknown user owns the symbolic link", "not by a stranger's link");
	setenv("HOME", at("theirs"), 1);
	run(roots, USER, "home/user/file", COLL_ERR_PERMISSION, at("home"),
	    "a directory above the own files counts");
	setenv("HOME", at("home/user"), 1);
	run(roots, USER, "home/user/file", 0, "", "but not above the user's home");
	run(roots, USER, "home/other/file", COLL_ERR_PERMISSION, at("home/other"),
	    "nor is another home good for that");
}

/* A directory that was opened is judged by its path, and must be what the path leads to. */
static void test_opened(void)
{
	char cwd[400];
	int one, other;

	make_dir("opened");
	make_dir("opened/one");
	make_dir("opened/other");
	one = open(at("opened/one"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	other = open(at("opened/other"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (one < 0 || other < 0 || symlink("one", at("opened/link")))
		bail_out("cannot open directories");
	is_int(trust_check_links(at("opened/one"), one), 0, "opened: the directory itself");
	is_int(trust_check_links(at("opened/link/"), one), 0, "opened: by the own link");
	is_int(trust_check_links(at("opened/other/.././one/."), one), 0, "opened: by dots");
	is_int(trust_check_links(at("opened/one/x/../.."), one), COLL_ERR_PERMISSION,
	       "opened: a part that is not there");
	is_int(trust_check_links(at("opened/link"), other), COLL_ERR_PERMISSION,
	       "opened: another directory");
	has_str(error_text(), "another directory came to", "opened: the reason");
	if (!getcwd(cwd, sizeof(cwd)) || chdir(at("opened/one")))
		bail_out("chdir");
	is_int(trust_check_links(".", one), 0, "opened: the working directory");
	is_int(trust_check_links("../one", one), 0, "opened: by a relative path");
	if (chdir(cwd))
		bail_out("chdir");
	close(one);
	close(other);
}

/* The root directory counts as every other. */
static void test_root_directory(void)
{
	pid_t pid;
	int status;

	make_dir("open/d");
	put("open/d/file", "x", 1);
	pid = fork();
	if (!pid) {
		if (chroot(at("open")) || chdir("/"))
			_exit(77);
		_exit(trust_check("/d/file", 0, &trust) != COLL_ERR_PERMISSION ||
		      !strstr(error_text(), "the directory '/' (owner 0, mode 0777)"));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail_out("no child");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(1, "no chroot here");
	else
		is_int(status, 0, "root: a root directory that all may write is refused");
}

int main(int argc, char **argv)
{
	if (argc > 4)
		_exit(child(argv));
	plugin_dir_begin();
	make_tree();
	test_modes();
	test_links();
	test_relative();
	test_opt_in();
	test_opened();
	if (geteuid() == 0) {
		test_owners();
		test_user();
		test_programs();
		test_found_in_path();
		test_nobody();
		make_places();
		test_namespace("user");
		test_namespace("root");
		test_namespace("nobody");
		test_root_directory();
	} else {
		skip(1, "files of other users need root");
	}
	plugin_dir_end();
	return done_testing();
}
