/* The C interface of a plugin: a shared library that runs somebody's kernel for `etalon record
 * --backend plugin:LIB.so`. Include this header alone; it needs nothing else of etalon.
 *
 * The library defines etalon_plugin_run and, if it likes, etalon_plugin_name. Data are host
 * pointers, row-major; the library copies to its device and back. */
#ifndef ETALON_PLUGIN_H
#define ETALON_PLUGIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ETALON_PLUGIN_VERSION 1

struct etalon_tensor {
	const char *name;       /* "in.q", "out.o" */
	const char *dtype;      /* "BF16", "F32", ... as in safetensors */
	int rank;
	const size_t *shape;
	void *data;             /* inputs: not to be written; outputs: prefilled with NaN */
};

struct etalon_plugin_call {
	int version;            /* ETALON_PLUGIN_VERSION */
	const char *op;         /* "rmsnorm" */
	const char *params;     /* JSON object */
	size_t n;
	const struct etalon_tensor *tensor;
	char *device;           /* to be filled: the device's name, NUL-terminated */
	size_t device_size;
	char *message;          /* to be filled on failure: one line */
	size_t message_size;
};

/* 0: done. 1: this op, dtype or parameter is not supported. 2: the device failed. */
int etalon_plugin_run(const struct etalon_plugin_call *call);

/* Who computes: becomes etalon.producer. Optional. */
const char *etalon_plugin_name(void);

#ifdef __cplusplus
}
#endif
#endif
