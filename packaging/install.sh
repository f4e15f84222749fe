#!/bin/sh
# Installs Baton, a single file, into a folder of your own; --help says how. Standard sh, which needs
# nothing but what any Unix has, and never root.

# Where the release is: scripts/release writes it into the copy that it publishes.
origin=""

usage() {
    cat <<'USAGE'
Usage: sh install.sh [OPTIONS]

  Install Baton for yourself. Run it again to upgrade or to repair; the version
  before is kept (`baton self rollback`).

  --from FOLDER|URL         Where the release is: the folder or the address
                            that holds SHA256SUMS. By default the folder of
                            this script, or the address that it came from.
  --flavour full|slim       full brings a small model and works without a
                            network; slim downloads its first one. [full]
  --gpu none|cuda|vulkan    A build that uses a graphics card too. [none]
  --prefix FOLDER           It becomes FOLDER/bin/baton. [~/.local]
  --no-completions          Teach no shell to complete its commands.
  --help                    Show this and exit.

  Nothing of your shell's own files is changed, and `baton self uninstall` takes
  away whatever this puts down. Ctrl+C leaves everything as it was.
USAGE
}

main() {
    unset CDPATH
    # What others say is read here, and must be in one language.
    LC_ALL=C
    export LC_ALL
    # What is installed is nobody else's to change, whatever new files are otherwise.
    umask go-w
    work="" writing="" new="" unpacked="" lock="" child=""
    # Where stopped() speaks: 2 may lead to a file at that moment.
    exec 3>&2
    trap clean EXIT
    trap 'stopped 129' HUP
    trap 'stopped 130' INT
    trap 'stopped 143' TERM
    read_arguments "$@"
    find_release
    find_places
    platform=$(this_platform) || exit
    begin
    choose_file
    bring
    try_out
    look_at_old
    # From here on it is a matter of moments, and either all of it is done or nothing.
    trap '' HUP INT TERM
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

# note TEXT: on stderr; a terminal would break its lines within words.
note() {
    width=""
    [ -t 2 ] && command -v fold >/dev/null 2>&1 && width=$(stty size <&2 2>/dev/null)
    case ${width#* } in
        "" | 0* | *[!0-9]*) say "$1" >&2 ;;
        *) say "$1" | fold -s -w "${width#* }" >&2 ;;
    esac
}

fail() {
    kept=""
    [ -n "${target:-}" ] && [ -f "$target" ] && kept=" The one that is here is as it was."
    note "Baton was not installed: $1$kept"
    exit "${2:-1}"
}

# attempt WHAT ADVICE COMMAND...: runs it, or says in one sentence what went wrong.
attempt() {
    what=$1 advice=$2
    shift 2
    reason=$("$@" 2>&1) && return
    reason=${reason%%"
"*}
    reason=${reason##*: }
    fail "$what (${reason:-$1 failed}); $advice."
}

# patiently PROGRAM...: runs what may take long. A shell answers a signal only when what it runs in
# front of itself has ended.
patiently() {
    "$@" 3>&- &
    child=$!
    wait "$child" && ended=0 || ended=$?
    child=""
    return "$ended"
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
        fail "say where the release is, with --from FOLDER or --from https://..." 2
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
            case $from in *[[:cntrl:]]*) fail "the release is in a folder whose name can't be printed." 2 ;; esac
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
    fetch SHA256SUMS "there is no SHA256SUMS in $from, so nothing there can be checked; --from wants the place that holds it."
    sums=$(cat "$work/SHA256SUMS")
    case $flavour in slim) first=baton-slim- ;; *) first=baton- ;; esac
    last=-$platform${gpu:+-$gpu}
    name="" wanted="" others="" any=no
    while read -r sum file; do
        file=${file#\*}
        case $sum in *[!0-9a-f]*) continue ;; esac
        case $file in *[[:cntrl:]]*) continue ;; esac
        [ ${#sum} = 64 ] || continue
        any=yes
        case $file in
            "$first"[0-9]*"$last")
                [ -z "$name" ] || fail "$from holds several versions, $name and $file; name a folder with one."
                name=$file wanted=$sum
                ;;
            *.cdx.json) ;;
            baton-[0-9]* | baton-slim-[0-9]*) others="$others $file" ;;
        esac
    done <<SUMS
