#!/bin/sh
# Stops the servers when the package is removed, but not when it is upgraded.
set -e
case "$1" in
upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
  systemctl disable --now svc-gateway.service svc.service || true
fi
