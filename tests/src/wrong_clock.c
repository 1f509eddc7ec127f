/* Preloaded into a process, sets its clock of the day off by WRONG_CLOCK_SECONDS. How time passes stays as it is. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
    const char *off = getenv("WRONG_CLOCK_SECONDS");
    long result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && off && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec += atol(off);
    return (int)result;
}
