/* Errors as callers get them, and the first one of a call, which stays. */
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "fixtures/io/surroundings.h"

const char *etalon_version(void) { return ETALON_VERSION; }

bool api_error(struct etalon_error *to, const struct error *e)
{
	if (!to) return false;
	*to = (struct etalon_error){ .code = error_exit(e), .offset = e->offset };
	memcpy(to->file, e->file, sizeof e->file);
	memcpy(to->item, e->item, sizeof e->item);
	snprintf(to->message, sizeof to->message, e->detail[0] ? "%s (%s)" : "%s", error_message(e->code), e->detail);
	return false;
}

bool api_call_error(etalon_call *call, struct etalon_error *to, const struct error *e)
{
	call->first = *e;
	call->failed = true;
	return api_error(to, e);
}

bool api_has_failed(const etalon_call *call, struct etalon_error *to)
{
	if (call->failed) api_error(to, &call->first);
	return call->failed;
}

bool etalon_call_error(etalon_call *call, struct etalon_error *error)
{
	const bool failed = call && api_has_failed(call, error);

	if (call) call->failed = false;
	return failed;
}

bool api_is_null(const void *argument, const char *what, struct error *e)
{
	if (!argument) error_set(e, E_USAGE, NULL, NO_OFFSET, "%s is NULL", what);
	return !argument;
}

bool api_run(void (*work)(void *), void *with, struct error *e)
{
	return surroundings_run(work, with) || error_set(e, E_MEMORY, NULL, NO_OFFSET, "a thread of %d KiB", STACK / 1024);
}
