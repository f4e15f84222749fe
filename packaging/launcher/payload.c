#include "payload.h"

#include "folder.h"
#include "previous.h"
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

enum {
    VERSION = 1,
    MAGIC = 16,
    FIELDS = MAGIC + 5 * 8 + 2 * SHA256_SIZE,
    TRAILER = FIELDS + SHA256_SIZE,
    SIGNATURE = 8 << 20, /* bytes that may follow the trailer */
    WINDOW = 27,         /* log2 of the memory that the decoder may take */
    CHUNK = 1 << 17,
    MEGABYTE = 1000000,
};

static const char magic[] = "\0Baton's payload";

static _Noreturn void fail_damaged(const char *path) {
    static char previous[PATH_MAX];
    if (find_previous(path, previous)) {
        fail("%s is damaged, or a part of it is missing. Download it again, or go back to the "
             "version before, which is whole: mv -f '%s' '%s'",
             path, previous, path);
    }
    fail("%s is damaged, or a part of it is missing. Download it again.", path);
}

static _Noreturn void fail_reading(const char *path, int error) {
    fail("%s can't be read: %s. Check who may read it, and its disk.", path, strerror(error));
}

static size_t read_at(const struct payload *payload, void *to, size_t size, uint64_t offset) {
    size_t have = 0;
    while (have < size) {
        ssize_t got = pread(payload->file, (char *)to + have, size - have, (off_t)(offset + have));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail_reading(payload->path, errno);
        if (got == 0) break;
        have += (size_t)got;
    }
    return have;
}

/* ---- The trailer ---- */

static uint64_t read_number(const uint8_t *bytes) {
    uint64_t number = 0;
    for (int i = 7; i >= 0; i--) number = number << 8 | bytes[i];
    return number;
}

/* Tell whether there is a trailer, at this offset of the file; if so, believe it. */
static bool parse_trailer(struct payload *payload, const uint8_t *bytes, uint64_t offset) {
    if (memcmp(bytes, magic, MAGIC) || !is_sha256(bytes, FIELDS, bytes + FIELDS)) return false;
    const uint8_t *numbers = bytes + MAGIC, *sums = numbers + 5 * 8;
    payload->offset = read_number(numbers + 8);
    payload->size = read_number(numbers + 16);
    payload->unpacked = read_number(numbers + 24);
    payload->entries = read_number(numbers + 32);
    memcpy(payload->sha256, sums, SHA256_SIZE);
    memcpy(payload->manifest, sums + SHA256_SIZE, SHA256_SIZE);
    write_hex(payload->key, sums, KEY_SIZE / 2);
    return read_number(numbers) == VERSION && payload->offset + payload->size == offset;
}

/* Look for the trailer before a code signature. */
static bool search_trailer(struct payload *payload, uint64_t end) {
    uint64_t start = end > SIGNATURE ? end - SIGNATURE : 0;
    uint8_t *tail = malloc(SIGNATURE);
    bool found = false;
    size_t size = tail ? read_at(payload, tail, (size_t)(end - start), start) : 0;
    for (size_t at = size < TRAILER ? 0 : size - TRAILER + 1; at > 0 && !found; at--) {
        found = parse_trailer(payload, tail + at - 1, start + at - 1);
    }
    free(tail);
    return found;
}

void find_payload(struct payload *payload, const char *path, int file) {
    struct stat found;
    uint8_t trailer[TRAILER];
    *payload = (struct payload){.path = path, .file = file};
    if (fstat(file, &found)) fail_reading(path, errno);
    uint64_t end = (uint64_t)found.st_size;
    if (end < TRAILER || read_at(payload, trailer, TRAILER, end - TRAILER) < TRAILER)
        fail_damaged(path);
    if (parse_trailer(payload, trailer, end - TRAILER)) return;
    if (!search_trailer(payload, end)) fail_damaged(path);
}

