#!/bin/sh
# Installs Baton, a single file, into a folder of your own; --help says how. Standard sh, which needs
# nothing but what any Unix has, and never root.

# Where the release lies: scripts/release writes it into the copy that it publishes.
origin=""

usage() {
    cat <<'USAGE'
Usage: sh install.sh [OPTIONS]

  Install Baton for yourself. Run it again to upgrade or to repair; the version
  before is kept (`baton self rollback`).

  --from FOLDER|URL         Where the release lies: the folder or the address
                            that holds SHA256SUMS. By default the folder of
                            this script, or the address that it came from.
  --flavour full|slim       full brings a small model and works without a
                            network; slim downloads its first one. [full]
  --gpu none|cuda|vulkan    A build that also computes on a graphics card. [none]
  --prefix FOLDER           It becomes FOLDER/bin/baton. [~/.local]
  --no-completions          Teach no shell to complete its commands.
  --help                    Show this and exit.

  Nothing of your shell's own files is changed, and `baton self uninstall` takes
  away whatever this puts down.
USAGE
}

main() {
    unset CDPATH
    # What is installed is nobody else's to change, whatever new files are otherwise.
    umask go-w
    read_arguments "$@"
    find_release
    find_places
    choose_file
    begin
    bring
    try_out
    put_down
    put_completions
    put_desktop_entry
    put_receipt
    tell
}

# `echo` makes something else of a backslash in some shells.
say() {
    printf '%s\n' "$1"
}

note() {
    say "$1" >&2
}

fail() {
    note "Baton was not installed: $1"
    exit "${2:-1}"
}

# attempt WHAT COMMAND...: runs it, or says in one sentence what went wrong.
attempt() {
    what=$1
    shift
    reason=$("$@" 2>&1) && return
    reason=${reason%%"
"*}
    fail "$what: ${reason:-$1 failed}"
}

# What is asked for

read_arguments() {
    from="" flavour="" gpu="" prefix="" completions=yes
    while [ $# -gt 0 ]; do
        case $1 in
            --*=*)
                name=${1%%=*} value=${1#*=}
                shift
                set -- "$name" "$value" "$@"
                ;;
        esac
        case $1 in
            -h | --help)
                usage
                exit 0
                ;;
            --no-completions)
                completions=no
                shift
                ;;
            --from | --flavour | --gpu | --prefix)
                [ -n "${2:-}" ] || fail "$1 needs a value; --help shows which." 2
                take "$1" "$2"
                shift 2
                ;;
            *) fail "$1 is not an option; --help shows them." 2 ;;
        esac
    done
}

take() {
    case $2 in *[[:cntrl:]]*) fail "$1 holds a character that can't be printed." 2 ;; esac
    case $1=$2 in
        --from=*) from=$2 ;;
        --prefix=*) prefix=$2 ;;
        --flavour=full | --flavour=slim) flavour=$2 ;;
        --gpu=none | --gpu=cuda | --gpu=vulkan) gpu=$2 ;;
        --flavour=*) fail "the flavour is full or slim, not $2." 2 ;;
        --gpu=*) fail "--gpu is none, cuda or vulkan, not $2." 2 ;;
    esac
}

# Where it comes from and goes to

find_release() {
    if [ -z "$from" ] && [ "${0##*/}" = install.sh ]; then
        case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
        [ -f "$here/SHA256SUMS" ] && from=${here:-/}
    fi
    from=${from:-$origin}
    [ -n "$from" ] ||
        fail "say where the release lies, with --from FOLDER or --from https://..." 2
    case $from in
        https://*) ;;
        http://localhost[:/]* | http://127.0.0.1[:/]* | http://\[::1\][:/]*) ;;
        http://*)
            fail "$from is not protected on its way; use https, or fetch the folder yourself and name it with --from." 2
            ;;
        *://*) fail "$from is neither a folder nor an address that begins with https." 2 ;;
        *)
            [ -d "$from" ] || fail "there is no folder $from." 2
            from=$(cd "$from" && pwd) || fail "the folder $from can't be opened."
            case $from in *[[:cntrl:]]*) fail "the release lies in a folder whose name can't be printed." 2 ;; esac
            return
            ;;
    esac
    from=${from%/}
    for downloader in curl wget ""; do
        command -v "$downloader" >/dev/null 2>&1 && break
    done
    [ -n "$downloader" ] ||
        fail "it needs curl or wget to download; install one, or fetch the folder yourself and name it with --from."
    case $downloader:$from in
        wget:https:*)
            case $(wget --help 2>&1) in
                *BusyBox*) fail "the wget here doesn't check whom it talks to; install curl, or fetch the folder yourself and name it with --from." ;;
            esac
            ;;
    esac
}

