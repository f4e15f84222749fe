/* Starts Baton, of which this is the head: the single file that a user has is this launcher with
 * the folder build behind it (pack.py says how). The first start unpacks the folder into the
 * person's cache; this and later ones see that it's whole, hold it, and become its executable.
 *
 * Nothing is written to stdout. Arguments, streams, signals and environment are passed on as they
 * are, but for BATON_BINARY, which says where the single file is. */

#include "folder.h"
#include "payload.h"
#include "say.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#ifdef __linux__
static const char own_link[] = "/proc/self/exe", gone[] = " (deleted)";

/* Write this program's path as Linux knows it; false if there is no /proc. */
static bool read_own_path(char path[PATH_MAX]) {
    ssize_t size = readlink(own_link, path, PATH_MAX - 1);
    if (size <= 0 || *path != '/') return false;
    path[size] = '\0';
    char *end = path + size - strlen(gone);
    if (end > path && !strcmp(end, gone) && access(path, F_OK)) *end = '\0'; /* an update came */
    return true;
}

static bool resolve_own_path(char path[PATH_MAX]) {
    const char *started = (const char *)getauxval(AT_EXECFN);
    return started && realpath(started, path);
}
#else
static const char own_link[] = "";

static bool read_own_path(char path[PATH_MAX]) {
    char started[PATH_MAX];
    uint32_t size = sizeof started;
    return !_NSGetExecutablePath(started, &size) && realpath(started, path);
}

static bool resolve_own_path(char path[PATH_MAX]) {
    (void)path;
    return false;
}
#endif

/* Open the single file, and write its path. */
static int open_self(char path[PATH_MAX]) {
    bool known = read_own_path(path);
    int file = known && *own_link ? open_above(AT_FDCWD, own_link, O_RDONLY, 0) : -1;
    if (!known && !resolve_own_path(path)) {
        fail("Baton can't find out which file it is, without /proc. Start it by its full path.");
    }
    if (file < 0) file = open_above(AT_FDCWD, path, O_RDONLY, 0);
    if (file < 0) {
        fail("%s can't be read, which it must be besides being executed: %s. "
             "Make it readable: chmod +r",
             path, strerror(errno));
    }
    return file;
}

/* sudo may leave HOME as it was: what root unpacked there would be in the user's way later. */
static void refuse_sudo(const char *home) {
    struct stat found;
    if (geteuid() || !getenv("SUDO_UID") || stat(home, &found) || !found.st_uid) return;
    fail("You started Baton with sudo, but HOME is still %s, where root would leave what you can't "
         "change. Start it without sudo, or with: sudo -H",
         home);
}

/* Return the user's home, without asking any service that knows people. */
static const char *find_home(void) {
    const char *home = getenv("HOME");
    if (!home || *home != '/') {
        fail("HOME isn't set to a folder, so there is no place for what Baton keeps. "
             "Name one: " ELSEWHERE);
    }
    refuse_sudo(home);
    return home;
}

/* Write Baton's own root, where `~` is the home. */
static void write_own_root(char cache[PATH_MAX], const char *root) {
    char here[PATH_MAX];
    if (*root == '/') {
        write_path(cache, "%s/cache", root);
    } else if (*root == '~' && (root[1] == '/' || !root[1])) {
        write_path(cache, "%s%s/cache", find_home(), root + 1);
    } else if (*root == '~') {
        fail("BATON_HOME is %s, and Baton can't tell where that is. Write the whole path.", root);
    } else if (getcwd(here, sizeof here)) {
        write_path(cache, "%s/%s/cache", here, root);
    } else {
        fail("BATON_HOME is %s, but the folder you are in is gone. Write the whole path.", root);
    }
}

/* Write the cache's path, as baton.platform.settings.find_paths() finds it. */
static void find_cache(char cache[PATH_MAX]) {
    const char *root = getenv("BATON_HOME"), *shared = getenv("XDG_CACHE_HOME");
    if (root && *root) {
        write_own_root(cache, root);
    } else if (shared && *shared == '/') {
        write_path(cache, "%s/baton", shared);
    } else {
#ifdef __APPLE__
        write_path(cache, "%s/Library/Caches/baton", find_home());
#else
        write_path(cache, "%s/.cache/baton", find_home());
#endif
    }
}

static _Noreturn void fail_starting(const char *program, int error) {
    if (error == EACCES || error == EPERM) {
        fail("Baton may not be started from where it unpacked itself, %s: %s. "
             "The disk or the system forbids programs there; start it with another "
             "folder: " ELSEWHERE,
             program, strerror(error));
    }
    if (error == ENOENT) {
        fail("Baton can't be started here: this system lacks the C library that it needs. "
             "Use one with glibc 2.31 or newer, such as Debian 11 or Ubuntu 20.04.");
    }
    fail("Baton can't be started from %s: %s. Download the one that is made for this system.",
         program, strerror(error));
}

/* Without /proc, the program finds its own folder by its name. */
static _Noreturn void become(const struct tree *tree, char *self, char **arguments) {
    char program[PATH_MAX], *nothing[] = {NULL, NULL};
    write_path(program, "%s/baton", tree->path);
    if (setenv("BATON_BINARY", self, 1)) fail("There is too little memory for starting Baton.");
    if (!arguments[0]) arguments = nothing;
    arguments[0] = *own_link && access(own_link, F_OK) ? program : self;
    execv(program, arguments);
    fail_starting(program, errno);
}

/* What it is to do, and where, is said by the environment, which is somebody else's then. */
static void refuse_borrowed_rights(void) {
    if (geteuid() == getuid() && getegid() == getgid()) return;
    fail("Baton doesn't run with the rights of the owner of its file. "
         "Take that away: chmod ug-s");
}

int main(int count, char **arguments) {
    static char self[PATH_MAX], cache[PATH_MAX];
    static struct payload payload;
    static struct tree tree;
    (void)count;
    refuse_borrowed_rights();
    find_payload(&payload, self, open_self(self));
    find_cache(cache);
    find_tree(&tree, &payload, cache);
    hold_tree(&tree);
    if (!is_tree_whole(&tree)) unpack_tree(&tree);
    become(&tree, self, arguments);
}
