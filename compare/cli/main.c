/* etalon COMMAND ...: finds the command and runs it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "machine.h"
#include "compare/api/etalon.h"
#include "fixtures/io/file.h"
#include "ref/ranks/ranks.h"

static const struct command { const char *name, *arguments, *what; int (*run)(int argc, char **argv); bool computes, by_ranks; } commands[] = {
	{ "check", "CAPTURE...", "a verdict on each capture, with its reasons", cmd_check, true, true },
	{ "gate", "[DIR...]", "many captures, one verdict", cmd_gate, true, false },
	{ "merge", "FILE...", "the shards of a gate, one verdict", cmd_merge, false, false },
	{ "record", "OP|all -o DIR", "run the kernels on the cases and write captures", cmd_record, true, false },
	{ "record", "--model DIR -o FILE", "run our engine on a whole model", cmd_record, true, false },
	{ "inputs", "OP --case NAME -o FILE", "the inputs of a case, as a capture without outputs", cmd_inputs, false, false },
	{ "ref", "CAPTURE -o FILE", "the reference's answer, exact or with a fault or a rounding", cmd_ref, true, true },
	{ "profile", "CAPTURE", "what the kernel computes and rounds, from its outputs", cmd_profile, true, false },
	{ "diff", "A B", "any two tensor files, element by element", cmd_diff, false, false },
	{ "logits", "--got FILE:TENSOR ...", "a whole model's logits against the reference", cmd_logits, true, true },
	{ "quantize", "--model DIR", "which of a model's weights survive FP8", cmd_quantize, true, false },
	{ "invent", "CONFIG -o DIR", "a model of random weights, of any size", cmd_invent, true, false },
	{ "isolate", "[CAPTURE...]", "no request may touch another's memory: laws, scenarios, names", cmd_isolate, true, false },
	{ "eigen", "[CAPTURE]", "Newton-Schulz eigenvalue by eigenvalue, iteration by iteration", cmd_eigen, true, false },
	{ "restarts", "COEFFICIENTS", "where Gram Newton-Schulz should restart", cmd_restarts, true, false },
	{ "audit", "INPUTS --rule RULE", "which known faults a test would pass", cmd_audit, true, false },
	{ "list", "ops|cases|...", "ops, tensors, params, cases, faults, sites, contracts", cmd_list, false, false },
};

static void help(void)
{
	puts("usage: etalon COMMAND [OPTION...]\n\n"
	     "Tells whether a GPU kernel computes what it should, and how far off it is.\n");
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		printf("  %-9s%-24s%s\n", commands[i].name, commands[i].arguments, commands[i].what);
	puts("\n`etalon COMMAND --help` has a command's options; --json works with each; `etalon --version`.\n"
	     "exit: 0 pass, 1 fail, 2 bad usage or input, 3 undecided, 4 the machine failed");
}

/* Output that was not written must not pass. */
static int finish(int status)
{
	struct error e;

	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	error_set(&e, E_WRITE, "stdout", NO_OFFSET, "%s", strerror(errno));
	return print_failure(&e);
}

_Noreturn static void run(const struct command *c, int argc, char **argv)
{
	char name[64];
	struct error e;
	bool guarded;

	machine_guard(&guarded);
	file_guard();
	snprintf(name, sizeof name, "etalon %s", c->name);
	if (!ranks_begin(name, c->by_ranks, &e)) exit(print_failure(&e));
	if (c->computes && !machine_ready(&e)) {
		print_failure(&e);
		_exit(EXIT_MACHINE);    /* exit may wait for a thread of OpenBLAS's that waits for room */
	}
	argv[0] = name;         /* argp names it in its messages */
	int status;
	if (!machine_run(c->run, argc, argv, &status, &e)) status = print_failure(&e);
	status = finish(status);
	guarded = false;
	exit(status);
}

static const struct command *command_of(int argc, char **argv)
{
	for (size_t i = 0; argc >= 2 && i < sizeof commands / sizeof *commands; i++)
		if (!strcmp(argv[1], commands[i].name)) return &commands[i];
	return NULL;
}

#ifndef __SANITIZE_ADDRESS__
static void before_all(int argc, char **argv, char **env)
{
	const struct command *c = command_of(argc, argv);

	machine_begin(argv, env, c && c->computes);
}

__attribute__((section(".preinit_array"), used)) static void (*const begin)(int, char **, char **) = before_all;
#endif

int main(int argc, char **argv)
{
	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))) {
		help();
		return finish(EXIT_PASS);
	}
	if (argc >= 2 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
		puts("etalon " ETALON_VERSION);
		return finish(EXIT_PASS);
	}
	if (argc < 2) {
		fputs("etalon: no command given; see etalon --help\n", stderr);
		return EXIT_INPUT;
	}
	const struct command *c = command_of(argc, argv);
	if (c && c->computes) machine_again(argv);
	if (c) run(c, argc - 1, argv + 1);
	fprintf(stderr, "etalon: unknown command '%s'; see etalon --help\n", argv[1]);
	return EXIT_INPUT;
}
