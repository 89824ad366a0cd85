/* scan_form for processors of the level x86-64-v4. */
#ifdef __x86_64__
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#define NAME scan_avx512
#include "scan_loop.h"
#endif
