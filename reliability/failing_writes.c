/* Fails writes below a folder, as a full or broken disk does: from the n-th on, or the one after n others alone.
   LD_PRELOAD it; `failing_arm` starts to count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];
static long left = -1, counted = 0;
static int armed = 0, code = ENOSPC, only_one = 0;

void failing_arm(const char *below, long n, int number, int alone) {
  strncpy(folder, below, sizeof folder - 1);
  left = n;
  counted = 0;
  code = number;
  only_one = alone;
  armed = 1;
}

long failing_count(void) { return counted; }

static int fails(int fd) {
  char link[64], path[4096];
  if (!armed) return 0;
  int before = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  errno = before;
  if (n <= 0) return 0;
  path[n] = 0;
  if (strncmp(path, folder, strlen(folder)) != 0) return 0;
  long now = __atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST);
  if (left >= 0 && (only_one ? now == left + 1 : now > left)) {
    errno = code;
    return 1;
  }
  return 0;
}

ssize_t write(int fd, const void *data, size_t n) {
  static ssize_t (*real)(int, const void *, size_t);
  if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  return fails(fd) ? -1 : real(fd, data, n);
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
  static ssize_t (*real)(int, const struct iovec *, int);
  if (!real) real = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
  return fails(fd) ? -1 : real(fd, parts, n);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off_t at) {
  static ssize_t (*real)(int, const void *, size_t, off_t);
  if (!real) real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
  return fails(fd) ? -1 : real(fd, data, n, at);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at) { return pwrite64(fd, data, n, at); }

int fsync(int fd) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return fails(fd) ? -1 : real(fd);
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  return fails(fd) ? -1 : real(fd);
}
