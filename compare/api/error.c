#include <stdio.h>
#include <string.h>

#include "api.h"


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
