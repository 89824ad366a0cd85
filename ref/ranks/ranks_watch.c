#define _GNU_SOURCE     /* sigabbrev_np */
#include "ranks_watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixtures/io/error.h"

/* By these a launcher ends all; it has said why. */
static bool is_asked(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP; }

void watch(void)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");
	pid_t parent = getpid(), child = fork();
	int status;

	if (child < 0) return;
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent) _exit(EXIT_MACHINE);
		return;
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR) _exit(EXIT_MACHINE);
	if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
	if (!is_asked(WTERMSIG(status)))
		fprintf(stderr, "etalon: rank %s (process %d) was ended by SIG%s: the machine failed, or killed it for want of memory\n",
			rank ? rank : getenv("PMIX_RANK") ? getenv("PMIX_RANK") : "?", (int)child, sigabbrev_np(WTERMSIG(status)));
	_exit(EXIT_MACHINE);
}