$sums
SUMS
    [ $any = yes ] || fail "SHA256SUMS in $from is not a list of checksums."
    [ -n "$name" ] || fail "$from holds no Baton for $platform ($flavour${gpu:+, $gpu}), only:${others:- nothing of the kind}."
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

# Getting the files of a release

# fetch NAME MISSING: a file of the release, as $work/NAME; MISSING says that it isn't there.
fetch() {
    case $from in
        *://*) download "$from/$1" "$work/$1" || explain "$2" ;;
        *)
            [ -f "$from/$1" ] || fail "$2"
            patiently cat "$from/$1" 2>/dev/null >"$work/$1" || explain_copy "$from/$1"
            ;;
    esac
}

explain_copy() {
    cat "$1" >/dev/null 2>&1 && fail_full
    fail "$1 can't be read; see whose it is, and whether its disk is sound."
}

fail_full() {
    fail "there is no room for it in $bin; make some and run it again, or choose another disk with --prefix."
}

# download URL FILE: what it says on the way is left for explain().
download() {
    url=$1 shown=no
    [ -t 2 ] && [ "${1##*/}" != SHA256SUMS ] && shown=yes
    case $downloader:$1 in
        curl:https:*) by_curl "$1" "$2" --proto '=https' --proto-redir '=https' ;;
        curl:*) by_curl "$1" "$2" ;;
        wget:https:*) follow && by_wget "$url" "$2" --max-redirect=0 ;;
        *) by_wget "$1" "$2" ;;
    esac
}

# A connection that takes half a minute to come about, or brings nothing for one, is given up.
by_curl() {
    source=$1 file=$2
    shift 2
    set -- -fL --connect-timeout 30 --speed-limit 1 --speed-time 60 --retry 2 "$@" \
        -w '%{http_code} %{url_effective}' -o "$file" "$source"
    if [ $shown = yes ]; then
        patiently curl "-#" "$@" >"$work/answer"
    else
        patiently curl -sv "$@" >"$work/answer" 2>"$work/said"
    fi
}

by_wget() {
    source=$1 file=$2
    shift 2
    set -- "$@" -O "$file" "$source"
    case $shown:$(wget --help 2>&1) in
        *BusyBox*) patiently wget -q "$@" 2>"$work/said" ;;
        yes:*--show-progress*)
            patiently wget -nv -o "$work/said" --show-progress --tries=2 --timeout=30 "$@"
            ;;
        *) patiently wget -nv -o "$work/said" --tries=2 --timeout=30 "$@" ;;
    esac
}

# Makes of $url where it leads to. wget itself would also go where nothing is protected.
follow() {
    for _ in 1 2 3 4 5; do
        patiently wget -S --spider --tries=1 --timeout=30 --max-redirect=0 "$url" 2>"$work/said"
        code=$?
        next=$(sed -n 's/^ *Location:/location:/; s/^ *location: *\([^[:space:]]*\).*/\1/p' "$work/said")
        next=${next%%"
"*}
        host=${url#https://} host=${host%%/*}
        case $next in
            https://*) url=$next ;;
            //*) url=https:$next ;;
            /*) url=https://$host$next ;;
            *) break ;;
        esac
    done
    # Whom it can't reach or trust now, it can't a moment later.
    case $code in 4 | 5) return "$code" ;; esac
}

# explain MISSING: why a download failed, in one sentence, and what to do.
explain() {
    code=$? status=""
    said=$(cat "$work/said" 2>/dev/null)
    if [ "$downloader" = curl ]; then
        read -r status led_to <"$work/answer"
        [ $code = 22 ] || status=""
        url=${led_to:-$url}
    else
        status=$(sed -n 's/.*ERROR \([45][0-9][0-9]\):.*/\1/p; s/.*error: HTTP[^ ]* \([45][0-9][0-9]\).*/\1/p' "$work/said" 2>/dev/null)
        [ $code = 6 ] && status=401
    fi
    or_yourself="fetch the folder yourself and name it with --from"
    host=${url#*://} host=${host%%[/?#]*} host=${host##*@}
    case $host in "" | *[[:cntrl:]]*) host=$from ;; esac
    case $status in
        404 | 410) fail "$1" ;;
        401 | 403 | 407) fail "$host doesn't let everybody have it ($status); check the address, or $or_yourself." ;;
        429 | 5*) fail "$host has trouble of its own ($status); run it again later, or $or_yourself." ;;
        ?*) fail "$host answers with an error ($status); check the address." ;;
    esac
    explain_network "$downloader:$code $said"
}

