/* Paths and folders. */

#ifndef FOLDER_H
#define FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

/* Write a path; exit with a sentence if it's longer than a path may be. */
void write_path(char path[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Make a folder and those above it, for this user alone; on failure errno says why. */
bool make_folders(const char *path);

/* Remove a folder with all that is in it, as far as that is possible; links aren't followed. */
void remove_folder(const char *path);

/* Whether something is this user's, and nobody else may write to it. */
bool is_ours(const struct stat *found);

/* Whether nobody but this user and root can put something else in a folder's place by way of
 * a folder in which anybody may; if not, write which it is. The path must be resolved. */
bool is_out_of_reach(const char *path, char reached[PATH_MAX]);

/* Open a file or a folder; never as 0, 1 or 2, which may be closed, and are the program's. */
int open_above(int folder, const char *path, int flags, mode_t mode);

#endif
