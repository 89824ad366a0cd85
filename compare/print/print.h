/* What all reports are printed with. Results go to stdout, all else to stderr. */
#ifndef ETALON_PRINT_H
#define ETALON_PRINT_H

#include <jansson.h>

#include "fixtures/io/error.h"
#include "fixtures/io/tensor.h"

/* "etalon: ERROR" on stderr; returns error_exit(e). */
int print_failure(const struct error *e);
/* The same of an error in this file, unless it names one. */
int print_failure_of(const char *path, struct error *e);

/* The version of the JSON that is written: it grows where a key that was there means something
 * else. json_versioned says it first, in an object or in each object of an array; it takes j, and
 * returns NULL where memory is short. */
enum { JSON_VERSION = 1 };
json_t *json_versioned(json_t *j);

/* Prints j with its version and a newline on stdout and releases it. NULL is E_MEMORY. Returns an exit code. */
int json_print(json_t *j);

/* A finite number, or the strings "NaN", "inf", "-inf", which JSON has no numbers for. */
json_t *json_figure(double x);
json_t *json_shape(const struct tensor *t);

/* The text of a key, which lasts as long as j; "" where there is none. */
const char *json_text(const json_t *j, const char *key);

/* A text of a capture, or its name, is a stranger's: what may not be shown becomes a question mark. At most size - 1 bytes. */
void copy_clean(char *to, size_t size, const char *from);
void make_clean(char *text);            /* the same in place */
void put_clean(FILE *to, const char *text);     /* the same, printed */

/* A ratio to what is expected, in plain words where digits say nothing: "49.49", "over a
 * million", "infinite", "NaN". Returns text. */
enum { RATIO = 32 };
const char *ratio_text(double x, int digits, char text[RATIO]);
/* The same of an element: "0.0948625422", "infinite", "-infinite", "NaN". */
const char *number_text(double x, char text[RATIO]);

/* A table on stdout: cells are copied and columns padded to their widest; columns whose heading
 * begins with '>' are set flush right. */
struct table { size_t columns, n; const char *const *heading; char **cell; bool no_memory; };
void table_add(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
int table_print(struct table *t);       /* and frees it; returns an exit code */

#endif