# explain_network DOWNLOADER:CODE WHAT-IT-SAID
explain_network() {
    case $1 in
        curl:[56]\ * | wget:*"unable to resolve"* | wget:*"bad address"*)
            fail "there is no address for the name $host; check how it is written and that this machine is on the network, or $or_yourself."
            ;;
        curl:7\ *[Rr]efused* | wget:*refused*)
            fail "$host refuses the connection; check the address and its port, or run it again later."
            ;;
        curl:28\ * | wget:*"timed out"*)
            fail "$host doesn't answer, or too slowly; run it again later, or $or_yourself."
            ;;
        curl:7\ * | wget:*"No route"* | wget:*unreachable*)
            fail "$host can't be reached from here; check that this machine is on the network, or $or_yourself."
            ;;
        curl:77\ *)
            fail "this machine has no list of whom to trust; install ca-certificates, or $or_yourself."
            ;;
        curl:5[18]\ * | curl:60\ * | wget:5\ *)
            fail "nothing proves that $host is itself, as its certificate isn't right; check the address and this machine's clock, or $or_yourself."
            ;;
        curl:35\ * | wget:*"establish SSL"*)
            fail "$host doesn't speak https, or not as this $downloader does; check the address, or $or_yourself."
            ;;
        curl:1\ * | curl:47\ * | wget:*"redirections exceeded"*)
            fail "$host leads on to where nothing protects the way, or in circles, so it wasn't followed; check the address, or $or_yourself."
            ;;
        curl:23\ * | wget:3\ * | wget:*"write error"*) fail_full ;;
        curl:18\ * | curl:5[256]\ * | curl:9[25]\ * | wget:4\ * | wget:*closed* | wget:*"getting response"*)
            fail "the connection to $host broke off; run it again."
            ;;
    esac
    fail "$downloader can't bring it from $host (it ended with $code); run it again later, or $or_yourself."
}

# The folders that are made

# expect FOLDER: remembers which on the way to it are not there yet, the deepest first.
expect() {
    case $1 in "" | /) return ;; esac
    [ -d "$1" ] && return
    case "
$new" in *"
$1
"*) return ;; esac
    expect "${1%/*}"
    new="$1
$new"
}

# Whichever way it ends: of what it made, nothing stays that isn't wanted.
clean() {
    [ -z "$work" ] || rm -rf "$work"
    [ -z "$writing" ] || rm -f "$writing"
    [ -z "$unpacked" ] || rm -rf "$unpacked" "$unpacked.lock"
    [ -z "$lock" ] || rm -f "$lock"
    while read -r folder; do
        [ -z "$folder" ] || rmdir "$folder" 2>/dev/null
    done <<NEW
$new
NEW
}

