/* Runs somebody's kernel out of a shared library; plugin.h is the interface. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixtures/io/surroundings.h"
#include "gpu/host/backend.h"
#include "gpu/host/plugin_memory.h"

typedef int run_function(const struct etalon_plugin_call *);
typedef const char *name_function(void);

/* The library stays loaded: one that holds a GPU context does not survive being unloaded. */
static void *open_library(const char *library, struct error *e)
{
	char path[4096];
	const char *here = strchr(library, '/') ? "" : "./";
	int n = snprintf(path, sizeof path, "%s%s", here, library);

	if (n < 0 || (size_t)n >= sizeof path) {
		error_set(e, E_USAGE, library, NO_OFFSET, "the path is longer than %zu bytes", sizeof path - 1);
		return NULL;
	}
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		error_set(e, E_USAGE, library, NO_OFFSET, "%s", dlerror());
	return handle;
}

/* Copies the address of a symbol into *function, a pointer to a function. */
static bool find_symbol(void *handle, const char *symbol, void *function)
{
	void *address = dlsym(handle, symbol);

	memcpy(function, &address, sizeof address);
	return address != NULL;
}

static bool refused(int code, const char *library, const char *op, const char *message, struct error *e)
{
	switch (code) {
	case 1:
		return error_set(e, E_OP, op, NO_OFFSET, "%s does not support this call: %s", library,
		                 *message ? message : "no reason given");
	case 2:
		return error_set(e, E_DEVICE, op, NO_OFFSET, "%s: %s", library,
		                 *message ? message : "no reason given");
	default:
		return error_set(e, E_DEVICE, op, NO_OFFSET,
		                 "%s: etalon_plugin_run returned %d; 0, 1 and 2 have a meaning", library, code);
	}
}

/* Whatever it does to the floating-point environment or the working folder, the next case is made as the first one was. */
static int run_plain(run_function *run, const struct etalon_plugin_call *call)
{
	const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct surroundings before;

	surroundings_begin(&before);
	int code = run(call);
	surroundings_end(&before);
	if (here >= 0 && fchdir(here) == 0) close(here);
	return code;
}

static bool call_plugin(run_function *run, name_function *name, const char *library,
                        struct etalon_plugin_call *call, struct capture *c, struct error *e)
{
	char device[256] = "", message[256] = "";

	call->device = device;
	call->device_size = sizeof device;
	call->message = message;
	call->message_size = sizeof message;
	int code = run_plain(run, call);
	device[sizeof device - 1] = message[sizeof message - 1] = '\0';
	if (code != 0)
		return refused(code, library, c->op, message, e);

	const char *producer = name ? name() : NULL;
	return backend_stamp(c, producer ? producer : library, *device ? device : "unknown", NULL, e);
}

bool plugin_run(const char *library, struct capture *c, struct error *e)
{
	run_function *run;
	name_function *name;
	void *handle = open_library(library, e);

	if (!handle)
		return false;
	if (!find_symbol(handle, "etalon_plugin_run", &run))
		return error_set(e, E_USAGE, library, NO_OFFSET, "the library defines no etalon_plugin_run");
	find_symbol(handle, "etalon_plugin_name", &name);

	struct loan loan = { 0 };
	char *params = json_dumps(c->params, JSON_COMPACT);
	bool ok = (params || error_set(e, E_MEMORY, library, NO_OFFSET, "the parameters")) && loan_make(&loan, c, e);
	struct etalon_plugin_call call = {
		.version = ETALON_PLUGIN_VERSION, .op = c->op, .params = params,
		.n = loan.n, .tensor = loan.tensor
	};
	ok = ok && call_plugin(run, name, library, &call, c, e) && loan_take_back(&loan, c, library, e);
	loan_free(&loan);
	free(params);
	return ok;
}
