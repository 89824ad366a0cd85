/* dd_form.h for processors of the level x86-64-v3. */
#ifdef __x86_64__
#pragma GCC target("arch=x86-64-v3")
#define FORM avx2
static inline _Bool form_runs(void) { return __builtin_cpu_supports("x86-64-v3"); }
#include "dd_loops.h"
#endif
