/* The version before, which `baton self update` keeps. */

#ifndef PREVIOUS_H
#define PREVIOUS_H

#include <limits.h>
#include <stdbool.h>

/* Write where the version before the single file is, if it's there and whole. */
bool find_previous(const char *file, char previous[PATH_MAX]);

#endif