find_places() {
    home=${HOME:-}
    case $home in *[[:cntrl:]]*) fail "HOME holds a character that can't be printed." ;; esac
    [ -n "$prefix$home" ] || fail "HOME is not set; say where to with --prefix FOLDER." 2
    # A shell leaves the tilde alone in --prefix=~/folder.
    # shellcheck disable=SC2088
    case $prefix in "~/"*) prefix=$home/${prefix#"~/"} ;; esac
    prefix=${prefix:-$home/.local}
    case $prefix in /*) ;; *) prefix=$(pwd)/$prefix ;; esac
    case $prefix in *[[:cntrl:]]*) fail "the folder that you are in has a name that can't be printed; write the whole path after --prefix." 2 ;; esac
    prefix=${prefix%/}
    bin=$prefix/bin share=$prefix/share/baton
    target=$bin/baton receipt=$share/install.json
    data=$(absolute_or "${XDG_DATA_HOME:-}" "$home/.local/share")
    config=$(absolute_or "${XDG_CONFIG_HOME:-}" "$home/.config")
    [ -d "$target" ] && fail "$target is a folder; move it away, or choose another --prefix."
    # Running it again keeps what was chosen before.
    flavour=${flavour:-$(installed flavour)} gpu=${gpu:-$(installed gpu)}
    flavour=${flavour:-full} gpu=${gpu#none}
}

absolute_or() {
    case $1 in *[[:cntrl:]]*) say "$2" ;; /*) say "$1" ;; *) say "$2" ;; esac
}

installed() {
    [ -f "$receipt" ] && sed -n "s/.*\"$1\": *\"\([0-9A-Za-z._+-]*\)\".*/\1/p" "$receipt" 2>/dev/null
}

# Which file

choose_file() {
    platform=$(this_platform) || exit
    sums=$(fetch SHA256SUMS) || fail "there is no SHA256SUMS in $from, so nothing there can be checked."
    case $flavour in slim) first=baton-slim- ;; *) first=baton- ;; esac
    last=-$platform${gpu:+-$gpu}
    name="" wanted="" listed=""
    while read -r sum file; do
        file=${file#\*}
        case $sum in *[!0-9a-f]*) continue ;; esac
        case $file in *[[:cntrl:]]*) continue ;; esac
        [ ${#sum} = 64 ] || continue
        listed="$listed $file"
        case $file in
            "$first"[0-9]*"$last")
                [ -z "$name" ] || fail "$from holds several versions, $name and $file; name a folder with one."
                name=$file wanted=$sum
                ;;
        esac
    done <<SUMS
$sums
SUMS
    [ -n "$listed" ] || fail "SHA256SUMS in $from is not a list of checksums."
    [ -n "$name" ] || fail "$from holds no Baton for $platform ($flavour${gpu:+, $gpu}), only:$listed"
    version=${name#"$first"} version=${version%"$last"}
    case $version in *[!0-9A-Za-z.+-]*) fail "SHA256SUMS in $from names a strange version, $version." ;; esac
}

this_platform() {
    system=$(uname -s) machine=$(uname -m)
    # An Intel shell on an Apple processor says x86_64.
    if [ "$system $machine" = "Darwin x86_64" ] &&
        [ "$(sysctl -n sysctl.proc_translated 2>/dev/null)" = 1 ]; then
        machine=arm64
    fi
    case "$system $machine" in
        "Linux x86_64" | "Linux amd64") echo linux-x86_64 ;;
        "Linux aarch64" | "Linux arm64") echo linux-aarch64 ;;
        "Darwin arm64") echo macos-arm64 ;;
        MINGW* | MSYS* | CYGWIN*) fail "on Windows use install.ps1." ;;
        *) fail "there is no build for $system on $machine; README.md says how to run it from a checkout." ;;
    esac
}

# fetch NAME: a file of the release, to stdout.
fetch() {
    case $from in
        *://*) download "$from/$1" ;;
        *) cat "$from/$1" 2>/dev/null ;;
    esac
}

download() {
    silent=-sS
    [ -t 2 ] && silent=-#
    case $downloader:$1 in
        curl:https:*) curl -fL "$silent" --proto '=https' --proto-redir '=https' --retry 2 "$1" ;;
        curl:*) curl -fL "$silent" "$1" ;;
        wget:https:*) wget -q --tries=2 --max-redirect=0 -O - "$(follow "$1")" ;;
        *)
            # It tries twenty times by default, and busybox's doesn't know how often.
            case $(wget --help 2>&1) in
                *--tries*) wget -q --tries=2 -O - "$1" ;;
                *) wget -q -O - "$1" ;;
            esac
            ;;
    esac
}

