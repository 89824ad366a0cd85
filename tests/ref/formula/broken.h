/* Files of formulas that are refused: with what, and where. */
#ifndef ETALON_TEST_BROKEN_H
#define ETALON_TEST_BROKEN_H

#include <stdio.h>
#include <string.h>

#include "ref/formula/formula.h"
#include "tests/helpers.h"

/* A file's text, ":LINE:COLUMN", and some of what is said. */
struct broken { const char *text, *at, *said; };

static inline void assert_broken(const struct broken *row, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char at[64];
		struct error e = { 0 };
		struct formula *f = formula_of_text("f.op", row[i].text, strlen(row[i].text), &e);
		if (f) fail_msg("row %zu is taken", i);
		snprintf(at, sizeof at, "f.op%s", row[i].at);
		if (e.code != E_FORMULA || strcmp(e.file, at) || !strstr(e.detail, row[i].said))
			fail_msg("row %zu: '%s' at %s; expected '%s' at %s", i, e.detail, e.file, row[i].said, at);
	}
}

#endif