static bool is_payload_whole(const struct payload *payload) {
    static uint8_t bytes[CHUNK];
    uint8_t digest[SHA256_SIZE];
    struct sha256 sha;
    sha256_start(&sha);
    for (uint64_t at = 0; at < payload->size;) {
        uint64_t left = payload->size - at;
        size_t size = left < CHUNK ? (size_t)left : CHUNK;
        ssize_t got = pread(payload->file, bytes, size, (off_t)(payload->offset + at));
        if (got <= 0) return false;
        sha256_add(&sha, bytes, (size_t)got);
        at += (uint64_t)got;
    }
    sha256_end(&sha, digest);
    return !memcmp(digest, payload->sha256, sizeof digest);
}

bool is_whole_file(const char *path) {
    struct payload payload = {.path = path,
                              .file = open_above(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0)};
    struct stat found;
    uint8_t trailer[TRAILER];
    if (payload.file < 0) return false;
    bool is_usable = !fstat(payload.file, &found) && S_ISREG(found.st_mode) &&
                     (found.st_uid == geteuid() || found.st_uid == 0) &&
                     !(found.st_mode & S_IWOTH) && found.st_size >= (off_t)TRAILER;
    off_t end = is_usable ? found.st_size - (off_t)TRAILER : 0;
    bool is_whole = is_usable && pread(payload.file, trailer, TRAILER, end) == (ssize_t)TRAILER &&
                    parse_trailer(&payload, trailer, (uint64_t)end) && is_payload_whole(&payload);
    close(payload.file);
    return is_whole;
}

/* ---- The archive's bytes ---- */

struct stream {
    const struct payload *payload;
    uint64_t at; /* how much of the payload was read */
    struct sha256 sha;
    ZSTD_DStream *zstd;
    ZSTD_inBuffer in;
    uint8_t raw[CHUNK];
};

static void read_chunk(struct stream *stream) {
    const struct payload *payload = stream->payload;
    uint64_t left = payload->size - stream->at;
    size_t size = left < CHUNK ? (size_t)left : CHUNK;
    if (read_at(payload, stream->raw, size, payload->offset + stream->at) < size)
        fail_damaged(payload->path);
    sha256_add(&stream->sha, stream->raw, size);
    stream->at += size;
    stream->in = (ZSTD_inBuffer){stream->raw, size, 0};
    show_progress((int)(stream->at * 100 / payload->size));
    leave_if_asked();
}

static _Noreturn void fail_decoding(const struct stream *stream, size_t result) {
    if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) {
        fail("There is too little memory for unpacking Baton. End other programs and try again.");
    }
    fail_damaged(stream->payload->path);
}

static void read_stream(struct stream *stream, void *to, size_t size) {
    ZSTD_outBuffer out = {to, size, 0};
    while (out.pos < out.size) {
        bool ended = stream->at == stream->payload->size;
        if (stream->in.pos == stream->in.size && !ended) read_chunk(stream);
        size_t before = out.pos;
        size_t result = ZSTD_decompressStream(stream->zstd, &out, &stream->in);
        if (ZSTD_isError(result) || (ended && out.pos == before)) fail_decoding(stream, result);
    }
}

static void open_stream(struct stream *stream, const struct payload *payload) {
    *stream = (struct stream){.payload = payload, .zstd = ZSTD_createDStream()};
    if (!stream->zstd) fail_decoding(stream, (size_t)-ZSTD_error_memory_allocation);
    ZSTD_DCtx_setParameter(stream->zstd, ZSTD_d_windowLogMax, WINDOW);
    sha256_start(&stream->sha);
}

/* Read what is left, and see that all of it was what the trailer says. */
static void close_stream(struct stream *stream) {
    uint8_t digest[SHA256_SIZE];
    while (stream->at < stream->payload->size) read_chunk(stream);
    sha256_end(&stream->sha, digest);
    ZSTD_freeDStream(stream->zstd);
    if (memcmp(digest, stream->payload->sha256, sizeof digest)) fail_damaged(stream->payload->path);
}

/* ---- The archive ---- */

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], kind, link[100];
    char magic[8], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct header) == 512, "a ustar header");

enum { FILE_KIND = '0', LINK_KIND = '2', FOLDER_KIND = '5' };

