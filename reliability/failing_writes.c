/* Fails whatever needs room below a folder, as a full or broken disk does, from the n-th call on, or the one after n
   others alone: writes (also those of C streams when they are flushed or closed, and copies within the system), syncs,
   files and folders that are made, linked, renamed, truncated or allocated, and files that are mapped to be written.
   LD_PRELOAD it; `failing_arm` starts to count. A mapped page that finds no room ends a process by a signal, which is
   not tried. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

static int fails_at(const char *path) {
  if (strncmp(path, folder, strlen(folder)) != 0) return 0;
  long now = __atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST);
  if (left >= 0 && (only_one ? now == left + 1 : now > left)) {
    errno = code;
    return 1;
  }
  return 0;
}

static int fails(int fd) {
  char link[64], path[4096];
  if (!armed) return 0;
  int before = errno;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  errno = before;
  if (n <= 0) return 0;
  path[n] = 0;
  return fails_at(path);
}

/* A path as the system would take it, relative to a folder that is open or to the current one. */
static int fails_path(int at, const char *path) {
  char whole[8192], from[4096], link[64];
  if (!armed) return 0;
  if (path[0] == '/') return fails_at(path);
  int before = errno;
  if (at == AT_FDCWD)
    snprintf(link, sizeof link, "/proc/self/cwd");
  else
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
  ssize_t n = readlink(link, from, sizeof from - 1);
  errno = before;
  if (n <= 0) return 0;
  from[n] = 0;
  snprintf(whole, sizeof whole, "%s/%s", from, path);
  return fails_at(whole);
}

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

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

size_t fwrite(const void *data, size_t size, size_t n, FILE *file) {
  REAL(size_t, "fwrite", const void *, size_t, size_t, FILE *);
  return armed && fails(fileno(file)) ? 0 : real(data, size, n, file);
}

int fflush(FILE *file) {
  REAL(int, "fflush", FILE *);
  return armed && file && fails(fileno(file)) ? EOF : real(file);
}

int fclose(FILE *file) {
  REAL(int, "fclose", FILE *);
  int failed = armed && (fcntl(fileno(file), F_GETFL) & O_ACCMODE) != O_RDONLY && fails(fileno(file)), number = errno;
  int result = real(file);
  if (failed) errno = number;
  return failed ? EOF : result;
}

static int makes(int at, const char *path, int flags) {
  struct stat found;
  return armed && (flags & O_CREAT) && fstatat(at, path, &found, 0) != 0 && fails_path(at, path);
}

#define MODE_OF(flags) \
  mode_t mode = 0; \
  if ((flags) & O_CREAT) { \
    va_list more; \
    va_start(more, flags); \
    mode = va_arg(more, mode_t); \
    va_end(more); \
  }

int open64(const char *path, int flags, ...) {
  MODE_OF(flags)
  REAL(int, "open64", const char *, int, ...);
  return makes(AT_FDCWD, path, flags) ? -1 : real(path, flags, mode);
}

