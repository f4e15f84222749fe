#include "folder.h"

#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 32 /* folders that are open at once */ };

void write_path(char path[PATH_MAX], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(path, PATH_MAX, format, arguments);
    va_end(arguments);
    if (size < 0 || size >= PATH_MAX) {
        fail("The path of Baton's folder is too long. Choose a shorter one: " ELSEWHERE);
    }
}

static bool make_folder(const char *path) {
    if (!mkdir(path, 0700)) return true;
    int error = errno;
    bool there = !access(path, F_OK);
    errno = error;
    return there;
}

bool make_folders(const char *path) {
    char part[PATH_MAX];
    write_path(part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (!make_folder(part)) return false;
        *slash = '/';
    }
    return make_folder(part);
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *place) {
    (void)found, (void)kind, (void)place;
    (void)remove(path);
    return 0;
}

void remove_folder(const char *path) {
    (void)nftw(path, remove_one, DEPTH, FTW_DEPTH | FTW_PHYS);
}

bool is_ours(const struct stat *found) {
    return found->st_uid == geteuid() && !(found->st_mode & (S_IWGRP | S_IWOTH));
}

static bool is_open_to_all(const struct stat *found) {
    return found->st_mode & S_IWOTH;
}

/* In a folder of this kind, what is there can't be renamed by just anybody. A whole disk that is
 * open to all is what a container gives to the one who is in it. */
static bool keeps_names(const struct stat *found, const struct stat *above) {
    return !is_open_to_all(found) || found->st_mode & S_ISVTX || found->st_dev != above->st_dev;
}

static bool is_ours_or_roots(const struct stat *found) {
    return found->st_uid == geteuid() || found->st_uid == 0;
}

bool is_out_of_reach(const char *path, char reached[PATH_MAX]) {
    struct stat above, found;
    if (lstat("/", &above)) return false;
    write_path(reached, "%s", path);
    for (char *slash = reached; slash; above = found) {
        slash = strchr(slash + 1, '/');
        if (slash) *slash = '\0';
        if (lstat(reached, &found) || !keeps_names(&found, &above)) return false;
        if (is_open_to_all(&above) && !is_ours_or_roots(&found)) return false;
        if (slash) *slash = '/';
    }
    return true;
}

int open_above(int folder, const char *path, int flags, mode_t mode) {
    int opened = openat(folder, path, flags | O_CLOEXEC, mode);
    if (opened < 0 || opened > STDERR_FILENO) return opened;
    int above = fcntl(opened, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int error = errno;
    close(opened);
    errno = error;
    return above;
}
