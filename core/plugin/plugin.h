/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin.h - finds plugin files, loads them for good, and keeps the true reason why a file was refused.
 *
 * The name of a file is the name of its backend, so a file whose backend the user has ruled out is not opened: the
 * libraries of a vendor may crash already there.
 *
 * A file is opened at most once per process and never unloaded.  The lock of the process-wide table of loaded files is
 * never held across plugin code.
 */
#ifndef CORE_PLUGIN_PLUGIN_H
#define CORE_PLUGIN_PLUGIN_H

#include "config/config.h"

#include <coll/observer.h>

struct plugin_kind;

struct plugin {
	const struct plugin_kind *kind; /* a backend, or an observer */
	char path[4096];
	char written[4096]; /* the same path, with the directory as an option names it */
	/* The name in the file's name; "" if this is no valid name.  Without a file: as the option `observers` has it. */
	char name[64];
	int found; /* place among the candidate files, in the order of the directories */
	/*
	 * Copies in the core's own sizes.  A slot that the plugin lacks is NULL.  backend.transport and
	 * backend.native point to the copies below, or are NULL.
	 */
	coll_backend_t backend;
	coll_transport_t transport;
	coll_native_t native;
	coll_observer_t observer; /* the table of an observer, whose `backend` is zeroed */
	coll_option_t *
		options; /* NULL, or the copy to which backend.options or observer.options points */
	int code;        /* COLL_SUCCESS, or the code of its refusal or of its probe */
	int unwanted;    /* plugins_load ruled it out and did not open it, or did not probe it */
	int unprobed;    /* PLUGINS_UNPROBED: only its probe can tell whether it is usable */
	char reason[768]; /* the message of code */
	char unsafe[700]; /* "", or why no ranks on several hosts use it (option `security`) */
	int32_t priority; /* the priority in force */
	char priority_source[512];
	char info[256]; /* the line of backend->info, after plugins_describe; or "" */
	void *answer;   /* NULL, or what the child process wrote: it has the strings of the table */
};

struct plugin_list {
	struct plugin *item; /* the backends */
	int count;
	struct plugin *
		observer; /* the observers, in the order of their files; see plugins_find_observer */
	int observer_count;
	int uses_cuda; /* 1: the application uses CUDA */
	/* Directories searched and their faults, one message each. */
	char (*note)[768];
	int note_count;
};

/* What plugins_load opens and probes. */
enum {
	/*
	 * The plugins that the option `backend` allows, and the companion of a backend without a transport, unless the
	 * option excludes the companion by name.
	 */
	PLUGINS_ALLOWED = 1,
	PLUGINS_IDLE = 2, /* plugin_idle does not keep a plugin from its probe */
	/*
	 * Opens and probes each plugin in a child process, and asks for its info.  The tables have no functions to call
	 * then: this is for a process with one thread that only looks.
	 */
	PLUGINS_IN_CHILDREN = 4,
	/*
	 * Leaves the probes of plugins that no list names to plugins_probe: a probe opens the libraries of its vendor, which takes
	 * milliseconds, and only a plugin that the ranks may choose needs it.
	 */
	PLUGINS_UNPROBED = 8
};

/*
 * Finds the plugins in the directories of `plugin_path` (or in the built-in one), opens the plugins that `how` tells,
 * declares their options in config, reads their priorities and probes them.  uses_cuda: the application uses CUDA as
 * far as device_in_use and coll_config_t.device show.  The list is sorted by priority, highest first, then by name.  It
 * is made even if every plugin was refused; the return is an error only for lack of memory or for a fault in config
 * found while declaring.  A faulty value is not in force, so the plugins are probed all the same.
 */
int plugins_load(struct config *config, int how, int uses_cuda, struct plugin_list **list);
/*
 * Sets the priorities for ranks that all run on one host, or for ranks on several, and which backends protect
 * messages as the option `security` asks.  Sorts the list anew, so pointers into the list are void.  plugins_load does
 * this for several hosts.  In a program that uses CUDA the priorities of both cases are the same, since
 * coll_backend_t.host_priority is about host memory.
 */
void plugins_place(struct plugin_list *list, struct config *config, int one_host);
void plugins_free(struct plugin_list *list);
/* Calls the `info` function of every usable plugin. */
void plugins_describe(struct plugin_list *list, const struct config *config);
/*
 * NULL, or the message why a plugin is taken only by name here: it cannot use host memory, and the
 * application uses no other memory.  Then it is not even probed, since that may initialise CUDA.
 */
const char *plugin_idle(const struct plugin_list *list, const struct plugin *plugin);
/* The usable or refused entry of that backend name, or NULL. */
struct plugin *plugins_find(const struct plugin_list *list, const char *name);
/*
 * The entry of that observer name, or NULL.  plugins_load opens the observers that the option `observers` names, and has
 * an entry without a path, which is refused, for a name that no file has.
 */
struct plugin *plugins_find_observer(const struct plugin_list *list, const char *name);
/*
 * The names of the observers of a job, each once: the names in the option `observers`, and `timeline` if the option
 * `timeline` is set.
 */
struct observer_names {
	const struct config *config;
	const char *at;
	int taken, all; /* 1: the observer `timeline` was named, the list has ended */
};
void plugins_begin_observers(struct observer_names *names, const struct config *config);
/* Takes the next name, of which 62 bytes count.  Returns 0 if there is none. */
int plugins_next_observer(struct observer_names *names, char name[64]);
/* Returns a number that the number of names does not exceed. */
size_t plugins_most_observers(const struct config *config);
/*
 * Around each open: the backend's `finish` will be called when the process ends, also in the open, and before the exit
 * handlers that its libraries install there.  Returns for plugin_open_end whether no open of the backend has returned.
 */
int plugin_open_begin(const struct plugin *plugin);
void plugin_open_end(const struct plugin *plugin, int is_first);
/*
 * Opens the entry of that backend name, if plugins_load ruled it out, and declares its options.  A wrong value is the
 * reason of its refusal.
 */
void plugins_open(struct plugin_list *list, struct config *config, const char *name);
/* Probes the open entry of that backend name, also if plugins_load ruled it out, and returns it; or NULL. */
const struct plugin *plugins_probe(struct plugin_list *list, const struct config *config,
				   const char *name);

#endif
