#!/bin/sh
# Makes systemd load the units. Nothing is started, because the gateway needs a license
# and keys first. An upgrade restarts the units that are running.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  for unit in svc.service svc-gateway.service; do
    if systemctl is-active --quiet "$unit"; then systemctl restart "$unit" || true; fi
  done
fi
if [ "$1" = configure ] && [ -z "$2" ] || [ "$1" = 1 ]; then
  echo "svc: see /usr/share/doc/svc/deploy/README.md for the first start; check the gateway's configuration with: svc gateway --check"
fi
