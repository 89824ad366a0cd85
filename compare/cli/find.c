/* Reads a capture and judges it. */
#include "find.h"

#include "gpu/host/backend.h"

int find(const char *path, const struct judging *how, struct finding *f)
{
	struct capture c;
	struct error e;

	if (capture_read(&c, path, &e)) {
		finding_judge(f, path, &c, how);
		if (f->judged) judge_stale(&c, gpu_source_sha256(c.op), &f->verdict);
		capture_free(&c);
	} else finding_unread(f, path, &e);
	return finding_exit(f);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct judging *how = state->input;

	switch (key) {
	case 'c': how->contract = text; return 0;
	case 't': how->truth = text; return 0;
	case 'q': how->quick = true; return 0;
	case 'r': how->explained = ALL_EXPLAINED; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "contract", 'c', "NAME", 0, "what a kernel may round (each capture's own, else its op's tightest); auto: the tightest that it meets", 0 },
	{ "truth", 't', "ARITH", 0, "f64, dd or mpfr:BITS (dd where the work allows, else f64)", 0 },
	{ "require-explained", 'r', NULL, 0, "fail an error within the rules that nothing explains (`gate` does so of etalon's own kernels)", 0 },
	{ "quick", 'q', NULL, 0, "the contracts' rules only, no x-ray of roundings and faults", 0 }, { 0 }
};
const struct argp find_argp = { options, parse, NULL, NULL, NULL, NULL, NULL };
