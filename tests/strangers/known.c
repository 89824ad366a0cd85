/* Whether the space of structures holds the kernels that people have: recorded calls against their points. */
#include <dirent.h>
#include <string.h>

#include "delta.h"
#include "ref/call/op.h"

/* Which of them made the capture, or -1. */
static int kernel_of(const struct capture *c)
{
	if (!strcmp(c->op, "gated_delta_rule") && !strncmp(c->producer, "flash-linear-attention", 22)
		&& strstr(c->producer, "chunk")) return FLA;
	if (!strcmp(c->op, "gated_delta_rule") && !strncmp(c->producer, "FlashQLA", 8)) return FLASHQLA;
	return !strcmp(c->op, "gated_delta_rule") && !strncmp(c->producer, "FlashInfer", 10) ? FLASHINFER : -1;
}

/* Shares of output i: of the square of its error that the point explains, and of elements equal to the bit. */
static void compare(const struct tensor *got, const struct tensor *ours, const double *truth, double *explained, double *equal)
{
	double error2 = 0, left2 = 0, same = 0;

	for (size_t i = 0; i < got->count; i++) {
		double x, y;
		dtype_load(got->dtype, (const char *)got->data + i * dtype_info[got->dtype].size, 1, &x);
		dtype_load(ours->dtype, (const char *)ours->data + i * dtype_info[ours->dtype].size, 1, &y);
		error2 += (x - truth[i]) * (x - truth[i]);
		left2 += (x - y) * (x - y);
		same += x == y;
	}
	*explained = 1 - left2 / error2;
	*equal = same / (double)got->count;
}

static bool against(const struct capture *c, const char *path, int which, struct recorded *r, struct error *e)
{
	static const char *const name[] = { "FLA", "FlashQLA", "FlashInfer" }, *const out[] = { "o", "final_state" };
	struct point p = { .number = DRAWN_NUMBER };
	struct plan plan = plan_plain(&arith_f64, arith_f64.precision);
	struct capture ours;
	struct answer a;
	struct call call;

	delta_known(&p.o.delta, which);
	p.o.delta.through_alpha = which == FLASHINFER;
	r->kernel = name[which];
	if (!capture_read(&ours, path, e)) return false;
	bool ok = call_bind(&call, c, true, e) && ref_run(&call, &plan, &a, e);
	if (ok) {
		floats_release(0);
		delta_run(&p, &ours);
		for (int i = 0; i < 2; i++)
			compare(capture_out(c, out[i]), capture_out(&ours, out[i]), a.hi[i], &r->explained[i], &r->equal[i]);
		answer_free(&a);
	}
	capture_free(&ours);
	return ok;
}

bool known_kernels(const char *folder, struct recorded list[MAX_RECORDED], int *n, struct error *e)
{
	DIR *dir = opendir(folder);
	bool ok = true;

	*n = 0;
	if (!dir) return error_set(e, E_OPEN, folder, NO_OFFSET, "a folder of captures");
	for (struct dirent *d; ok && *n < MAX_RECORDED && (d = readdir(dir));) {
		struct capture c;
		char path[512];
		if (strncmp(d->d_name, "gated_delta_rule.", 17) != 0) continue;
		snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
		if (!(ok = capture_read(&c, path, e))) break;
		if (kernel_of(&c) >= 0) {
			snprintf(list[*n].file, sizeof list->file, "%.95s", d->d_name);
			ok = against(&c, path, kernel_of(&c), &list[(*n)++], e);
		}
		capture_free(&c);
	}
	closedir(dir);
	return ok;
}

void print_known(const struct recorded *list, int n)
{
	printf("```\n%-62s %-11s %13s %10s %13s %10s\n", "capture", "point", "o explained", "equal", "state expl.", "equal");
	for (int i = 0; i < n; i++)
		printf("%-62s %-11s %11.4f %% %8.3f %% %11.4f %% %8.3f %%\n", list[i].file, list[i].kernel,
			100 * list[i].explained[0], 100 * list[i].equal[0],
			100 * list[i].explained[1], 100 * list[i].equal[1]);
	printf("```\n\n");
}

/* One near tie can carry a hundredth of o's error: FlashInfer's second call. */
bool known_well(const struct recorded *list, int n)
{
	for (int i = 0; i < n; i++)
		if (!(list[i].explained[0] > 0.98 && list[i].explained[1] > 0.98)) return false;
	return true;
}
