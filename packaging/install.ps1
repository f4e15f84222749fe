<#
.SYNOPSIS
Installs Baton for yourself, on Windows. Run it again to upgrade or to repair.

.DESCRIPTION
Not yet run: there was no Windows where this was written. Its counterpart for other systems,
install.sh, is what the tests run.

It puts the program into PREFIX\bin and a receipt into PREFIX\share\baton, puts PREFIX\bin on your
own PATH, and needs no administrator. The version before is kept in PREFIX\share\baton\previous.

    powershell -ExecutionPolicy Bypass -File install.ps1 -From FOLDER

.PARAMETER From
Where the release is: the folder, or the address beginning with https, that holds SHA256SUMS. By
default the folder of this script.

.PARAMETER Flavour
full brings a small model and works without a network; slim downloads its first one.

.PARAMETER Gpu
none, cuda or vulkan: a build that also computes on a graphics card.

.PARAMETER Prefix
The folder to install into.

.PARAMETER NoPath
Leave your PATH as it is.
#>
[CmdletBinding()]
param(
    [string] $From = "",
    [ValidateSet("", "full", "slim")] [string] $Flavour = "",
    [ValidateSet("", "none", "cuda", "vulkan")] [string] $Gpu = "",
    [string] $Prefix = (Join-Path $env:LOCALAPPDATA "Programs\Baton"),
    [switch] $NoPath
)

Set-StrictMode -Version 2
$ErrorActionPreference = "Stop"
$ProgressPreference = "SilentlyContinue"  # drawing it makes a download many times slower

# Where the release is: scripts/release writes it into the copy that it publishes.
$origin = ""

# What a run knows, for its end: the folders that weren't there, what it has to tidy, how far it is.
$made = New-Object System.Collections.ArrayList
$work = ""
$ended = $false

function Stop-Install([string] $Why) {
    $kept = if (Test-Path -LiteralPath (Join-Path $Prefix "bin\baton.exe")) { " The one that is here is as it was." }
    throw "Baton was not installed: $Why$kept"
}

function Find-Release {
    $place = $From
    if (-not $place -and $PSScriptRoot -and (Test-Path -LiteralPath (Join-Path $PSScriptRoot "SHA256SUMS"))) {
        $place = $PSScriptRoot
    }
    if (-not $place) { $place = $origin }
    if (-not $place) { Stop-Install "say where the release is, with -From FOLDER or -From https://..." }
    if ($place -match "^https://|^http://(localhost|127\.0\.0\.1|\[::1\])[:/]") { return $place.TrimEnd("/") }
    if ($place -match "^http://") {
        Stop-Install "$place is not protected on its way; use https, or fetch the folder yourself and name it with -From."
    }
    if ($place -match "://") { Stop-Install "$place is neither a folder nor an address that begins with https." }
    if (-not (Test-Path -LiteralPath $place -PathType Container)) { Stop-Install "there is no folder $place." }
    return (Resolve-Path -LiteralPath $place).ProviderPath
}

