/* The inner loop of elementwise: one pass over two arrays of one type, as fast as memory gives them. */
#ifndef ETALON_SCAN_H
#define ETALON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fixtures/io/dtype.h"

/* What is looked for: |d| above abs, rel m, or ulp max(m's power of two, least), m = max(|a|, |b|). */
struct limits { double abs, rel, ulp, least, scale; };

/* Elements by |d| in units of scale max(m's power of two, least): bin 0 from 0, bin i from 2^(i - 2), the last without
 * end. Of F64 below 2^-960 the unit is that of 2^-960. */
enum { SCAN_BINS = 17 };

/* Σd², Σa², Σd, the count of elements that differ by bits, and whether some element is beyond a limit. Sums are not
 * finite where an element is not, and the rest is then without meaning: a vector's maximum drops a NaN. */
struct scanned { double d2, a2, d; bool past; uint64_t differ, bin[SCAN_BINS]; };

/* n elements of F64, F32, BF16 or F16; the order of the sums is the form's own. Memory past the arrays may be asked
 * for, but is not read. */
typedef void scan_form(struct scanned *s, enum dtype t, const void *a, const void *b, size_t n, const struct limits *l);
scan_form scan_avx512, scan_avx2, scan_plain;
scan_form *scan_best(void);     /* for this processor, or the one that scan_use chose */
void scan_use(scan_form *f);    /* for timing; NULL: the best. Not while another thread compares. */
bool scan_has(enum dtype t);

#endif
