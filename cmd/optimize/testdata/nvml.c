// A libnvidia-ml.so.1 with one GPU of 100 to 400 W, for tests: its limit, its energy counter and its faults are files of
// $NVML_DIR, so that all processes share them. The power is 95 % of the limit.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static char dev;
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, LOST = 15 };

static char *at(const char *name) {
	static __thread char path[4096];
	snprintf(path, sizeof path, "%s/%s", getenv("NVML_DIR"), name);
	return path;
}
static int has(const char *name) { return access(at(name), F_OK) == 0; }

// The state: limit in mW, energy in mJ, time of both in s.
static void update(double set, double *limit, double *energy) {
	int lock = open(at("lock"), O_CREAT | O_RDWR, 0600);
	flock(lock, LOCK_EX);
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	double now = t.tv_sec + t.tv_nsec * 1e-9, then = now;
	*limit = 300000, *energy = 0;
	FILE *f = fopen(at("state"), "r");
	if (f) {
		if (fscanf(f, "%lf %lf %lf", limit, energy, &then) != 3) abort();
		fclose(f);
	}
	*energy += 0.95 * *limit * (now - then);
	if (set > 0) *limit = set;
	f = fopen(at("new"), "w");
	fprintf(f, "%.0f %.3f %.6f\n", *limit, *energy, now);
	fclose(f);
	char new[4096];
	strcpy(new, at("new"));
	rename(new, at("state"));
	close(lock);
}

int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int r) { return "error"; }
int nvmlSystemGetDriverVersion(char *v, unsigned n) { strncpy(v, "1.0", n); return OK; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &dev; return OK; }
int nvmlDeviceGetHandleByUUID(const char *u, void **d) { *d = &dev; return has("lost") ? LOST : OK; }
int nvmlDeviceGetUUID(void *d, char *u, unsigned n) { strncpy(u, "GPU-00000000-0000-0000-0000-000000000001", n); return OK; }
int nvmlDeviceGetName(void *d, char *u, unsigned n) { strncpy(u, "Test GPU", n); return OK; }
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m) { m[0] = 16ULL << 30, m[1] = m[0], m[2] = 0; return OK; }
int nvmlDeviceGetUtilizationRates(void *d, unsigned *u) { u[0] = 90, u[1] = 10; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, void *p) { *n = 0; return OK; }
int nvmlDeviceGetComputeRunningProcesses(void *d, unsigned *n, void *p) { *n = 0; return OK; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) {
	double l, e;
	update(0, &l, &e);
	*mw = 0.95 * l;
	return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *mj) {
	double l, e;
	if (has("lost")) return LOST;
	update(0, &l, &e);
	*mj = e;
	return OK;
}
int nvmlDeviceGetPowerManagementLimit(void *d, unsigned *mw) {
	double l, e;
	if (has("lost")) return LOST;
	update(0, &l, &e);
	*mw = l;
	return OK;
}
int nvmlDeviceGetPowerManagementLimitConstraints(void *d, unsigned *least, unsigned *most) {
	*least = 100000, *most = 400000;
	return OK;
}
int nvmlDeviceSetPowerManagementLimit(void *d, unsigned mw) {
	double l, e;
	if (has("lost")) return LOST;
	if (has("denied")) return NO_PERMISSION;
	if (mw < 100000 || mw > 400000) return INVALID;
	update(mw, &l, &e);
	FILE *f = fopen(at("history"), "a");
	fprintf(f, "%u\n", mw / 1000);
	fclose(f);
	return OK;
}