struct member {
    char path[sizeof((struct header *)0)->prefix + 1 + sizeof((struct header *)0)->name + 1];
    char target[sizeof((struct header *)0)->link + 1];
    uint64_t size;
    mode_t mode;
    char kind;
};

/* Tell whether a path stays in the folder that it's relative to. */
static bool stays_inside(const char *path) {
    if (*path == '/' || !*path) return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t size = strcspn(part, "/");
        if (size == 0 || (size == 1 && part[0] == '.') || (size == 2 && !memcmp(part, "..", 2)))
            return false;
    }
    return true;
}

static bool parse_header(struct member *member, const struct header *header) {
    char size[sizeof header->size + 1] = "", mode[sizeof header->mode + 1] = "";
    memcpy(size, header->size, sizeof header->size);
    memcpy(mode, header->mode, sizeof header->mode);
    snprintf(member->path, sizeof member->path, "%.155s%s%.100s", header->prefix,
             *header->prefix ? "/" : "", header->name);
    snprintf(member->target, sizeof member->target, "%.100s", header->link);
    member->size = strtoull(size, NULL, 8);
    member->mode = strtoul(mode, NULL, 8) & 0100 ? 0755 : 0644;
    member->kind = header->kind;
    size_t end = strlen(member->path);
    if (member->kind == FOLDER_KIND && end > 0 && member->path[end - 1] == '/')
        member->path[end - 1] = '\0';
    return !memcmp(header->magic, "ustar\00000", 8) && stays_inside(member->path);
}

static bool next_member(struct stream *stream, struct member *member) {
    struct header header;
    read_stream(stream, &header, sizeof header);
    if (!*header.name) return false;
    if (!parse_header(member, &header)) fail_damaged(stream->payload->path);
    return true;
}

/* ---- The folder ---- */

static _Noreturn void fail_writing(const struct stream *stream, const char *path, int error) {
    if (error != ENOSPC && error != EDQUOT) fail_at(path, "write", error);
    fail("The disk became full while Baton unpacked itself; what was there of it is gone again. "
         "It needs %" PRIu64
         " MB: make room, or start it with a folder on another disk: " ELSEWHERE,
         stream->payload->unpacked / MEGABYTE + 1);
}

static bool write_all(int file, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        ssize_t written = write(file, bytes, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        bytes += written, size -= (size_t)written;
    }
    return true;
}

static void unpack_file(struct stream *stream, int folder, const struct member *member) {
    static uint8_t bytes[CHUNK];
    int file = open_above(folder, member->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (file < 0) fail_writing(stream, member->path, errno);
    for (uint64_t left = member->size; left > 0;) {
        size_t part = left < CHUNK ? (size_t)left : CHUNK;
        read_stream(stream, bytes, part);
        if (!write_all(file, bytes, part)) fail_writing(stream, member->path, errno);
        left -= part;
    }
    read_stream(stream, bytes, (size_t)(-member->size % sizeof(struct header)));
    if (fchmod(file, member->mode) || close(file)) fail_writing(stream, member->path, errno);
}

static void unpack_member(struct stream *stream, int folder, const struct member *member) {
    const char *path = member->path;
    if (member->kind == FILE_KIND) {
        unpack_file(stream, folder, member);
    } else if (member->kind == FOLDER_KIND) {
        if (mkdirat(folder, path, 0700) || fchmodat(folder, path, 0755, 0))
            fail_writing(stream, path, errno);
    } else if (member->kind == LINK_KIND && *member->target != '/') {
        if (symlinkat(member->target, folder, path)) fail_writing(stream, path, errno);
    } else {
        fail_damaged(stream->payload->path);
    }
}

/* Links come last: so nothing can be written through one. */
void unpack_payload(const struct payload *payload, int folder) {
    static struct stream stream;
    struct member member;
    bool links = false;
    open_stream(&stream, payload);
    while (next_member(&stream, &member)) {
        if (links && member.kind != LINK_KIND) fail_damaged(payload->path);
        links = member.kind == LINK_KIND;
        unpack_member(&stream, folder, &member);
    }
    close_stream(&stream);
}
