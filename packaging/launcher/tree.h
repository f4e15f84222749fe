/* The unpacked folder: <cache>/app/<key>, with its lock <cache>/app/<key>.lock beside it.
 *
 * A process that runs a tree holds its lock, shared; one that removes it holds it alone. <cache>/app/lock
 * is held by the one who unpacks or removes. What has a name like <key>.part.XXXXXX is unfinished,
 * or being removed. */

#ifndef TREE_H
#define TREE_H

#include "payload.h"

#include <limits.h>
#include <stdbool.h>

struct tree {
    const struct payload *payload;
    char app[PATH_MAX];
    char path[PATH_MAX];
};

/* Find the place for a payload's tree in the cache, and make the folders above it. */
void find_tree(struct tree *tree, const struct payload *payload, const char *cache);

/* Hold the tree from now on, in this process and in the program that it becomes. */
void hold_tree(const struct tree *tree);

/* Tell whether all of it is there; exit with a sentence if it's somebody else's. */
bool is_tree_whole(const struct tree *tree);

/* Unpack it, unless another process just did; then remove what is outdated. */
void unpack_tree(const struct tree *tree);

#endif
