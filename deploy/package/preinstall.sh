#!/bin/sh
# Makes the users of the two servers before the files are unpacked. The gateway has its own
# user, because agents can reach it and it must not read the control plane's store.
set -e
for name in svc svc-gateway; do
  if ! getent group "$name" >/dev/null 2>&1; then
    if command -v groupadd >/dev/null 2>&1; then groupadd --system "$name"; else addgroup -S "$name"; fi
  fi
  if ! getent passwd "$name" >/dev/null 2>&1; then
    if command -v useradd >/dev/null 2>&1; then
      useradd --system --gid "$name" --home-dir "/var/lib/$name" --no-create-home --shell /usr/sbin/nologin --comment "$name" "$name"
    else
      adduser -S -D -H -G "$name" -h "/var/lib/$name" -s /sbin/nologin -g "$name" "$name"
    fi
  fi
done
