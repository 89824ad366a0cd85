/* Fuzz target: whatever the text, a formula is read or refused with a place in it. */
#include <stdio.h>

#include "ref/formula/formula.h"
#include "tests/fixtures/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct error e = { .code = E_NONE };
	struct formula *f = formula_of_text("f.op", (const char *)bytes, n, &e);

	if (!f) require((e.code == E_FORMULA || e.code == E_MEMORY) && !strncmp(e.file, "f.op", 4) && *e.detail);
	formula_end(f);
	return 0;
}
