package main

/*
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

// The Go runtime aborts with a stack trace if it cannot reserve its address space: below 1 GB always and before main, up to
// 1.7 GB in some starts, and then in the middle of a run. A constructor runs before the runtime.
__attribute__((constructor)) static void check_address_space(void) {
	const unsigned long long least = 2ULL << 30;
	struct rlimit l;
	if (getrlimit(RLIMIT_AS, &l) == 0 && l.rlim_cur != RLIM_INFINITY && l.rlim_cur < least) {
		dprintf(STDERR_FILENO, "optimize: the limit of %llu KiB of address space is too low: raise it by ulimit -v to at least %llu\n",
			(unsigned long long)l.rlim_cur >> 10, least >> 10);
		_exit(1);
	}
}
*/
import "C"
