# Builds Baton on Windows: packaging\windows\build.ps1 [ARGUMENTS OF scripts/build]
# It makes dist\folder\baton and baton-slim and packs each into a .zip; there is no single file here.
#
# NOT YET RUN: there was no Windows. docs/packaging.md says what to look at first.
#
# Needs Python 3.11 (64 bits) and the C++ tools of Visual Studio 2022 or its Build Tools; --gpu vulkan
# the Vulkan SDK besides, --gpu cuda nothing more.
$ErrorActionPreference = "Stop"
Set-StrictMode -Version 3

$root = (Resolve-Path (Join-Path $PSScriptRoot "..\..")).Path
$where = Join-Path ${env:ProgramFiles(x86)} "Microsoft Visual Studio\Installer\vswhere.exe"
$tools = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
$studio = if (Test-Path -LiteralPath $where) { & $where -latest -products * -requires $tools -property installationPath }
if (-not $studio) { throw "The C++ tools of Visual Studio are missing: install its Build Tools." }

# What its compiler wants to find in the environment.
$prompt = Join-Path $studio "Common7\Tools\VsDevCmd.bat"
& $env:ComSpec /s /c "`"$prompt`" -no_logo -arch=x64 -host_arch=x64 && set" | ForEach-Object {
    $name, $value = $_ -split "=", 2
    if ($value) { Set-Item -LiteralPath "Env:$name" -Value $value }
}

& python -I (Join-Path $PSScriptRoot "make.py") @args
exit $LASTEXITCODE
