/* The memory of a whole check as its call grows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench.h"
#include "compare/verdict/verdict.h"
#include "fixtures/cases/cases.h"

/* A call of T tokens of a head of 16, whose outputs are the reference's in float32, judged. */
void bench_check_call(size_t T)
{
	struct case_dim dims[] = { { "T", T }, { "N", 1 }, { "Hk", 1 }, { "Hv", 1 }, { "Dk", 16 }, { "Dv", 16 }, { 0 } };
	struct test_case k = *case_find("gated_delta_rule", "prefill");
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);
	const struct judging how = { 0 };
	struct capture c;
	struct call call;
	struct answer a;
	struct verdict v;
	struct error e;
	char name[64];

	k.dims = dims;
	if (!case_make(&c, &k, 1, false, &e) || !call_bind(&call, &c, false, &e) || !ref_run(&call, &p, &a, &e)) exit(4);
	for (int i = 0; call.op->out[i].name; i++) {
		size_t shape[MAX_RANK], n = call.out_count[i];
		int rank = call_out_shape(&call, i, shape);
		if (!n) continue;
		snprintf(name, sizeof name, "out.%s", call.op->out[i].name);
		struct tensor *t = tensors_add(&c.tensors, name, DT_F32, rank, shape);
		if (!t) exit(4);
		dtype_store(DT_F32, a.hi[i], n, t->data);
	}
	answer_free(&a);
	if (!judge(&c, &how, &v, &e) || v.outcome != PASS) exit(1);
	size_t bytes = 0;
	struct rusage r;
	for (size_t i = 0; i < c.tensors.n; i++) bytes += c.tensors.item[i].bytes;
	getrusage(RUSAGE_SELF, &r);
	printf("%zu %ld\n", bytes, r.ru_maxrss);
}

/* Each in a process of its own, this program's. */
void bench_check(void)
{
	const double MiB = 1048576;
	double least = NAN, least_bytes = 0;

	printf("\n| a checked call of gated_delta_rule | its tensors | most memory of the process | of it, over that of 1000 tokens, for a byte more "
		"of tensors |\n|---|--:|--:|--:|\n");
	for (int T = 1000; T <= 100000; T *= 10) {
		char command[64];
		double bytes, most;
		snprintf(command, sizeof command, "/proc/%d/exe --check %d", (int)getpid(), T);
		FILE *f = popen(command, "r");
		if (!f || fscanf(f, "%lf %lf", &bytes, &most) != 2) exit(4);
		pclose(f);
		most *= 1024;
		printf("| %d tokens | %.2f MiB | %.0f MiB |", T, bytes / MiB, most / MiB);
		if (isnan(least)) puts(" |"), least = most, least_bytes = bytes;
		else printf(" %.1f |\n", (most - least) / (bytes - least_bytes));
	}
}
