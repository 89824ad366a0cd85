#ifndef ETALON_RANKS_SAID_H
#define ETALON_RANKS_SAID_H

#include "cli.h"

/* Of each rank a line: how long it ran, waited and sent, what came to it, and the most memory that it had. For all ranks at once; nothing
 * where this process is alone. */
void ranks_said(FILE *to);

#endif
