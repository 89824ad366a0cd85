#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "baseline.h"
#include "compare/limits/limits.h"
#include "compare/verdict/quantile.h"

json_t *baseline_read(const char *path, struct error *e)
{
	json_error_t why;
	json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &why);

	if (json_is_object(j)) return j;
	if (j) error_set(e, E_FORMAT, "", 0, "expected a JSON object, as --update-baseline writes it");
	else if (why.line < 0) error_set(e, E_OPEN, "", NO_OFFSET, "%s; --update-baseline makes one", strerror(errno));
	else error_set(e, E_HEADER_JSON, "", why.position < 0 ? NO_OFFSET : (uint64_t)why.position, "%s", why.text);
	json_decref(j);
	error_in_file(e, path);
	return NULL;
}

static void key_of(const struct finding *f, char *key, size_t size)
{
	const char *slash = strrchr(f->path, '/');

	snprintf(key, size, "%s | %s | %s", slash ? slash + 1 : f->path, f->producer, f->device);
}

static const char *site_text(const struct verdict *v, const struct reading *r, char text[96])
{
	snprintf(text, 96, "%s=%s", v->op->sites[r->site].name, rounding_name(r->format, r->rounding));
	return text;
}

static bool has_site(const json_t *sites, const char *text)
{
	size_t i;
	json_t *s;

	json_array_foreach(sites, i, s)
		if (json_is_string(s) && !strcmp(json_string_value(s), text)) return true;
	return false;
}

static void compare_outputs(const json_t *was, struct verdict *v)
{
	for (int i = 0; i < v->n_out; i++) {
		const struct output_verdict *o = &v->out[i];
		const char *name = v->op->out[o->out].name;
		const json_t *rms = json_object_get(json_object_get(was, "rms"), name);
		double limit = json_number_value(rms) * sqrt(mean_square_bound(o->freedom, alpha)), now = o->rule[RULE_RMS].value;
		if (!json_is_number(rms)) verdict_fail(v, "out.%s: not in the baseline; --update-baseline adds it", name);
		else if (!(now <= limit))
			verdict_fail(v, "out.%s: worse than the baseline: rms error %.4g sigma, was %.4g, at most %.4g by chance", name, now,
				json_number_value(rms), limit);
	}
}

static void compare_sites(const json_t *was, struct verdict *v)
{
	const json_t *rounds = json_object_get(was, "rounds");
	char text[96];

	if (v->examined && !v->x.identified && json_is_array(rounds)) verdict_fail(v, "the structure is not identified, which it was in the baseline");
	for (int j = 0; v->examined && v->x.identified && j < v->x.profile.n; j++) {
		const struct reading *r = &v->x.profile.reading[j];
		if (r->state == ROUNDED && !has_site(rounds, site_text(v, r, text)))
			verdict_fail(v, "rounds %s, which it did not in the baseline", text);
	}
}

void baseline_compare(const json_t *baseline, struct finding *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char key[1024];
		if (!f[i].judged) continue;
		key_of(&f[i], key, sizeof key);
		const json_t *was = json_object_get(baseline, key);
		if (!was) {
			verdict_fail(&f[i].verdict, "not in the baseline; --update-baseline adds it");
			continue;
		}
		compare_outputs(was, &f[i].verdict);
		compare_sites(was, &f[i].verdict);
	}
}

static json_t *entry(const struct verdict *v)
{
	bool identified = v->examined && v->x.identified;
	json_t *rms = json_object(), *rounds = identified ? json_array() : json_null();
	char text[96];

	for (int i = 0; i < v->n_out; i++)
		json_object_set_new(rms, v->op->out[v->out[i].out].name, json_real(v->out[i].rule[RULE_RMS].value));
	for (int j = 0; identified && j < v->x.profile.n; j++)
		if (v->x.profile.reading[j].state == ROUNDED) json_array_append_new(rounds, json_string(site_text(v, &v->x.profile.reading[j], text)));
	return json_pack("{s:s, s:o, s:o}", "contract", v->contract->name, "rms", rms, "rounds", rounds);
}

bool baseline_write(const char *path, const json_t *old, const struct finding *f, size_t n, struct error *e)
{
	json_t *j = old ? json_deep_copy(old) : json_object();

	for (size_t i = 0; i < n; i++) {
		char key[1024];
		if (!f[i].judged || f[i].verdict.outcome == UNDECIDED) continue;
		key_of(&f[i], key, sizeof key);
		json_object_set_new(j, key, entry(&f[i].verdict));
	}
	char *text = json_dumps(j, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
	bool ok = text ? text_write(path, text, strlen(text), e) : error_set(e, E_MEMORY, path, NO_OFFSET, "a baseline");
	free(text);
	json_decref(j);
	return ok;
}
