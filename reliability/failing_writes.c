/* Fails every write below a folder from the n-th on, as a full disk does. LD_PRELOAD it; `failing_arm` starts to count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[4096];
static long left = -1, counted = 0;
static int armed = 0;

void failing_arm(const char *below, long n) {
  strncpy(folder, below, sizeof folder - 1);
  left = n;
  counted = 0;
  armed = 1;
}

long failing_count(void) { return counted; }

static int fails(int fd) {
  char link[64], path[4096];
  if (!armed) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  if (strncmp(path, folder, strlen(folder)) != 0) return 0;
  counted++;
  if (left >= 0 && counted > left) {
    errno = ENOSPC;
    return 1;
  }
  return 0;
}

ssize_t write(int fd, const void *data, size_t n) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  return fails(fd) ? -1 : real(fd, data, n);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off_t at) {
  static ssize_t (*real)(int, const void *, size_t, off_t);
  if (!real) real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
  return fails(fd) ? -1 : real(fd, data, n, at);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { return pwrite64(fd, data, n, at); }
