/* dd_form.h for any processor: where it has no instruction for a fused multiply-add, the C library's function. */
#define FORM plain
static inline _Bool form_runs(void) { return 1; }
#include "dd_loops.h"
