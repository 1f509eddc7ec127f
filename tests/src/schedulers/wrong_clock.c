/* A process that preloads this has a clock of the day that is wrong by WRONG_CLOCK_SECONDS. Its
   monotonic clock stays right. */
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