# stopped CODE: a signal came before anything was put in its place.
stopped() {
    trap '' HUP INT TERM
    [ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null
    # Behind the ^C, or whatever shows how far it came.
    [ -t 3 ] && echo >&3
    if [ -f "${target:-}" ]; then
        say "Stopped: nothing was changed, Baton is as it was. Run it again when you like." >&3
    else
        say "Stopped: nothing was installed, nothing is left. Run it again when you like." >&3
    fi
    exit "$1"
}

# Bringing it here, beside where it shall be, so that it comes into place at one stroke

begin() {
    expect "$bin"
    expect "$share"
    attempt "$prefix can't be written" "choose a folder of your own with --prefix" \
        mkdir -p "$bin" "${share%/*}"
    # That is usually the folder of what Baton keeps of its person, too, and nobody else's business.
    [ -d "$share" ] || attempt "$prefix can't be written" "choose a folder of your own with --prefix" \
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
    attempt "$bin can't be written" "choose a folder of your own with --prefix" mkdir "$work"
}

bring() {
    say "Bringing $name from $from ..."
    fetch "$name" "SHA256SUMS in $from names $name, but that file is not there; the release is incomplete, so tell its maker."
    got=$(sha256 "$work/$name") || exit
    [ "$got" = "$wanted" ] ||
        fail "$name is damaged or not the one that was published: its SHA-256 is $got, and SHA256SUMS says $wanted. Download it again."
    say "It came here whole: its SHA-256 is the one that stands in SHA256SUMS there."
    mv "$work/$name" "$work/baton"
    attempt "$bin can't be written" "see whose it is" chmod 755 "$work/baton"
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
    say "Trying whether it starts here, for which it unpacks itself once ..."
    find_unpacked
    patiently "$work/baton" --version >"$work/says" 2>&1
    started=$?
    says=$(sed '$!d' "$work/says")
    case $started:$says in
        0:*"$version"*) ;;
        0:*) fail "$name says that it is $says; tell the release's maker." ;;
        *:*BATON_HOME*) fail "the file is right, but doesn't start here. $says (and the same before \`sh install.sh\`)." ;;
        *:*Baton*) fail "the file is right, but doesn't start here. $says" ;;
        *"ermission denied") fail "the file is right, but no program may be started in $bin; choose another disk with --prefix." ;;
        *) fail "the file is right, but doesn't start here (an older system?); it says: ${says:-nothing}" ;;
    esac
}

# Where it unpacks itself, as find_cache() in launcher.c has it, and what as, as its trailer says.
find_unpacked() {
    [ -n "$home" ] || return
    cache=$home/.cache
    case $platform in macos*) cache=$home/Library/Caches ;; esac
    cache=$(absolute_or "${XDG_CACHE_HOME:-}" "$cache")/baton
    [ -z "${BATON_HOME:-}" ] || cache=$BATON_HOME/cache
    case $cache in /*) app=$cache/app ;; *) return ;; esac
    expect "$app"
    [ -d "$app" ] || lock=$app/lock
    key=$({ tail -c 152 "$work/baton" | od -An -v -tx1 | tr -d ' \n' |
        sed -n 's/^004261746f6e2773207061796c6f6164.\{80\}\(.\{16\}\).*/\1/p'; } 2>/dev/null)
    [ -z "$key" ] || [ -e "$app/$key" ] || unpacked=$app/$key
}

# What is there already, and whether it is to be kept

look_at_old() {
    old=none
    if [ -e "$target" ] && [ "$(sha256 "$target" 2>/dev/null)" = "$wanted" ]; then
        old=same
    elif [ -e "$target" ] || [ -L "$target" ]; then
        old=broken
        if patiently "$target" --version >"$work/says" 2>&1 || ! [ -f "$receipt" ]; then
            old=kept
        fi
        says=$(sed '$!d' "$work/says")
    fi
}

# Putting it down

put_down() {
    case $old in
        same) say "$target is that one already." ;;
        broken) say "The one before doesn't start any more, and is not kept." ;;
        kept) keep_previous ;;
    esac
    attempt "$target can't be written" "see whose it is" mv -f "$work/baton" "$target"
    files=$target unpacked="" lock=""
}

keep_previous() {
    advice="make room, or see whose $share is"
    # A second name, where that goes: the first stays usable all the time.
    if [ -L "$target" ] || ! ln "$target" "$work/previous" 2>/dev/null; then
        attempt "the version before can't be kept" "$advice" cp -pP "$target" "$work/previous"
    fi
    # After an interruption it may be this very file already, which mv refuses to replace by itself.
    attempt "the version before can't be kept" "$advice" rm -f "$share/previous" "$share/previous.json"
    attempt "the version before can't be kept" "$advice" mv -f "$work/previous" "$share/previous"
    # What it is, for `baton self rollback`, where the receipt is still of it.
    before=$(installed version)
    case $says in
        *" ${before:-none}")
            write "$share/previous.json" "{
  \"schema\": 1,
  \"version\": \"$before\",
  \"flavour\": \"$(installed flavour)\",
  \"platform\": \"$(installed platform)\",
  \"gpu\": \"$(installed gpu)\",
  \"sha256\": \"$(sha256 "$share/previous" 2>/dev/null)\"
}"
            ;;
    esac
    case $says in
        "baton "[0-9]*) say "The one before, ${says#baton }, is kept: \`baton self rollback\` comes back to it." ;;
        *) say "What was there before is kept as $share/previous." ;;
    esac
}

