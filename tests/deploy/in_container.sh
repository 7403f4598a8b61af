#!/bin/bash
# Run as root under a real systemd, with the deb installed and the rpm beside it: every line `ok NAME` or `not ok NAME: WHY`.
exec 3>/report
say() { echo "$*" >&3; }
check() { local name=$1; shift; if out=$("$@" 2>&1); then say "ok $name"; else say "not ok $name: ${out:0:300}"; fi; }
is() { local got; got=$("${@:2}" 2>&1); [ "$got" = "$1" ] || { echo "'$got' is not '$1'"; return 1; }; }
shows() { systemctl show -P "$1" "${2:-elf-agent}"; }
until_true() { for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done; echo "never: $*"; return 1; }
as_elf() { runuser -u elf -- elf "$@"; }

check enabled is enabled systemctl is-enabled elf-agent
check not-started-unconfigured is inactive systemctl is-active elf-agent

mkdir -p /var/log/nginx
printf '10.0.0.1 - - [17/May/2026:10:05:03 +0000] "GET / HTTP/1.1" 200 91 "-" "curl"\n' > /var/log/nginx/access.log
chown -R root:adm /var/log/nginx && chmod 0640 /var/log/nginx/access.log
install -m 0640 -g elf /usr/share/doc/elfmesh/examples/agent.toml /etc/elf/agent.toml
check starts systemctl start elf-agent
check active is active systemctl is-active elf-agent
check user is elf bash -c 'stat -c %U /proc/$(systemctl show -P MainPID elf-agent)'
check ready-says-api is "api 127.0.0.1:7401" shows StatusText
check healthy as_elf health
cat > /tmp/job.elfql <<'Q'
CREATE JOB ops.hits AS SELECT path, COUNT(*) AS hits FROM access GROUP BY TUMBLE(ts, INTERVAL '30' SECOND), path
Q
chmod 644 /tmp/job.elfql
check applies as_elf apply -f /tmp/job.elfql
result() { as_elf results ops/hits -o json | grep -q '"hits":1'; }
check reads-a-log-by-its-group until_true result
check no-double-time bash -c "! journalctl -u elf-agent -o cat | grep -qE '^(<[0-9]>)?[0-9]{4}-[0-9]{2}-[0-9]{2}T'"
check levels bash -c "journalctl -u elf-agent -p info -o cat | grep -q 'joined the overlay'"
check has-no-privileges bash -c 'grep -q "^CapEff:.0000000000000000$" /proc/$(systemctl show -P MainPID elf-agent)/status'

sed -i 's/200 MB/150 MB/' /etc/elf/agent.toml
check reloads systemctl reload elf-agent
check reload-says-what bash -c "systemctl show -P StatusText elf-agent | grep -q 'changed: limits.memory'"

began=$(date +%s); check stops systemctl stop elf-agent; took=$(( $(date +%s) - began ))
check stops-well is success shows Result
check stops-soon test "$took" -lt 20

echo 'nonsense = 1' >> /etc/elf/agent.toml
check wrong-configuration-refused bash -c '! systemctl start elf-agent'
sleep 7
check wrong-configuration-not-retried is 0 shows NRestarts
check wrong-configuration-failed is failed systemctl is-active elf-agent
sed -i '/^nonsense/d' /etc/elf/agent.toml
systemctl reset-failed elf-agent

check starts-again systemctl start elf-agent
kill -9 "$(shows MainPID)"
restarted() { [ "$(shows NRestarts)" -ge 1 ] && [ "$(systemctl is-active elf-agent)" = active ]; }
check a-kill-is-restarted until_true restarted
check state-survives until_true result

mkdir -p /etc/systemd/system/elf-agent.service.d
printf '[Service]\nWatchdogSec=6\nEnvironment=ELF_FAILPOINT=seal:1:hang\nRestart=no\n' > /etc/systemd/system/elf-agent.service.d/hang.conf
systemctl daemon-reload
as_elf delete ops/hits
check restarts-to-hang systemctl restart elf-agent
(sed 's/hits AS/hang AS/' /tmp/job.elfql > /tmp/hang.elfql; chmod 644 /tmp/hang.elfql; timeout 60 runuser -u elf -- elf apply -f /tmp/hang.elfql) &
killed() { [ "$(shows Result)" = watchdog ]; }
check a-stuck-stream-ends-by-the-watchdog until_true killed
check the-log-shows-where bash -c "journalctl -u elf-agent -o cat | grep -q 'in _hang'"
rm /etc/systemd/system/elf-agent.service.d/hang.conf; systemctl daemon-reload; systemctl reset-failed elf-agent

sed 's#/var/lib/elf"#/var/lib/elf-two"#; s/7400/7410/; s/7401/7411/' /etc/elf/agent.toml > /etc/elf/two.toml
chgrp elf /etc/elf/two.toml
check an-instance-starts systemctl start elf-agent@two
check an-instance-is-healthy as_elf health --api 127.0.0.1:7411
systemctl stop elf-agent@two

check dynamic-user systemd-run --quiet --unit=elfdyn -p Type=notify -p DynamicUser=yes -p StateDirectory=elfdyn \
    -p ProtectSystem=strict /usr/bin/elf agent --data-dir /var/lib/elfdyn --listen 127.0.0.1:7420 --api 127.0.0.1:7421
check dynamic-user-is-active is active systemctl is-active elfdyn
systemctl stop elfdyn

check removed bash -c 'dpkg --remove elfmesh'
check data-survives-removal test -d /var/lib/elf -a -f /etc/elf/agent.toml
check purged bash -c 'dpkg --purge elfmesh'
check purge-removes-data bash -c '! test -e /var/lib/elf -o -e /etc/elf -o -e /etc/default/elf-agent'

# The rpm, by rpm itself but without its database of Debian's packages to satisfy it.
check rpm-installs rpm --install --nodeps /elfmesh.rpm
check rpm-verifies rpm --verify --nodeps elfmesh
check rpm-enables is enabled systemctl is-enabled elf-agent
check rpm-has-its-user is elf bash -c "getent passwd elf | cut -d: -f1"
install -m 0640 -g elf /usr/share/doc/elfmesh/examples/agent.toml /etc/elf/agent.toml
check rpm-starts systemctl start elf-agent
check rpm-healthy as_elf health
check rpm-again rpm --upgrade --force --nodeps /elfmesh.rpm
check rpm-restarted until_true as_elf health
check rpm-removed rpm --erase elfmesh
check rpm-stopped is inactive systemctl is-active elf-agent
check rpm-keeps-data test -d /var/lib/elf -a -f /etc/elf/agent.toml
check rpm-takes-its-files bash -c '! test -e /opt/elfmesh'
journalctl -u elf-agent -o cat --no-pager > /journal
say end
systemctl poweroff
