/* A process that watches over a rank, which may be killed, for want of memory above all. */
#ifndef ETALON_RANKS_WATCH_H
#define ETALON_RANKS_WATCH_H

/* Goes on in a child. The parent waits for it and ends as it does; where a signal ended it, with a line that says so, and with the exit
 * code of a machine that failed. Who kills the parent kills the child. Where there is no second process, there is no parent. */
void watch(void);

#endif
