#include "tree.h"

#include "folder.h"
#include "say.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

#define PART ".part."
#define LOCK ".lock"

enum {
    MARGIN = 4 << 20,       /* bytes of the disk that stay free */
    LARGEST = 64 << 20,     /* bytes of a MANIFEST */
    NAP = 10 * 1000 * 1000, /* ns */
    MEGABYTE = 1000000,
};

static const char manifest_name[] = "MANIFEST";

static _Noreturn void fail_foreign(const char *path) {
    fail("Baton doesn't run what is in %s: it isn't a folder which belongs to you and which only "
         "you may write to. Remove it, or start Baton with another folder: " ELSEWHERE,
         path);
}

/* A folder above, in which anybody may put something else in place of what Baton unpacked. */
static _Noreturn void fail_in_reach(const char *app, const char *reached) {
    fail("Baton doesn't run what is in %s: others can change it, by way of %s. "
         "Start Baton with a folder that is your own: " ELSEWHERE,
         app, reached);
}

void find_tree(struct tree *tree, const struct payload *payload, const char *cache) {
    struct stat found;
    char app[PATH_MAX], reached[PATH_MAX];
    tree->payload = payload;
    write_path(app, "%s/app", cache);
    if (!make_folders(app)) fail_at(app, "make the folder", errno);
    if (lstat(app, &found)) fail_at(app, "look into", errno);
    if (!S_ISDIR(found.st_mode) || !is_ours(&found)) fail_foreign(app);
    /* From here on without the links that lead there, which may be led elsewhere. */
    if (!realpath(app, tree->app)) fail_at(app, "look into", errno);
    if (!is_out_of_reach(tree->app, reached)) fail_in_reach(tree->app, reached);
    write_path(tree->path, "%s/%s", tree->app, payload->key);
}

/* ---- Locks ---- */

/* A file system that can't be written to may still hold a whole tree, whose lock is there. */
static int open_lock(const char *path) {
    int flags = O_CREAT | O_NOFOLLOW;
    int lock = open_above(AT_FDCWD, path, O_RDWR | flags, 0600);
    if (lock < 0 && (errno == EROFS || errno == EACCES))
        lock = open_above(AT_FDCWD, path, O_RDONLY | flags, 0600);
    if (lock < 0) fail_at(path, "write", errno);
    return lock;
}

/* Tell whether this open file is still the one at its path: who removes a tree removes its lock. */
static bool is_still_there(int lock, const char *path) {
    struct stat open, there;
    return !fstat(lock, &open) && !lstat(path, &there) && open.st_ino == there.st_ino &&
           open.st_dev == there.st_dev;
}

static bool try_lock(int lock, const char *path, int how) {
    while (flock(lock, how | LOCK_NB)) {
        if (errno == EWOULDBLOCK) return false;
        if (errno != EINTR) fail_at(path, "lock", errno);
    }
    return true;
}

/* Wait for a lock; return it. */
static int take_lock(const char *path, int how) {
    const struct timespec nap = {.tv_nsec = NAP};
    for (;;) {
        int lock = open_lock(path);
        while (!try_lock(lock, path, how)) {
            show_progress(-1);
            leave_if_asked();
            nanosleep(&nap, NULL);
        }
        if (is_still_there(lock, path)) return lock;
        close(lock);
    }
}

void hold_tree(const struct tree *tree) {
    char path[PATH_MAX];
    write_path(path, "%s" LOCK, tree->path);
    int lock = take_lock(path, LOCK_SH);
    fcntl(lock, F_SETFD, 0);
}

/* ---- Is it whole? ---- */

static char *read_manifest(int folder, size_t *size) {
    struct stat found;
    char *text = NULL;
    int file = open_above(folder, manifest_name, O_RDONLY | O_NOFOLLOW, 0);
    if (file < 0) return NULL;
    if (!fstat(file, &found) && S_ISREG(found.st_mode) && found.st_size > 0 &&
        found.st_size < LARGEST) {
        *size = (size_t)found.st_size;
        text = malloc(*size + 1);
        if (text && pread(file, text, *size, 0) != found.st_size) free(text), text = NULL;
        if (text) text[*size] = '\0';
    }
    close(file);
    return text;
}

