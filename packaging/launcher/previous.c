#include "previous.h"

#include "payload.h"
#include "sha256.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 16 };

__attribute__((format(printf, 2, 3))) static bool try_path(char previous[PATH_MAX],
                                                           const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(previous, PATH_MAX, format, arguments);
    va_end(arguments);
    return size > 0 && size < PATH_MAX && !strchr(previous, '\'') && is_whole_file(previous);
}

/* Beside an installed one, or in the state folder, under the hash of the single file's path: as
 * baton.install.installation.find_installation() finds it. */
bool find_previous(const char *file, char previous[PATH_MAX]) {
    uint8_t digest[SHA256_SIZE];
    char key[DIGITS + 1];
    const char *root = getenv("BATON_HOME"), *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    size_t parts[2], size = strlen(file);
    if (strchr(file, '\'')) return false;
    for (int i = 0; i < 2; i++) {
        while (size > 0 && file[size - 1] != '/') size--;
        parts[i] = size = size > 0 ? size - 1 : 0;
    }
    if (try_path(previous, "%.*s/share/baton/previous", (int)parts[1], file)) return true;
    sha256(file, strlen(file), digest);
    write_hex(key, digest, DIGITS / 2);
    if (root && *root == '/') return try_path(previous, "%s/state/self/%s/previous", root, key);
    if (root && *root) return false;
    if (state && *state == '/')
        return try_path(previous, "%s/baton/self/%s/previous", state, key);
    if (!home || *home != '/') return false;
#ifdef __APPLE__
    return try_path(previous, "%s/Library/Application Support/baton/self/%s/previous", home, key);
#else
    return try_path(previous, "%s/.local/state/baton/self/%s/previous", home, key);
#endif
}