# follow URL: where it leads to. wget itself would also go where nothing is protected.
follow() {
    url=$1
    for _ in 1 2 3 4 5; do
        next=$(wget -S --spider --tries=2 --max-redirect=0 "$url" 2>&1 |
            sed -n 's/^ *Location:/location:/; s/^ *location: *\(https:[^[:space:]]*\).*/\1/p' |
            sed -n 1p)
        [ -n "$next" ] || break
        url=$next
    done
    printf '%s' "$url"
}

# Bringing it here, beside where it shall be, so that it comes into place at one stroke

begin() {
    attempt "$prefix can't be written (choose a folder of your own with --prefix)" \
        mkdir -p "$bin" "${share%/*}"
    # That is usually the folder of what Baton keeps of its person, too, and nobody else's business.
    [ -d "$share" ] || attempt "$prefix can't be written (choose a folder of your own with --prefix)" \
        mkdir -m "$([ "$share" = "$data/baton" ] && echo 700 || echo 755)" "$share"
    if ! [ -w "$bin" ] || ! [ -w "$share" ]; then
        fail "$prefix can't be written; choose a folder of your own with --prefix."
    fi
    for other in "$bin"/.baton-install.*; do
        [ -d "$other" ] || continue
        [ "${other##*.}" != $$ ] && kill -0 "${other##*.}" 2>/dev/null &&
            fail "another installation is at work (process ${other##*.}); wait for it, or remove $other if that is none."
        rm -rf "$other"
    done
    work=$bin/.baton-install.$$
    writing=$work
    trap 'rm -rf "$work" "$writing"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    attempt "$bin can't be written" mkdir "$work"
}

bring() {
    say "Bringing $name from $from ..."
    case $from in
        *://*) ;;
        *) [ -f "$from/$name" ] || fail "SHA256SUMS in $from names $name, but that file is not there." ;;
    esac
    fetch "$name" >"$work/baton" || fail "$name could not be brought here whole; is the disk full?"
    got=$(sha256 "$work/baton") || exit
    [ "$got" = "$wanted" ] ||
        fail "$name is damaged or not the one that was published: its SHA-256 is $got, and SHA256SUMS says $wanted. Fetch it anew."
    say "Its SHA-256 is the one that SHA256SUMS in the same place names: it came here whole."
    attempt "$bin can't be written" chmod 755 "$work/baton"
    # A power cut must not leave a name without its contents. Old systems only know all at once.
    sync "$work/baton" 2>/dev/null || sync
}

sha256() {
    if command -v sha256sum >/dev/null 2>&1; then
        printed=$(sha256sum <"$1")
    elif command -v shasum >/dev/null 2>&1; then
        printed=$(shasum -a 256 <"$1")
    elif command -v openssl >/dev/null 2>&1; then
        printed=$(openssl dgst -sha256 -r <"$1")
    else
        fail "it needs sha256sum, shasum or openssl to check the file; install one of them."
    fi
    say "${printed%% *}"
}

try_out() {
    says=$("$work/baton" --version 2>&1) ||
        fail "the file is right, but doesn't start here (a folder that must not run programs? an older system?); it says: ${says:-nothing}"
    case $says in
        *"$version"*) ;;
        *) fail "$name says that it is $says." ;;
    esac
}

# Putting it down

put_down() {
    if [ -e "$target" ] && [ "$(sha256 "$target" 2>/dev/null)" = "$wanted" ]; then
        say "$target is that one already."
    elif [ -e "$target" ] || [ -L "$target" ]; then
        keep_previous
    fi
    attempt "$target can't be written" mv -f "$work/baton" "$target"
    files=$target
}

keep_previous() {
    if ! says=$("$target" --version 2>&1) && [ -f "$receipt" ]; then
        say "The one before doesn't start any more, and is not kept."
        return
    fi
    # A second name, where that goes: the first stays usable all the time.
    if [ -L "$target" ] || ! ln "$target" "$work/previous" 2>/dev/null; then
        attempt "the version before can't be kept" cp -pP "$target" "$work/previous"
    fi
    # After an interruption it may be this very file already, which mv refuses to replace by itself.
    attempt "the version before can't be kept" rm -f "$share/previous" "$share/previous.json"
    attempt "the version before can't be kept" mv -f "$work/previous" "$share/previous"
    say "The one before is kept as $share/previous."
    # What it is, for `baton self rollback`, where the receipt is still of it.
    old=$(installed version)
    case $says in
        *" ${old:-none}")
            write "$share/previous.json" "{
  \"schema\": 1,
  \"version\": \"$old\",
  \"flavour\": \"$(installed flavour)\",
  \"platform\": \"$(installed platform)\",
  \"gpu\": \"$(installed gpu)\"
}"
            ;;
    esac
}

