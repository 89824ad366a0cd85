/* A contract of a model's layers by its text: a name, and what else is rounded. */
#include <stdio.h>
#include <string.h>

#include "model_private.h"

/* The next of "a,b,c" into word, and *text behind it; false at the end. */
static bool next_word(const char **text, char *word, size_t size)
{
	size_t n = strcspn(*text, ",");

	if (!**text) return false;
	snprintf(word, size, "%.*s", (int)(n < size ? n : size - 1), *text);
	*text += n + ((*text)[n] == ',');
	return true;
}

static bool no_contract(const char *name, struct error *e)
{
	char all[160] = "";

	for (const struct contract *k = model_op(PART_HEAD)->contracts; k->name; k++)
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? ", " : "", k->name);
	return error_set(e, E_UNKNOWN_NAME, name, NO_OFFSET, "no contract of a model's layers; there are %s, those with f16 for bf16, and auto", all);
}

static bool has_site(const char *site)
{
	for (int part = 0; part < MODEL_PARTS; part++)
		if (op_site(model_op(part), site) >= 0) return true;
	return false;
}

/* "delta.q_norm=bf16"; f32: not rounded. */
static bool add_site(int part, const char *word, struct contract *k, struct error *e)
{
	char site[96];
	const char *type = strchr(word, '=');
	struct site_rounding r = { .on = true };

	if (!type) return error_set(e, E_USAGE, word, NO_OFFSET, "expected SITE=TYPE behind the contract's name, as delta.q_norm=bf16");
	snprintf(site, sizeof site, "%.*s", (int)(type - word), word);
	if (!has_site(site))
		return error_set(e, E_UNKNOWN_NAME, site, NO_OFFSET, "no site of a model's layers; see `etalon list sites %s`, or %s",
			model_op(LINEAR_ATTENTION)->name, model_op(FULL_ATTENTION)->name);
	if (!format_by_name(type + 1, &r.format, &r.rounding))
		return error_set(e, E_UNKNOWN_NAME, type + 1, NO_OFFSET, "no type to round %s to; there are bf16, f16, tf32, and f32: "
			"not rounded", site);
	r.on = r.format != FMT_F32;
	if (op_site(model_op(part), site) >= 0) k->site[op_site(model_op(part), site)] = r;
	return true;
}

/* "torch_f16" is torch_bf16 with f16 for bf16. */
static bool named(int part, const char *name, struct contract *k)
{
	static const char bf16[] = "_bf16", f16[] = "_f16";
	int i = op_contract(model_op(part), name);
	size_t n = strlen(name);
	char other[176];

	if (i >= 0) *k = model_op(part)->contracts[i];
	if (i >= 0 || n < sizeof f16 || strcmp(name + n - (sizeof f16 - 1), f16)) return i >= 0;
	snprintf(other, sizeof other, "%.*s%s", (int)(n - (sizeof f16 - 1)), name, bf16);
	if ((i = op_contract(model_op(part), other)) < 0) return false;
	*k = model_op(part)->contracts[i];
	for (int site = 0; site < MAX_SITE; site++)
		if (k->site[site].on && k->site[site].format == FMT_BF16) k->site[site].format = FMT_F16;
	return true;
}

bool model_contract(int part, const char *text, struct contract *k, struct error *e)
{
	char word[160] = "";
	const char *at = text;

	next_word(&at, word, sizeof word);
	if (!named(part, word, k)) return no_contract(word, e);
	while (next_word(&at, word, sizeof word))
		if (!add_site(part, word, k, e)) return false;
	return true;
}