# write FILE TEXT: whole or not at all.
write() {
    writing=$1.new
    expect "${1%/*}"
    if ! [ -d "$1" ] && mkdir -p "${1%/*}" 2>/dev/null && { printf '%s\n' "$2" >"$writing"; } 2>/dev/null &&
        mv -f "$writing" "$1" 2>/dev/null; then
        return
    fi
    rm -f "$writing" 2>/dev/null
    writing=""
    return 1
}

# put FILE TEXT: writes what is installed; a failure is reported, and no reason to stop.
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
    printf '"%s"\n' "$(printf '%s' "$1" | sed 's/[\\"]/\\&/g')"
}

put_receipt() {
    listed=$(while read -r file; do json "$file"; done <<FILES
$files
FILES
    )
    # Whatever wasn't there before Baton is to be taken away with it some day, if nobody uses it.
    if [ -n "$home" ]; then
        expect "$config/baton"
        expect "$(absolute_or "${XDG_STATE_HOME:-}" "$home/.local/state")/baton"
    fi
    folders=$(
        sed -n '/"folders": \[/,/\]/s/^ *\("\/.*"\),*$/\1/p' "$receipt" 2>/dev/null
        while read -r folder; do
            folder=$(json "$folder")
            [ "$folder" = '""' ] || grep -qsxF "    $folder" "$receipt" ||
                grep -qsxF "    $folder," "$receipt" || say "$folder"
        done <<NEW
$new
NEW
    )
    write "$receipt" "{
  \"schema\": 1,
  \"version\": $(json "$version"),
  \"flavour\": \"$flavour\",
  \"platform\": \"$platform\",
  \"gpu\": \"$gpu\",
  \"source\": $(json "$from"),
  \"files\": [
$(list "$listed")
  ],
  \"folders\": [
$(list "$folders")
  ]
}" || note "$receipt could not be written, so \`baton self\` won't know what belongs to it; run this again when there is room."
}

# list LINES: as the lines of a list in JSON.
list() {
    [ -z "$1" ] || say "$1" | sed 's/^/    /; $!s/$/,/'
}

# What remains for the user to do

tell() {
    echo
    say "Baton $version is installed: $target"
    case ":$PATH:" in
        *":$bin:"*)
            first=$(command -v baton)
            [ "$first" = "$target" ] ||
                note "But \`baton\` starts $first, whose folder comes first on your PATH."
            say "Start it with: baton"
            ;;
        *) tell_path ;;
    esac
    case ${SHELL:-}:$files in */zsh:*"/site-functions/_baton"*)
        say "For zsh's completions, add this to ~/.zshrc, before compinit:"
        say "    fpath=($(quoted "$prefix/share/zsh/site-functions") \$fpath)"
        ;;
    esac
}

tell_path() {
    line="echo $(quoted "export PATH=$(quoted "$bin"):\"\$PATH\"") >> ~/"
    case ${SHELL:-} in
        */fish) line="fish_add_path $(quoted "$bin")" file="" ;;
        */zsh) file=.zshrc ;;
        */bash) file=.bashrc ;;
        *) file=.profile ;;
    esac
    if [ -n "$file" ] && grep -qsF "$bin" "$home/$file"; then
        say "A new terminal knows its folder (~/$file names it); there start it with: baton"
    else
        say "Your shell doesn't look into that folder yet. Run this once:"
        say "    $line$file"
        say "Then open a new terminal, and start it with: baton"
    fi
    say "In this one: $(quoted "$target")"
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
