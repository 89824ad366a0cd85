/* kl_form for processors of the level x86-64-v4. */
#ifdef __x86_64__
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
#define NAME kl_avx512
#include "kl_loop.h"
#endif