# write FILE TEXT: whole or not at all.
write() {
    writing=$1.new
    if ! [ -d "$1" ] && mkdir -p "${1%/*}" 2>/dev/null && { printf '%s\n' "$2" >"$writing"; } 2>/dev/null &&
        mv -f "$writing" "$1" 2>/dev/null; then
        return
    fi
    rm -f "$writing" 2>/dev/null
    writing=$work
    return 1
}

# put FILE TEXT: writes what is installed; a failure is told, and no reason to stop.
put() {
    if write "$1" "$2"; then
        files="$files
$1"
    else
        note "$1 could not be written; Baton works without it."
    fi
}

put_completions() {
    for shell in bash zsh fish; do
        case $shell in
            bash) file=$data/bash-completion/completions/baton ;;
            zsh) file=$prefix/share/zsh/site-functions/_baton ;;
            fish) file=$config/fish/completions/baton.fish ;;
        esac
        [ -n "$home" ] || continue
        if [ $completions = no ] || ! command -v $shell >/dev/null 2>&1; then
            # What an earlier run put down is still to be taken away some day.
            [ -f "$file" ] && grep -qF "$(json "$file")" "$receipt" 2>/dev/null && files="$files
$file"
            continue
        fi
        if text=$("$target" completion $shell 2>/dev/null) && [ -n "$text" ]; then
            put "$file" "$text"
        else
            note "It could not say how $shell completes its commands; the rest works."
        fi
    done
}

put_desktop_entry() {
    case $home:$platform in :* | *:macos*) return ;; esac
    icon=$data/icons/hicolor/scalable/apps/baton.svg
    put "$icon" '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">
<rect width="64" height="64" rx="14" fill="#1b1b2f"/>
<path d="M23 41 52 12" stroke="#f4efe6" stroke-width="4" stroke-linecap="round"/>
<path d="M14 50 23 41" stroke="#e0a458" stroke-width="10" stroke-linecap="round"/>
</svg>'
    put "$data/applications/baton.desktop" "[Desktop Entry]
Type=Application
Name=Baton
Comment=Talk to language models on your own machine
Exec=$(desktop_argument "$target")
Icon=baton
Terminal=true
Categories=Utility;
Keywords=chat;assistant;model;"
}

# An argument as Exec wants it: quoted, with what is special in quotes escaped, and then all of it
# escaped once more as any value of such a file.
desktop_argument() {
    printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"`$]/\\&/g; s/%/%%/g; s/\\/\\\\/g')"
}

json() {
    printf '"%s"' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')"
}

put_receipt() {
    listed=""
    while read -r file; do
        listed="$listed${listed:+,
    }$(json "$file")"
    done <<FILES
$files
FILES
    put "$receipt" "{
  \"schema\": 1,
  \"version\": $(json "$version"),
  \"flavour\": \"$flavour\",
  \"platform\": \"$platform\",
  \"gpu\": \"$gpu\",
  \"source\": $(json "$from"),
  \"files\": [
    $listed
  ]
}"
}

# What remains for the person to do

tell() {
    echo
    say "Baton $version is installed: $target"
    case "$files" in *"/site-functions/_baton"*)
        say "For zsh's completions, add this to ~/.zshrc, before compinit:"
        say "    fpath=($(quoted "$prefix/share/zsh/site-functions") \$fpath)"
        ;;
    esac
    case ":$PATH:" in
        *":$bin:"*)
            first=$(command -v baton)
            [ "$first" = "$target" ] ||
                note "But \`baton\` starts $first, whose folder comes first on your PATH."
            say "Start it with: baton"
            ;;
        *) tell_path ;;
    esac
}

tell_path() {
    say "Its folder is not on your PATH. To start it as \`baton\`, run this once and open a new terminal:"
    case ${SHELL:-} in
        */fish) say "    fish_add_path $(quoted "$bin")" ;;
        */zsh) say "    echo $(quoted "export PATH=$(quoted "$bin"):\"\$PATH\"") >> ~/.zshrc" ;;
        */bash) say "    echo $(quoted "export PATH=$(quoted "$bin"):\"\$PATH\"") >> ~/.bashrc" ;;
        *) say "    echo $(quoted "export PATH=$(quoted "$bin"):\"\$PATH\"") >> ~/.profile" ;;
    esac
    say "Until then: $(quoted "$target")"
}

quoted() {
    case $1 in
        *[!A-Za-z0-9_./:-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
        *) printf '%s' "$1" ;;
    esac
}

# The last line, so that a script which came only in part does nothing. What it starts must not read
# the rest of it where it is piped into a shell.
main "$@" </dev/null