static bool is_link_whole(int folder, const char *path, const char *hash) {
    char target[PATH_MAX], found[2 * SHA256_SIZE + 1];
    uint8_t digest[SHA256_SIZE];
    ssize_t size = readlinkat(folder, path, target, sizeof target);
    if (size < 0) return false;
    sha256(target, (size_t)size, digest);
    write_hex(found, digest, sizeof digest);
    return !strncmp(hash, found, strlen(found));
}

static bool is_file_whole(int folder, const char *path, mode_t mode, uint64_t size) {
    struct stat found;
    if (fstatat(folder, path, &found, AT_SYMLINK_NOFOLLOW)) return false;
    return S_ISREG(found.st_mode) && is_ours(&found) && (uint64_t)found.st_size == size &&
           (found.st_mode & mode & S_IRWXU) == (mode & S_IRWXU);
}

/* A line is KIND MODE SIZE SHA256 PATH; it can be believed, since its text's hash was right. */
static bool is_line_whole(int folder, const char *line) {
    char *at;
    mode_t mode = (mode_t)strtoul(line + 2, &at, 8);
    uint64_t size = strtoull(at, &at, 10);
    const char *hash = at + 1, *path = hash + 2 * SHA256_SIZE + 1;
    return *line == 'l' ? is_link_whole(folder, path, hash)
                        : is_file_whole(folder, path, mode, size);
}

static bool are_lines_whole(int folder, char *text) {
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (!is_line_whole(folder, line)) return false;
    }
    return true;
}

