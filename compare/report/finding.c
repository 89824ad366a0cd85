#include "finding.h"

#include <math.h>

const char *finding_word(const struct finding *f)
{
	return f->judged ? outcome_name[f->verdict.outcome] : "error";
}

int finding_exit(const struct finding *f)
{
	return f->judged ? outcome_exit(f->verdict.outcome) : error_exit(&f->error);
}

int worse_exit(int a, int b)
{
	static const int weight[] = { [EXIT_PASS] = 0, [EXIT_UNDECIDED] = 1, [EXIT_FAIL] = 2, [EXIT_INPUT] = 3, [EXIT_MACHINE] = 4 };

	return weight[a] >= weight[b] ? a : b;
}

double finding_value(const struct finding *f, int rule)
{
	double worst = 0;

	for (int i = 0; i < f->verdict.n_out; i++) {
		double x = f->verdict.out[i].rule[rule].value;
		if (isnan(x) || x > worst) worst = x;
	}
	return worst;
}
