/* What several tests need. */
#ifndef ETALON_TEST_HELPERS_H
#define ETALON_TEST_HELPERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixtures/io/dtype.h"
#include "fixtures/io/error.h"
#include "fixtures/io/tensor.h"

/* A folder of the test's own: group setup and teardown for cmocka_run_group_tests. */
int scratch_make(void **state);
int scratch_remove(void **state);
/* "FOLDER/NAME", valid until the sixteenth call after it. */
const char *scratch(const char *name);
/* The same, of a file that holds the text. */
const char *scratch_text(const char *name, const char *text);
/* Number of files in the folder. */
size_t scratch_count(void);

/* n bytes copied to the very end of a page, with an inaccessible page behind it. */
struct guarded { void *map; size_t map_bytes; void *bytes; };
struct guarded guarded_copy(const void *bytes, size_t n);
void guarded_free(struct guarded *g);

/* The whole file at path; *n is its size; free() it. */
unsigned char *file_bytes(const char *path, size_t *n);

/* splitmix64 (Steele, Lea and Flood 2014): 64 uniform bits. */
uint64_t random_bits(uint64_t *state);

/* Fails the test with the error's line unless code and offset are those. */
void assert_error_at(const struct error *e, enum error_code code, uint64_t offset, const char *what);

/* t's first n rows, in t's memory. */
struct tensor first_rows(const struct tensor *t, size_t n);

uint64_t double_bits(double x);
double bits_double(uint64_t b);

/* Equal by bits; any NaN equals any NaN. */
bool same_double(double a, double b);

/* ---- formats ---- */

/* The formats as their standards define them (IEEE 754, OCP 8-bit floating point 1.0), not as
 * format_info has them. `top` is the pattern of the largest number; above it is infinity, if any,
 * and NaN. */
struct layout {
	enum format format;
	enum dtype dtype;       /* DT_COUNT: not stored */
	int exponent, fraction, bias;
	uint32_t top;
	bool has_inf;
};
enum { STORED = 4, EXHAUSTIVE = 5, LAYOUTS = 6 };       /* the first 4 are also narrow dtypes */
extern const struct layout layouts[LAYOUTS];

/* The value of the positive pattern b <= top + 1, by definition; top + 1 is the first number that
 * is too large, as if exponents went on. */
double value_of(const struct layout *l, uint32_t b);
double infinity_of(const struct layout *l);

/* x through dtype_store and back. */
double stored(enum dtype d, double x);

/* Fails unless found and expected, what(x) in this format, are the same. */
void expect_double(const struct layout *l, const char *what, double x, double found, double expected);

/* The op of the formula at path, added to the others; fails the test where it cannot be read. Returns it. */
const struct formula *op_added_from(const char *path);
/* The same of a file's text. */
const struct formula *op_added_of(const char *path, const char *text);

#endif