bool is_tree_whole(const struct tree *tree) {
    struct stat found;
    size_t size = 0;
    if (lstat(tree->path, &found)) {
        if (errno == ENOENT) return false;
        fail_at(tree->path, "look into", errno);
    }
    if (!S_ISDIR(found.st_mode) || !is_ours(&found)) fail_foreign(tree->path);
    int folder = open_above(AT_FDCWD, tree->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (folder < 0) return false;
    char *text = read_manifest(folder, &size);
    bool whole =
        text && is_sha256(text, size, tree->payload->manifest) && are_lines_whole(folder, text);
    free(text);
    close(folder);
    return whole;
}

/* ---- Removing ---- */

static bool begins_with_key(const char *name) {
    return strspn(name, "0123456789abcdef") >= KEY_SIZE;
}

/* Tell whether a name is a key with this behind it. */
static bool is_key_with(const char *name, const char *rest) {
    return begins_with_key(name) && !strcmp(name + KEY_SIZE, rest);
}

static bool is_part(const char *name) {
    return begins_with_key(name) && !strncmp(name + KEY_SIZE, PART, strlen(PART));
}

/* Make an empty folder for what is unfinished. */
static bool make_part(const struct tree *tree, char path[PATH_MAX]) {
    write_path(path, "%s" PART "XXXXXX", tree->path);
    return mkdtemp(path);
}

/* Remove a tree; whatever happens meanwhile, there is never a half of it under its name. */
static void discard(const struct tree *tree, const char *path) {
    char part[PATH_MAX];
    if (!make_part(tree, part)) return;
    (void)rename(path, part);
    remove_folder(part);
}

/* Remove a tree that nobody holds, and its lock. */
static void remove_unheld(const struct tree *tree, const char *key) {
    char path[PATH_MAX], lock_path[PATH_MAX];
    write_path(path, "%s/%.*s", tree->app, KEY_SIZE, key);
    write_path(lock_path, "%s" LOCK, path);
    int lock = open_above(AT_FDCWD, lock_path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (lock < 0) return;
    if (!flock(lock, LOCK_EX | LOCK_NB) && is_still_there(lock, lock_path)) {
        discard(tree, path);
        unlink(lock_path);
    }
    close(lock);
}

static bool is_later(const struct timespec *time, const struct timespec *than) {
    return time->tv_sec > than->tv_sec ||
           (time->tv_sec == than->tv_sec && time->tv_nsec > than->tv_nsec);
}

/* Write the key of the tree that was unpacked last, besides this one; "" if there is none. */
static void find_newest(const struct tree *tree, DIR *app, char newest[KEY_SIZE + 1]) {
    struct stat found;
    struct timespec when = {0};
    *newest = '\0';
    for (struct dirent *entry; (entry = readdir(app));) {
        if (!is_key_with(entry->d_name, "") || !strcmp(entry->d_name, tree->payload->key)) continue;
        if (fstatat(dirfd(app), entry->d_name, &found, AT_SYMLINK_NOFOLLOW)) continue;
        if (*newest && !is_later(&found.st_mtim, &when)) continue;
        memcpy(newest, entry->d_name, KEY_SIZE + 1);
        when = found.st_mtim;
    }
}

static void remove_parts(const struct tree *tree) {
    char path[PATH_MAX];
    DIR *app = opendir(tree->app);
    if (!app) return;
    for (struct dirent *entry; (entry = readdir(app));) {
        if (!is_part(entry->d_name)) continue;
        write_path(path, "%s/%s", tree->app, entry->d_name);
        remove_folder(path);
    }
    closedir(app);
}

/* The last tree stays, for the way back from an update; those before it go. */
static void remove_outdated(const struct tree *tree) {
    char newest[KEY_SIZE + 1];
    DIR *app = opendir(tree->app);
    if (!app) return;
    find_newest(tree, app, newest);
    rewinddir(app);
    for (struct dirent *entry; (entry = readdir(app));) {
        const char *name = entry->d_name;
        if (!is_key_with(name, "") && !is_key_with(name, LOCK)) continue;
        if (strncmp(name, tree->payload->key, KEY_SIZE) && strncmp(name, newest, KEY_SIZE))
            remove_unheld(tree, name);
    }
    closedir(app);
}

/* ---- Unpacking ---- */

static void check_disk(const struct tree *tree) {
    struct statvfs disk;
    if (statvfs(tree->app, &disk) || disk.f_blocks == 0) return;
    uint64_t free = (uint64_t)disk.f_bavail * disk.f_frsize;
    uint64_t need = tree->payload->unpacked + MARGIN;
    if (free < need) {
        fail("Baton unpacks itself into %s, once, and needs %" PRIu64 " MB for that; %" PRIu64
             " MB are free. Make room, or start it with a folder on another disk: " ELSEWHERE,
             tree->app, need / MEGABYTE + 1, free / MEGABYTE);
    }
#ifdef ST_NOEXEC
    if (disk.f_flag & ST_NOEXEC) {
        fail("Baton can't run from %s: no program may be started from that disk (noexec). "
             "Start it with a folder on another one: " ELSEWHERE,
             tree->app);
    }
#endif
}

/* A power cut must not leave a tree whose files have their sizes and nothing in them. */
static void write_to_disk(int folder) {
#ifdef __linux__
    syncfs(folder);
#else
    fsync(folder);
#endif
}

static void unpack_into(const struct tree *tree, const char *part) {
    int folder = open_above(AT_FDCWD, part, O_RDONLY | O_DIRECTORY, 0);
    if (folder < 0) fail_at(part, "open", errno);
    unpack_payload(tree->payload, folder);
    write_to_disk(folder);
    close(folder);
}

static void make_tree(const struct tree *tree) {
    char part[PATH_MAX];
    remove_parts(tree);
    check_disk(tree);
    if (!make_part(tree, part)) fail_at(tree->app, "write to", errno);
    remove_when_leaving(part);
    unpack_into(tree, part);
    if (!access(tree->path, F_OK)) discard(tree, tree->path);
    if (rename(part, tree->path)) fail_at(tree->path, "write", errno);
    remove_when_leaving(NULL);
    if (!is_tree_whole(tree)) {
        fail("What Baton unpacks into %s isn't kept there as it's written. "
             "Start it with a folder on another disk: " ELSEWHERE,
             tree->path);
    }
    remove_outdated(tree);
}

void unpack_tree(const struct tree *tree) {
    char path[PATH_MAX];
    write_path(path, "%s/lock", tree->app);
    hold_signals();
    int lock = take_lock(path, LOCK_EX);
    if (!is_tree_whole(tree)) make_tree(tree);
    close(lock);
    hide_progress();
    release_signals();
}
