/* A structure of the gated delta rule in words. */
#include <string.h>

#include "delta.h"

const char *const delta_site_name[DELTA_SITES] = {
	[GRAM_LEFT] = "K of KK'", [GRAM_RIGHT] = "K' of KK'", [T_V] = "T", [T_K] = "T of W", [B_V] = "bV", [B_K] = "bK",
	[W_S] = "W", [KS_K] = "K of KS",
	[KS_S] = "S of KS", [RESIDUAL] = "V - KS", [QK_Q] = "Q of QK'", [QK_K] = "K of QK'", [QS_Q] = "Q of QS",
	[QS_S] = "S of QS", [PN_P] = "P", [PN_N] = "N of PN",
	[UPDATE_K] = "K of K'N", [UPDATE_N] = "N of K'N", [Q_LOADED] = "Q", [K_LOADED] = "K", [A_GIVEN] = "A",
	[T_STORED] = "inverse", [U_GIVEN] = "U",
	[SUBTRAHEND] = "KS", [N_GIVEN] = "N", [SCORES] = "QK'", [QS_GIVEN] = "QS"
};

static const char *of(enum place p, const char *operand, const char *res) { return p == ON_OPERAND ? operand : res; }

/* Is the site there at all in this association? */
static bool there(const struct delta *o, int site)
{
	bool only_wy = site == T_K || site == B_V || site == B_K || site == W_S || site == U_GIVEN,
		only_residual = site == KS_K || site == RESIDUAL;

	return o->wy ? !only_residual : !only_wy;
}

static void roundings(const struct delta *o, char *text, size_t size)
{
	int times[NUMBERS] = { 0 };
	enum number most = F32;

	for (int i = 0; i < DELTA_RESULTS; i++) times[o->at[i]]++;
	for (int n = 0; n < NUMBERS; n++) most = times[n] > times[most] ? (enum number)n : most;
	say(text, size, "; operands %s", number_name[most]);
	for (int i = 0, first = 1; i < DELTA_SITES; i++) {
		enum number usual = i < DELTA_RESULTS ? most : F32;
		if (o->at[i] == usual || !there(o, i)) continue;
		say(text, size, "%s%s %s", first ? ", but " : ", ", delta_site_name[i], number_name[o->at[i]]);
		first = 0;
	}
	if (o->again) say(text, size, ", N twice");
}

static void factors(const struct delta *o, char *text, size_t size)
{
	say(text, size, "; b on %s, %s%s%s", of(o->beta_gram, "K of KK'", "KK'"),
		of(o->beta_v, o->wy ? "V" : "V - KS", "T's columns"), o->wy ? ", " : "",
		o->wy ? of(o->beta_k, "K", "T's columns") : "");
	say(text, size, "; e^G on %s, %s, %s", of(o->decay_k, "K", o->wy ? "T's columns" : "KS"), of(o->decay_q, "Q", "QS"),
		of(o->decay_end, "K of K'N", "N"));
	say(text, size, "; scale %s", (const char *[]){ "on Q", "", "on the scores", "last" }[o->scale]);
	if (o->q_norm != ON_LOAD) say(text, size, "; 1/|q| %s", o->q_norm == AT_END ? "last" : "on the scores");
	if (o->k_norm != ON_LOAD)
		say(text, size, "; 1/|k| on %s, %s, %s, %s", of(o->k_gram, "K of KK'", "KK'"),
			of(o->k_state, "K of KS", o->wy ? "T's columns" : "KS"),
			of(o->k_scores, "K of QK'", "QK'"), of(o->k_update, "K of K'N", "N"));
}

void delta_say(const struct point *p, char *text, size_t size)
{
	static const char *const unit[] = { "e^x", "2^x, log2 e before the sum", "2^x, log2 e after the sum",
		"2^x, log2 e last" };
	const struct delta *o = &p->o.delta;

	if (!o->chunk) {
		say(text, size, "token by token%s%s%s%s; sums %s, %s", o->q_norm != ON_LOAD ? ", 1/|q| last" : "",
			o->k_norm != ON_LOAD ? ", 1/|k| on S'k and u" : "",
			o->scale != ON_LOAD ? ", scale last" : "", o->decay_k == ON_RESULT ? ", decay on S'k" : "",
			order_name[o->gram], order_name[o->state]);
		return;
	}
	if (o->known) say(text, size, "%s: ", o->known);
	say(text, size, "chunks of %zu; %s; %s", o->chunk, o->after ? "(I + A)^-1∘E" : "(I + A∘E)^-1",
		o->wy ? "U - WS" : "T(V - KS)");
	factors(o, text, size);
	roundings(o, text, size);
	say(text, size, "; inverse by %zu, %s, operands %s", o->inverse.base, o->inverse.columns ? "columns" : "doubling",
		number_name[o->inverse.operand]);
	if (!o->inverse.columns && o->inverse.below != o->inverse.operand)
		say(text, size, ", below %s", number_name[o->inverse.below]);
	say(text, size, ", stored %s%s", number_name[o->inverse.store], o->inverse.split && !o->inverse.columns ? ", split" : "");
	say(text, size, "; %s%s; sums %s, %s, %s", unit[o->unit], o->warp_scan ? ", warp scan" : "", order_name[o->gram],
		order_name[o->state], order_name[o->merge]);
}