# Brings a file of the release; $Missing says that it isn't there.
function Copy-FromRelease([string] $Release, [string] $Name, [string] $To, [string] $Missing) {
    if ($Release -match "^https?://") {
        [Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
        # -PassThru keeps all of it in memory, and says where it came from at last.
        $small = $Name -eq "SHA256SUMS"
        try {
            $answer = Invoke-WebRequest -UseBasicParsing -Uri "$Release/$Name" -OutFile $To -TimeoutSec 30 -PassThru:$small
        } catch { Stop-Install (Get-Reason $_.Exception "$Release/$Name" $Missing) }
        if ($small) { Test-Way $Release $answer.BaseResponse }
        return
    }
    $file = Join-Path $Release $Name
    if (-not (Test-Path -LiteralPath $file -PathType Leaf)) { Stop-Install $Missing }
    try { Copy-Item -LiteralPath $file -Destination $To }
    catch {
        if (Test-DiskFull $_.Exception) { Stop-Install (Get-RoomReason) }
        Stop-Install "$file can't be read; see whose it is, and whether its disk is sound."
    }
}

# All else is checked by SHA256SUMS, which must not have been led to where nothing protects it.
function Test-Way([string] $Release, $Answer) {
    $led = if ($Answer.PSObject.Properties["ResponseUri"]) { $Answer.ResponseUri } else { $Answer.RequestMessage.RequestUri }
    if ($Release -match "^https:" -and $led.Scheme -ne "https") { Stop-Install (Get-WayReason ([uri] $Release).Authority) }
}

function Get-WayReason([string] $Site) {
    return "$Site leads on to where nothing protects the way, so it wasn't followed; check the address, or fetch the folder yourself and name it with -From."
}

function Test-DiskFull([Exception] $Problem) {
    for ($at = $Problem; $at; $at = $at.InnerException) {
        if ($at.HResult -in @(-2147024784, -2147024857)) { return $true }  # "not enough space", "disk full"
    }
    return $false
}

function Get-RoomReason {
    return "there is no room for it in $Prefix; make some and run it again, or choose another disk with -Prefix."
}

# Why a download failed, in one sentence, and what to do.
function Get-Reason([Exception] $Problem, [string] $Address, [string] $Missing) {
    $site = ([uri] $Address).Authority
    $yourself = "or fetch the folder yourself and name it with -From."
    $kinds = @()
    $status = 0
    for ($at = $Problem; $at; $at = $at.InnerException) {
        if ($at.PSObject.Properties["Response"] -and $at.Response) { $status = [int] $at.Response.StatusCode }
        if ($at -is [Net.WebException]) { $kinds += "$($at.Status)" }
        if ($at -is [Net.Sockets.SocketException]) { $kinds += "$($at.SocketErrorCode)" }
        if ($at -is [Security.Authentication.AuthenticationException]) { $kinds += "TrustFailure" }
        if ($at -is [OperationCanceledException] -or $at -is [TimeoutException]) { $kinds += "Timeout" }
    }
    if ($status -in @(404, 410)) { return $Missing }
    if ($status -in 300..399) { return (Get-WayReason $site) }
    if ($status -in @(401, 403, 407)) { return "$site doesn't let everybody have it ($status); check the address, $yourself" }
    if ($status -eq 429 -or $status -ge 500) { return "$site has trouble of its own ($status); run it again later, $yourself" }
    if ($status -ge 400) { return "$site answers with an error ($status); check the address." }
    if (Test-DiskFull $Problem) { return (Get-RoomReason) }
    switch -Regex ($kinds) {
        "NameResolution|HostNotFound|NoData|TryAgain" {
            return "there is no address for the name $site; check how it is written and that this machine is on the network, $yourself"
        }
        "ConnectionRefused" { return "$site refuses the connection; check the address and its port, or run it again later." }
        "Timeout|TimedOut" { return "$site doesn't answer, or too slowly; run it again later, $yourself" }
        "Unreachable" { return "$site can't be reached from here; check that this machine is on the network, $yourself" }
        "TrustFailure|SecureChannelFailure" {
            return "nothing proves that $site is itself, as its certificate isn't right; check the address and this machine's clock, $yourself"
        }
        "ConnectionReset|ConnectionAborted|ReceiveFailure|ConnectionClosed|KeepAliveFailure" {
            return "the connection to $site broke off; run it again."
        }
    }
    return "it can't be brought from $site ($($Problem.Message)); run it again later, $yourself"
}

# The one line of SHA256SUMS that names what is wanted here.
function Select-File([string[]] $Lines, [string] $Release) {
    if (-not ($Lines -cmatch "^[0-9a-f]{64} [ *]\S")) { Stop-Install "SHA256SUMS in $Release is not a list of checksums." }
    $first = if ($Flavour -eq "slim") { "baton-slim-" } else { "baton-" }
    $last = "-windows-x86_64"
    if ($Gpu) { $last += "-$Gpu" }
    $pattern = "^([0-9a-f]{64}) [ *](" + [regex]::Escape($first) + "([0-9][0-9A-Za-z.+]*)" +
        [regex]::Escape("$last.zip") + ")$"
    $found = @($Lines | ForEach-Object { if ($_ -cmatch $pattern) { ,@($Matches[1], $Matches[2], $Matches[3]) } })
    $wanted = (@("windows-x86_64", $Flavour, $Gpu) | Where-Object { $_ }) -join ", "
    if ($found.Count -eq 0) { Stop-Install "$Release holds no Baton for $wanted." }
    if ($found.Count -gt 1) { Stop-Install "$Release holds several versions; name a folder with one." }
    return @{ Sum = $found[0][0]; Name = $found[0][1]; Version = $found[0][2] }
}

function Read-Receipt([string] $File) {
    if (-not (Test-Path -LiteralPath $File)) { return $null }
    try { return Get-Content -LiteralPath $File -Raw -Encoding UTF8 | ConvertFrom-Json } catch { return $null }
}

# What an earlier run noted, $Else where it didn't.
function Get-Noted($Receipt, [string] $Name, $Else) {
    if ($Receipt -and $Receipt.PSObject.Properties[$Name]) { return $Receipt.$Name }
    return $Else
}

function Test-Program([string] $Program, [string] $Version) {
    Write-Host "Trying whether it starts here ..."
    $ErrorActionPreference = "Continue"  # what a program writes to stderr isn't a reason to stop
    try { $says = (& $Program --version 2>&1 | Out-String).Trim() }
    catch { Stop-Install "the file is right, but doesn't start here: $($_.Exception.Message)" }
    if ($LASTEXITCODE -ne 0) { Stop-Install "the file is right, but doesn't start here; it says: $says" }
    if (-not $says.Contains($Version)) { Stop-Install "it should be $Version and says that it is $says; tell the release's maker." }
}

# Makes a folder, and remembers which on the way to it weren't there, the deepest first.
function New-Folder([string] $Folder) {
    $missing = @()
    for ($at = $Folder; $at -and -not (Test-Path -LiteralPath $at); $at = Split-Path -Parent $at) { $missing += $at }
    try { New-Item -ItemType Directory -Force -Path $Folder | Out-Null }
    catch { Stop-Install "$Folder can't be made ($($_.Exception.Message)); choose a folder of your own with -Prefix." }
    $made.InsertRange(0, $missing)
}

# Of what was made, nothing stays that isn't wanted.
function Clear-Leftovers {
    if ($work) { Remove-Item -LiteralPath $work -Recurse -Force -ErrorAction SilentlyContinue }
    foreach ($folder in $made) {
        try { [IO.Directory]::Delete($folder) } catch { continue }  # only if it is empty
    }
}

# What others left that were killed; one that is at work is not disturbed.
function Clear-Earlier {
    foreach ($other in @(Get-ChildItem -LiteralPath $Prefix -Directory -Force -Filter ".baton-install.*")) {
        $id = $other.Name.Substring(".baton-install.".Length)
        if ($id -match "^[0-9]+$" -and $id -ne "$PID" -and (Get-Process -Id $id -ErrorAction SilentlyContinue)) {
            Stop-Install "another installation is at work (process $id); wait for it, or remove $($other.FullName) if that is none."
        }
        Remove-Item -LiteralPath $other.FullName -Recurse -Force
    }
}

# A folder takes its name at one stroke. A program that runs is in the way of that on Windows.
function Move-IntoPlace([string] $New, [string] $Bin, [string] $Previous) {
    if (Test-Path -LiteralPath "$Previous.new") { Remove-Item -LiteralPath "$Previous.new" -Recurse -Force }
    $old = Test-Path -LiteralPath $Bin
    if ($old) {
        try { Move-Item -LiteralPath $Bin -Destination "$Previous.new" }
        catch { Stop-Install "$Bin is in use; close Baton and run this again." }
        if (Test-Path -LiteralPath $Previous) { Remove-Item -LiteralPath $Previous -Recurse -Force }
        Move-Item -LiteralPath "$Previous.new" -Destination $Previous
        Write-Host "The one before is kept as $Previous."
    }
    try { Move-Item -LiteralPath $New -Destination $Bin }
    catch {
        $why = $_.Exception.Message
        if ($old) { Move-Item -LiteralPath $Previous -Destination $Bin }
        Stop-Install "$Bin can't be written ($why); see whose it is."
    }
}

function Write-Receipt([string] $File, [hashtable] $Chosen, [string] $Release, [string] $Bin) {
    $receipt = [ordered] @{
        schema = 1
        version = $Chosen.Version
        flavour = $Flavour
        platform = "windows-x86_64"
        gpu = $Gpu
        source = $Release
        files = @($Bin)
    }
    # Without a byte order mark, which -Encoding UTF8 would write.
    [IO.File]::WriteAllText("$File.new", ($receipt | ConvertTo-Json))
    Move-Item -LiteralPath "$File.new" -Destination $File -Force
}

# The user's own PATH, as it stands in the registry: what refers to variables continues to do so.
function Add-ToPath([string] $Folder) {
    $key = [Microsoft.Win32.Registry]::CurrentUser.OpenSubKey("Environment", $true)
    try {
        $old = [string] $key.GetValue("Path", "", [Microsoft.Win32.RegistryValueOptions]::DoNotExpandEnvironmentNames)
        if (($old -split ";") -contains $Folder) { return }
        $new = (@($old.TrimEnd(";"), $Folder) | Where-Object { $_ }) -join ";"
        $key.SetValue("Path", $new, [Microsoft.Win32.RegistryValueKind]::ExpandString)
    } finally { $key.Close() }
    # Setting any variable this way tells the programs that run that there is something new.
    [Environment]::SetEnvironmentVariable("BATON_INSTALLING", "1", "User")
    [Environment]::SetEnvironmentVariable("BATON_INSTALLING", $null, "User")
    Write-Host "Its folder is on your PATH now. Open a new terminal, and start it with: baton"
}

# Ctrl+C does nothing for as long, if there is a console at all: a matter of moments.
function Set-Deaf([bool] $Deaf) {
    try { [Console]::TreatControlCAsInput = $Deaf } catch { return }
}

function Install-Baton {
    $machine = if ($env:PROCESSOR_ARCHITEW6432) { $env:PROCESSOR_ARCHITEW6432 } else { $env:PROCESSOR_ARCHITECTURE }
    if (-not $machine) { Stop-Install "this is for Windows; use install.sh." }
    if ($machine -notin @("AMD64", "ARM64")) { Stop-Install "there is no build for Windows on $machine." }
    $release = Find-Release
    $bin = Join-Path $Prefix "bin"
    $share = Join-Path $Prefix "share\baton"
    $receipt = Join-Path $share "install.json"
    if ((Test-Path -LiteralPath $bin) -and -not (Test-Path -LiteralPath (Join-Path $bin "baton.exe")) -and
        @(Get-ChildItem -LiteralPath $bin -Force).Count) {
        Stop-Install "$bin holds other things, and would be replaced; choose another -Prefix."
    }
    # Running it again keeps what was chosen before.
    $before = Read-Receipt $receipt
    if (-not $Flavour) { $script:Flavour = Get-Noted $before "flavour" "full" }
    if (-not $Gpu) { $script:Gpu = Get-Noted $before "gpu" "" }
    if ($Gpu -eq "none") { $script:Gpu = "" }

    New-Folder $share
    Clear-Earlier
    $script:work = Join-Path $Prefix ".baton-install.$PID"
    New-Item -ItemType Directory -Path $work | Out-Null
    $sums = Join-Path $work "SHA256SUMS"
    Copy-FromRelease $release "SHA256SUMS" $sums "there is no SHA256SUMS in $release, so nothing there can be checked; -From wants the place that holds it."
    $chosen = Select-File (Get-Content -LiteralPath $sums) $release
    $name = $chosen.Name
    Write-Host "Bringing $name from $release ..."
    $archive = Join-Path $work $name
    Copy-FromRelease $release $name $archive "SHA256SUMS in $release names $name, but that file is not there; the release is incomplete, so tell its maker."
    $got = (Get-FileHash -LiteralPath $archive -Algorithm SHA256).Hash.ToLowerInvariant()
    if ($got -cne $chosen.Sum) {
        Stop-Install "$name is damaged or not the one that was published: its SHA-256 is $got, and SHA256SUMS says $($chosen.Sum). Download it again."
    }
    Write-Host "It came here whole: its SHA-256 is the one that stands in SHA256SUMS there."
    $unpacked = Join-Path $work "unpacked"
    try { Expand-Archive -LiteralPath $archive -DestinationPath $unpacked }
    catch {
        if (Test-DiskFull $_.Exception) { Stop-Install (Get-RoomReason) }
        Stop-Install "$name can't be unpacked ($($_.Exception.Message))."
    }
    # The archive holds one folder, with the program in it.
    $program = @(Get-ChildItem -LiteralPath $unpacked -Recurse -Filter "baton.exe")
    if ($program.Count -ne 1) { Stop-Install "$name doesn't hold one baton.exe; tell the release's maker." }
    Test-Program $program[0].FullName $chosen.Version
    Set-Deaf $true
    Move-IntoPlace $program[0].DirectoryName $bin (Join-Path $share "previous")
    Write-Receipt $receipt $chosen $release $bin
    $script:ended = $true
    Write-Host ""
    Write-Host "Baton $($chosen.Version) is installed: $(Join-Path $bin 'baton.exe')"
    if (-not $NoPath) { Add-ToPath $bin }
}

# As a whole path: .NET and PowerShell may be in different folders.
$Prefix = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($Prefix)
try { Install-Baton }
catch {
    $ended = $true
    [Console]::Error.WriteLine($_.Exception.Message)
    exit 1
} finally {
    Set-Deaf $false
    Clear-Leftovers
    if (-not $ended) {
        [Console]::Error.WriteLine("Stopped: nothing was changed. Run it again when you like.")
    }
}
