/* scan_form for any processor, and the choice. */
#define NAME scan_plain
#include "scan_loop.h"

static scan_form *chosen;
void scan_use(scan_form *f) { chosen = f; }

scan_form *scan_best(void)
{
	if (chosen) return chosen;
#ifdef __x86_64__
	if (__builtin_cpu_supports("x86-64-v4")) return scan_avx512;
	if (__builtin_cpu_supports("x86-64-v3")) return scan_avx2;
#endif
	return scan_plain;
}

bool scan_has(enum dtype t) { return t == DT_F64 || t == DT_F32 || t == DT_F16 || t == DT_BF16; }
