/* How often a random subset of rounded sites is read back from a kernel model's outputs: DRAWS draws
 * (first argument, 100) from the draw FIRST on (second, 1). Prints those that are not, and the count. */
#include <stdlib.h>

#include "tests/studies/readback.h"

int main(int argc, char **argv)
{
	uint64_t draws = argc > 1 ? strtoull(argv[1], NULL, 10) : 100, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	size_t exact = 0, equivalent = 0, sites = 0, visible = 0;

	for (uint64_t i = first; i < first + draws; i++) {
		struct readback r;
		readback(&r, i);
		exact += r.exact;
		equivalent += !r.exact && r.behind < 30;
		sites += r.sites;
		visible += r.visible;
		if (!r.exact) readback_print(stdout, &r, i);
		fflush(stdout);
	}
	printf("%llu draws: %zu sites planted, %zu of them visible; %zu subsets read back exactly, %zu as one that explains as well\n",
		(unsigned long long)draws, sites, visible, exact, equivalent);
	return draws && exact * 100 >= draws * 95 ? EXIT_SUCCESS : EXIT_FAILURE;
}
