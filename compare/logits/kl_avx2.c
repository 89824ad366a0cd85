/* kl_form for processors of the level x86-64-v3. */
#ifdef __x86_64__
#pragma GCC target("arch=x86-64-v3")
#define NAME kl_avx2
#include "kl_loop.h"
#endif
