#!/usr/bin/env bash
# Makes the secrets of compose.yaml in secrets/: run it once, as root, with svc and openssl
# installed. It overwrites nothing.
set -euo pipefail
cd "$(dirname "$0")"
[ ! -e secrets ] || { echo "secrets is there already: remove it to begin anew"; exit 1; }
umask 077
mkdir -p secrets/gateway
password=$(openssl rand -hex 24)
echo "POSTGRES_PASSWORD=$password" >secrets/postgres.env
printf 'PGPASSWORD=%s\nSVC_BOOTSTRAP_API_KEY=svc_api_%s\n' "$password" "$(openssl rand -hex 24)" >secrets/plane.env
svc license init --dir secrets/license --subject "${1:-self-issued}" >/dev/null
cp secrets/license/license.jwt secrets/license/license.pub secrets/gateway/
openssl rand -base64 32 >secrets/gateway/session.key
svc keygen --id first-client -o json >secrets/first-client.json
# A hash contains dollar signs, which Compose would expand as variables without the quotes.
printf "SVC_FIRST_CLIENT_HASH='%s'\nSVC_TOOLS_URL=http://host.docker.internal:9000/mcp\nSVC_INGEST_KEY=\n" \
  "$(sed -n 's/.*"hash": *"\([^"]*\)".*/\1/p' secrets/first-client.json)" >secrets/gateway.env
chown -R 65532:65532 secrets/gateway # the user of the image; only this user may read its files
