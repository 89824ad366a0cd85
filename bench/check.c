/* The memory of a whole check as its call grows: most of a process that judges a call of
 * gated_delta_rule. */
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/call.h"
#include "compare/verdict/verdict.h"

/* Judges a call of T tokens of a head of 16, whose outputs are the reference's in float32; the
 * bytes of its tensors. */
static double judge_call(size_t T)
{
	struct case_dim dims[] = DELTA(T, 1, 1, 16);
	const struct judging how = { 0 };
	struct bench_call k;
	struct answer a;
	struct verdict v;
	struct error e;
	char name[64];
	size_t bytes = 0;

	bench_bind(&k, "gated_delta_rule", "prefill", dims, "f32");
	if (!ref_run(&k.call, &k.plan, &a, &e)) bench_stop("the call");
	for (int i = 0; k.call.op->out[i].name; i++) {
		size_t shape[MAX_RANK], n = k.call.out_count[i];
		int rank = call_out_shape(&k.call, i, shape);
		if (!n) continue;
		snprintf(name, sizeof name, "out.%s", k.call.op->out[i].name);
		struct tensor *t = tensors_add(&k.capture.tensors, name, DT_F32, rank, shape);
		if (!t) bench_stop("no memory");
		dtype_store(DT_F32, a.hi[i], n, t->data);
	}
	answer_free(&a);
	if (!judge(&k.capture, &how, &v, &e) || v.outcome != PASS) bench_stop("the verdict");
	for (size_t i = 0; i < k.capture.tensors.n; i++) bytes += k.capture.tensors.item[i].bytes;
	return (double)bytes;
}

/* In a process of its own. */
static struct row checked(int T, char *name, size_t size)
{
	struct rusage used;
	double bytes;
	int to[2], status;
	pid_t child;

	snprintf(name, size, "%d", T);
	if (pipe(to) || (child = fork()) < 0) bench_stop("no process");
	if (!child) {
		bytes = judge_call((size_t)T);
		_exit(write(to[1], &bytes, sizeof bytes) != sizeof bytes);
	}
	close(to[1]);
	if (read(to[0], &bytes, sizeof bytes) != sizeof bytes
		|| wait4(child, &status, 0, &used) < 0) bench_stop("a check");
	close(to[0]);
	return (struct row){ .table = "check", .row = name, .ours = 1024.0 * (double)used.ru_maxrss,
		.moved = bytes,
		.unit = "B" };
}

int main(void)
{
	char name[16];
	struct row first = checked(1000, name, sizeof name);

	row_print(first);
	for (int T = 10000; T <= (bench_quick() ? 10000 : 100000); T *= 10) {
		struct row r = checked(T, name, sizeof name);
		r.ratio = (r.ours - first.ours) / (r.moved - first.moved);
		row_print(r);
	}
	return 0;
}
