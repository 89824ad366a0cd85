/* A plugin that computes rope in float on the host, from the interface's header alone. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/host/plugin.h"

static float load(const struct etalon_tensor *t, size_t i)
{
	float x;
	uint32_t bits;

	if (!strcmp(t->dtype, "F32")) return ((const float *)t->data)[i];
	bits = (uint32_t)((const uint16_t *)t->data)[i] << 16;
	memcpy(&x, &bits, sizeof x);
	return x;
}

/* To bf16 by adding half an ulp, a little less where the result would be odd. */
static void store(const struct etalon_tensor *t, size_t i, float x)
{
	uint32_t bits;

	if (!strcmp(t->dtype, "F32")) {
		((float *)t->data)[i] = x;
		return;
	}
	memcpy(&bits, &x, sizeof bits);
	((uint16_t *)t->data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static const struct etalon_tensor *find(const struct etalon_plugin_call *call, const char *name)
{
	for (size_t i = 0; i < call->n; i++)
		if (!strcmp(call->tensor[i].name, name)) return &call->tensor[i];
	return NULL;
}

/* A number of the object params; keys hold no quotes. */
static double number(const char *params, const char *key)
{
	char quoted[64];

	snprintf(quoted, sizeof quoted, "\"%s\":", key);
	const char *at = strstr(params, quoted);
	return at ? strtod(at + strlen(quoted), NULL) : 0;
}

static int unsupported(const struct etalon_plugin_call *call, const char *why)
{
	snprintf(call->message, call->message_size, "%s", why);
	return 1;
}

/* x, y [T,H,D], positions [T] */
static void rope(const struct etalon_plugin_call *call, const struct etalon_tensor *x, const int32_t *positions, const struct etalon_tensor *y)
{
	size_t T = x->shape[0], H = x->shape[1], D = x->shape[2], rotary = (size_t)number(call->params, "rotary_dim");
	float theta = (float)number(call->params, "theta");
	int interleaved = strstr(call->params, "\"interleaved\"") != NULL;

	for (size_t t = 0; t < T; t++)
		for (size_t h = 0; h < H; h++) {
			size_t row = (t * H + h) * D;
			for (size_t d = rotary; d < D; d++) store(y, row + d, load(x, row + d));
			for (size_t i = 0; i < rotary / 2; i++) {
				float angle = (float)positions[t] * (1 / powf(theta, (float)(2 * i) / (float)rotary));
				size_t a = row + (interleaved ? 2 * i : i), b = a + (interleaved ? 1 : rotary / 2);
				float x1 = load(x, a), x2 = load(x, b), c = cosf(angle), s = sinf(angle);
				store(y, a, x1 * c - x2 * s);
				store(y, b, x2 * c + x1 * s);
			}
		}
}

int etalon_plugin_run(const struct etalon_plugin_call *call)
{
	const struct etalon_tensor *x = find(call, "in.x"), *positions = find(call, "in.positions"), *y = find(call, "out.y");

	if (call->version != ETALON_PLUGIN_VERSION) return unsupported(call, "another version of the interface");
	if (strcmp(call->op, "rope")) return unsupported(call, "rope only");
	if (strcmp(positions->dtype, "I32")) return unsupported(call, "positions in I32 only");
	rope(call, x, positions->data, y);
	snprintf(call->device, call->device_size, "the host");
	return 0;
}

const char *etalon_plugin_name(void) { return "plugin_rope"; }
