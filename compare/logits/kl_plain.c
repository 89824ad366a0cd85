/* kl_form for any processor, and the choice. */
#define NAME kl_plain
#include "kl_loop.h"

static const struct kl_form *chosen;
void kl_use(const struct kl_form *f) { chosen = f; }

const struct kl_form *kl_best(void)
{
	if (chosen) return chosen;
#ifdef __x86_64__
	if (__builtin_cpu_supports("x86-64-v4")) return &kl_avx512;
	if (__builtin_cpu_supports("x86-64-v3")) return &kl_avx2;
#endif
	return &kl_plain;
}

bool kl_has(enum dtype t) { return t == DT_F64 || t == DT_F32 || t == DT_F16 || t == DT_BF16; }
