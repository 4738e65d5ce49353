package main

/*
#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

// The Go runtime aborts with a stack trace if it cannot reserve its address space: 1.4 GB, and 64 MiB for each thread that
// the C library gives an arena of its own. A constructor runs before the runtime.
__attribute__((constructor)) static void check_address_space(void) {
	const unsigned long long least = 3ULL << 29;
	struct rlimit l;
	if (getrlimit(RLIMIT_AS, &l) != 0 || l.rlim_cur == RLIM_INFINITY)
		return;
#ifdef M_ARENA_MAX
	mallopt(M_ARENA_MAX, 1);
#endif
	if (l.rlim_cur < least) {
		dprintf(STDERR_FILENO, "optimize: the limit of %llu KiB of address space is too low: raise it by ulimit -v to at least %llu\n",
			(unsigned long long)l.rlim_cur >> 10, least >> 10);
		_exit(1);
	}
}
*/
import "C"
