/* dd_form.h for processors of the level x86-64-v4. */
#ifdef __x86_64__
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#define FORM avx512
static inline _Bool form_runs(void) { return __builtin_cpu_supports("x86-64-v4"); }
#include "dd_loops.h"
#endif
