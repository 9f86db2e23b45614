/* A file system that fails on demand: loaded before libc (LD_PRELOAD), so that Python, polars and whatever else a run
 * loads meet the fault where the system would report it. Only files below one folder are touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { OPEN, WRITE, FSYNC, RENAME, UNLINK, KINDS };

static char folder[PATH_MAX];
static int kind = -1, nth, code, ever, calls[KINDS];

/* Which call of which kind is to fail, and with what: an errno, or 0 for a write that takes half of what it is given;
 * or -1 for a call before which the process stops until it is told to go on;
 * with `ever` all calls of the kind fail from there on, after a first half write with ENOSPC. */
void arm(const char *where, int which, int number, int error, int all) {
    snprintf(folder, sizeof folder, "%s/", where);
    memset(calls, 0, sizeof calls);
    kind = which, nth = number, code = error, ever = all;
}

void disarm(void) { folder[0] = 0; }

int count_calls(int which) { return calls[which]; }

static int is_inside(int base, const char *path) {
    char found[PATH_MAX] = "", link[64];
    if (!folder[0])
        return 0;
    if (path && path[0] == '/')
        return !strncmp(path, folder, strlen(folder));
    if (base == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", base);
    ssize_t size = readlink(link, found, sizeof found - 2);
    if (size < 0)
        return 0;
    found[size] = '/';
    return !strncmp(found, folder, strlen(folder));
}

/* Whether this call fails: 1 the first time, 2 later. */
static int fails(int which, int base, const char *path) {
    if (!is_inside(base, path))
        return 0;
    int own = __atomic_fetch_add(&calls[which], 1, __ATOMIC_SEQ_CST);
    if (which == kind && own == nth && code < 0) {
        raise(SIGSTOP);
        return 0;
    }
    return which != kind ? 0 : own == nth ? 1 : ever && own > nth ? 2 : 0;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define FAIL(which, base, path) \
    if (fails(which, base, path)) { \
        errno = code; \
        return -1; \
    }
#define MODE \
    va_list more; \
    va_start(more, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more)

int open(const char *path, int flags, ...) { MODE; REAL(open); FAIL(OPEN, AT_FDCWD, path) return real(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE; REAL(open64); FAIL(OPEN, AT_FDCWD, path) return real(path, flags, mode); }
int openat(int base, const char *path, int flags, ...) { MODE; REAL(openat); FAIL(OPEN, base, path) return real(base, path, flags, mode); }
int openat64(int base, const char *path, int flags, ...) { MODE; REAL(openat64); FAIL(OPEN, base, path) return real(base, path, flags, mode); }
int fsync(int file) { REAL(fsync); FAIL(FSYNC, file, NULL) return real(file); }
int fdatasync(int file) { REAL(fdatasync); FAIL(FSYNC, file, NULL) return real(file); }
int rename(const char *from, const char *to) { REAL(rename); FAIL(RENAME, AT_FDCWD, to) return real(from, to); }
int renameat(int base, const char *from, int other, const char *to) { REAL(renameat); FAIL(RENAME, other, to) return real(base, from, other, to); }
int unlink(const char *path) { REAL(unlink); FAIL(UNLINK, AT_FDCWD, path) return real(path); }
int unlinkat(int base, const char *path, int flags) { REAL(unlinkat); FAIL(UNLINK, base, path) return real(base, path, flags); }

ssize_t write(int file, const void *data, size_t size) {
    REAL(write);
    int found = fails(WRITE, file, NULL);
    if (found == 1 && (!code || ever) && size > 1)
        return real(file, data, size / 2);
    if (found && (code || ever)) {
        errno = code;
        return -1;
    }
    return real(file, data, size);
}
