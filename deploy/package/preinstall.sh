#!/bin/sh
# Makes the user that owns the configuration, before the files are unpacked.
set -e
if ! getent group svc >/dev/null 2>&1; then
  if command -v groupadd >/dev/null 2>&1; then groupadd --system svc; else addgroup -S svc; fi
fi
if ! getent passwd svc >/dev/null 2>&1; then
  if command -v useradd >/dev/null 2>&1; then
    useradd --system --gid svc --home-dir /var/lib/svc --no-create-home --shell /usr/sbin/nologin --comment svc svc
  else
    adduser -S -D -H -G svc -h /var/lib/svc -s /sbin/nologin -g svc svc
  fi
fi
