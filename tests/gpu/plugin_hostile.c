/* A plugin of rmsnorm that is right, but for what the environment variable HOSTILE says it does besides. */
#include <fenv.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/host/plugin.h"

static const struct etalon_tensor *find(const struct etalon_plugin_call *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->tensor[i].name, name)) return &c->tensor[i];
	return NULL;
}

static void compute(const struct etalon_tensor *x, const struct etalon_tensor *w, const struct etalon_tensor *y, float eps)
{
	const size_t R = x->shape[0], D = x->shape[1];

	for (size_t r = 0; r < R; r++) {
		const float *a = (const float *)x->data + r * D, *b = w->data;
		float *o = (float *)y->data + r * D, sum = 0;
		for (size_t i = 0; i < D; i++) sum += a[i] * a[i];
		for (size_t i = 0; i < D; i++) o[i] = a[i] / sqrtf(sum / (float)D + eps) * b[i];
	}
}

int etalon_plugin_run(const struct etalon_plugin_call *c)
{
	static int calls;
	const struct etalon_tensor *x = find(c, "in.x"), *w = find(c, "in.weight"), *y = find(c, "out.y");
	const char *how = getenv("HOSTILE"), *eps = strstr(c->params, "\"eps\"");
	const size_t n = x ? x->shape[0] * x->shape[1] : 0;

	if (strcmp(c->op, "rmsnorm") || find(c, "in.residual") || find(c, "in.gate") || strcmp(x->dtype, "F32") || strcmp(w->dtype, "F32")
		|| !strstr(c->params, "\"weight_offset\":0")) return 1;
	calls++;
	compute(x, w, y, eps ? strtof(strchr(eps, ':') + 1, NULL) : 1e-6f);
	if (!strcmp(how, "zeroes its input")) memset(x->data, 0, n * 4), memset(y->data, 0, n * 4);
	if (!strcmp(how, "changes its last input")) ((float *)w->data)[w->shape[0] - 1] += 1;
	if (!strcmp(how, "writes behind")) ((float *)y->data)[n] = 1;
	if (!strcmp(how, "writes far behind")) ((float *)y->data)[n + 1000] = 1;
	if (!strcmp(how, "writes before")) ((float *)y->data)[-1] = 1;
	if (!strcmp(how, "writes behind its input")) ((float *)x->data)[n] = 1;
	if (!strcmp(how, "exit(0)") && calls == 2) exit(0);
	if (!strcmp(how, "_exit(0)")) _exit(0);
	if (!strcmp(how, "abort")) abort();
	if (!strcmp(how, "a bad address")) raise(SIGSEGV);
	if (!strcmp(how, "changes shapes")) ((size_t *)(uintptr_t)x->shape)[0] = 1, ((size_t *)(uintptr_t)y->shape)[0] = 1;
	if (!strcmp(how, "rounds upwards")) fesetround(FE_UPWARD);
	if (!strcmp(how, "goes elsewhere") && chdir("/")) return 2;
	snprintf(c->device, c->device_size, "CPU\033[31m");
	return 0;
}
