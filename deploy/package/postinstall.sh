#!/bin/sh
# Tells systemd of the units. Nothing is started: the gateway needs a license
# and keys first. On an upgrade what runs is restarted.
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
