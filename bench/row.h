/* A row of what `make bench` and bench-gpu measure. They write tab-separated rows and no page:
 * bench/page.awk makes that. */
#ifndef ETALON_BENCH_ROW_H
#define ETALON_BENCH_ROW_H

#include <math.h>
#include <stdio.h>

/* The columns, in this order. What is NULL or 0 stays empty; a NaN was to be measured, and its
 * rival is missing. */
struct row {
	const char *table, *row, *way;  /* way: of doing the row's work: instructions, a kernel, a rival */
	double ours, floor, moved;      /* floor: the least that ours can be; moved: bytes, or operations */
	const char *unit;               /* of ours, theirs and floor */
	const char *rival;
	double theirs, ratio, goal;
	const char *error;              /* |x - y| / |y| of each output, blanks between */
};

static inline void row_number(double x)
{
	if (x != 0)
		printf(isnan(x) ? "\tnan" : "\t%.9g", x);
	else
		putchar('\t');
}

static inline void row_text(const char *s)
{
	printf("\t%s", s ? s : "");
}

static inline void row_print(struct row r)
{
	fputs(r.table, stdout);
	row_text(r.row), row_text(r.way);
	row_number(r.ours), row_number(r.floor), row_number(r.moved);
	row_text(r.unit), row_text(r.rival);
	row_number(r.theirs), row_number(r.ratio), row_number(r.goal);
	row_text(r.error);
	putchar('\n');
	fflush(stdout);
}

#endif
