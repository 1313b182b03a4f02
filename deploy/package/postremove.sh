#!/bin/sh
# The store, the audit files and the user are kept, because they are evidence and cannot
# be restored. A purge prints their folders.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
if [ "$1" = purge ]; then
  for dir in /var/lib/svc /var/lib/svc-gateway /var/log/svc-gateway; do
    if [ -d "$dir" ]; then echo "svc: $dir is kept; delete it by hand when it is no longer needed"; fi
  done
fi
