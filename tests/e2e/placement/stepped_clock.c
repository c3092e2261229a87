/* Copyright (c) 2026, converged.hpc maintainers
 * GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The wall clock of one process, and the clock that also counts while a machine sleeps, each so many seconds off: as
 * if an administrator had set the one, and as if the machine had slept for as long as the other says. Other clocks are as they
 * are.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WALL, SLEPT, CLOCKS };

static long nothing[CLOCKS];
static volatile long *seconds = nothing;

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("STEPPED_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(NULL, sizeof nothing, PROT_READ, MAP_SHARED, file, 0);

    if (found == MAP_FAILED)
        abort();
    seconds = found;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long failed = syscall(SYS_clock_gettime, clock, now);

    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += seconds[WALL];
    if (!failed && clock == CLOCK_BOOTTIME)
        now->tv_sec += seconds[SLEPT];
    return (int)failed;
}

time_t time(time_t *now)
{
    struct timespec found;

    clock_gettime(CLOCK_REALTIME, &found);
    if (now)
        *now = found.tv_sec;
    return found.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec found;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}
