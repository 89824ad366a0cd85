/* Calls of malloc counted, and bytes. Where the address sanitizer has malloc, nothing is, and what asks skips. */
#ifndef ETALON_TEST_COUNTED_H
#define ETALON_TEST_COUNTED_H

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#ifndef __SANITIZE_ADDRESS__
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
static size_t calls __attribute__((unused));
void __libc_free(void *p);
static size_t live, most;               /* bytes */
static void *count_one(void *p)
{
	size_t now = __atomic_add_fetch(&live, malloc_usable_size(p), __ATOMIC_RELAXED), before = most;

	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	while (now > before && !__atomic_compare_exchange_n(&most, &before, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return p;
}
static void gone(void *p) { __atomic_sub_fetch(&live, malloc_usable_size(p), __ATOMIC_RELAXED); }
void *malloc(size_t n) { return count_one(__libc_malloc(n)); }
void *calloc(size_t n, size_t size) { return count_one(__libc_calloc(n, size)); }
void *realloc(void *p, size_t n) { gone(p); return count_one(__libc_realloc(p, n)); }
void *aligned_alloc(size_t alignment, size_t n) { return count_one(__libc_memalign(alignment, n)); }
/* Not a call of ours: libgomp's, for a team of threads. */
void *memalign(size_t alignment, size_t n)
{
	void *p = count_one(__libc_memalign(alignment, n));

	__atomic_sub_fetch(&calls, 1, __ATOMIC_RELAXED);
	return p;
}
int posix_memalign(void **p, size_t alignment, size_t n) { return (*p = memalign(alignment, n)) ? 0 : 12; }
void free(void *p) { gone(p); __libc_free(p); }
#else
static size_t calls __attribute__((unused)), live __attribute__((unused)), most __attribute__((unused));
#endif

#endif
