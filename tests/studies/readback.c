/* How often a random structure is read back from its outputs: DRAWS draws (first argument, 40) from the draw FIRST on (second, 1), of one op
 * (third, all that the search reads: "-"), in that many seconds of processor time each (fourth, 10). */
#include <stdlib.h>

#include "tests/studies/readback.h"

enum { MAX_READ = 64 };
struct of_op { const char *op; size_t draws, back, claimed; };

int main(int argc, char **argv)
{
	uint64_t draws = argc > 1 ? strtoull(argv[1], NULL, 10) : 40, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	const char *only = argc > 3 && strcmp(argv[3], "-") ? argv[3] : NULL;
	double seconds = argc > 4 ? strtod(argv[4], NULL) : 10, used = 0;
	bool texts = argc > 5;
	struct of_op of[MAX_READ] = { 0 };
	size_t n = 0, back = 0, claimed = 0, made = 0;

	for (uint64_t i = first; made < draws; i++) {
		struct readback r;
		if (!readback(&r, i, only, seconds, texts ? stdout : NULL)) {
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
		used += r.found.seconds;
		if (!r.back || texts) readback_print(stdout, &r, i);
		if (texts) printf("%s----\n%s", r.planted, r.found.text ? r.found.text : "");
		fflush(stdout);
		readback_free(&r);
	}
	for (size_t o = 0; o < n; o++) printf("%-24s %4zu draws, %4zu read back, %zu claimed though less is explained\n", of[o].op, of[o].draws, of[o].back, of[o].claimed);
	printf("%zu draws, %zu read back (%.1f %%), %zu claimed though less is explained, %.1f s of processor time each\n", made, back,
		made ? 100 * (double)back / (double)made : 0, claimed, made ? used / (double)made : 0);
	return made && back * 100 >= made * 95 ? EXIT_SUCCESS : EXIT_FAILURE;
}
