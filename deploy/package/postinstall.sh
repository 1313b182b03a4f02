#!/bin/sh
# Makes systemd load the units. Nothing is started, because the gateway needs a license
# and keys first. An upgrade restarts the units that are running.
set -e
# Before the restart of an upgrade: whether this version changes the schema of the store,
# where the copy of the store will be, and the way back. A running server of the earlier
# version answers through its socket. Nothing is printed when the schema stays the same.
dir=$(sed -n "s/^data-dir: *[\"']\{0,1\}\([^\"' #]*\).*/\1/p" /etc/svc/serve.yaml 2>/dev/null || true)
if note=$(timeout 20 svc store info --data-dir "${dir:-/var/lib/svc}" 2>&1 >/dev/null) && [ -n "$note" ]; then
  echo "svc: $note"
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  for unit in svc.service svc-gateway.service; do
    if systemctl is-active --quiet "$unit"; then systemctl restart "$unit" || true; fi
  done
fi
if [ "$1" = configure ] && [ -z "$2" ] || [ "$1" = 1 ]; then
  echo "svc: see /usr/share/doc/svc/deploy/README.md for the first start; check the gateway's configuration with: svc gateway --check"
fi
