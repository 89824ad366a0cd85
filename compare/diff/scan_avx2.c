/* scan_form for processors of the level x86-64-v3. */
#ifdef __x86_64__
#pragma GCC target("arch=x86-64-v3")
#define NAME scan_avx2
#include "scan_loop.h"
#endif
