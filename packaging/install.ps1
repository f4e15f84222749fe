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
Where the release lies: the folder, or the address beginning with https, that holds SHA256SUMS. By
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

# Where the release lies: scripts/release writes it into the copy that it publishes.
$origin = ""

function Stop-Install([string] $Why) {
    throw "Baton was not installed: $Why"
}

function Find-Release {
    $place = $From
    if (-not $place -and (Test-Path (Join-Path $PSScriptRoot "SHA256SUMS"))) { $place = $PSScriptRoot }
    if (-not $place) { $place = $origin }
    if (-not $place) { Stop-Install "say where the release lies, with -From FOLDER or -From https://..." }
    if ($place -match "^https://|^http://(localhost|127\.0\.0\.1)[:/]") { return $place.TrimEnd("/") }
    if ($place -match "^http://") {
        Stop-Install "$place is not protected on its way; use https, or fetch the folder yourself and name it with -From."
    }
    if (-not (Test-Path -LiteralPath $place -PathType Container)) { Stop-Install "there is no folder $place." }
    return (Resolve-Path -LiteralPath $place).ProviderPath
}

function Copy-FromRelease([string] $Release, [string] $Name, [string] $To) {
    if ($Release -match "^https?://") {
        [Net.ServicePointManager]::SecurityProtocol = [Net.SecurityProtocolType]::Tls12
        Invoke-WebRequest -UseBasicParsing -Uri "$Release/$Name" -OutFile $To
    } else {
        Copy-Item -LiteralPath (Join-Path $Release $Name) -Destination $To
    }
}

# The one line of SHA256SUMS that names what is wanted here.
function Select-File([string[]] $Lines) {
    $first = if ($Flavour -eq "slim") { "baton-slim-" } else { "baton-" }
    $last = "-windows-x86_64"
    if ($Gpu) { $last += "-$Gpu" }
    $pattern = "^([0-9a-f]{64}) [ *](" + [regex]::Escape($first) + "([0-9][0-9A-Za-z.+]*)" +
        [regex]::Escape("$last.zip") + ")$"
    $found = @($Lines | ForEach-Object { if ($_ -cmatch $pattern) { ,@($Matches[1], $Matches[2], $Matches[3]) } })
    if ($found.Count -eq 0) { Stop-Install "the release holds no Baton for this machine ($Flavour $Gpu)." }
    if ($found.Count -gt 1) { Stop-Install "the release holds several versions; name a folder with one." }
    return @{ Sum = $found[0][0]; Name = $found[0][1]; Version = $found[0][2] }
}

function Read-Receipt([string] $File) {
    if (-not (Test-Path -LiteralPath $File)) { return $null }
    try { return Get-Content -LiteralPath $File -Raw -Encoding UTF8 | ConvertFrom-Json } catch { return $null }
}

function Test-Program([string] $Program, [string] $Version) {
    $ErrorActionPreference = "Continue"  # what a program writes to stderr is no reason to stop
    $says = & $Program --version 2>&1 | Out-String
    if ($LASTEXITCODE -ne 0) { Stop-Install "the file is right, but doesn't start here; it says: $says" }
    if (-not $says.Contains($Version)) { Stop-Install "it should be $Version and says that it is $says" }
}

# A folder takes its name at one stroke. A program that runs is in the way of that on Windows.
function Move-IntoPlace([string] $New, [string] $Bin, [string] $Previous) {
    if (Test-Path -LiteralPath $Bin) {
        try { Move-Item -LiteralPath $Bin -Destination "$Previous.new" }
        catch { Stop-Install "$Bin is in use; close Baton and run this again." }
        if (Test-Path -LiteralPath $Previous) { Remove-Item -LiteralPath $Previous -Recurse -Force }
        Move-Item -LiteralPath "$Previous.new" -Destination $Previous
    }
    try { Move-Item -LiteralPath $New -Destination $Bin }
    catch {
        $why = $_
        if (Test-Path -LiteralPath $Previous) { Move-Item -LiteralPath $Previous -Destination $Bin }
        Stop-Install "$Bin can't be written: $why"
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

# The person's own PATH, as it stands in the registry: what refers to variables goes on to do so.
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
    Write-Host "$Folder is on your PATH now; open a new terminal to have it there."
}

function Install-Baton {
    if ($env:PROCESSOR_ARCHITECTURE -notin @("AMD64", "ARM64")) {
        Stop-Install "there is no build for $env:PROCESSOR_ARCHITECTURE."
    }
    $release = Find-Release
    $bin = Join-Path $Prefix "bin"
    $share = Join-Path $Prefix "share\baton"
    $receipt = Join-Path $share "install.json"
    # Running it again keeps what was chosen before.
    $before = Read-Receipt $receipt
    if (-not $Flavour) { $script:Flavour = if ($before) { $before.flavour } else { "full" } }
    if (-not $Gpu -and $before) { $script:Gpu = $before.gpu }
    if ($Gpu -eq "none") { $script:Gpu = "" }

    New-Item -ItemType Directory -Force -Path $share | Out-Null
    $work = Join-Path $Prefix ".baton-install.$PID"
    if (Test-Path -LiteralPath $work) { Remove-Item -LiteralPath $work -Recurse -Force }
    New-Item -ItemType Directory -Path $work | Out-Null
    try {
        $sums = Join-Path $work "SHA256SUMS"
        try { Copy-FromRelease $release "SHA256SUMS" $sums }
        catch { Stop-Install "there is no SHA256SUMS in $release, so nothing there can be checked." }
        $chosen = Select-File (Get-Content -LiteralPath $sums)
        $name = $chosen.Name
        Write-Host "Bringing $name from $release ..."
        $archive = Join-Path $work $name
        Copy-FromRelease $release $name $archive
        $got = (Get-FileHash -LiteralPath $archive -Algorithm SHA256).Hash.ToLowerInvariant()
        if ($got -cne $chosen.Sum) {
            Stop-Install "$name is damaged or not the one that was published: its SHA-256 is $got, and SHA256SUMS says $($chosen.Sum). Fetch it anew."
        }
        Write-Host "Its SHA-256 is the one that SHA256SUMS in the same place names: it came here whole."
        $unpacked = Join-Path $work "unpacked"
        Expand-Archive -LiteralPath $archive -DestinationPath $unpacked
        # The archive holds one folder, with the program in it.
        $program = @(Get-ChildItem -LiteralPath $unpacked -Recurse -Filter "baton.exe")
        if ($program.Count -ne 1) { Stop-Install "$name doesn't hold one baton.exe." }
        Test-Program $program[0].FullName $chosen.Version
        Move-IntoPlace $program[0].DirectoryName $bin (Join-Path $share "previous")
        Write-Receipt $receipt $chosen $release $bin
    } finally {
        Remove-Item -LiteralPath $work -Recurse -Force -ErrorAction SilentlyContinue
    }
    if (-not $NoPath) { Add-ToPath $bin }
    Write-Host "Baton $($chosen.Version) is installed: $(Join-Path $bin 'baton.exe')"
}

try { Install-Baton }
catch {
    [Console]::Error.WriteLine($_.Exception.Message)
    exit 1
}
