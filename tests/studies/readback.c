/* How often a random structure is read back from its outputs: DRAWS draws (first argument, 40) from the draw FIRST on (second, 1), of one op
 * (third, all that the search reads: "-"), with that many billions of operations each (fourth; as many as a profile
 * has). Before them "fewer": of an iteration, calls with 1 to 3 iterations are read first, as a person can record them. "orders N FILE...": in how many of N orders of the search each recorded call is read. */
#include <stdlib.h>

#include "compare/limits/limits.h"
#include "tests/studies/readback.h"

enum { MAX_READ = 64 };
struct of_op { const char *op; size_t draws, back, claimed; };

/* In how many of the first n orders of the search a recorded call's structure is identified, and the least that is explained then. */
static int orders(uint64_t n, char **file, double work)
{
	int missed = 0;

	for (; *file; file++) {
		double least[MAX_OUT], most = 0;
		size_t found = 0;
		struct capture c;
		struct call call;
		struct error e;
		no_error(capture_read(&c, *file, &e) && call_bind(&call, &c, true, &e), &e);
		for (int o = 0; o < MAX_OUT; o++) least[o] = 1;
		for (uint64_t i = 0; i < n; i++) {
			struct structure_reading r;
			const char *why;
			no_error(structure_read(&r, &call, &(struct structure_search){ .work = work, .order = i }, &why, &e), &e);
			found += r.identified;
			for (int o = 0; o < MAX_OUT; o++) least[o] = fmin(least[o], r.out[o].noise ? 1 : r.out[o].explained);
			most = fmax(most, r.work * 1e-9);
			structure_free(&r);
		}
		printf("%s: identified in %zu of %llu orders, at most %.1f G operations; least explained:", *file, found, (unsigned long long)n, most);
		for (int o = 0; o < MAX_OUT; o++)
			if (call.out_count[o]) printf(" %s %.4f %%", call.op->out[o].name, 100 * least[o]);
		putchar('\n');
		fflush(stdout);
		missed += found < n;
		capture_free(&c);
	}
	return missed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "orders")) return orders(strtoull(argv[2], NULL, 10), argv + 3, 20e9);
	bool fewer = argc > 1 && !strcmp(argv[1], "fewer");
	if (fewer) argc--, argv++;
	uint64_t draws = argc > 1 ? strtoull(argv[1], NULL, 10) : 40, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	const char *only = argc > 3 && strcmp(argv[3], "-") ? argv[3] : NULL;
	double work = argc > 4 ? strtod(argv[4], NULL) * 1e9 : structure_work_profile, used = 0;
	bool texts = argc > 5;
	struct of_op of[MAX_READ] = { 0 };
	size_t n = 0, back = 0, claimed = 0, made = 0;

	for (uint64_t i = first; made < draws; i++) {
		struct readback r;
		if (!readback(&r, i, only, work, fewer, texts ? stdout : NULL)) {
			if (!r.k) return EXIT_FAILURE;
			readback_free(&r);
			continue;
		}
		size_t o = 0;
		while (o < n && strcmp(of[o].op, r.k->op)) o++;
		if (o == n && n < MAX_READ) of[n++].op = r.k->op;
		made++;
		of[o].draws++;
		of[o].back += r.back, back += r.back;
		of[o].claimed += !r.back && r.found.identified, claimed += !r.back && r.found.identified;
		used += r.found.work * 1e-9;
		if (!r.back || texts) readback_print(stdout, &r, i);
		if (texts) printf("%s----\n%s", r.planted, r.found.text ? r.found.text : "");
		fflush(stdout);
		readback_free(&r);
	}
	for (size_t o = 0; o < n; o++) printf("%-24s %4zu draws, %4zu read back, %zu claimed though less is explained\n", of[o].op, of[o].draws, of[o].back, of[o].claimed);
	printf("%zu draws, %zu read back (%.1f %%), %zu claimed though less is explained, %.1f G operations each\n", made, back,
		made ? 100 * (double)back / (double)made : 0, claimed, made ? used / (double)made : 0);
	return made && back * 100 >= made * 95 ? EXIT_SUCCESS : EXIT_FAILURE;
}