int open(const char *path, int flags, ...) {
  MODE_OF(flags)
  return open64(path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...) {
  MODE_OF(flags)
  REAL(int, "openat64", int, const char *, int, ...);
  return makes(at, path, flags) ? -1 : real(at, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...) {
  MODE_OF(flags)
  return openat64(at, path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", const char *, mode_t);
  struct stat found;
  return armed && stat(path, &found) != 0 && fails_path(AT_FDCWD, path) ? -1 : real(path, mode);
}

int rename(const char *from, const char *to) {
  REAL(int, "rename", const char *, const char *);
  return fails_path(AT_FDCWD, to) ? -1 : real(from, to);
}

int ftruncate64(int fd, off_t size) {
  REAL(int, "ftruncate64", int, off_t);
  return fails(fd) ? -1 : real(fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int posix_fallocate64(int fd, off_t from, off_t size) {
  REAL(int, "posix_fallocate64", int, off_t, off_t);
  return fails(fd) ? code : real(fd, from, size);
}

int posix_fallocate(int fd, off_t from, off_t size) { return posix_fallocate64(fd, from, size); }

int fallocate64(int fd, int mode, off_t from, off_t size) {
  REAL(int, "fallocate64", int, int, off_t, off_t);
  return fails(fd) ? -1 : real(fd, mode, from, size);
}

int fallocate(int fd, int mode, off_t from, off_t size) { return fallocate64(fd, mode, from, size); }

int truncate64(const char *path, off_t size) {
  REAL(int, "truncate64", const char *, off_t);
  return fails_path(AT_FDCWD, path) ? -1 : real(path, size);
}

int truncate(const char *path, off_t size) { return truncate64(path, size); }

ssize_t pwritev64(int fd, const struct iovec *parts, int n, off_t at) {
  REAL(ssize_t, "pwritev64", int, const struct iovec *, int, off_t);
  return fails(fd) ? -1 : real(fd, parts, n, at);
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at) { return pwritev64(fd, parts, n, at); }

ssize_t pwritev64v2(int fd, const struct iovec *parts, int n, off_t at, int flags) {
  REAL(ssize_t, "pwritev64v2", int, const struct iovec *, int, off_t, int);
  return fails(fd) ? -1 : real(fd, parts, n, at, flags);
}

ssize_t pwritev2(int fd, const struct iovec *parts, int n, off_t at, int flags) {
  return pwritev64v2(fd, parts, n, at, flags);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *there, size_t n, unsigned flags) {
  REAL(ssize_t, "copy_file_range", int, off64_t *, int, off64_t *, size_t, unsigned);
  return fails(to) ? -1 : real(from, at, to, there, n, flags);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t n) {
  REAL(ssize_t, "sendfile64", int, int, off64_t *, size_t);
  return fails(to) ? -1 : real(to, from, at, n);
}

ssize_t sendfile(int to, int from, off_t *at, size_t n) { return sendfile64(to, from, at, n); }

ssize_t splice(int from, off64_t *at, int to, off64_t *there, size_t n, unsigned flags) {
  REAL(ssize_t, "splice", int, off64_t *, int, off64_t *, size_t, unsigned);
  return fails(to) ? -1 : real(from, at, to, there, n, flags);
}

int renameat(int from_at, const char *from, int to_at, const char *to) {
  REAL(int, "renameat", int, const char *, int, const char *);
  return fails_path(to_at, to) ? -1 : real(from_at, from, to_at, to);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
  REAL(int, "renameat2", int, const char *, int, const char *, unsigned);
  return fails_path(to_at, to) ? -1 : real(from_at, from, to_at, to, flags);
}

int mkdirat(int at, const char *path, mode_t mode) {
  REAL(int, "mkdirat", int, const char *, mode_t);
  struct stat found;
  return armed && fstatat(at, path, &found, 0) != 0 && fails_path(at, path) ? -1 : real(at, path, mode);
}

int link(const char *from, const char *to) {
  REAL(int, "link", const char *, const char *);
  return fails_path(AT_FDCWD, to) ? -1 : real(from, to);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
  REAL(int, "linkat", int, const char *, int, const char *, int);
  return fails_path(to_at, to) ? -1 : real(from_at, from, to_at, to, flags);
}

int symlink(const char *from, const char *to) {
  REAL(int, "symlink", const char *, const char *);
  return fails_path(AT_FDCWD, to) ? -1 : real(from, to);
}

int symlinkat(const char *from, int at, const char *to) {
  REAL(int, "symlinkat", const char *, int, const char *);
  return fails_path(at, to) ? -1 : real(from, at, to);
}

int creat64(const char *path, mode_t mode) { return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int creat(const char *path, mode_t mode) { return creat64(path, mode); }

/* What `fopen` makes is made inside the system's library, past `open`. */
FILE *fopen64(const char *path, const char *mode) {
  REAL(FILE *, "fopen64", const char *, const char *);
  return makes(AT_FDCWD, path, strpbrk(mode, "wa") ? O_CREAT : 0) ? NULL : real(path, mode);
}

FILE *fopen(const char *path, const char *mode) { return fopen64(path, mode); }

/* The system itself: `dlsym` may map memory. */
void *mmap64(void *where, size_t n, int may, int flags, int fd, off_t at) {
  if (armed && fd >= 0 && (may & PROT_WRITE) && (flags & MAP_SHARED) && fails(fd)) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, where, n, may, flags, fd, at);
}

void *mmap(void *where, size_t n, int may, int flags, int fd, off_t at) {
  return mmap64(where, n, may, flags, fd, at);
}
