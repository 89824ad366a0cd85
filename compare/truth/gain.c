#include "gain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct gain_axes gain_axes_of(const struct call *call, int out)
{
	size_t shape[MAX_RANK], stride = 1;
	const int rank = call_out_shape(call, out, shape);
	struct gain_axes a = { .row = shape[rank - 1], .n = rank - 1, .groups = 1 };

	for (int r = 0; r < a.n; r++) {
		const size_t block = (shape[r] + GAIN_BLOCKS - 1) / GAIN_BLOCKS;
		a.axis[r] = (struct gain_axis){ 0, shape[r], block, a.groups };
		a.groups += (int)((shape[r] + block - 1) / block);
	}
	for (int r = a.n; r-- > 0; stride *= shape[r]) a.axis[r].stride = stride;
	return a;
}

void gain_place(const struct gain_axes *a, const struct call *call, int out, int group, char *text, size_t size)
{
	char letter[64];
	int axis = a->n - 1;

	*text = 0;
	while (axis >= 0 && a->axis[axis].group > group) axis--;
	if (group == 0 || axis < 0) return;
	const struct gain_axis *x = &a->axis[axis];
	const size_t first = (size_t)(group - x->group) * x->block, last = first + x->block < x->size ? first + x->block - 1 : x->size - 1;
	call_out_axis(call, out, axis, letter, sizeof letter);
	if (x->block == 1) snprintf(text, size, "%s = %zu", letter, first);
	else snprintf(text, size, "%s from %zu to %zu", letter, first, last);
}

double gain_in_sigma(const struct gain_sum *s) { return s->power > 0 ? s->cross / sqrt(s->power * s->n) : 0; }
double gain_of(const struct gain_sum *s) { return s->power > 0 ? s->cross / s->power : 0; }

struct gain_pass gain_begin(const struct gain_axes *a, struct gain_sum *sum, size_t first)
{
	return (struct gain_pass){ .axes = a, .sum = sum, .at = first, .left = a->row - first % a->row };
}

static void add(struct gain_sum *to, const struct gain_sum *s)
{
	to->cross += s->cross;
	to->power += s->power;
	to->n += s->n;
}

void gain_end(struct gain_pass *p)
{
	const struct gain_axes *a = p->axes;
	const size_t row = p->at / a->row;

	add(&p->sum[0], &p->row);
	for (int r = 0; r < a->n && p->row.n > 0; r++)
		add(&p->sum[a->axis[r].group + (int)(row / a->axis[r].stride % a->axis[r].size / a->axis[r].block)], &p->row);
	p->row = (struct gain_sum){ 0 };
	p->at += a->row - p->at % a->row;
	if (p->left == 0) p->left = a->row;
}
