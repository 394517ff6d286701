#!/usr/bin/env bash
# Installs what the browser tests of the arena need: Debian's chromium, and playwright-core without its own browsers.
#
#   tests/arena/install_browser.sh [DIRECTORY]     playwright-core goes to DIRECTORY (default: build/browser)
#
# tests/arena/test_page.py looks for both and skips where they are missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target="${1:-build/browser}"
if ! command -v chromium >/dev/null; then
  if [[ "$(id -u)" != 0 ]] || ! command -v apt-get >/dev/null; then
    echo "chromium is missing and cannot be installed here: install Debian's package chromium" >&2
    exit 1
  fi
  apt-get update
  apt-get install --yes --no-install-recommends chromium
fi
if ! command -v npm >/dev/null; then
  echo "npm is missing: install Node.js" >&2
  exit 1
fi
mkdir -p "$target"
PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm install --prefix "$target" --no-audit --no-fund --no-save playwright-core@1
